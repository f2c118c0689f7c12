"""Putting right what checks found: in one ordered pass over the items, in short transactions, then the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import NamedTuple, cast

import msgspec

from memctl.changes import carry_out
from memctl.doctor.check import Check, Settings, defines, reads_items
from memctl.doctor.finding import Finding, Status
from memctl.doctor.runner import Examination, Progress, scan
from memctl.errors import MemctlError, Unsupported
from memctl.model import Detail, Item, encode
from memctl.store import Ailment, Change, Examined, Repairable, Store, Target, Writable

REPAIRED_FIRST = ("created-at-drift",)
"""What has to be repaired before the rest, which follows in the order of the report: `stale-vectors` removes
the vectors that prove an overwrite."""


class Removed(NamedTuple):
    """What a repair takes away or writes over: an item as it was, or some of its vectors."""

    item: Item
    vectors_only: bool


Keep = Callable[[Sequence[Removed]], None]
"""Keeps what is about to go, in byte order of (prefix, key); it is on the disk when this returns."""


@dataclass(slots=True)
class Healed:
    """What the repair of one check did, or would do."""

    id: str
    items: int = 0
    """Items that were changed or removed; orphans count by the name they lie under."""
    vectors: int = 0
    """Vectors that were removed."""
    octets: int = 0
    """What the removed vectors and values take."""
    parts: int = 0
    """Parts of the schema or of the database that were put right."""
    remarks: list[str] = field(default_factory=list)
    """What could not be done, and why."""


@dataclass(slots=True)
class Operation:
    """What came of all repairs. `left` items had changed since they were read, and were left alone."""

    findings: list[Finding]
    """What was wrong before."""
    healed: list[Healed]
    left: int = 0


@dataclass(frozen=True, slots=True)
class Treatment(Change):
    """A change, and the checks that asked for it, each with what it removes."""

    by: tuple[tuple[str, int, int], ...] = ()
    """Check, vectors, octets."""
    is_orphan: bool = False


class Surgery:
    """What a check works with that repairs by itself; in a rehearsal everything is taken for done."""

    def __init__(self, store: Store, healed: Healed, *, is_rehearsal: bool) -> None:
        self.store = store
        self.healed = healed
        self.is_rehearsal = is_rehearsal
        self._target = None if is_rehearsal else cast(Repairable, store)

    def cure(self, ailment: Ailment) -> None:
        """Do what an ailment's remedy says, if it has one, and count it."""
        if ailment.remedy is None:
            self.healed.remarks.append(f"nothing memctl could do: {ailment.message}")
            return
        refusal = self._target.cure(ailment) if self._target else None
        if refusal:
            self.healed.remarks.append(f"{ailment.brief or ailment.message}: {refusal}")
        else:
            self.healed.parts += ailment.count


def heal(
    store: Store,
    checks: Sequence[type[Check]],
    settings: Settings,
    *,
    is_rehearsal: bool,
    keep: Keep | None = None,
    progress: Progress | None = None,
) -> Operation:
    """Examine a store with `checks`, which can repair, and repair what they find.

    `store` is a `Target` unless it `is_rehearsal`, which changes nothing and says what would be changed. Items
    are changed in one pass, each by all the checks that have something to heal about it, created-at-drift
    first. Raises MemctlError when a check could not run: nothing is repaired on half a diagnosis.
    """
    examination = Examination(store, checks, settings)
    examination.run(progress)
    for finding in examination.findings:
        if finding.status is Status.FAILED:
            raise MemctlError(f"{finding.id}: {finding.message}", hint="nothing was repaired")
    healed = {check.id: Healed(check.id) for check in checks}
    operation = Operation(examination.findings, list(healed.values()))
    order = {name: place for place, name in enumerate(REPAIRED_FIRST)}
    for check in examination.running:
        if check.caveat:
            healed[check.id].remarks.append(check.caveat)
    running = sorted(examination.running, key=lambda check: order.get(check.id, len(order)))
    curing = [check for check in running if defines(check, "cure")]
    if curing:
        treatments = _treatments(store, curing, settings, full=keep is not None)
        if is_rehearsal:
            for treatment in treatments:
                _count(healed, treatment)
        else:
            operation.left = _carry_out(cast(Target, store), treatments, healed, keep)
    for check in running:
        if defines(check, "repair"):
            check.repair(Surgery(store, healed[check.id], is_rehearsal=is_rehearsal))
    return operation


