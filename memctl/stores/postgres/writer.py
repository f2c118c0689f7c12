"""The store that PostgresStore keeps, write side: exact copies in short transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TypeVar

from psycopg import errors as states
from psycopg import sql

from memctl.errors import MemctlError, NoStore, UsageError
from memctl.model import Item, Position, Problem, decode, encode
from memctl.store import Batch, Capability, Setup
from memctl.stores.postgres import schema as tables
from memctl.stores.postgres.connect import Query, Session
from memctl.stores.postgres.encode import (
    BINARY_END,
    BINARY_HEAD,
    VectorCells,
    binary_row,
    columns,
    line,
    vector_cells,
)
from memctl.stores.postgres.holding import Holding, Judge
from memctl.stores.postgres.layout import DEFAULT_TABLE, locate
from memctl.stores.postgres.store import PostgresStore
from memctl.stores.postgres.transactions import Cursor, Transactions
from memctl.stores.postgres.trial import ServerTrial

BATCH_ROWS = 10_000
"""Nobody waits for a batch but who writes one of its items, so it can be long; it is what a kill undoes."""
BLOCK_OCTETS = 256 * 1024
"""What is handed to COPY at once."""
UPDATED_OCTETS = 4 * 1024 * 1024
COMPARED_ITEMS = 200
"""Items whose vectors are fetched at once, to see what has changed."""

COPY_ITEMS = "COPY {items} ({columns}) FROM STDIN"
COPY_VECTORS = "COPY {vectors} ({columns}) FROM STDIN (FORMAT BINARY)"
NAMED = "unnest(%b::text[], %b::text[]) AS named(prefix, key)"
PRESENT = (
    "SELECT item.prefix, item.key FROM "
    + NAMED
    + " JOIN {items} AS item ON item.prefix = named.prefix AND item.key = named.key"
)
UPDATE = """
UPDATE {items} AS item
SET value = new.value::jsonb, created_at = new.created_at::timestamptz,
    updated_at = new.updated_at::timestamptz {expiry}
FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::int4[])
     AS new(prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
WHERE item.prefix = new.prefix AND item.key = new.key {condition}
RETURNING item.prefix, item.key
"""
EXPIRY = ", expires_at = new.expires_at::timestamptz, ttl_minutes = new.ttl_minutes"
OLDER = "AND coalesce(item.updated_at < new.updated_at::timestamptz, TRUE)"
VECTORS = (
    "SELECT vector.prefix, vector.key, field_name, embedding, {times} FROM "
    + NAMED
    + " JOIN {vectors} AS vector ON vector.prefix = named.prefix AND vector.key = named.key"
)
DELETE_VECTORS = (
    "DELETE FROM {vectors} AS vector USING "
    + NAMED
    + " WHERE vector.prefix = named.prefix AND vector.key = named.key"
)
CURRENT_SCHEMA = "SELECT current_schema()"

_Thing = TypeVar("_Thing")
_ROW_OCTETS = 200
_ITEM_COLUMNS = ("prefix", "key", "value", "created_at", "updated_at")
_EXPIRY_COLUMNS = ("expires_at", "ttl_minutes")
_VECTOR_COLUMNS = ("prefix", "key", "field_name", "embedding")
_TIME_COLUMNS = ("created_at", "updated_at")


class PostgresWriter(PostgresStore):
    """An open store that can be written; the contract is `memctl.store.Writable`'s.

    It is read in one snapshot on one connection, from before anything was written, and written on another.
    `setup` names the vector index that `finish` builds.
    """

    batch_rows = BATCH_ROWS
    pause = 0.0  # no reader waits for a writer, and no writer but for the same row

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
        self._has_expiry = Capability.EXPIRY in self.capabilities
        self._has_times = Capability.VECTOR_TIMES in self.capabilities
        self._half = layout.embedding is not None and layout.embedding.type == "halfvec"
        self._names: dict[str, sql.Composable] = {
            "items": sql.Identifier(layout.schema, layout.items.name),
            "vectors": sql.Identifier(layout.schema, layout.vectors.name if layout.vectors else ""),
        }
        self._judge = Judge(Holding.of_store(session, layout), ServerTrial(transactions, self._names))

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
        new, there = self._insert(cursor, batch.new)
        changed, newer = self._update(cursor, batch.changed, only_older=batch.only_older)
        if self._layout.vectors is not None:
            # Without a foreign key a new item may find vectors of a former one under its name.
            fresh, known = (new, changed) if self._layout.cascade else ([], [*new, *changed])
            stale = self._stale(cursor, known)
            self._delete_vectors(cursor, stale)
            self._copy_vectors(cursor, (*fresh, *stale))
        return tuple(Position(item.prefix, item.key) for item in (*there, *newer))

    def _insert(self, cursor: Cursor, items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """Insert items; return those that were, and those that had come from elsewhere meanwhile."""
        absent, there = list(items), []
        while absent:
            try:
                with cursor.savepoint():
                    self._copy_items(cursor, absent)
                break
            except states.UniqueViolation:
                present = set(cursor.execute(self._sql(PRESENT), *_named(absent)))
                if not present:  # a constraint of somebody else's
                    raise
                there += [item for item in absent if (item.prefix, item.key) in present]
                absent = [item for item in absent if (item.prefix, item.key) not in present]
        return absent, there

    def _copy_items(self, cursor: Cursor, items: Iterable[Item]) -> None:
        names = _ITEM_COLUMNS + (_EXPIRY_COLUMNS if self._has_expiry else ())
        with cursor.copy(self._sql(COPY_ITEMS, columns=_listed(names))) as copy:
            for block in _blocks(line(item, expiry=self._has_expiry) for item in items):
                copy.write(block)

    def _update(
        self, cursor: Cursor, items: Sequence[Item], *, only_older: bool
    ) -> tuple[list[Item], list[Item]]:
        """Update items; return those that were, and those that have become newer, or gone, meanwhile."""
        statement = self._sql(
            UPDATE,
            expiry=sql.SQL(EXPIRY if self._has_expiry else ""),
            condition=sql.SQL(OLDER if only_older else ""),
        )
        updated: set[tuple[str, str]] = set()
        for part in _parts(items, _octets, UPDATED_OCTETS):
            rows = map(columns, part)
            texts = ((*row[:2], decode(row.value), *row[3:]) for row in rows)
            updated.update(map(tuple, cursor.execute(statement, *map(list, zip(*texts, strict=True)))))
        done = [item for item in items if (item.prefix, item.key) in updated]
        return done, [item for item in items if (item.prefix, item.key) not in updated]

    def _stale(self, cursor: Cursor, items: Sequence[Item]) -> list[Item]:
        """Return those items whose vectors are not exactly what they are to be."""
        times = _TIME_COLUMNS if self._has_times else ()
        query = self._sql(VECTORS, times=_listed(times) if times else sql.SQL("NULL, NULL"))
        stale: list[Item] = []
        for start in range(0, len(items), COMPARED_ITEMS):
            part = items[start : start + COMPARED_ITEMS]
            there: defaultdict[tuple[bytes, bytes], set[VectorCells]] = defaultdict(set)
            for row in cursor.execute_raw(query, *_named(part)):
                there[row[0], row[1]].add(row)
            stale += [
                item
                for item in part
                if there.get((encode(item.prefix), encode(item.key)), set()) != set(self._cells(item))
            ]
        return stale

    def _delete_vectors(self, cursor: Cursor, items: Sequence[Item]) -> None:
        if items:
            cursor.execute(self._sql(DELETE_VECTORS), *_named(items))

    def _copy_vectors(self, cursor: Cursor, items: Sequence[Item]) -> None:
        if not any(item.vectors for item in items):
            return
        names = _VECTOR_COLUMNS + (_TIME_COLUMNS if self._has_times else ())
        rows = (binary_row(cells[: len(names)]) for item in items for cells in self._cells(item))
        with cursor.copy(self._sql(COPY_VECTORS, columns=_listed(names))) as copy:
            copy.write(BINARY_HEAD)
            for block in _blocks(rows):
                copy.write(block)
            copy.write(BINARY_END)

    def _cells(self, item: Item) -> Iterator[VectorCells]:
        for vector in item.vectors:
            cells = vector_cells(item, vector, half=self._half)
            yield cells if self._has_times else (*cells[:4], None, None)

    def _sql(self, template: str, **parts: sql.Composable) -> Query:
        return sql.SQL(template).format(**self._names | parts)


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


def _octets(item: Item) -> int:
    return len(item.value or b"") + len(item.prefix) + len(item.key) + _ROW_OCTETS


def _named(items: Iterable[Item]) -> tuple[list[str], list[str]]:
    prefixes, keys = [], []
    for item in items:
        prefixes.append(item.prefix)
        keys.append(item.key)
    return prefixes, keys


def _listed(names: Iterable[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _blocks(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Put rows together, as much as is worth a call."""
    for part in _parts(rows, len, BLOCK_OCTETS):
        yield b"".join(part)


def _parts(things: Iterable[_Thing], size: Callable[[_Thing], int], octets: int) -> Iterator[list[_Thing]]:
    """Cut a stream into lists of `octets` and a bit."""
    part: list[_Thing] = []
    held = 0
    for thing in things:
        part.append(thing)
        held += size(thing)
        if held >= octets:
            yield part
            part, held = [], 0
    if part:
        yield part
