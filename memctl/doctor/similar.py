"""Items that say the same twice, or the opposite: their vectors are nearly the same, or their subject is."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, NamedTuple

from memctl.doctor.check import UNREADABLE, Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted, verb
from memctl.instants import to_datetime
from memctl.model import Detail, Instant, Item, floats, shown
from memctl.namespaces import show
from memctl.store import Capability

MOST_ITEMS = 500
"""The newest items of a namespace that are compared with each other."""
MOST_WORK = 150_000_000
"""Multiplications that one examination is worth: some seconds."""
MOST_SUBJECTS = 50_000
"""Items of a namespace whose subject is remembered."""
_MOST_ROWS = 20
_ROUNDING = 1e-6


def _sum_of_products(a: Sequence[float], b: Sequence[float]) -> float:
    return float(sum(map(mul, a, b)))


_product: Callable[[Sequence[float], Sequence[float]], float] = getattr(math, "sumprod", _sum_of_products)
"""`math.sumprod` came with Python 3.12."""


class Unit:
    """A vector of length 1, so that a product is a cosine, cut in two: most pairs are told by the head alone."""

    __slots__ = ("head", "rest", "tail")

    def __init__(self, numbers: array[float], length: float) -> None:
        cut = max(1, len(numbers) // 4)
        unit = [number / length for number in numbers]
        self.head, self.tail = unit[:cut], array("f", unit[cut:])  # a list is quicker, an array smaller
        self.rest = math.sqrt(_product(self.tail, self.tail))

    @classmethod
    def of(cls, embedding: bytes) -> Unit | None:
        """Return the direction of an embedding; None for one without (all zero, NaN, infinite)."""
        numbers = floats(embedding)
        square = _product(numbers, numbers)
        return cls(numbers, math.sqrt(square)) if square and math.isfinite(square) else None

    def cosine(self, other: Unit, least: float) -> float | None:
        """Return the cosine if it is at least so much; the tails cannot add more than their lengths allow."""
        cosine = _product(self.head, other.head)
        if cosine + self.rest * other.rest < least:
            return None
        cosine += _product(self.tail, other.tail)
        return min(1.0, cosine) if cosine >= least else None


@dataclass(slots=True)
class Member:
    """An item as it is compared: its vectors by field and dims, those of list elements left out.

    Two memories may well share a tag.
    """

    prefix: str
    key: str
    updated_at: Instant
    units: dict[tuple[str, int], Unit]
    is_told: bool = False

    @property
    def age(self) -> tuple[Instant, bytes]:
        """The greater the newer; of the same moment, the later one in byte order."""
        return self.updated_at, self.key.encode("utf-8", "surrogateescape")


class Repeat(NamedTuple):
    """An older item, and a newer one that is like it; `similarity` is None where their subject is the same."""

    newer: tuple[str, str]
    older: tuple[str, str]
    similarity: float | None
    detail: str


class Duplicates(Check):
    """Items that a similarity search, or whoever asks for a subject, has to choose between."""

    id = "duplicates"
    level = Level.NOTE
    summary = (
        "items of one subtree whose vectors are nearly the same, and with --subject-field one subject's keys"
    )

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        settings = patient.settings
        self._least = settings.threshold - _ROUNDING
        self._subject = settings.subject_field.split(".") if settings.subject_field else []
        self.values = bool(self._subject)  # type: ignore[misc]  # of this examination
        if Capability.VECTORS in patient.capabilities:
            self.vectors = Detail.FULL  # type: ignore[misc]
        self._prefix = ""
        self._above: list[tuple[str, list[Member]]] = []
        self._newest: list[tuple[tuple[Instant, int], Item]] = []
        self._subjects: defaultdict[str, list[tuple[Instant, str]]] = defaultdict(list)
        self._order = self._with_subject = 0
        self._work = MOST_WORK
        self._sampled = 0
        self._rows: list[dict[str, Any]] = []

    def absent(self) -> str | None:
        """Say what could be compared instead."""
        if Capability.VECTORS not in self.patient.capabilities and not self._subject:
            return "this store has no vectors; --subject-field NAME compares a field of the values"
        return None

    def namespace(self, prefix: str) -> None:
        """Compare what the namespace before has held, and begin with this one."""
        self._close()
        # Between `a` and `a.b` may lie `a-b`: only what nothing to come can lie below is forgotten.
        self._above = [entry for entry in self._above if prefix.startswith(entry[0])]
        self._prefix = prefix

    def item(self, item: Item) -> None:
        """Keep an item if it is among the newest here."""
        self._order += 1
        if self._subject:
            self._take_subject(item)
        if not item.vectors or self._work <= 0:
            self._sampled += bool(item.vectors)
            return
        age = (item.updated_at or "", self._order)
        if len(self._newest) < MOST_ITEMS:
            heapq.heappush(self._newest, (age, _bare(item)))
            return
        self._sampled += 1
        if age > self._newest[0][0]:
            heapq.heapreplace(self._newest, (age, _bare(item)))

    def _take_subject(self, item: Item) -> None:
        value = self.patient.value_of(item)
        for name in self._subject:
            value = value.get(name) if isinstance(value, dict) else UNREADABLE
        if not isinstance(value, str) or not value:
            return
        if self._with_subject < MOST_SUBJECTS:
            self._with_subject += 1
            self._subjects[value].append((item.updated_at or "", item.key))
        else:
            self._sampled += 1

    def _close(self) -> None:
        members = [
            member
            for _, item in sorted(self._newest, key=lambda entry: entry[0], reverse=True)
            if (member := _member(item)).units
        ]
        repeats: dict[tuple[str, str], Repeat] = {}
        for repeat in (*self._like(members), *self._of_one_subject()):
            repeats.setdefault(repeat.older, repeat)
        self.count += len(repeats)
        for repeat in sorted(repeats.values(), key=lambda each: (each.newer, each.older)):
            self.sample(*repeat.newer, repeat.detail)
            if len(self._rows) < _MOST_ROWS:
                self._rows.append(_row(repeat))
        if members:
            self._above.append((self._prefix, members))
        self._newest, self._subjects, self._with_subject = [], defaultdict(list), 0

    def _like(self, members: list[Member]) -> Iterator[Repeat]:
        """Yield each item that a newer one resembles; the members come newest first."""
        for place, older in enumerate(members):
            yield from self._first_like(older, members[:place])
        for prefix, others in self._above:
            if not self._prefix.startswith(f"{prefix}."):
                continue
            for member in members:
                yield from self._first_like(member, (other for other in others if other.age > member.age))
            for other in others:
                yield from self._first_like(other, (member for member in members if member.age > other.age))

    def _first_like(self, older: Member, newer: Iterable[Member]) -> Iterator[Repeat]:
        if older.is_told:
            return
        for member in newer:
            if self._work <= 0:
                self._sampled += 1
                return
            similarity = self._similarity(older, member)
            if similarity is not None:
                older.is_told = True
                yield _repeat(member, older, similarity)
                return

    def _similarity(self, one: Member, other: Member) -> float | None:
        """Return the least cosine over the fields that both have; None when one is too small, or there is none."""
        least: float | None = None
        for name, unit in one.units.items():
            if (twin := other.units.get(name)) is None:
                continue
            self._work -= len(unit.head)
            cosine = unit.cosine(twin, self._least)
            if cosine is None:
                return None
            self._work -= len(unit.tail)
            least = cosine if least is None else min(least, cosine)
        return least

    def _of_one_subject(self) -> Iterator[Repeat]:
        for subject, entries in self._subjects.items():
            if len(entries) < 2:
                continue
            (latest, newest), *others = sorted(entries, reverse=True)
            for updated, key in others:
                detail = f"{subject!r} is also {shown(key)}, {_apart(latest, updated)}"
                yield Repeat((self._prefix, newest), (self._prefix, key), None, detail)

    def finish(self) -> Finding:
        """Tell how many there are, and whether all could be compared."""
        self._close()
        sampled = ""
        if self._sampled:
            sampled = (
                f" Sampled: of each namespace the newest {MOST_ITEMS:,} items were compared, and no more than some"
                " seconds' worth; narrow it to one namespace to see more."
            )
        facts = {"threshold": self.settings.threshold, "sampled": bool(self._sampled)}
        if not self.count:
            return self.fine(sampled.strip(), facts=facts)
        return self.found(
            f"{counted(self.count, 'item')} {verb(self.count, 'has', 'have')} a newer one in the same subtree that says"
            " nearly the same, or the opposite: a search picks one of the two. Read both with search --like, and"
            f" remove the one that is no longer true.{sampled}",
            brief="items that repeat or contradict a newer one",
            table=self._rows,
            facts=facts,
        )


def _bare(item: Item) -> Item:
    """Return an item without its value, and without vectors that are not compared."""
    vectors = tuple(vector for vector in item.vectors if vector.embedding and "[" not in vector.field)
    return Item(
        item.prefix, item.key, None, 0, item.created_at, item.updated_at, item.expires_at, None, vectors
    )


def _member(item: Item) -> Member:
    units = {
        (vector.field, vector.dims): unit
        for vector in item.vectors
        if vector.embedding is not None and (unit := Unit.of(vector.embedding)) is not None
    }
    return Member(item.prefix, item.key, item.updated_at or "", units)


def _repeat(newer: Member, older: Member, similarity: float) -> Repeat:
    name = (
        shown(older.key)
        if older.prefix == newer.prefix
        else f"{show(shown(older.prefix))} {shown(older.key)}"
    )
    apart = _apart(newer.updated_at, older.updated_at)
    detail = f"{similarity:.2f} like {name}, {apart}"
    return Repeat((newer.prefix, newer.key), (older.prefix, older.key), similarity, detail)


def _apart(later: Instant, earlier: Instant) -> str:
    """Say how much older the other one is."""
    if not later or not earlier:
        return "of unknown age"
    days = (to_datetime(later) - to_datetime(earlier)).days
    return f"{counted(days, 'day')} older" if days else "of the same day"


def _row(repeat: Repeat) -> dict[str, Any]:
    (space, newer), (older_space, older) = repeat.newer, repeat.older
    return {
        "namespace": shown(space).split("."),
        "newer": shown(newer),
        "older": shown(older) if space == older_space else f"{show(shown(older_space))} {shown(older)}",
        "similarity": None if repeat.similarity is None else round(repeat.similarity, 3),
    }
