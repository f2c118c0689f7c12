"""A consistent copy of a live SQLite file, through SQLite's own backup interface."""

from __future__ import annotations

import sqlite3
from time import perf_counter, sleep

_PAGES = 500
"""A step of two megabytes, which takes some milliseconds."""
_BREATH = 0.002
_RESTARTS = 3


class _Restarted(Exception):
    """Somebody wrote into the file too often for a copy in steps ever to end."""


def copy(source: sqlite3.Connection, target: sqlite3.Connection) -> float:
    """Copy a whole database and return the longest time, in seconds, that a writer was kept waiting.

    In steps, between which a writer gets in; each commit of its makes SQLite begin anew, so after the third
    the file is copied under one lock. The target is one to be thrown away: it is not safe against a crash.
    """
    # What the target syncs to the disk, it would sync while a writer to the source waits.
    target.execute("PRAGMA synchronous = OFF")
    target.execute("PRAGMA journal_mode = MEMORY")
    longest = 0.0
    restarts = 0
    left: int | None = None
    since = perf_counter()

    def watch(_status: int, remaining: int, _total: int) -> None:
        nonlocal longest, restarts, left, since
        longest = max(longest, perf_counter() - since)
        restarts += left is not None and remaining > left
        left = remaining
        if restarts >= _RESTARTS:
            raise _Restarted
        sleep(_BREATH)
        since = perf_counter()

    try:
        source.backup(target, pages=_PAGES, progress=watch)
    except _Restarted:
        since = perf_counter()
        source.backup(target)
        longest = max(longest, perf_counter() - since)
    return longest
