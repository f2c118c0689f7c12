"""Carrying out changes in short batches: what rm, mv, expire, sweep, forget and the doctor's repairs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, sleep

from memctl.model import Item
from memctl.store import Bulk, Change, Timed, Writable

BATCH_OCTETS = 8 * 1024 * 1024
ROUNDS = 5
"""How often a change is tried whose item somebody else keeps writing."""
_BREATH = 0.005
"""Seconds between two of these, where the store asks for no pause."""
HOLD = 0.02
"""Seconds that a batch may take where others wait for it: a writer that comes at the wrong time waits for two."""
_FIRST, _FEWEST = 50, 20

Save = Callable[[Sequence[Item]], None]
"""Keeps what a batch is about to remove or overwrite; it is on the disk when this returns."""


Again = Callable[[Sequence[Change]], Iterable[Change]]
"""Reads items anew that had become others meanwhile, and decides about them once more."""


@dataclass(slots=True)
class Outcome:
    """What was carried out; `left` are changes whose item had become another one, time and again.

    `vectors` counts those that went (with their item, or from it) and those that moved with it.
    """

    items: int = 0
    vectors: int = 0
    octets: int = 0
    left: list[Change] = field(default_factory=list)
    passed_over: int = 0
    """Items that a store did not change wholesale: they take a look at each."""


@dataclass(slots=True)
class Pace:
    """How fast to go: changes a batch, and seconds to leave between two; what is None is as the store asks.

    Where a store asks for pauses, and `rows` is not given, batches are as large as `HOLD` allows. A batch ends,
    too, where what is in it comes to `octets`, and with `most` changes.
    """

    rows: int | None = None
    most: int | None = None
    pause: float | None = None
    wait: Callable[[float], object] = sleep
    octets: int = BATCH_OCTETS
    rounds: int = ROUNDS


def carry_out(
    changes: Iterable[Change],
    target: Writable,
    *,
    pace: Pace | None = None,
    save: Save | None = None,
    done: Callable[[Change], None] | None = None,
    again: Again | None = None,
    outcome: Outcome | None = None,
) -> Outcome:
    """Carry out a stream of changes, a transaction a batch, and tell of each one that took place.

    What a batch left alone is decided `again`, up to `pace.rounds` times, before the next one. An error, Ctrl-C
    among them, leaves whole batches behind: those done stay done and stand in the `outcome` that was given,
    the one under way has changed nothing.
    """
    pace = pace or Pace()
    size = _Size.of(pace, target)
    pause = target.pause if pace.pause is None else pace.pause
    outcome = Outcome() if outcome is None else outcome
    is_first = True
    for batch in _batches(changes, size, pace.octets):
        if not is_first and pause:
            pace.wait(pause)
        is_first = False
        left = _apply(batch, target, save, done, outcome, size)
        for _ in range(pace.rounds - 1):
            if not left or again is None:
                break
            pace.wait(pause or _BREATH)
            left = _apply(list(again(left)), target, save, done, outcome, size)
        outcome.left += left
    return outcome


def carry_through(
    work: Callable[[Callable[[], int], int], Iterable[Bulk]],
    target: Writable,
    *,
    pace: Pace | None = None,
    done: Callable[[int], None] | None = None,
    outcome: Outcome | None = None,
) -> Outcome:
    """Have a store change many items without telling each (`store.Wholesale`), in batches as `carry_out` has them.

    `work` is given how many items the next batch may have, and how many octets; `done` how many there were.
    """
    pace = pace or Pace()
    size = _Size.of(pace, target)
    pause = target.pause if pace.pause is None else pace.pause
    outcome = Outcome() if outcome is None else outcome
    began: float | None = None

    def rows() -> int:
        nonlocal began
        if began is not None and pause:
            pace.wait(pause)
        began = perf_counter()
        return size.rows

    for bulk in work(rows, pace.octets):
        if bulk.items:
            size.learn(
                bulk.items, target.worked if isinstance(target, Timed) else perf_counter() - (began or 0)
            )
        outcome.passed_over += bulk.passed_over
        outcome.items += bulk.items
        outcome.vectors += bulk.vectors
        outcome.octets += bulk.octets
        if done is not None:
            done(bulk.items)
    return outcome


def _apply(
    batch: Sequence[Change],
    target: Writable,
    save: Save | None,
    done: Callable[[Change], None] | None,
    outcome: Outcome,
    size: _Size,
) -> Sequence[Change]:
    """Carry out one batch; return what was left alone."""
    if not batch:
        return ()
    if save is not None and (going := [item for item in map(_going, batch) if item is not None]):
        save(going)
    began = perf_counter()
    left = target.apply(batch)
    # A slow disk makes every batch wait alike: smaller ones would only be more.
    size.learn(len(batch), target.worked if isinstance(target, Timed) else perf_counter() - began)
    skipped = set(map(id, left))
    for change in batch:
        if id(change) not in skipped:
            _count(outcome, change)
            if done is not None:
                done(change)
    return left


@dataclass(slots=True)
class _Size:
    """How many changes a batch has: a number, or what takes a store about `HOLD` seconds."""

    rows: int
    most: int
    adapts: bool

    @classmethod
    def of(cls, pace: Pace, target: Writable) -> _Size:
        """Begin small where nothing is known yet and somebody may wait."""
        most = pace.rows or min(target.batch_rows, pace.most or target.batch_rows)
        adapts = pace.rows is None and target.pause > 0
        return cls(min(most, _FIRST) if adapts else most, most, adapts)

    def learn(self, rows: int, seconds: float) -> None:
        """Take into account how long a batch took."""
        if self.adapts and rows * 2 >= self.rows:
            fitting = int(rows * min(HOLD / seconds, 2.0)) if seconds > 0 else self.most
            self.rows = max(min(_FEWEST, self.most), min(self.most, fitting))


def _going(change: Change) -> Item | None:
    """Return what is lost when a change takes place: all of an item or a part of it."""
    was, becomes = change.was, change.becomes
    if was is None or becomes is None or (becomes.prefix, becomes.key) == (was.prefix, was.key):
        return was
    return change.over


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


def _batches(changes: Iterable[Change], size: _Size, most: int) -> Iterable[list[Change]]:
    batch: list[Change] = []
    octets = 0
    for change in changes:
        batch.append(change)
        for item in (change.was, change.becomes):
            octets += item.size + sum(4 * vector.dims for vector in item.vectors) if item is not None else 0
        if len(batch) >= size.rows or octets >= most:
            yield batch
            batch, octets = [], 0
    if batch:
        yield batch
