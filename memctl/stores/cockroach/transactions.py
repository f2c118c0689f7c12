"""Read-write transactions, each tried again as a whole when the server says so or the connection goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

import psycopg
from psycopg import errors as states
from psycopg import sql

from memctl.errors import Refused
from memctl.stores.cockroach.session import again, is_loss, prepare
from memctl.stores.postgres import failures
from memctl.stores.postgres.connect import connect, render
from memctl.stores.postgres.transactions import Cursor

_Result = TypeVar("_Result")

IS_READ_ONLY = "SHOW default_transaction_read_only"
BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE"


class Transactions:
    """A connection that is in a transaction only while `run` is; threads can share it, each waits its turn."""

    def __init__(self, conninfo: str, *, timeout: float) -> None:
        """Connect within `timeout` seconds. Raises Refused where nothing can be written."""
        self._conninfo, self._timeout = conninfo, timeout
        self._turn = Lock()
        self._open()
        with failures.translated(self.address):
            ((is_read_only,),) = self._connection.execute(IS_READ_ONLY).fetchall()
        if is_read_only == "on":
            self.close()
            raise Refused(f"{self.address} is read-only for this role or session", code="read-only")

    def run(self, work: Callable[[Cursor], _Result]) -> _Result:
        """Do `work` in one transaction and commit; whatever it raises has changed nothing.

        It must not matter whether an earlier attempt was committed all the same, see `run_unsure`.
        """
        return self.run_unsure(lambda cursor, _: work(cursor))

    def run_unsure(self, work: Callable[[Cursor, bool], _Result]) -> _Result:
        """Do `work` in one transaction and commit; whatever it raises has changed nothing.

        `work` is told whether an earlier attempt may have been committed all the same, its answer lost with
        the connection: it then has to take what it finds done for its own.
        """
        is_unsure = False

        def attempt() -> _Result:
            connection = self._connection
            connection.execute(BEGIN)
            result = work(Cursor(connection), is_unsure)
            connection.execute("COMMIT")
            return result

        def recover(error: psycopg.Error) -> None:
            nonlocal is_unsure
            if is_loss(error) or self._connection.closed:
                is_unsure = True
                self._connection.close()
                self._open()
            else:
                self._roll_back()

        with self._turn:
            try:
                return again(attempt, recover, waits=time.sleep)
            except states.InsufficientPrivilege as error:
                said = error.diag.message_primary
                raise Refused(
                    f"{self.address}: {said}",
                    hint="writing needs SELECT, INSERT, UPDATE and DELETE on the store's tables",
                ) from error
            except psycopg.Error as error:
                raise failures.meaning(error, self.address) from error
            finally:
                self._roll_back()

    def alone(self, query: sql.Composed) -> None:
        """Run a statement by itself: a schema change, which CockroachDB commits what was before it for."""
        with self._turn:
            try:
                Cursor(self._connection).execute(query)
            except psycopg.Error as error:
                raise failures.meaning(error, self.address) from error

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._connection.close()

    def _open(self) -> None:
        self._connection, known = connect(self._conninfo, timeout=self._timeout)
        self._connection.autocommit = True  # transactions are begun by hand
        self.address = render(known)
        with failures.translated(self.address):
            prepare(self._connection, timeout=self._timeout)

    def _roll_back(self) -> None:
        """Leave a transaction that was not committed."""
        state = self._connection.info.transaction_status
        if not self._connection.closed and state != psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):  # what matters is being told already
                self._connection.execute("ROLLBACK")
