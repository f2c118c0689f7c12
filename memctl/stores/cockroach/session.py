"""One read-only transaction at one timestamp, whose statements can each be asked again.

CockroachDB keeps the past of every row for hours: all pages of a command are read as of one timestamp, so that
they are never in an agent's way, and one that fails is read again, on another connection if need be. A server
that knows no such timestamps gives a snapshot, and it is told when that had to be taken anew.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import psycopg
from psycopg import errors as states
from psycopg import sql
from psycopg.types.string import ByteaBinaryLoader

from memctl import instants
from memctl.errors import UsageError
from memctl.model import Instant, is_clean
from memctl.stores.postgres import failures
from memctl.stores.postgres.connect import Query, Row, connect, is_cockroach, render, with_names

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")

ATTEMPTS = 6
"""How often what may be asked again is asked."""
FIRST_WAIT = 0.05
"""Seconds before the second attempt; doubled before each further one."""

VERSION = "SELECT version()"
SETTINGS = (
    "SET TIME ZONE 'UTC'",
    "SET datestyle = 'ISO, MDY'",
    "SET default_transaction_isolation = 'serializable'",  # which READ COMMITTED has no timestamp to read as of
    "SET statement_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
)
OF_COCKROACH = ("SET transaction_timeout = 0", "SET sql_safe_updates = false")
"""What PostgreSQL 16 does not know; the latter lets a vector index be made on a table that has rows."""
LOCK_TIMEOUT = "SET lock_timeout = {milliseconds}"
NOW = "SELECT now()"
WHEN = "SELECT now(), cluster_logical_timestamp()::VARCHAR"
PRESENT = "SELECT cluster_logical_timestamp()::VARCHAR"
FOLLOWER = "SELECT follower_read_timestamp()::VARCHAR"
BEGIN_AS_OF = "BEGIN TRANSACTION READ ONLY, AS OF SYSTEM TIME {timestamp}"
BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
FOLLOWERS = "follower"
"""The `as_of` that asks for whatever replica is near, some five seconds old."""


def again(
    work: Callable[[], _Result], recover: Callable[[psycopg.Error], None], *, waits: Callable[[float], None]
) -> _Result:
    """Do `work` until the server does not ask for another try, `ATTEMPTS` times at most.

    `recover` is called before each further attempt, and raises where there is to be none.
    """
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except psycopg.Error as error:
            if attempt == ATTEMPTS - 1 or not is_passing(error):
                raise
            waits(FIRST_WAIT * 2**attempt)
            recover(error)
    raise AssertionError("unreachable")


def is_passing(error: psycopg.Error) -> bool:
    """Tell whether the same transaction may well succeed the next time: it conflicted, or the connection went."""
    if isinstance(error, states.SerializationFailure | states.DeadlockDetected):
        return True
    return isinstance(error, psycopg.OperationalError) and is_loss(error)


def is_loss(error: psycopg.Error) -> bool:
    """Tell whether the connection is gone, so that nobody knows whether a commit took place."""
    state = error.sqlstate
    return isinstance(error, psycopg.OperationalError) and (
        state is None or state[:2] == "08" or state[:4] == "57P0" or state == "40003"
    )


class Session:
    """A connection and its transaction. `address` is without secrets, `now` the server's time at the start."""

    encoding = "UTF8"
    now: Instant
    age = 0.0
    """How many seconds ago that was which is read."""

    def __init__(self, conninfo: str, *, timeout: float, as_of: str | None = None) -> None:
        """Connect within `timeout` seconds, and never wait longer than that for a lock.

        `as_of` is None or `now` for the present, `FOLLOWERS`, or a time in CockroachDB's terms: `-10s`, a
        timestamp.
        Raises UsageError for a past that the server does not keep.
        """
        self._conninfo, self._timeout = conninfo, timeout
        self.when_moved: Callable[[], None] = lambda: None
        """Called when a snapshot had to be taken anew: never where all is read as of one timestamp."""
        self.as_of: str | None = None
        """The timestamp that all is read as of, None where the server knows no such thing."""
        self._open()
        try:
            with failures.translated(self.address):
                as_of = None if as_of == "now" else as_of
                present = self._choose_time(as_of)
                self._begin()
                if as_of is not None and self.is_cockroach:
                    self._measure_age(present)
        except BaseException:
            self.close()
            raise

    def fetch(
        self, query: Query | str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[Row]:
        """Return all rows of a small result, text as `str`."""
        return self._read(lambda: self._execute(self._connection.cursor(), query, parameters))

    def fetch_raw(
        self, query: Query | str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[Any]:
        """Return all rows of a page: text as `bytes`, varchar as `str`."""

        def read() -> list[Any]:
            cursor = self._connection.cursor(binary=True)
            cursor.adapters.register_loader("text", ByteaBinaryLoader)
            return self._execute(cursor, query, parameters)

        return self._read(read)

    def address_in(self, schema: str) -> str:
        """Return the address of a schema, without secrets."""
        return render(self._known | ({} if schema == "public" else {"schema": schema})).replace(
            "postgresql://", "cockroachdb://", 1
        )

    def can_hold(self, text: str) -> bool:
        """Tell whether the database can hold `text` at all; what it cannot hold, it need not be asked for."""
        return "\0" not in text and is_clean(text)

    def holdable(self, text: str) -> str:
        """Return the longest beginning of `text` that the database can hold."""
        if self.can_hold(text):
            return text
        return text[: next(end for end in range(len(text)) if not self.can_hold(text[: end + 1]))]

    def close(self) -> None:
        """End the transaction and close the connection."""
        self._connection.close()

    def _open(self) -> None:
        self._connection, self._known = connect(self._conninfo, timeout=self._timeout)
        self._connection.autocommit = True  # transactions are begun by hand
        self.address = self.address_in("public")
        with failures.translated(self.address):
            ((version,),) = self._connection.execute(VERSION).fetchall()
            self.version = str(version)
            self.is_cockroach = is_cockroach(self._connection)
            prepare(self._connection, timeout=self._timeout)

    def _choose_time(self, as_of: str | None) -> datetime:
        """Choose the timestamp to read as of, and return the server's time."""
        ((moment,),) = self._connection.execute(NOW).fetchall()
        self.now = instants.from_datetime(moment)
        if self.is_cockroach:
            if as_of is None or as_of == FOLLOWERS:
                ((found,),) = self._connection.execute(PRESENT if as_of is None else FOLLOWER).fetchall()
                as_of = str(found)
            self.as_of = as_of
        elif as_of not in (None, FOLLOWERS):
            raise UsageError(f"--as-of {as_of}: only CockroachDB can be asked for the past")
        return cast("datetime", moment)

    def _measure_age(self, present: datetime) -> None:
        """Ask the transaction for the time, which is that of what it reads."""
        ((moment, timestamp),) = self._connection.execute(WHEN).fetchall()
        self.as_of = str(timestamp)  # whatever was asked for, `-10s` also, is this moment from now on
        self.age = max(0.0, (present - moment).total_seconds())

    def _begin(self) -> None:
        if self.as_of is None:
            self._connection.execute(BEGIN)
        else:
            self._connection.execute(sql.SQL(BEGIN_AS_OF).format(timestamp=sql.Literal(self.as_of)))

    def _read(self, read: Callable[[], list[Any]]) -> list[Any]:
        with failures.translated(self.address):
            return again(read, self._recover, waits=time.sleep)

    def _recover(self, error: psycopg.Error) -> None:
        """Begin the transaction anew, as of the same time where there is one."""
        _LOG.debug("reading again after: %s", error.sqlstate or "a lost connection")
        if is_loss(error) or self._connection.closed:
            self._connection.close()
            self._open()
        else:
            self._connection.execute("ROLLBACK")
        if self.as_of is None:
            self.when_moved()
        self._begin()

    def _execute(
        self,
        cursor: psycopg.Cursor[Row],
        query: Query | str,
        parameters: Sequence[object] | Mapping[str, object],
    ) -> list[Row]:
        composed = sql.SQL(query) if isinstance(query, str) else with_names(query, parameters)
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s", composed.as_string(self._connection))
        return cursor.execute(composed, parameters or None).fetchall()


def prepare(connection: psycopg.Connection[Row], *, timeout: float) -> None:
    """Make a new connection spell times as they are read, and wait for locks no longer than `timeout` seconds."""
    for setting in SETTINGS + (OF_COCKROACH if is_cockroach(connection) else ()):
        connection.execute(setting)
    milliseconds = sql.Literal(max(1, math.ceil(timeout * 1000)))
    connection.execute(sql.SQL(LOCK_TIMEOUT).format(milliseconds=milliseconds))
