"""The CockroachDB store, write side: explicit batches, each tried again as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial

from psycopg import sql

from memctl.compare import PARTS, differences
from memctl.errors import MemctlError, NoStore
from memctl.model import Item, Position, Problem, encode
from memctl.store import Ailment, Batch, Change, Setup
from memctl.stores.cockroach import schema as tables
from memctl.stores.cockroach.rows import ROWS_AT_ONCE, CockroachRows
from memctl.stores.cockroach.session import Session
from memctl.stores.cockroach.store import CockroachStore, find
from memctl.stores.cockroach.transactions import Transactions
from memctl.stores.postgres import decode as rows_as
from memctl.stores.postgres import guard
from memctl.stores.postgres.changing import Changing
from memctl.stores.postgres.holding import Holding, Judge
from memctl.stores.postgres.layout import DEFAULT_TABLE, Layout, locate
from memctl.stores.postgres.rows import named
from memctl.stores.postgres.transactions import Cursor
from memctl.stores.postgres.trial import ServerTrial

BATCH_ROWS = 1_000
"""A transaction that touches more conflicts more often, and costs more to do again."""

CURRENT = """
SELECT item.prefix, item.key, item.value::TEXT, octet_length(item.value::TEXT), item.created_at::VARCHAR,
       item.updated_at::VARCHAR, item.expires_at::VARCHAR, item.ttl_minutes
FROM unnest(%s::TEXT[], %s::TEXT[]) AS named(prefix, key)
JOIN {items} AS item ON item.prefix = named.prefix AND item.key = named.key
"""
PURGE = """
DELETE FROM {vectors} AS vector USING unnest(%b::text[], %b::text[]) AS named(prefix, key)
WHERE vector.prefix = named.prefix AND vector.key = named.key
  AND NOT EXISTS (SELECT 1 FROM {items} AS item WHERE item.prefix = named.prefix AND item.key = named.key)
