"""Short read-write transactions on a connection of their own.

Settings are made inside each one and end with it, so that pgbouncer in transaction mode can hand the session
on. `memctl.exact` tells the guard's triggers that what is written is exactly what is meant. The `search_path`
is left as it is: every name that memctl writes is qualified, and a trigger on the store's tables is to find what
it finds when an agent writes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Protocol, TypeVar

import psycopg
from psycopg import errors as states
from psycopg import sql

from memctl.errors import Refused
from memctl.stores.postgres import failures
from memctl.stores.postgres.connect import (
    Parameters,
    Query,
    Row,
    carry_any_text,
    connect,
    refuse_cockroach,
    render,
    with_names,
)

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")

BEGIN = """
SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true),
       set_config('client_encoding', %s, true), set_config('lock_timeout', %s, true),
       set_config('statement_timeout', '0', true), set_config('memctl.exact', 'on', true),
       set_config('idle_in_transaction_session_timeout', '0', true)
"""
NO_TRANSACTION_TIMEOUT = "SELECT set_config('transaction_timeout', '0', true)"
"""PostgreSQL 17 and later."""
IS_READ_ONLY = "SELECT current_setting('transaction_read_only')::bool, pg_is_in_recovery()"

ATTEMPTS = 3
"""How often a transaction is tried that the server ends for a deadlock with an agent's."""
_GRANTS_HINT = (
    "writing needs USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on the store's tables"
)


class Cursor:
    """What runs inside one transaction: statements of qualified names and bound values."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def execute(self, query: Query | str, *values: object) -> list[Row]:
        """Run one statement; return its rows, if it gives any."""
        cursor = self._connection.execute(self._composed(query, values), values or None)
        return cursor.fetchall() if cursor.description else []

    def fetch(self, query: Query, values: Mapping[str, object]) -> list[Row]:
        """Run one statement of named values; return its rows."""
        return self._connection.execute(self._composed(query, values), values).fetchall()

    def execute_raw(self, query: Query, *values: object) -> list[Row]:
        """Run one statement; return its rows as the bytes that a binary COPY would give."""
        with self._connection.cursor(binary=True) as cursor:
            for name in ("text", "timestamptz"):
                cursor.adapters.register_loader(name, psycopg.types.string.ByteaBinaryLoader)
            return cursor.execute(self._composed(query, values), values).fetchall()

    def copy(self, query: Query) -> psycopg.Copy:
        """Begin a COPY … FROM STDIN: a context, into which blocks of bytes are written."""
        return self._connection.cursor().copy(self._composed(query))  # type: ignore[return-value]

    def savepoint(self) -> psycopg.Transaction:
        """Begin a part that an error inside undoes, and no more than that."""
        return self._connection.transaction()  # type: ignore[return-value]

    def _composed(self, query: Query | str, values: Parameters = ()) -> Query:
        composed = sql.SQL(query) if isinstance(query, str) else with_names(query, values)
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s", composed.as_string(self._connection))
        return composed


class Runs(Protocol):
    """Whatever does work in a transaction of its own, and again where the server asks for that."""

    def run(self, work: Callable[[Cursor], _Result]) -> _Result:
        """Do `work` in one transaction and commit; whatever it raises has changed nothing."""
        ...


class Transactions:
    """One connection that is in a transaction only while `run` is; threads can share it, each waits its turn."""

    def __init__(self, conninfo: str, *, timeout: float) -> None:
        """Connect within `timeout` seconds, and never wait longer than that for a lock.

        Raises Refused where nothing can be written.
        """
        self._connection, known = connect(conninfo, timeout=timeout)
        self.address = render(known)
        refuse_cockroach(self._connection, self.address)
        self._turn = Lock()
        self._connection.autocommit = True  # transactions are begun by `run`
        self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self._timeout = str(max(1, math.ceil(timeout * 1000)))
        self.encoding = self._connection.info.parameter_status("server_encoding") or "UTF8"
        self._sent_as = "SQL_ASCII" if self.encoding == "SQL_ASCII" else "UTF8"
        if self._sent_as == "SQL_ASCII":
            carry_any_text(self._connection)
        try:
            self.run(self._refuse_unless_writable)
        except BaseException:
            self.close()
            raise

    def run(self, work: Callable[[Cursor], _Result]) -> _Result:
        """Do `work` in one transaction and commit; whatever it raises has changed nothing.

        What the server ended for a deadlock is done again, so `work` must not count on being called once.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._attempt(work)
            except states.DeadlockDetected as error:
                if attempt == ATTEMPTS:
                    raise failures.meaning(error, self.address) from error
            except states.InsufficientPrivilege as error:
                said = error.diag.message_primary
                raise Refused(f"{self.address}: {said}", hint=_GRANTS_HINT) from error
            except psycopg.Error as error:
                raise failures.meaning(error, self.address) from error
        raise AssertionError("unreachable")

    def alone(self, query: Query) -> None:
        """Run one statement that takes no transaction around it, such as VACUUM."""
        with self._turn, failures.translated(self.address):
            try:
                self._connection.execute(query)
            except states.InsufficientPrivilege as error:
                said = error.diag.message_primary
                raise Refused(f"{self.address}: {said}", hint="this takes the owner of the tables") from error

    def interrupt(self) -> None:
        """Ask the server to break off the statement under way, if there is one. Another thread may call this."""
        with suppress(psycopg.Error):  # one that cannot be reached breaks off by itself
            self._connection.cancel()

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._connection.close()

    def _attempt(self, work: Callable[[Cursor], _Result]) -> _Result:
        with self._turn, self._connection.transaction():
            self._connection.execute(BEGIN, [self._sent_as, self._timeout])
            if self._connection.info.server_version >= 170000:
                self._connection.execute(NO_TRANSACTION_TIMEOUT)
            return work(Cursor(self._connection))

    def _refuse_unless_writable(self, cursor: Cursor) -> None:
        ((is_read_only, is_standby),) = cursor.execute(IS_READ_ONLY)
        if is_read_only:
            what = "a standby, which takes no writes" if is_standby else "read-only for this role or session"
            raise Refused(f"{self.address} is {what}", code="read-only")
