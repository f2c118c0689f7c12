"""Histograms of times against counting by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.chronology import MOST_BARS, Chronology, Histogram
from memctl.instants import from_datetime

START = datetime(2026, 11, 30, 7, 42, 43, tzinfo=UTC)


def chart(instants: list[str]) -> Histogram:
    """Count as `statistics` does: now and then the chronology is tended."""
    chronology = Chronology()
    for number, instant in enumerate(instants):
        chronology.counts[instant[: chronology.precision]] += 1
        if not number % 100:
            chronology.tend()
    chronology.tend()
    return chronology.histogram()


def every(step: timedelta, count: int, start: datetime = START) -> list[str]:
    return [from_datetime(start + step * number) for number in range(count)]


moments = st.datetimes(timezones=st.just(UTC))
near = st.timedeltas(timedelta(), timedelta(days=900)).map(lambda length: START + length)


@given(st.lists(moments | near, min_size=1, max_size=60))
def test_bars_hold_what_lies_between_their_ends(times: list[datetime]) -> None:
    instants = [from_datetime(time) for time in times]
    drawn = chart(instants)
    assert 1 <= len(drawn.bars) <= MOST_BARS
    assert all(one.end == other.start for one, other in pairwise(drawn.bars))
    first, last = drawn.bars[0], drawn.bars[-1]
    assert drawn.earlier == sum(instant < first.start for instant in instants)
    # the calendar's end is in its last bar, which cannot reach beyond it
    ends_there = last.end.startswith("9999-12-31T23:59:59")
    assert drawn.later == (0 if ends_there else sum(instant >= last.end for instant in instants))
    for bar in drawn.bars:
        until_the_end = bar is last and ends_there
        inside = [
            instant for instant in instants if bar.start <= instant and (instant < bar.end or until_the_end)
        ]
        assert bar.count == len(inside)


@pytest.mark.parametrize(
    ("length", "step"),
    [
        (timedelta(seconds=1), "minute"),
        (timedelta(minutes=15), "minute"),
        (timedelta(hours=1), "5 minutes"),
        (timedelta(hours=15), "hour"),
        (timedelta(days=2), "6 hours"),
        (timedelta(days=15), "day"),
        (timedelta(days=100), "week"),
        (timedelta(days=200), "2 weeks"),
        (timedelta(days=450), "month"),
        (timedelta(days=1400), "quarter"),
        (timedelta(days=5000), "year"),
    ],
)
@pytest.mark.parametrize("count", [2, 5000])
def test_the_step_follows_the_time_covered_not_the_number_of_items(
    length: timedelta, step: str, count: int
) -> None:
    drawn = chart(every(length / (count - 1), count))
    assert drawn.step is not None
    assert drawn.step.name == step
    assert sum(bar.count for bar in drawn.bars) == count


def test_weeks_begin_on_monday_and_quarters_with_the_year() -> None:
    weeks = chart(every(timedelta(days=1), 100))
    quarters = chart(every(timedelta(days=10), 100))
    assert {datetime.fromisoformat(bar.start).weekday() for bar in weeks.bars} == {0}
    assert {bar.start[5:10] for bar in quarters.bars} == {"01-01", "04-01", "07-01", "10-01"}


def test_a_stray_time_does_not_squeeze_the_rest() -> None:
    times = every(timedelta(hours=3), 80)
    drawn = chart(["1970-01-01T00:00:00.000000Z", *times, "9999-12-31T23:59:59.999999Z"])
    assert drawn.step is not None
    assert drawn.step.name == "day"
    assert (drawn.earlier, drawn.later) == (1, 1)
    assert sum(bar.count for bar in drawn.bars) == 80


def test_old_times_that_are_many_are_no_strays() -> None:
    times = every(timedelta(days=30), 10, START - timedelta(days=3650)) + every(timedelta(hours=3), 80)
    drawn = chart(times)
    assert (drawn.earlier, drawn.later) == (0, 0)
    assert sum(bar.count for bar in drawn.bars) == 90


def test_memory_does_not_grow_with_the_times() -> None:
    chronology = Chronology()
    for instant in every(timedelta(minutes=77), 30_000):
        chronology.counts[instant[: chronology.precision]] += 1
        chronology.tend()
        assert len(chronology.counts) <= 1001
    assert sum(chronology.counts.values()) == 30_000


@pytest.mark.parametrize(
    ("length", "label"),
    [
        (timedelta(minutes=10), "2026-11-30 07:42"),
        (timedelta(hours=10), "2026-11-30 07:00"),
        (timedelta(days=10), "2026-11-30"),
        (timedelta(days=400), "2026-11"),
        (timedelta(days=4000), "2026"),
    ],
)
def test_labels_are_as_exact_as_the_bars(length: timedelta, label: str) -> None:
    drawn = chart(every(length, 2))
    assert drawn.label(drawn.bars[0]) == label


def test_nothing_counted_is_no_histogram() -> None:
    assert Chronology().histogram() == Histogram()
