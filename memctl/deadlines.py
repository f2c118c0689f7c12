"""When an item expires, and how long it lives after each use: what put and expire set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from memctl.errors import UsageError
from memctl.instants import parse_duration, shift
from memctl.model import Instant, Item

_LAST = "9999-12-31T23:59:59.999999Z"
"""Where `shift` ends. A refresh that counts past it sets the expiry to null on SQLite: the item lives for ever."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """What becomes of an item's `expires_at` and `ttl_minutes`; a part that is not `set_…` stays as it is."""

    expires_at: Instant | None = None
    ttl_minutes: float | None = None
    sets_expiry: bool = True
    sets_ttl: bool = True

    def on(self, item: Item) -> Item:
        """Return the item with it, and without what was odd about the columns that are set."""
        changed: dict[str, Instant | float | None] = {}
        if self.sets_expiry:
            changed["expires_at"] = self.expires_at
        if self.sets_ttl:
            changed["ttl_minutes"] = self.ttl_minutes
        problems = tuple(problem for problem in item.problems if problem.part not in changed)
        return msgspec.structs.replace(item, problems=problems, **changed)


STAYS = Deadline(sets_expiry=False, sets_ttl=False)
NEVER = Deadline()


def after(item: Item, now: Instant) -> Deadline:
    """Return the deadline of an item that is put again: its TTL from now on, as the library's put counts it.

    One without a TTL keeps its expiry, and so does one whose TTL reaches past the calendar or is no number.
    """
    if item.ttl_minutes is None or not math.isfinite(item.ttl_minutes):
        return STAYS
    try:
        expires_at = shift(now, timedelta(minutes=item.ttl_minutes))
    except OverflowError:
        return STAYS
    return Deadline(expires_at, sets_ttl=False)


def within(ttl: str, now: Instant, *, round_up: bool = False) -> Deadline:
    """Return the deadline `ttl` from now, with that TTL. Raises UsageError."""
    minutes = minutes_of(ttl, round_up=round_up)
    expires_at = shift(now, timedelta(minutes=minutes))
    if expires_at >= _LAST:
        raise UsageError(
            f"{ttl!r}: that is past the year 9999, where calendars end",
            hint="--no-ttl, or --never, is for none",
        )
    return Deadline(expires_at, minutes)


def minutes_of(text: str, *, round_up: bool = False) -> float:
    """Read a length of time as the minutes that stores keep, whole or not. Raises UsageError."""
    seconds = parse_duration(text) / timedelta(seconds=1)
    if seconds <= 0:
        raise UsageError(f"{text!r}: a TTL is longer than nothing", hint="--no-ttl, or --never, is for none")
    return float(math.ceil(seconds / 60)) if round_up else seconds / 60
