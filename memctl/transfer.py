"""Bringing items into a store: import and migrate.

Twice through the source. The survey finds, before anything is written, every item that the target cannot
hold and every conflict; the transfer then writes in batches. There is no journal: an item that is there and
equal in every part is no conflict and is not written again, so whatever was interrupted is run again and
writes only what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import sleep
from typing import Literal

import msgspec

from memctl.compare import PARTS, differences, same_value
from memctl.errors import MemctlError
from memctl.mapping import Mapping
from memctl.model import EVERYTHING, Detail, Instant, Item, Position, encode, shown
from memctl.namespaces import show
from memctl.sorting import sort
from memctl.store import Batch, Target

OnConflict = Literal["fail", "skip", "overwrite", "newer"]

BATCH_OCTETS = 8 * 1024 * 1024
_LEAP = 1_000
_EVERY_PART = frozenset(PARTS)


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """An item on its way in: `parts` are those its source gave, `line` is where it stood in a file."""

    item: Item
    parts: frozenset[str] = _EVERY_PART
    line: int | None = None


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """What cannot be brought in, why, and its line where the source is a file."""

    reason: str
    item: Item | None = None
    part: str | None = None
    line: int | None = None
    raw: bytes | None = None


Entry = Incoming | Rejected


@dataclass(frozen=True, slots=True)
class Rules:
    """How items are brought in."""

    on_conflict: OnConflict = "fail"
    mapping: Mapping = field(default_factory=Mapping)
    is_ordered: bool = False
    """Whether the source comes in byte order of (prefix, key), so that nothing has to be sorted."""
    without_vectors: bool = False
    round_ttl_up: bool = False
    left_out: frozenset[str] = frozenset()
    """Parts that are left out of an item where the target cannot hold them."""


@dataclass(slots=True)
class Survey:
    """What the first pass found; the counts are of items."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: int = 0
    conflicts: list[Position] = field(default_factory=list)
    conflict_count: int = 0
    rejected: int = 0
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(part, reason) → how many."""
    samples: list[Rejected] = field(default_factory=list)
    vectors: int = 0
    octets: int = 0
    vectors_left_out: int = 0

    @property
    def to_write(self) -> int:
        """Items that the second pass will write."""
        return self.new + self.changed


@dataclass(slots=True)
class Moved:
    """What was written; `overtaken` are items that somebody else wrote in the meantime, left alone.

    `rejected` counts anew what cannot come in: a target that was only planned may have known less.
    """

    items: int = 0
    vectors: int = 0
    octets: int = 0
    overtaken: int = 0
    rejected: int = 0


Reject = Callable[[Rejected], None]
Progress = Callable[[int], None]
_SAMPLES = 20


def survey(
    entries: Iterable[Entry], target: Target, rules: Rules, *, reject: Reject, progress: Progress
) -> Survey:
    """Go through a source without writing; `reject` is told of every item that cannot come in."""
    found = Survey()

    def note(rejected: Rejected) -> None:
        found.rejected += 1
        found.reasons[rejected.part or "line", rejected.reason] += 1
        if len(found.samples) < _SAMPLES:
            found.samples.append(rejected)
        reject(rejected)

    for decision in _decisions(entries, target, rules, note):
        progress(1)
        match decision.kind:
            case "new":
                found.new += 1
            case "changed":
                found.changed += 1
            case "unchanged":
                found.unchanged += 1
            case "skipped":
                found.skipped += 1
            case "conflict":
                found.conflict_count += 1
                if len(found.conflicts) < _SAMPLES:
                    found.conflicts.append(Position(decision.item.prefix, decision.item.key))
        if decision.kind in ("new", "changed"):
            found.vectors += len(decision.item.vectors)
            found.octets += decision.item.size
        found.vectors_left_out += decision.vectors_left_out
    return found


def transfer(entries: Iterable[Entry], target: Target, rules: Rules, *, progress: Progress) -> Moved:
    """Write what the survey found good, in batches, each one a transaction."""
    moved = Moved()
    batch = _Pending(target, rules, moved)

    def count(_rejected: Rejected) -> None:
        moved.rejected += 1

    for decision in _decisions(entries, target, rules, count):
        progress(1)
        batch.add(decision)
    batch.flush()
    target.finish()
    return moved


class _Decision(msgspec.Struct, frozen=True, gc=False):
    kind: Literal["new", "changed", "unchanged", "skipped", "conflict"]
    item: Item
    vectors_left_out: int = 0


class _Pending:
    """Decisions that wait to be written together."""

    def __init__(self, target: Target, rules: Rules, moved: Moved) -> None:
        self._target, self._rules, self._moved = target, rules, moved
        self._new: list[Item] = []
        self._changed: list[Item] = []
        self._octets = 0
        self._is_first = True

    def add(self, decision: _Decision) -> None:
        """Take a decision that writes something."""
        if decision.kind not in ("new", "changed"):
            return
        (self._new if decision.kind == "new" else self._changed).append(decision.item)
        self._octets += decision.item.size + sum(4 * vector.dims for vector in decision.item.vectors)
        if len(self._new) + len(self._changed) >= self._target.batch_rows or self._octets >= BATCH_OCTETS:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if not self._new and not self._changed:
            return
        if not self._is_first and self._target.pause:
            sleep(self._target.pause)
        self._is_first = False
        only_older = self._rules.on_conflict == "newer"
        overtaken = set(self._target.write(Batch(self._new, self._changed, only_older)))
        for item in (*self._new, *self._changed):
            if overtaken and Position(item.prefix, item.key) in overtaken:
                self._moved.overtaken += 1
                continue
            self._moved.items += 1
            self._moved.vectors += len(item.vectors)
            self._moved.octets += item.size
        self._new, self._changed, self._octets = [], [], 0


def _decisions(entries: Iterable[Entry], target: Target, rules: Rules, reject: Reject) -> Iterator[_Decision]:
    existing = _Existing(target)
    now = target.now()
    for incoming in _distinct(_ordered(_renamed(entries, rules, reject), rules), reject):
        fitted, left_out = _fitted(incoming.item, target, rules)
        faults = target.unholdable(fitted)
        if faults:
            reject(Rejected(faults[0].reason, incoming.item, faults[0].part, incoming.line))
            continue
        there = existing.find(fitted)
        decision = _decide(fitted, incoming.parts, there, rules, now)
        yield msgspec.structs.replace(decision, vectors_left_out=left_out) if left_out else decision


def _decide(item: Item, parts: frozenset[str], there: Item | None, rules: Rules, now: Instant) -> _Decision:
    if there is None:
        return _Decision("new", item if len(parts) == len(PARTS) else _with_times(item, parts, now))
    if rules.without_vectors:
        parts -= {"vectors"}
    if not differences(item, there, parts):
        return _Decision("unchanged", item)
    match rules.on_conflict:
        case "fail":
            return _Decision("conflict", item)
        case "skip":
            return _Decision("skipped", item)
        case "newer" if "updated_at" in parts and not _is_newer(item, there):
            return _Decision("skipped", item)
    return _Decision("changed", _completed(item, parts, there, now))


def _is_newer(item: Item, there: Item) -> bool:
    return (item.updated_at or "") > (there.updated_at or "")


def _with_times(item: Item, parts: frozenset[str], now: Instant) -> Item:
    """Give a new item the times its source did not have."""
    updated = item.updated_at if "updated_at" in parts else now
    created = item.created_at if "created_at" in parts else min(updated or now, now)
    return msgspec.structs.replace(item, created_at=created, updated_at=updated)


def _completed(item: Item, parts: frozenset[str], there: Item, now: Instant) -> Item:
    """Keep of an existing item what the source says nothing about, but no vector of a former value."""
    kept = {
        part: getattr(there, part)
        for part in ("created_at", "expires_at", "ttl_minutes")
        if part not in parts
    }
    if "updated_at" not in parts:
        kept["updated_at"] = now
    if "vectors" not in parts:
        kept["vectors"] = there.vectors if same_value(item, there) else ()
    return msgspec.structs.replace(item, **kept) if kept else item


def _fitted(item: Item, target: Target, rules: Rules) -> tuple[Item, int]:
    """Change an item as the user asked for; return how many of its vectors that leaves out."""
    left_out = 0
    if rules.without_vectors and item.vectors:
        left_out = len(item.vectors)
        item = msgspec.structs.replace(item, vectors=())
    if rules.round_ttl_up and item.ttl_minutes is not None and item.ttl_minutes % 1:
        item = msgspec.structs.replace(item, ttl_minutes=int(item.ttl_minutes) + 1)
    if rules.left_out and "vectors" in {fault.part for fault in target.unholdable(item)} & rules.left_out:
        left_out += len(item.vectors)
        item = msgspec.structs.replace(item, vectors=())
    return item, left_out


def _renamed(entries: Iterable[Entry], rules: Rules, reject: Reject) -> Iterator[Incoming]:
    mapping = rules.mapping
    for entry in entries:
        if isinstance(entry, Rejected):
            reject(entry)
        elif mapping:
            item = msgspec.structs.replace(entry.item, prefix=mapping.apply(entry.item.prefix))
            yield Incoming(item, entry.parts, entry.line)
        else:
            yield entry


def _ordered(incoming: Iterator[Incoming], rules: Rules) -> Iterator[Incoming]:
    if rules.is_ordered and not rules.mapping:
        return incoming
    return sort(
        incoming,
        key=lambda entry: (encode(entry.item.prefix), encode(entry.item.key)),
        size=lambda entry: entry.item.size + sum(4 * vector.dims for vector in entry.item.vectors),
    )


def _distinct(incoming: Iterator[Incoming], reject: Reject) -> Iterator[Incoming]:
    """Refuse what comes twice: neither the first nor the last of two can be known to be meant."""
    last: Incoming | None = None
    for entry in incoming:
        if last and entry.item.key == last.item.key and entry.item.prefix == last.item.prefix:
            before = f" (line {last.line})" if last.line is not None else ""
            reject(
                Rejected(f"the same namespace and key as another item{before}", entry.item, "key", entry.line)
            )
            continue
        last = entry
        yield entry


class _Existing:
    """The target's own items, looked up in order: read along, and leapt ahead where few are asked for."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._rows = target.scan(EVERYTHING, vectors=Detail.FULL)
        self._head = next(self._rows, None)

    def find(self, item: Item) -> Item | None:
        """Return the item of that name; names have to be asked for in byte order."""
        if self._head is None:
            return None
        wanted = encode(item.prefix), encode(item.key)
        for _ in range(_LEAP):
            head = self._head
            if head is None:
                return None
            place = encode(head.prefix), encode(head.key)
            if place == wanted:
                return head
            if place > wanted:
                return None
            self._head = next(self._rows, None)
        self._rows = self._target.scan(EVERYTHING, after=Position(item.prefix, item.key), vectors=Detail.FULL)
        self._head = next(self._rows, None)
        return next(self._target.get(item.prefix, [item.key], vectors=Detail.FULL), None)


