"""Bringing items into a store: import and migrate.

Twice through the source. The survey finds, before anything is written, every item that the target cannot
hold and every conflict; the transfer then writes in batches. There is no journal: an item that is there and
equal in every part is no conflict and is not written again, so whatever was interrupted is run again and
writes only what is missing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby, repeat
from time import sleep
from typing import Literal

import msgspec

from memctl.blocks import Block, Loading
from memctl.compare import PARTS, differences, same_value
from memctl.crew import Crew
from memctl.errors import MemctlError
from memctl.loader import Loader
from memctl.mapping import Mapping
from memctl.model import EVERYTHING, Detail, Instant, Item, Position, order_of, shown
from memctl.namespaces import show
from memctl.sorting import sort
from memctl.store import Batch, Store, Target, Writable

OnConflict = Literal["fail", "skip", "overwrite", "newer"]

BATCH_OCTETS = 8 * 1024 * 1024
_LEAP = 1_000
_EVERY_PART = frozenset(PARTS)


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """An item on its way in: `parts` are those its source gave, `line` is where it stood in a file."""

    item: Item
    parts: frozenset[str] = _EVERY_PART
    line: int | None = None
    vectors_only: bool = False
    """Whether the item has nothing but vectors, which go to the item of that name beside those it has."""
    origin: str | None = None
    """The prefix that the item had before it was given another."""

    def refused(self, reason: str, part: str | None) -> Rejected:
        """Return the item as it came, and why it cannot come in."""
        item = self.item if self.origin is None else msgspec.structs.replace(self.item, prefix=self.origin)
        return Rejected(reason, item, part, self.line)


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """What cannot be brought in, as it came, why, and its line where the source is a file."""

    reason: str
    item: Item | None = None
    part: str | None = None
    line: int | None = None
    raw: bytes | None = None


class Several(msgspec.Struct, frozen=True, gc=False):
    """Items on their way in together, in order and each only once; `line` is where the first stood."""

    block: Block
    parts: frozenset[str] = _EVERY_PART
    line: int | None = None

    def singly(self) -> Iterator[Incoming]:
        """Yield them one by one."""
        for place, item in enumerate(self.block.items()):
            yield Incoming(item, self.parts, None if self.line is None else self.line + place)

    @property
    def last(self) -> Incoming:
        """The last one."""
        place = len(self.block) - 1
        return Incoming(self.block.item(place), self.parts, None if self.line is None else self.line + place)


Entry = Incoming | Rejected | Several


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
    unit: str = "line"
    """What is counted in a file: its lines, or the elements of an array."""
    lost: frozenset[str] = frozenset()
    """Parts that do not arrive in a target of this kind, see `store.Narrow`: they make no difference."""

    @property
    def changes_nothing(self) -> bool:
        """Whether items go in as they come, in the order in which they come."""
        return self.is_ordered and not (
            self.mapping or self.without_vectors or self.round_ttl_up or self.left_out or self.lost
        )


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
    unit: str = "line"
    """See `Rules`."""
    expiries_left_out: int = 0
    """Items to be written whose expiry the target does not keep as it was, see `store.Narrow`."""

    @property
    def to_write(self) -> int:
        """Items that the second pass will write."""
        return self.new + self.changed


@dataclass(slots=True)
class Moved:
    """What was written; `overtaken` are items that somebody else wrote in the meantime, left alone.

    `unchanged` and `skipped` are counted anew: what was new to the survey may be there by now.
    """

    items: int = 0
    vectors: int = 0
    octets: int = 0
    overtaken: int = 0
    unchanged: int = 0
    skipped: int = 0


Reject = Callable[[Rejected], None]
Progress = Callable[[int], None]
_SAMPLES = 20


def survey(
    entries: Iterable[Entry], target: Target, rules: Rules, *, reject: Reject, progress: Progress
) -> Survey:
    """Go through a source without writing; `reject` is told of every item that cannot come in."""
    found = Survey(unit=rules.unit)

    def note(rejected: Rejected) -> None:
        found.rejected += 1
        found.reasons[rejected.part or rules.unit, rejected.reason] += 1
        if len(found.samples) < _SAMPLES:
            found.samples.append(rejected)
        reject(rejected)

    for decision in _decisions(entries, target, rules, note):
        progress(_count(found, decision, rules))
    return found


def _count(found: Survey, decision: _Decision | Block, rules: Rules) -> int:
    """Count what was decided; return of how many items."""
    if isinstance(decision, Block):
        found.new += len(decision)
        found.vectors += sum(map(len, decision.vectors.values()))
        found.octets += sum(map(len, decision.values))
        return len(decision)
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
        found.expiries_left_out += "expires_at" in rules.lost and _expires(decision.item)
    if decision.kind in ("new", "changed") or "vectors" not in rules.lost:
        found.vectors_left_out += decision.vectors_left_out
    return 1


class _Refused(Exception):
    """Something cannot come in."""


def fill(
    entries: Iterable[Entry], target: Target, rules: Rules, *, progress: Progress
) -> tuple[Survey, Moved] | None:
    """Survey and write in one pass, into a store that nobody knows yet; None where anything is rejected.

    Then, and after an error, what is in the target is of no use.
    """
    found, moved = Survey(unit=rules.unit), Moved()

    def refuse(_rejected: Rejected) -> None:
        raise _Refused

    try:
        with _writing(target, rules, moved) as batch:
            for decision in _decisions(entries, target, rules, refuse):
                progress(_count(found, decision, rules))
                if isinstance(decision, Block):
                    batch.add_block(decision)
                elif decision.kind in ("new", "changed"):
                    batch.add(decision)
    except _Refused:
        return None
    target.finish()
    return found, moved


def transfer(
    entries: Iterable[Entry],
    target: Target,
    rules: Rules,
    *,
    progress: Progress,
    judged: bool = False,
    beside: Sequence[Writable] = (),
) -> Moved:
    """Write what the survey found good, in batches, each one a transaction.

    `judged`: the same entries were surveyed, and there was none among them that the target cannot hold.
    `beside` are further connections to the target, which write at the same time.
    """
    moved = Moved()

    def known(_rejected: Rejected) -> None:
        """The survey has told of it."""

    with _writing(target, rules, moved, beside) as batch:
        for decision in _decisions(entries, target, rules, known, judged=judged):
            if isinstance(decision, Block):
                progress(len(decision))
                batch.add_block(decision)
                continue
            progress(1)
            match decision.kind:
                case "unchanged":
                    moved.unchanged += 1
                case "skipped":
                    moved.skipped += 1
                case "conflict":  # the survey has found none
                    moved.overtaken += 1
                case _:
                    batch.add(decision)
    target.finish()
    return moved


@contextmanager
def _writing(
    target: Target, rules: Rules, moved: Moved, beside: Sequence[Writable] = ()
) -> Iterator[_Pending]:
    """Give what takes decisions, and write the last of them when the block is left without an error."""
    with ExitStack() as stack:
        crew = stack.enter_context(Crew([target, *beside])) if beside else None
        loader = None
        if isinstance(target, Loading) and target.loads:
            loader = stack.enter_context(Loader(target))
        batch = _Pending(target, rules, moved, crew, loader)
        yield batch
        batch.flush()
        batch.wait()


class _Decision(msgspec.Struct, frozen=True, gc=False):
    kind: Literal["new", "changed", "unchanged", "skipped", "conflict"]
    item: Item
    vectors_left_out: int = 0


class _Pending:
    """Decisions that wait to be written together."""

    def __init__(
        self, target: Target, rules: Rules, moved: Moved, crew: Crew | None, loader: Loader | None
    ) -> None:
        self._target, self._rules, self._moved, self._crew, self._loader = target, rules, moved, crew, loader
        self._new: list[Item] = []
        self._changed: list[Item] = []
        self._octets = 0
        self._is_first = True
        self._blocks: list[Block] = []

    def add_block(self, block: Block) -> None:
        """Take new items."""
        if self._new or self._changed:
            self.flush()
        self._blocks.append(block)
        self._octets += sum(map(len, block.values))
        self._octets += sum(4 * vector.dims for found in block.vectors.values() for vector in found)
        if sum(map(len, self._blocks)) >= self._target.batch_rows or self._octets >= BATCH_OCTETS:
            self.flush()

    def add(self, decision: _Decision) -> None:
        """Take a decision that writes something."""
        if self._blocks:
            self.flush()
        (self._new if decision.kind == "new" else self._changed).append(decision.item)
        self._octets += decision.item.size
        if decision.item.vectors:
            self._octets += sum(4 * vector.dims for vector in decision.item.vectors)
        if len(self._new) + len(self._changed) >= self._target.batch_rows or self._octets >= BATCH_OCTETS:
            self.flush()

    def flush(self) -> None:
        """Write what waits, blocks while the next are gathered."""
        if not self._new and not self._changed and not self._blocks:
            return
        self._settle()
        if not self._is_first and self._target.pause:
            sleep(self._target.pause)
        self._is_first = False
        blocks, new, changed = self._blocks, self._new, self._changed
        self._blocks, self._new, self._changed, self._octets = [], [], [], 0
        if blocks:
            assert self._loader is not None
            self._loader.give(blocks)
        else:
            self._write(new, changed)

    def wait(self) -> None:
        """Count what others are still writing, when they are done with it."""
        self._settle()
        if self._crew is not None:
            for done, left in self._crew.finish():
                self._count(done, left)

    def _settle(self) -> None:
        """Wait for the blocks that are being loaded; where one of their items is there, each is written by itself."""
        if self._loader is None:
            return
        blocks, is_loaded = self._loader.settle()
        if is_loaded:
            self._moved.items += sum(map(len, blocks))
            self._moved.vectors += sum(len(found) for block in blocks for found in block.vectors.values())
            self._moved.octets += sum(len(value) for block in blocks for value in block.values)
        else:
            self._write([item for block in blocks for item in block.items()], [])

    def _write(self, new: list[Item], changed: list[Item]) -> None:
        batch = Batch(new, changed, self._rules.on_conflict == "newer")
        if self._crew is None:
            self._count(batch, self._target.write(batch))
        else:
            for done, left in self._crew.write(batch):
                self._count(done, left)

    def _count(self, batch: Batch, left: Sequence[Position]) -> None:
        written = [*batch.new, *batch.changed]
        if left:
            overtaken = set(left)
            written = [item for item in written if Position(item.prefix, item.key) not in overtaken]
            self._moved.overtaken += len(batch.new) + len(batch.changed) - len(written)
        self._moved.items += len(written)
        self._moved.vectors += sum([len(item.vectors) for item in written])
        self._moved.octets += sum([item.size for item in written])


def _decisions(
    entries: Iterable[Entry], target: Target, rules: Rules, reject: Reject, *, judged: bool = False
) -> Iterator[_Decision | Block]:
    """Decide about each item; blocks are all new, and go whole into a target that is empty and takes them."""
    existing = Existing(target)
    if not (existing.is_empty and rules.changes_nothing and isinstance(target, Loading) and target.loads):
        yield from _each(_singly(entries), target, rules, reject, existing, judged=judged)
        return
    holds = target.holds

    def goes_whole(entry: Entry) -> bool:
        return isinstance(entry, Several) and (judged or holds(entry.block))

    last: Incoming | None = None
    for is_whole, some in groupby(entries, goes_whole):
        if not is_whole:
            yield from _each(_singly(some), target, rules, reject, existing, judged=judged, last=last)
            continue
        for entry in some:
            if isinstance(entry, Several):
                yield entry.block
                last = entry.last


def _singly(entries: Iterable[Entry]) -> Iterator[Incoming | Rejected]:
    for entry in entries:
        if isinstance(entry, Several):
            yield from entry.singly()
        else:
            yield entry


def _each(
    entries: Iterable[Incoming | Rejected],
    target: Target,
    rules: Rules,
    reject: Reject,
    existing: Existing,
    *,
    judged: bool,
    last: Incoming | None = None,
) -> Iterator[_Decision]:
    now = target.now()
    for incoming in _distinct(_ordered(_renamed(entries, rules, reject), rules), rules, reject, last):
        if incoming.vectors_only:
            if joined := _joined(incoming, existing, target, rules, reject):
                yield joined
            continue
        fitted, left_out = _fitted(incoming.item, target, rules)
        faults = () if judged else target.unholdable(fitted)
        if faults:
            reject(incoming.refused(faults[0].reason, faults[0].part))
            continue
        there = existing.find(fitted)
        decision = _decide(fitted, incoming.parts, there, rules, now)
        yield msgspec.structs.replace(decision, vectors_left_out=left_out) if left_out else decision


def _decide(item: Item, parts: frozenset[str], there: Item | None, rules: Rules, now: Instant) -> _Decision:
    if there is None:
        return _Decision("new", item if len(parts) == len(PARTS) else _with_times(item, parts, now))
    if rules.without_vectors:
        parts -= {"vectors"}
    if not differences(item, there, parts - rules.lost):
        return _Decision("unchanged", item)
    match rules.on_conflict:
        case "fail":
            return _Decision("conflict", item)
        case "skip":
            return _Decision("skipped", item)
        case "newer" if "updated_at" in parts and not _is_newer(item, there):
            return _Decision("skipped", item)
    return _Decision("changed", _completed(item, parts, there, now))


def _joined(
    incoming: Incoming, existing: Existing, target: Target, rules: Rules, reject: Reject
) -> _Decision | None:
    """Decide about vectors whose item is elsewhere: they join the one that has their name, if there is one."""
    there = existing.find(incoming.item)
    if there is None:
        reject(incoming.refused("vectors without their item", "vectors"))
        return None
    has = {vector.field: vector for vector in there.vectors}
    added = tuple(vector for vector in incoming.item.vectors if vector.field not in has)
    others = [
        vector for vector in incoming.item.vectors if vector.field in has and vector != has[vector.field]
    ]
    if rules.without_vectors or not (added or others):
        return _Decision("unchanged", there)
    if others and rules.on_conflict in ("fail", "skip"):
        return _Decision("conflict" if rules.on_conflict == "fail" else "skipped", there)
    replaced = {vector.field for vector in others}
    kept = tuple(vector for vector in there.vectors if vector.field not in replaced)
    item = msgspec.structs.replace(there, vectors=(*kept, *others, *added))
    if faults := [fault for fault in target.unholdable(item) if fault.part == "vectors"]:
        reject(incoming.refused(faults[0].reason, "vectors"))
        return None
    return _Decision("changed", item)


def _expires(item: Item) -> bool:
    return item.expires_at is not None or item.ttl_minutes is not None


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
    if (rules.without_vectors or "vectors" in rules.lost) and item.vectors:
        left_out = len(item.vectors)
        item = msgspec.structs.replace(item, vectors=())
    if rules.round_ttl_up and item.ttl_minutes is not None and item.ttl_minutes % 1:
        whole = math.ceil(item.ttl_minutes)
        if whole and any(fault.part == "ttl_minutes" for fault in target.unholdable(item)):
            item = msgspec.structs.replace(item, ttl_minutes=whole)
    if rules.left_out and "vectors" in {fault.part for fault in target.unholdable(item)} & rules.left_out:
        left_out += len(item.vectors)
        item = msgspec.structs.replace(item, vectors=())
    return item, left_out


def _renamed(entries: Iterable[Incoming | Rejected], rules: Rules, reject: Reject) -> Iterator[Incoming]:
    mapping = rules.mapping
    for entry in entries:
        if isinstance(entry, Rejected):
            reject(entry)
        elif mapping:
            item = msgspec.structs.replace(entry.item, prefix=mapping.apply(entry.item.prefix))
            yield msgspec.structs.replace(entry, item=item, origin=entry.item.prefix)
        else:
            yield entry


def _ordered(incoming: Iterator[Incoming], rules: Rules) -> Iterator[Incoming]:
    if rules.is_ordered and not rules.mapping:
        return incoming
    return sort(
        incoming,
        key=lambda entry: order_of(entry.item),
        size=lambda entry: entry.item.size + sum(4 * vector.dims for vector in entry.item.vectors),
    )


def _distinct(
    incoming: Iterator[Incoming], rules: Rules, reject: Reject, last: Incoming | None = None
) -> Iterator[Incoming]:
    """Refuse what comes twice: neither the first nor the last of two can be known to be meant."""
    for entry in incoming:
        if last and entry.item.key == last.item.key and order_of(entry.item) == order_of(last.item):
            before = f" ({rules.unit} {last.line:,})" if last.line is not None else ""
            reject(entry.refused(f"the same namespace and key as another item{before}", "key"))
            continue
        last = entry
        yield entry


class Existing:
    """A store's own items, looked up in order: read along, and leapt ahead where few are asked for."""

    def __init__(self, target: Store, *, values: bool = True, vectors: Detail = Detail.FULL) -> None:
        self._target, self._values, self._vectors = target, values, vectors
        self._rows = target.scan(EVERYTHING, values=values, vectors=vectors)
        self._head = next(self._rows, None)

    @property
    def is_empty(self) -> bool:
        """Whether none is left."""
        return self._head is None

    def find(self, item: Item | Position) -> Item | None:
        """Return the item of that name; names have to be asked for in order, see `model.order_of`."""
        if self._head is None:
            return None
        wanted = order_of(item)
        is_blob = wanted[0] or wanted[2]
        for _ in repeat(None) if is_blob else range(_LEAP):  # `get` finds names of text alone
            head = self._head
            if head is None:
                return None
            place = order_of(head)
            if place == wanted:
                return head
            if place > wanted:
                return None
            self._head = next(self._rows, None)
        after = Position(item.prefix, item.key)
        self._rows = self._target.scan(EVERYTHING, after=after, values=self._values, vectors=self._vectors)
        self._head = next(self._rows, None)
        return next(self._target.get(item.prefix, [item.key], vectors=self._vectors), None)


