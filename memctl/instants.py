"""Points and lengths of time, as people write them and as memctl passes them on.

An instant is text in one fixed form (`model.Instant`), so that comparing text compares time and a million
timestamps need not become objects.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from memctl.errors import UsageError
from memctl.model import Instant

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|w|mo|y)", re.IGNORECASE)
_AGES = re.compile(rf"(?:{_AGE.pattern}\s*)+", re.IGNORECASE)
_SECONDS = {
    "ms": 0.001,
    "s": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "d": 86400,
    "w": 7 * 86400,
    "mo": 30 * 86400,
    "y": 365 * 86400,
}

_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def from_datetime(moment: datetime) -> Instant:
    """Return the instant of an aware datetime."""
    moment = moment.astimezone(UTC)
    return (
        f"{moment.year:04}-{moment.month:02}-{moment.day:02}T"
        f"{moment.hour:02}:{moment.minute:02}:{moment.second:02}.{moment.microsecond:06}Z"
    )


def to_datetime(instant: Instant) -> datetime:
    """Return an instant as an aware datetime in UTC."""
    return datetime.fromisoformat(instant)


def backwards(instant: Instant | None) -> str:
    """Return a sort key that puts the latest instant first and the unknown one last."""
    return "~" if instant is None else instant.translate(_COMPLEMENT)


def shift(instant: Instant, by: timedelta) -> Instant:
    """Return the instant `by` later; at the ends of the calendar it stays there."""
    try:
        return from_datetime(to_datetime(instant) + by)
    except OverflowError:
        return from_datetime((datetime.max if by > timedelta() else datetime.min).replace(tzinfo=UTC))


def parse_duration(text: str) -> timedelta:
    """Read `45d`, `12h`, `90s`, `2w`, `1h30m`: whole or decimal numbers with a unit.

    Units: ms, s, m (or min), h, d, w, mo (30 days), y (365 days). Raises UsageError.
    """
    rest, seconds = text.strip(), 0.0
    while match := _AGE.match(rest):
        seconds += float(match[1]) * _SECONDS[match[2].lower()]
        rest = rest[match.end() :].lstrip()
    if rest or not text.strip():
        raise UsageError(f"{text!r} is no length of time", hint="write for example 45d, 12h, 30m or 1h30m")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise UsageError(f"{text!r} is longer than the calendar") from None


def is_duration(text: str) -> bool:
    """Tell whether text is a length of time, which `parse_time` reads as an age."""
    return _AGES.fullmatch(text.strip()) is not None


def parse_time(text: str, now: Instant) -> Instant:
    """Read a date, an instant, or an age before `now`; without a zone it is UTC. Raises UsageError."""
    stripped = text.strip()
    if is_duration(stripped):
        return shift(now, -parse_duration(stripped))
    try:
        moment = datetime.fromisoformat(stripped)
        return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time",
            hint="write a date (2026-11-30), an instant (2026-11-30T08:00:00Z) or an age (45d, 12h)",
        ) from None
