"""What a store holds, in numbers: counted in one ordered pass, in memory that does not grow with it.

Values are not read, only measured, so a value that is no JSON is counted like any other. An item is expired
from its `expires_at` on; one whose expiry cannot be read counts as live. The cost of a prompt is an estimate:
the octets of the live items' values at `OCTETS_PER_TOKEN`, added up for each namespace cut to `depth` labels.
"""

# ruff: noqa: PLR1730 (a million calls of min() take longer than the rest of the loop)

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heappop, heappush
from itertools import islice

from memctl.chronology import Chronology, Histogram
from memctl.instants import shift
from memctl.model import Detail, Instant, Item, Scope
from memctl.namespaces import Pattern
from memctl.sorting import sort
from memctl.store import Capability, Store

OCTETS_PER_TOKEN = 4
LARGEST = 5
"""How many of the largest items are named."""

HORIZONS = (
    ("overdue", timedelta()),
    ("next hour", timedelta(hours=1)),
    ("next 24 hours", timedelta(days=1)),
    ("next 7 days", timedelta(days=7)),
    ("next 30 days", timedelta(days=30)),
)
"""How the time from now on is divided for expiries; each reaches from the one before it to its own end."""

_TENDED_EVERY = 1024


@dataclass(slots=True)
class Range:
    """The earliest and the latest of the instants that could be read."""

    oldest: Instant | None = None
    newest: Instant | None = None


@dataclass(slots=True)
class Prompt:
    """What the live items of one namespace, cut to `depth` labels, come to; values in octets.

    Percentiles are by nearest rank, so each is the size of a real namespace; those without a live item are
    left out.
    """

    depth: int
    namespaces: int = 0
    median: int = 0
    p95: int = 0
    largest: int = 0
    largest_prefix: str | None = None


@dataclass(slots=True)
class Statistics:
    """The numbers of one scope, as of `now`."""

    now: Instant
    prompt: Prompt
    items: int = 0
    octets: int = 0
    namespaces: int = 0
    """Those that directly hold items."""
    expiries: list[int] = field(default_factory=lambda: [0] * (len(HORIZONS) + 1))
    """Items by when they expire: one number for each of `HORIZONS`, and one for later."""
    unreadable_expiries: int = 0
    vectors: int | None = None
    """None where the store has none."""
    items_with_vectors: int = 0
    dims: dict[int, int] = field(default_factory=dict)
    """How many vectors have so many dims; an embedding that is no row of float32 has none."""
    created: Range = field(default_factory=Range)
    updated: Range = field(default_factory=Range)
    largest: list[Item] = field(default_factory=list)
    """Largest first, ties in key order."""
    creation: Histogram = field(default_factory=Histogram)
    damaged: int = 0
    """Items of which some part could not be read, or only by guessing."""
    damaged_parts: dict[str, int] = field(default_factory=dict)
    """In how many items which part."""

    @property
    def expired(self) -> int:
        """Items whose expiry has come."""
        return self.expiries[0]

    @property
    def live(self) -> int:
        """All other items."""
        return self.items - self.expired

    @property
    def never_expiring(self) -> int:
        """Items that have no expiry at all."""
        return self.items - sum(self.expiries) - self.unreadable_expiries


def collect(store: Store, pattern: Pattern | None, *, depth: int) -> Statistics:
    """Count what `pattern` covers, or everything; `depth` is absolute, from 1 on."""
    detail = Detail.SHAPE if Capability.VECTORS in store.capabilities else Detail.NONE
    items: Iterable[Item] = store.scan(pattern.scope if pattern else Scope(), values=False, vectors=detail)
    if pattern and not pattern.is_literal:
        items = (item for item in items if pattern.matches(item.prefix))
    statistics = Statistics(store.now(), Prompt(depth))
    if detail is Detail.SHAPE:
        statistics.vectors = 0
    _rank(statistics.prompt, sort(_count(items, statistics), key=int))
    return statistics


