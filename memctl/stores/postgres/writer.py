"""The store that PostgresStore keeps, write side: exact copies in short transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import TypeVar

from memctl.blocks import Block
from memctl.errors import MemctlError, NoStore, UsageError
from memctl.history import Status
from memctl.model import Instant, Item, Namespace, Position, Problem, Scope
from memctl.store import Ailment, Batch, Bulk, Change, Setup
from memctl.stores.postgres import erasing, wholesale
from memctl.stores.postgres import schema as tables
from memctl.stores.postgres.changing import Changing
from memctl.stores.postgres.connect import Session
from memctl.stores.postgres.holding import Holding, Judge
from memctl.stores.postgres.layout import DEFAULT_TABLE, locate
from memctl.stores.postgres.rows import Rows
from memctl.stores.postgres.store import PostgresStore
from memctl.stores.postgres.transactions import Cursor, Transactions
from memctl.stores.postgres.trial import ServerTrial

BATCH_ROWS = 10_000
"""Nobody waits for a batch but who writes one of its items, so it can be long; it is what a kill undoes."""
_Result = TypeVar("_Result")
FIRST_EXPIRY = "0001-01-01 00:00:00+00"
"""What comes before it no instant can say."""
CURRENT_SCHEMA = "SELECT current_schema()"


class PostgresWriter(PostgresStore):
    """An open store that can be written; the contract is `memctl.store.Writable`'s.

    It is read in one snapshot on one connection, from before anything was written, and written on another.
    `setup` names the vector index that `finish` builds.
    """

    batch_rows = BATCH_ROWS
    pause = 0.0  # no reader waits for a writer, and no writer but for the same row

    overwrites = False
    unreachable = erasing.UNREACHABLE

    def __init__(
        self,
        connect: Callable[[], Session],
        transactions: Transactions,
        *,
        schema: str | None,
        table: str | None,
        setup: Setup | None = None,
    ) -> None:
        session = connect()
        try:
            layout = locate(session, schema=schema, table=table)
        except BaseException:
            session.close()
            raise
        super().__init__(session, layout)
        self._connect = connect
        self._transactions = transactions
        self._setup = setup
        self._rows = Rows(layout)
        self._judge = Judge(Holding.of_store(session, layout), ServerTrial(transactions, self._rows.names))

    def close(self) -> None:
        """Close both connections; a second call does nothing."""
        self._transactions.close()
        super().close()

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what the tables cannot hold; only what comes near a limit is tried, and rolled back."""
        return self._judge.faults(item)

    def write(self, batch: Batch) -> tuple[Position, ...]:
        """Write a batch of what the store can hold, in one transaction."""
        if self._layout.vectors is None and any(item.vectors for item in (*batch.new, *batch.changed)):
            raise MemctlError(f"{self.address} has no vector tables", code="no-vectors")
        return self._transactions.run(partial(self._write, batch))

    @property
    def loads(self) -> bool:
        """Whether no vectors of a former item can wait for a new one."""
        return self._layout.vectors is None or self._layout.cascade

    def holds(self, block: Block) -> bool:
        """Tell whether the tables can hold a block for certain."""
        return self._judge.holds(block)

    def load(self, blocks: Sequence[Block]) -> bool:
        """Insert the items of some blocks, or none of them, in one transaction."""
        return self._transactions.run(lambda cursor: self._rows.load(cursor, blocks))

    def interrupt(self) -> None:
        """Have the server break off what another thread may be doing; its transaction is rolled back there."""
        self._transactions.interrupt()

    def apply(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Carry out changes in one transaction."""
        changing = Changing(self._rows)
        return self._transactions.run(lambda cursor: changing.apply(cursor, changes))

    def remove(self, scope: Scope, rows: Callable[[], int], octets: int) -> Iterator[Bulk]:  # noqa: ARG002
        """Delete all items of a scope, a transaction a batch; nobody waits for one, however large."""
        return wholesale.remove(self, scope, rows)

    def rename(
        self,
        scope: Scope,
        new: str,
        rows: Callable[[], int],
        octets: int,  # noqa: ARG002
    ) -> Iterator[Bulk]:
        """Give a namespace and its descendants another name, likewise."""
        return wholesale.rename(self, scope, new, rows)

    def sweep(self, scope: Scope, grace: timedelta, rows: int) -> Iterator[list[Namespace]]:
        """Delete expired items batch by batch, by the server's clock as it is then."""
        after = FIRST_EXPIRY
        while self._can_hold(scope.prefix):
            query = self._queries.sweep(scope, grace, rows, after)
            found = self._transactions.run(partial(Cursor.fetch, query=query.statement, values=query.values))
            if not found:
                return
            after = found[0][4]
            yield [
                Namespace(prefix, items, vectors, octets, None) for prefix, items, vectors, octets, _ in found
            ]

    def purge(self, orphans: Sequence[Item]) -> int:
        """Delete vectors without an item in one transaction."""
        from memctl.stores.postgres.repair import purge

        return purge(self, orphans)

    def cure(self, ailment: Ailment) -> str | None:
        """Do what an ailment's remedy says."""
        from memctl.stores.postgres.repair import cure

        return cure(self, ailment)

    def record(self, scope: str | None, retain_minutes: float | None) -> None:
        """Switch history on in one transaction."""
        now = self.now()
        self._recording(
            lambda cursor, status: self._history.switch_on(cursor, status, scope, retain_minutes, now)
        )

    def stop_recording(self, *, drop: bool) -> None:
        """Switch history off in one transaction."""
        self._recording(lambda cursor, _: self._history.switch_off(cursor, drop=drop))

    def prune(self, until: Instant) -> int:
        """Delete what was recorded up to `until`, in one transaction."""
        return self._recording(
            lambda cursor, status: 0 if status is None else self._history.prune(cursor, status, until)
        )

    def unremember(self, scope: Scope) -> int:
        """Delete all that was recorded of a scope, in one transaction."""
        return self._recording(
            lambda cursor, status: 0 if status is None else self._history.forget(cursor, scope)
        )

    def _recording(self, work: Callable[[Cursor, Status | None], _Result]) -> _Result:
        """Do something about history in one transaction, knowing how it stands."""

        def run(cursor: Cursor) -> _Result:
            return work(cursor, self._history.status(lambda query, values: cursor.execute(query, *values)))

        return self._transactions.run(run)

    def install_guards(self, rules: Sequence[str]) -> None:
        """Install rules of the guard in one transaction."""
        from memctl.stores.postgres.guard import guards, install

        def work(cursor: Cursor) -> None:
            found = guards(lambda query, values: cursor.execute(query, *values), self._layout)
            install(cursor, self._layout, found, rules)

        self._transactions.run(work)

    def remove_guards(self, rules: Sequence[str]) -> None:
        """Remove rules of the guard in one transaction."""
        from memctl.stores.postgres.guard import remove

        self._transactions.run(lambda cursor: remove(cursor, self._layout, rules))

    def vacuum(self) -> int:
        """Make the room of dead rows usable again."""
        from memctl.stores.postgres.repair import vacuum

        return vacuum(self)

    def secure(self) -> None:
        """Do nothing: rows are never overwritten in place."""

    def scrub(self) -> tuple[str, ...]:
        """Return why something of what was deleted is left; nothing is done about it here."""
        return erasing.LEFT

    def finish(self) -> None:
        """Build the vector index that `setup` asks for, and record it, both or neither; once.

        From then on the store is read as it is now.
        """
        setup, self._setup = self._setup, None
        if setup is None:
            return
        # An agent that started meanwhile builds the index CONCURRENTLY, which waits for older snapshots.
        self._session.close()
        self._transactions.run(lambda cursor: tables.build_index(cursor, self._layout.schema, setup))
        self._session = self._connect()

    def _write(self, batch: Batch, cursor: Cursor) -> tuple[Position, ...]:
        rows = self._rows
        new, there = rows.insert(cursor, batch.new)
        changed, newer = rows.update(cursor, batch.changed, only_older=batch.only_older)
        if self._layout.vectors is not None:
            # Without a foreign key a new item may find vectors of a former one under its name.
            fresh, known = (new, changed) if self._layout.cascade else ([], [*new, *changed])
            stale = rows.stale(cursor, known)
            rows.delete_vectors(cursor, stale)
            rows.copy_vectors(cursor, (*fresh, *stale))
        return tuple(Position(item.prefix, item.key) for item in (*there, *newer))


def open_postgres_writer(
    conninfo: str, *, schema: str | None, table: str | None, timeout: float, setup: Setup | None = None
) -> PostgresWriter:
    """Open the store for writing, as `open_postgres` does for reading.

    With `setup` what is missing of its tables is made first, in `schema` or else in the one that the
    library would choose. Raises Refused where nothing can be written, besides what `open_postgres` raises.
    """
    connect = partial(Session, conninfo, timeout=timeout)
    transactions = Transactions(conninfo, timeout=timeout)
    try:
        if setup is not None:
            schema = _prepared(connect, transactions, schema=schema, table=table, setup=setup)
        return PostgresWriter(connect, transactions, schema=schema, table=table, setup=setup)
    except BaseException:
        transactions.close()
        raise


def _prepared(
    connect: Callable[[], Session],
    transactions: Transactions,
    *,
    schema: str | None,
    table: str | None,
    setup: Setup,
) -> str:
    """Make the tables, and return the schema they are in."""
    tables.check(setup)
    if table not in (None, DEFAULT_TABLE):
        raise UsageError(
            f"--table {table}: LangGraph's tables in PostgreSQL are always called {DEFAULT_TABLE}",
            hint="--schema keeps several stores apart",
        )
    with closing(connect()) as session:
        home = _home(session, transactions, schema)
    transactions.run(lambda cursor: tables.prepare(cursor, home, setup))
    return home


def _home(session: Session, transactions: Transactions, schema: str | None) -> str:
    """Return the schema of the store that is there, or of the one to be made."""
    try:
        return locate(session, schema=schema, table=None).schema
    except NoStore as absent:
        if schema is not None:
            if absent.code == "foreign-tables":
                raise
            return schema
    ((home,),) = transactions.run(lambda cursor: cursor.execute(CURRENT_SCHEMA))
    if home is None:
        raise UsageError(
            f"{session.address}: no schema of the search_path is there", hint="--schema makes one"
        )
    return _home(session, transactions, str(home))
