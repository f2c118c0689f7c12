"""A connection that logs its statements, never the values that are bound to them.

SQLite's own trace callback would show the values.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import Any

from memctl.stores.sqlite.looking import Connection

_LOG = logging.getLogger(__name__)


def is_wanted() -> bool:
    """Tell whether anybody listens."""
    return _LOG.isEnabledFor(logging.DEBUG)


class Logged(Connection):
    """Logs each statement before it is run."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Log and execute a statement."""
        _LOG.debug("%s", sql)
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Log a statement once and execute it for all of `parameters`."""
        _LOG.debug("%s", sql)
        return super().executemany(sql, parameters)
