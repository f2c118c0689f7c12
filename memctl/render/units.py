"""Sizes and times as people say them; only a terminal and prose show these, never a program's input."""

from __future__ import annotations

from memctl.instants import to_datetime
from memctl.model import Instant

_PREFIXES = ("kB", "MB", "GB", "TB", "PB")
_LENGTHS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def counted(count: int, noun: str) -> str:
    """Return a number with what it counts: `1 item`, `2,000 items`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def octets(count: float) -> str:
    """Return a size in decimal units, `1.2 kB`."""
    size = float(count)
    if abs(size) < 1000:
        return f"{count:.0f} B"
    for prefix in _PREFIXES:
        size /= 1000
        if abs(size) < 999.95 or prefix == _PREFIXES[-1]:
            break
    return f"{size:.1f} {prefix}"


def seconds(length: float) -> str:
    """Return a length of time in its largest fitting unit, `1.5 h`; a whole number loses its `.0`."""
    for unit, name in _LENGTHS:
        if abs(length) >= unit:
            return f"{length / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{length:.0f} s"


def minutes(length: float) -> str:
    """Return a TTL, which stores keep in minutes, as `seconds` does."""
    return seconds(length * 60)


def moment(instant: Instant) -> str:
    """Return an instant to the minute, UTC: `2026-11-30 07:42`. What is no instant is returned as it is."""
    if len(instant) == 27 and instant[10] == "T":
        return f"{instant[:10]} {instant[11:16]}"
    return instant


def distance(instant: Instant, now: Instant) -> str:
    """Say how far away an instant is, ` (in 3 h)` or ` (2 d ago)`; nothing of what is no instant."""
    try:
        away = (to_datetime(instant) - to_datetime(now)).total_seconds()
    except (ValueError, TypeError):
        return ""
    return f" (in {seconds(away)})" if away > 0 else f" ({seconds(-away)} ago)"
