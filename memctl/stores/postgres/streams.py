"""Results that are still on their way, and hold the connection until they are read.

What happens to the rest when the connection is wanted for another statement is each one's own affair. It is
never cancelled: a cancelled statement ends the transaction, and with it the snapshot that all is read from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from memctl.stores.postgres import failures


class Stream:
    """The rows of a running statement. What is left is kept in memory, unless nobody wants it any more."""

    def __init__(self, rows: Iterator[Any], address: str) -> None:
        self._rows = rows
        self._address = address
        self._kept: deque[Any] = deque()
        self.wanted = True

    def __iter__(self) -> Iterator[Any]:
        with failures.translated(self._address):
            # No `yield from`: when it is left early it closes the rows, and that cancels the statement.
            for row in self._rows:  # noqa: UP028
                yield row
        while self._kept:  # `settle` took these off the connection meanwhile
            yield self._kept.popleft()

    def settle(self) -> None:
        """Read to the end."""
        with failures.translated(self._address):
            for row in self._rows:
                if self.wanted:
                    self._kept.append(row)


class Copied:
    """The lines of a running COPY, each read as it is asked for, so that only one is in memory.

    What is left is thrown away, and the iteration ends with `interrupted` set: whoever reads goes on from
    there in another way.
    """

    def __init__(self, cursor: psycopg.Cursor[Any], query: sql.SQL | sql.Composed, address: str) -> None:
        self._address = address
        self._lines = self._read(cursor, query)
        self._finished = False
        self.interrupted = False

    def __iter__(self) -> Iterator[bytes]:
        with failures.translated(self._address):
            for line in self._lines:  # noqa: UP028 (as above)
                yield line
        self._finished = True

    def settle(self) -> None:
        """Read to the end, for nothing."""
        if not self._finished:
            self.interrupted = True
            with failures.translated(self._address):
                deque(self._lines, maxlen=0)

    @staticmethod
    def _read(cursor: psycopg.Cursor[Any], query: sql.SQL | sql.Composed) -> Iterator[bytes]:
        with cursor.copy(query) as lines:
            yield from map(bytes, lines)