def _count(items: Iterable[Item], statistics: Statistics) -> Iterator[int]:
    """Fill `statistics`; yield meanwhile how large each namespace at the prompt's depth is."""
    horizons = [shift(statistics.now, length) for _, length in HORIZONS]
    expiries = statistics.expiries
    chronology = Chronology()
    times, precision = chronology.counts, chronology.precision
    tenants = _Tenants(statistics.prompt)
    largest: list[tuple[int, int, Item]] = []
    dims: Counter[int] = Counter()
    parts: Counter[str] = Counter()
    count = octets = namespaces = live = rows = 0
    floor = -1
    oldest_created = oldest_updated = "~"
    newest_created = newest_updated = ""
    prefix: str | None = None

    for item in items:
        count += 1
        size = item.size
        octets += size
        if item.prefix != prefix:
            if prefix is not None:
                yield from tenants.add(prefix, live)
            prefix = item.prefix
            namespaces += 1
            live = 0
        expires = item.expires_at
        if expires is None:
            live += size
        else:
            horizon = bisect_left(horizons, expires)
            expiries[horizon] += 1
            if horizon:
                live += size
        created = item.created_at
        if created is not None:
            if created < oldest_created:
                oldest_created = created
            if created > newest_created:
                newest_created = created
            times[created[:precision]] += 1
            if not count % _TENDED_EVERY:
                chronology.tend()
                times, precision = chronology.counts, chronology.precision
        updated = item.updated_at
        if updated is not None:
            if updated < oldest_updated:
                oldest_updated = updated
            if updated > newest_updated:
                newest_updated = updated
        if size > floor:
            heappush(largest, (size, -count, item))
            if len(largest) > LARGEST:
                heappop(largest)
                floor = largest[0][0]
        vectors = item.vectors
        if vectors:
            statistics.items_with_vectors += 1
            for vector in vectors:
                rows += 1
                if not vector.problems or all(problem.part != "embedding" for problem in vector.problems):
                    dims[vector.dims] += 1
        if item.problems or (vectors and any(vector.problems for vector in vectors)):
            _note_damage(item, statistics, parts)
    if prefix is not None:
        yield from tenants.add(prefix, live)
    yield from tenants.rest()

    statistics.items, statistics.octets, statistics.namespaces = count, octets, namespaces
    if newest_created:
        statistics.created = Range(oldest_created, newest_created)
    if newest_updated:
        statistics.updated = Range(oldest_updated, newest_updated)
    statistics.largest = [item for _, _, item in sorted(largest, reverse=True)]
    if statistics.vectors is not None:
        statistics.vectors = rows
    statistics.dims = dict(sorted(dims.items()))
    statistics.damaged_parts = dict(sorted(parts.items()))
    statistics.creation = chronology.histogram()


def _note_damage(item: Item, statistics: Statistics, parts: Counter[str]) -> None:
    names = {problem.part for problem in item.problems}
    if any(vector.problems for vector in item.vectors):
        names.add("vectors")
    statistics.damaged += 1
    statistics.unreadable_expiries += "expires_at" in names and item.expires_at is None
    parts.update(names)


def _rank(prompt: Prompt, totals: Iterator[int]) -> None:
    """Find the percentiles among totals that come smallest first and are all counted by then."""
    first = next(totals, None)
    if first is None:
        return
    ranks = [-(-prompt.namespaces * percent // 100) for percent in (50, 95)]
    found, place = [first], 1
    for rank in ranks:
        found += islice(totals, rank - place - 1, rank - place) if rank > place else found[-1:]
        place = rank
    prompt.median, prompt.p95 = found[1:]


class _Tenants:
    """Namespaces cut to a depth and added up, though what belongs to one need not come in one piece.

    In byte order `a-b` stands between `a` and `a.b`. A name is complete when the order has come past what
    could begin with it and a dot; so only a chain of names, each the beginning of the next, is ever open.
    """

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._open: dict[str, int] = {}

    def add(self, prefix: str, octets: int) -> Iterator[int]:
        """Take a namespace with what it directly holds; yield the totals that are complete."""
        if not octets:
            return
        depth = self._prompt.depth
        name = ".".join(prefix.split(".", depth)[:depth])
        opened = self._open
        if name in opened:
            opened[name] += octets
            return
        for other in list(opened):
            if not prefix.startswith(other) or prefix[len(other)] > ".":
                yield self._close(other)
        opened[name] = octets

    def rest(self) -> Iterator[int]:
        """Yield the totals of what is still open."""
        for name in list(self._open):
            yield self._close(name)

    def _close(self, name: str) -> int:
        prompt, total = self._prompt, self._open.pop(name)
        prompt.namespaces += 1
        if total > prompt.largest or prompt.largest_prefix is None:
            prompt.largest, prompt.largest_prefix = total, name
        return total