def _carry_out(
    target: Target, treatments: Iterator[Treatment], healed: dict[str, Healed], keep: Keep | None
) -> int:
    waiting: dict[int, Treatment] = {}

    def remembered() -> Iterator[Treatment]:
        for treatment in treatments:
            waiting[id(treatment.was)] = treatment
            yield treatment

    def save(items: Sequence[Item]) -> None:
        removed = [_removed(waiting.pop(id(item))) for item in items]
        if keep is not None:
            keep(removed)

    outcome = carry_out(
        remembered(),
        cast(Writable, _Hands(target)),
        save=save,
        done=lambda change: _count(healed, cast(Treatment, change)),
    )
    return len(outcome.left)


class _Hands:
    """A store to which orphans are items like others: they go another way."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.batch_rows, self.pause = target.batch_rows, target.pause

    def apply(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Purge what is orphaned, change the rest; return what was left alone."""
        treatments = cast(Sequence[Treatment], changes)
        orphans = [each.was for each in treatments if each.is_orphan and each.was is not None]
        if orphans:
            if not isinstance(self._target, Repairable):
                raise Unsupported("this store's orphaned vectors cannot be deleted")
            self._target.purge(orphans)
        others = [each for each in treatments if not each.is_orphan]
        return self._target.apply(others) if others else ()


def _treatments(
    store: Store, checks: Sequence[Check], settings: Settings, *, full: bool
) -> Iterator[Treatment]:
    """Yield what is to be done, in byte order, items and orphans side by side; `full`, with all that goes."""
    streams: list[Iterator[Treatment]] = []
    if by_orphan := [check for check in checks if defines(check, "orphan")]:
        streams.append(_orphans(store, by_orphan, settings, full=full))
    if by_item := [check for check in checks if reads_items(check)]:
        items = scan(store, settings, by_item, full=full)
        streams.append(filter(None, (_treated(item, by_item) for item in items)))
    return merge(*streams, key=_order)


def _orphans(store: Store, checks: Sequence[Check], settings: Settings, *, full: bool) -> Iterator[Treatment]:
    if not isinstance(store, Examined):
        return
    pattern = settings.pattern
    for orphan in store.orphans(settings.scope, detail=Detail.FULL if full else Detail.SHAPE):
        if pattern is None or pattern.matches(orphan.prefix):
            treatment = _treated(orphan, checks, is_orphan=True)
            if treatment is not None:
                yield treatment


def _treated(item: Item, checks: Iterable[Check], *, is_orphan: bool = False) -> Treatment | None:
    """Let all checks heal an item, each what the one before has left."""
    current: Item | None = item
    by: list[tuple[str, int, int]] = []
    for check in checks:
        if current is None:
            break
        change = check.cure(current)
        if change is None:
            continue
        vectors, octets = _lost(current, change.becomes)
        by.append((check.id, vectors, octets))
        current = change.becomes
    if not by:
        return None
    return Treatment(item, current, by=tuple(by), is_orphan=is_orphan)


def _lost(was: Item, becomes: Item | None) -> tuple[int, int]:
    """Return how many vectors go, and how many octets with them and with the value."""
    kept = {vector.field for vector in becomes.vectors} if becomes is not None else set()
    gone = [vector for vector in was.vectors if vector.field not in kept]
    octets = sum(4 * vector.dims for vector in gone)
    return len(gone), octets + (was.size if becomes is None else 0)


def _removed(treatment: Treatment) -> Removed:
    """Return what is worth keeping of an item before it is treated."""
    was, becomes = cast(Item, treatment.was), treatment.becomes
    if treatment.is_orphan:
        return Removed(was, vectors_only=True)
    if becomes is not None and msgspec.structs.replace(becomes, vectors=was.vectors) == was:
        kept = {vector.field for vector in becomes.vectors}
        gone = tuple(vector for vector in was.vectors if vector.field not in kept)
        return Removed(msgspec.structs.replace(was, vectors=gone), vectors_only=True)
    return Removed(was, vectors_only=False)


def _count(healed: dict[str, Healed], treatment: Treatment) -> None:
    for name, vectors, octets in treatment.by:
        record = healed[name]
        record.items += 1
        record.vectors += vectors
        record.octets += octets


def _order(treatment: Treatment) -> tuple[bytes, bytes]:
    item = cast(Item, treatment.was)
    return encode(item.prefix), encode(item.key)