def refuse_unless_clean(found: Survey, *, skip_rejected: bool) -> None:
    """Raise when the survey found what the rules do not allow; nothing has been written then."""
    if found.rejected and not skip_rejected:
        reasons = "; ".join(
            f"{count:,} × {part}: {reason}{_first(found, part, reason)}"
            for (part, reason), count in found.reasons.most_common(5)
        )
        raise MemctlError(
            f"{found.rejected:,} of the items cannot be brought in, so nothing was written: {reasons}",
            hint="--on-error skip brings in the rest, --rejects FILE keeps what is left out",
            code="rejected",
        )
    if found.conflict_count:
        names = ", ".join(f"{show(shown(place.prefix))} {shown(place.key)}" for place in found.conflicts[:3])
        raise MemctlError(
            f"{found.conflict_count:,} of the items are there already and differ, so nothing was written: {names}",
            hint="--on-conflict skip, newer or overwrite decides",
            code="conflict",
        )


def _first(found: Survey, part: str, reason: str) -> str:
    """Where a reason was met first, as far as the samples tell."""
    for sample in found.samples:
        if (sample.part or "line", sample.reason) == (part, reason):
            if sample.line is not None:
                return f" (line {sample.line:,})"
            if sample.item is not None:
                return f" ({show(shown(sample.item.prefix))} {shown(sample.item.key)})"
    return ""
