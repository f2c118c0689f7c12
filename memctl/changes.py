"""Carrying out changes in short batches: what rm, mv, expire, sweep, forget and the doctor's repairs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import sleep

from memctl.model import Item
from memctl.store import Change, Writable

BATCH_OCTETS = 8 * 1024 * 1024

Save = Callable[[Sequence[Item]], None]
"""Keeps what a batch is about to remove or overwrite; it is on the disk when this returns."""


@dataclass(slots=True)
class Outcome:
    """What was carried out; `left` are changes whose item had become another one meanwhile.

    `vectors` counts those that went (with their item, or from it) and those that moved with it.
    """

    items: int = 0
    vectors: int = 0
    octets: int = 0
    left: list[Change] = field(default_factory=list)


@dataclass(slots=True)
class Pace:
    """How fast to go: changes a batch, and seconds to leave between two; what is None is as the store asks."""

    rows: int | None = None
    pause: float | None = None
    wait: Callable[[float], object] = sleep


def carry_out(
    changes: Iterable[Change],
    target: Writable,
    *,
    pace: Pace | None = None,
    save: Save | None = None,
    done: Callable[[Change], None] | None = None,
) -> Outcome:
    """Carry out a stream of changes, a transaction a batch, and tell of each one that took place.

    An error, Ctrl-C among them, leaves whole batches behind: those done stay done, the one under way has
    changed nothing.
    """
    pace = pace or Pace()
    rows = pace.rows or target.batch_rows
    pause = target.pause if pace.pause is None else pace.pause
    outcome = Outcome()
    is_first = True
    for batch in _batches(changes, rows):
        if not is_first and pause:
            pace.wait(pause)
        is_first = False
        if save is not None and (going := [change.was for change in batch if change.was is not None]):
            save(going)
        left = target.apply(batch)
        skipped = set(map(id, left))
        outcome.left += left
        for change in batch:
            if id(change) not in skipped:
                _count(outcome, change)
                if done is not None:
                    done(change)
    return outcome


def _count(outcome: Outcome, change: Change) -> None:
    was, becomes = change.was, change.becomes
    outcome.items += 1
    item = becomes if becomes is not None else was
    outcome.octets += item.size if item is not None else 0
    if was is None:
        outcome.vectors += len(becomes.vectors) if becomes is not None else 0
    elif becomes is None or (becomes.prefix, becomes.key) != (was.prefix, was.key):
        outcome.vectors += len(was.vectors)
    elif was.vectors != becomes.vectors:
        outcome.vectors += len(set(was.vectors) ^ set(becomes.vectors))


def _batches(changes: Iterable[Change], rows: int) -> Iterable[list[Change]]:
    batch: list[Change] = []
    octets = 0
    for change in changes:
        batch.append(change)
        for item in (change.was, change.becomes):
            octets += item.size + sum(4 * vector.dims for vector in item.vectors) if item is not None else 0
        if len(batch) >= rows or octets >= BATCH_OCTETS:
            yield batch
            batch, octets = [], 0
    if batch:
        yield batch
