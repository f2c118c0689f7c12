"""How many things happened when: counted in bounded memory, cut into as many bars as people like to see."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

from memctl.instants import from_datetime
from memctl.model import Instant

MOST_BARS = 16
FEWEST_BARS = 4
"""If a few stray times would squeeze the rest into fewer, they are counted apart."""

_PRECISIONS = (16, 13, 10, 7, 4)
"""How much of an instant's text is looked at: to the minute, hour, day, month, year."""
_MOST_COUNTS = 1_000
_EARLIEST = "0001-01-01T00:00"


class Step(NamedTuple):
    """The length of a bar: `minutes`, or else `months`. Instants of `precision` tell bars apart."""

    name: str
    precision: int
    minutes: int = 0
    months: int = 0

    def bar_of(self, key: str) -> int:
        """Return the number of the bar that an instant falls into; `key` may be cut to `precision`."""
        moment = datetime.fromisoformat(key + _EARLIEST[len(key) :])
        if self.months:
            return (moment.year * 12 + moment.month - 1) // self.months
        days = moment.toordinal() - 1  # day 0 was a Monday, and so weeks begin with one
        return (days * 1440 + moment.hour * 60 + moment.minute) // self.minutes

    def start(self, index: int) -> Instant:
        """Return where a bar begins; the calendar's ends stand for what lies beyond them."""
        if not self.months:
            try:
                moment = datetime.min + timedelta(minutes=index * self.minutes)
            except OverflowError:
                moment = datetime.max
        else:
            year, month = divmod(index * self.months, 12)
            moment = datetime.max if year > 9999 else datetime(max(year, 1), month + 1 if year else 1, 1)
        return from_datetime(moment.replace(tzinfo=UTC))


STEPS = (
    Step("minute", 16, minutes=1),
    Step("5 minutes", 16, minutes=5),
    Step("15 minutes", 16, minutes=15),
    Step("hour", 13, minutes=60),
    Step("3 hours", 13, minutes=180),
    Step("6 hours", 13, minutes=360),
    Step("12 hours", 13, minutes=720),
    Step("day", 10, minutes=1440),
    Step("2 days", 10, minutes=2880),
    Step("week", 10, minutes=10_080),
    Step("2 weeks", 10, minutes=20_160),
    Step("month", 7, months=1),
    Step("quarter", 7, months=3),
    Step("half-year", 7, months=6),
    Step("year", 4, months=12),
    Step("2 years", 4, months=24),
    Step("5 years", 4, months=60),
    Step("10 years", 4, months=120),
    Step("100 years", 4, months=1_200),
    Step("1000 years", 4, months=12_000),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """`count` instants from `start` on and before `end`."""

    start: Instant
    end: Instant
    count: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars of one length, without a gap, and the few instants far before or behind them."""

    step: Step | None = None
    """None when there was nothing to count."""
    bars: Sequence[Bar] = ()
    earlier: int = 0
    later: int = 0

    def label(self, bar: Bar) -> str:
        """Return a bar's beginning, as exact as the bars are: `2026-11-30 07:00`, `2026-11`."""
        precision = self.step.precision if self.step else 0
        return bar.start[: 16 if precision == 13 else precision].replace("T", " ")


class Chronology:
    """Counts instants by the beginning of their text, the coarser the longer the time they cover.

    For the sake of speed the caller adds to `counts[instant[:precision]]` itself, and calls `tend` every now
    and then, after which both may be others.
    """

    def __init__(self) -> None:
        self.precision = _PRECISIONS[0]
        self.counts: defaultdict[str, int] = defaultdict(int)

    def tend(self) -> None:
        """Keep the number of counts within bounds; what is lost is finer than any bar would be."""
        while len(self.counts) > _MOST_COUNTS and self.precision > _PRECISIONS[-1]:
            self.precision = _PRECISIONS[_PRECISIONS.index(self.precision) + 1]
            counts, self.counts = self.counts, defaultdict(int)
            for key, count in counts.items():
                self.counts[key[: self.precision]] += count

    def histogram(self) -> Histogram:
        """Return at most `MOST_BARS` bars over everything counted."""
        keys = sorted(self.counts)
        if not keys:
            return Histogram()
        step = self._step(keys)
        first, last = self._bulk(keys)
        if step.bar_of(keys[last]) - step.bar_of(keys[first]) + 1 < FEWEST_BARS:
            finer = self._step(keys[first : last + 1])
            if finer != step:
                return self._drawn(finer, keys, first, last)
        return self._drawn(step, keys, 0, len(keys) - 1)

    def _step(self, keys: Sequence[str]) -> Step:
        def count(step: Step) -> int:
            return step.bar_of(keys[-1]) - step.bar_of(keys[0]) + 1

        possible = [step for step in STEPS if step.precision <= self.precision]
        return next(step for step in possible if count(step) <= MOST_BARS)

    def _bulk(self, keys: Sequence[str]) -> tuple[int, int]:
        """Return the first and the last key when one in a hundred is left out at either end."""
        sums = list(accumulate(self.counts[key] for key in keys))
        few = max(sums[-1] // 100, sums[-1] >= 20)
        return bisect_right(sums, few), bisect_left(sums, sums[-1] - few)

    def _drawn(self, step: Step, keys: Sequence[str], first: int, last: int) -> Histogram:
        low, high = step.bar_of(keys[first]), step.bar_of(keys[last])
        counts = [0] * (high - low + 1)
        earlier = later = 0
        for key in keys:
            index = step.bar_of(key)
            if index < low:
                earlier += self.counts[key]
            elif index > high:
                later += self.counts[key]
            else:
                counts[index - low] += self.counts[key]
        bars = [
            Bar(step.start(index), step.start(index + 1), count) for index, count in enumerate(counts, low)
        ]
        return Histogram(step, bars, earlier, later)
