"""How fast changes are carried out: batches that others need not wait long for, and pauses between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from memctl import changes
from memctl.changes import HOLD, Outcome, Pace, carry_out
from memctl.model import Item
from memctl.store import Change, Writable


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
