"""How fast changes are carried out: batches that others need not wait long for, and pauses between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from memctl import changes
from memctl.changes import BATCH_OCTETS, HOLD, Outcome, Pace, carry_out, carry_through
from memctl.model import Item
from memctl.store import Bulk, Change, Writable


@dataclass(slots=True)
class Slow:
    """A store that takes so many seconds for each change, by a clock of its own."""

    seconds: float
    pause: float = 0.02
    batch_rows: int = 500
    now: float = 0.0
    batches: list[int] = field(default_factory=list)

    def apply(self, some: Sequence[Change]) -> tuple[Change, ...]:
        self.batches.append(len(some))
        self.now += self.seconds * len(some)
        return ()


def carried(slow: Slow, monkeypatch: pytest.MonkeyPatch, count: int = 2_000, **pace: Any) -> Outcome:
    """Carry out so many changes, and let the store's clock be everybody's."""
    monkeypatch.setattr(changes, "perf_counter", lambda: slow.now)
    waits: list[float] = []
    some = (Change(Item("a", str(number), None, 2, None, None, None, None), None) for number in range(count))
    outcome = carry_out(some, cast(Writable, slow), pace=Pace(wait=waits.append, **pace))
    assert waits == [slow.pause] * (len(slow.batches) - 1 if slow.pause else 0)
    return outcome


@pytest.mark.parametrize("seconds", [0.0001, 0.0002, 0.0005])
def test_a_batch_takes_as_long_as_others_can_wait(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(seconds)
    assert carried(slow, monkeypatch).items == sum(slow.batches) == 2_000
    assert slow.batches[0] <= HOLD / seconds * 1.5
    settled = slow.batches[4:-1]
    assert all(HOLD / seconds * 0.9 <= rows <= HOLD / seconds for rows in settled)


def test_a_batch_is_never_larger_than_the_store_or_the_command_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(1e-7)
    carried(slow, monkeypatch)
    assert max(slow.batches) == 500
    slow = Slow(1e-7)
    carried(slow, monkeypatch, most=120)
    assert max(slow.batches) == 120


def test_it_goes_on_however_slow_a_store_is(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(0.5)
    carried(slow, monkeypatch, count=200)
    assert slow.batches == [50, 20, 20, 20, 20, 20, 20, 20, 10]


def test_a_number_that_is_given_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(0.5)
    carried(slow, monkeypatch, count=2_500, rows=1_000)
    assert slow.batches == [1_000, 1_000, 500]


def test_where_nobody_waits_batches_are_as_large_as_the_store_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(0.5, pause=0.0)
    carried(slow, monkeypatch)
    assert slow.batches == [500] * 4


def through(slow: Slow, monkeypatch: pytest.MonkeyPatch, count: int = 2_000, **pace: Any) -> Outcome:
    """Have the store itself do so many, and look at the pauses between its batches."""
    monkeypatch.setattr(changes, "perf_counter", lambda: slow.now)
    happened: list[str] = []
    told: list[int] = []

    def work(rows: Callable[[], int], octets: int) -> Iterator[Bulk]:
        assert octets == BATCH_OCTETS
        left = count
        while left:
            some = min(left, rows())
            happened.append("batch")
            slow.batches.append(some)
            slow.now += slow.seconds * some
            left -= some
            yield Bulk(some, 2 * some, 3 * some)

    wait = Pace(wait=lambda seconds: happened.append(f"{seconds}"), **pace)
    outcome = carry_through(work, cast(Writable, slow), pace=wait, done=told.append)
    pauses = [f"{slow.pause}", "batch"] if slow.pause else ["batch"]
    assert happened == ["batch", *pauses * (len(slow.batches) - 1)]
    assert told == slow.batches
    return outcome


@pytest.mark.parametrize("seconds", [0.0001, 0.0005])
def test_a_store_that_does_it_by_itself_keeps_others_waiting_no_longer(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(seconds)
    outcome = through(slow, monkeypatch)
    assert (outcome.items, outcome.vectors, outcome.octets) == (2_000, 4_000, 6_000)
    assert slow.batches[0] == 50
    assert all(HOLD / seconds * 0.9 <= rows <= HOLD / seconds for rows in slow.batches[4:-1])


def test_where_nobody_waits_it_does_as_much_at_once_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(0.5, pause=0.0)
    through(slow, monkeypatch)
    assert slow.batches == [500] * 4


def test_what_is_passed_over_is_counted_and_teaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def work(rows: Callable[[], int], _octets: int) -> Iterator[Bulk]:
        for bulk in (Bulk(0, 0, 0, 50), Bulk(0, 0, 0, 50), Bulk(50, 0, 0)):
            sizes.append(rows())
            yield bulk

    monkeypatch.setattr(changes, "perf_counter", lambda: 0.0)
    outcome = carry_through(work, cast(Writable, Slow(0)), pace=Pace(wait=lambda _: None))
    assert (outcome.items, outcome.passed_over) == (50, 100)
    assert sizes == [50, 50, 50]