RETURNING vector.key
"""
_NOT_VECTORS = tuple(part for part in PARTS if part != "vectors")


class CockroachWriter(CockroachStore):
    """An open store that can be written; the contract is `memctl.store.Writable`'s."""

    batch_rows = BATCH_ROWS
    pause = 0.0

    def __init__(
        self, session: Session, layout: Layout, transactions: Transactions, setup: Setup | None = None
    ) -> None:
        super().__init__(session, layout)
        self._transactions = transactions
        self._setup = setup
        self._rows = CockroachRows(layout)
        self._changing = _Changing(self._rows)
        trial = ServerTrial(transactions, {"items": self._names["items"]})
        self._judge = Judge(Holding.of_store(session, layout), trial)

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
        rows = self._rows

        def work(cursor: Cursor, is_unsure: bool) -> tuple[Position, ...]:
            new, there = rows.insert(cursor, batch.new)
            changed, newer = rows.update(cursor, batch.changed, only_older=batch.only_older)
            if self._layout.vectors is not None:
                rows.delete_vectors(cursor, [*new, *changed])
                rows.copy_vectors(cursor, [*new, *changed])
            left = [*there, *newer]
            ours = self._as_wanted(cursor, left) if is_unsure else set()
            return tuple(
                Position(item.prefix, item.key) for item in left if (item.prefix, item.key) not in ours
            )

        return self._transactions.run_unsure(work)

    def apply(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Carry out changes in one transaction."""

        def work(cursor: Cursor, is_unsure: bool) -> tuple[Change, ...]:
            left = self._changing.apply(cursor, changes)
            return self._not_done(cursor, left) if is_unsure and left else left

        return self._transactions.run_unsure(work)

    def purge(self, orphans: Sequence[Item]) -> int:
        """Delete vectors without an item in one transaction."""
        return self._transactions.run(
            lambda cursor: len(cursor.execute(self._rows.sql(PURGE), *named(orphans)))
        )

    def cure(self, ailment: Ailment) -> str | None:
        """Do what an ailment's remedy says."""
        kind, _, detail = ailment.code.partition(":")
        if kind != "unrecorded":
            return "memctl knows no repair for it"
        ledger, _, versions = detail.partition(":")
        name = sql.Identifier(self._layout.schema, ledger)
        self._transactions.alone(sql.SQL(tables.LEDGER).format(ledger=name))
        for version in versions.split(","):
            record = sql.SQL(tables.RECORD).format(ledger=name, version=sql.Literal(int(version)))
            self._transactions.alone(record)
        return None

    def vacuum(self) -> int:
        """Do nothing: what is deleted is collected by the cluster after `gc.ttlseconds`."""
        return 0

    def follow_expiry(self, places: Sequence[Position]) -> None:
        """Give the vectors of these items their items' expiry, in one transaction."""
        self._transactions.run(lambda cursor: self._rows.follow_expiry(cursor, places))

    def install_guards(self, rules: Sequence[str]) -> None:
        """Install rules of the guard in one transaction."""
        found = self.guards()
        self._transactions.run(lambda cursor: guard.install(cursor, self._layout, found, rules))

    def remove_guards(self, rules: Sequence[str]) -> None:
        """Remove rules of the guard in one transaction."""
        self._transactions.run(lambda cursor: guard.remove(cursor, self._layout, rules))

    def finish(self) -> None:
        """Build the vector index that `setup` asks for, once."""
        setup, self._setup = self._setup, None
        if setup is None:
            return
        statement = tables.index(self._layout.schema, self._layout.items.name, setup)
        if statement is not None:
            self._transactions.alone(statement)

    def _not_done(self, cursor: Cursor, left: Iterable[Change]) -> tuple[Change, ...]:
        """Leave out changes that an earlier attempt has carried out, whose answer was lost."""
        changes = list(left)
        wanted = [change.becomes for change in changes if change.becomes is not None]
        done = self._as_wanted(cursor, wanted)
        gone = [change.was for change in changes if change.becomes is None and change.was is not None]
        there = {(item.prefix, item.key) for item in self._current(cursor, gone)}
        return tuple(
            change
            for change in changes
            if (change.becomes is not None and (change.becomes.prefix, change.becomes.key) not in done)
            or (
                change.becomes is None
                and change.was is not None
                and (change.was.prefix, change.was.key) in there
            )
        )

    def _as_wanted(self, cursor: Cursor, items: Sequence[Item]) -> set[tuple[str, str]]:
        """Return the names of those items that are in the store exactly so."""
        now = {(item.prefix, item.key): item for item in self._current(cursor, items)}
        return {
            name
            for item in items
            if (name := (item.prefix, item.key)) in now and not differences(item, now[name], _NOT_VECTORS)
        }

    def _current(self, cursor: Cursor, items: Sequence[Item]) -> list[Item]:
        statement = sql.SQL(CURRENT).format(**self._names)
        found: list[Item] = []
        for start in range(0, len(items), ROWS_AT_ONCE):
            for row in cursor.execute(statement, *named(items[start : start + ROWS_AT_ONCE])):
                prefix, key, value, *rest = row
                cells: rows_as.ItemRow = (encode(prefix), encode(key), encode(value), *rest)
                found.append(rows_as.item(cells, cells[2]))
        return found


class _Changing(Changing):
    """`Changing`, after which the vectors have their items' expiry."""

    def _set(
        self, cursor: Cursor, names: tuple[str, ...], pairs: Sequence[tuple[Item, Item]]
    ) -> set[tuple[str, str]]:
        done = super()._set(cursor, names, pairs)
        rows = self._rows
        if isinstance(rows, CockroachRows) and {"expires_at", "ttl_minutes"} & set(names):
            rows.follow_expiry(cursor, [was for was, _ in pairs if (was.prefix, was.key) in done])
        return done


def open_cockroach_writer(
    conninfo: str, *, schema: str | None, table: str | None, timeout: float, setup: Setup | None = None
) -> CockroachWriter:
    """Open the store for writing, as `open_cockroach` does for reading; with `setup` its tables are made first.

    Raises Refused where nothing can be written, besides what `open_cockroach` raises.
    """
    connect = partial(Session, conninfo, timeout=timeout)
    transactions = Transactions(conninfo, timeout=timeout)
    try:
        if setup is not None:
            tables.check(setup)
            schema = _made(connect, transactions, schema=schema, table=table or DEFAULT_TABLE, setup=setup)
        session = connect()
        try:
            return CockroachWriter(session, find(session, schema=schema, table=table), transactions, setup)
        except BaseException:
            session.close()
            raise
    except BaseException:
        transactions.close()
        raise


def _made(
    connect: Callable[[], Session],
    transactions: Transactions,
    *,
    schema: str | None,
    table: str,
    setup: Setup,
) -> str:
    """Make the tables where there are none; return the schema they are in."""
    with closing(connect()) as session:
        try:
            home = locate(session, schema=schema, table=table).schema
        except NoStore as absent:
            if absent.code == "foreign-tables":
                raise
            home = schema or "public"
    for statement in tables.statements(home, table, setup):
        transactions.alone(statement)
    return home