def refuse_unless_clean(found: Survey, *, skip_rejected: bool, written: str = "nothing") -> None:
    """Raise when the survey found what the rules do not allow; says what has been `written` by then."""
    if found.rejected and not skip_rejected:
        reasons = "; ".join(
            f"{count:,} × {part}: {reason}{_first(found, part, reason)}"
            for (part, reason), count in found.reasons.most_common(5)
        )
        raise MemctlError(
            f"{found.rejected:,} of the items cannot be brought in, so {written} was written: {reasons}",
            hint="--on-error skip brings in the rest, --rejects FILE keeps what is left out",
            code="rejected",
        )
    if found.conflict_count:
        names = ", ".join(
            f"{show(shown(place.prefix))} {shown(place.key)!r}" for place in found.conflicts[:3]
        )
        raise MemctlError(
            f"{found.conflict_count:,} of the items are there already and differ, so {written} was written: {names}",
            hint="--on-conflict skip, newer or overwrite decides",
            code="conflict",
        )


def _first(found: Survey, part: str, reason: str) -> str:
    """Where a reason was met first, as far as the samples tell."""
    for sample in found.samples:
        if (sample.part or found.unit, sample.reason) == (part, reason):
            if sample.line is not None:
                return f" ({found.unit} {sample.line:,})"
            if sample.item is not None:
                return f" ({show(shown(sample.item.prefix))} {shown(sample.item.key)!r})"
    return ""
