"""Looking at the octets of a file that this process may have open as a database.

POSIX takes away all locks that a process has on a file when it closes any descriptor of that file, those of an
open SQLite connection too (`How To Corrupt An SQLite Database File`, section 2.2). In WAL mode another process
then takes itself for the last one, removes the log, and what is written to it afterwards is lost. So a
descriptor that was opened beside a connection stays open until the last connection is gone.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

_File = tuple[int, int]
"""Device and inode."""
_connections: Counter[_File] = Counter()
_descriptors: defaultdict[_File, list[int]] = defaultdict(list)


class Connection(sqlite3.Connection):
    """A connection to a file that is known to be in use for as long as it is open."""

    _let_go: Any = None

    def uses(self, path: Path) -> None:
        """Have the file counted; it exists."""
        status = path.stat()
        file = status.st_dev, status.st_ino
        _connections[file] += 1
        self._let_go = weakref.finalize(self, _release, file)

    def close(self) -> None:
        """Close it; a second call does nothing."""
        super().close()
        if self._let_go is not None:
            self._let_go()


def first_octets(path: Path, count: int) -> bytes:
    """Return the beginning of a file. Raises OSError, as opening and reading it does."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return os.read(descriptor, count)
    finally:
        status = os.fstat(descriptor)
        file = status.st_dev, status.st_ino
        if _connections[file]:
            _descriptors[file].append(descriptor)
        else:
            os.close(descriptor)


def _release(file: _File) -> None:
    _connections[file] -= 1
    if _connections[file] <= 0:
        del _connections[file]
        for descriptor in _descriptors.pop(file, ()):
            os.close(descriptor)
