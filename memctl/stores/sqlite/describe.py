"""What a SQLite file says about itself: its schema, migration ledgers, pages and journal.

Nothing here reads all rows of a large file: schema and sizes come from the header and `sqlite_master`, the
dims from a sample at both ends of the table, and rows are only counted where the file is small.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memctl.store import Description, Index, Ledger, Table, VectorSetup
from memctl.stores.sqlite.connect import is_wal
from memctl.stores.sqlite.schema import MIGRATIONS, VECTOR_MIGRATIONS

if TYPE_CHECKING:
    from memctl.stores.sqlite.store import SqliteStore

COUNTED_BELOW = 64 * 1024 * 1024
"""Octets of a file up to which its rows are counted, which reads one index of each table."""
SAMPLED_ROWS = 1_000
"""Vectors looked at from each end of their table; only their lengths are read."""

_CHECKPOINTER = frozenset({"checkpoints", "writes"})

_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
_COLUMNS = "SELECT name, type FROM pragma_table_info(?) ORDER BY cid"
_PRIMARY = "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk"
_FOREIGN = "SELECT count(*) FROM pragma_foreign_key_list(?)"
_ESTIMATE = "SELECT max(CAST(stat AS INTEGER)) FROM sqlite_stat1 WHERE tbl = ?"
_WIDTHS = """SELECT DISTINCT length(embedding) / 4 FROM (
SELECT embedding FROM (SELECT rowid, embedding FROM "{table}" ORDER BY rowid LIMIT {rows})
UNION ALL
SELECT embedding FROM (SELECT rowid, embedding FROM "{table}" ORDER BY rowid DESC LIMIT {rows})
) WHERE embedding IS NOT NULL AND length(embedding) % 4 = 0 ORDER BY 1"""


def describe(store: SqliteStore) -> Description:
    """Describe the file; called inside a read transaction of the store."""
    return _Reader(store).description()


class _Reader:
    """One look at a file. Its connection returns text as bytes."""

    def __init__(self, store: SqliteStore) -> None:
        self._path = store.path
        self._connection: sqlite3.Connection = store._connection
        self._items = store.table
        self._vectors = f"{store.table}_vectors" if store.has_vectors else None
        self._objects = [tuple(map(_text, row)) for row in self._connection.execute(_OBJECTS)]
        self._tables = {name for kind, name, _, _ in self._objects if kind == "table"}
        self._octets = self._pragma("page_count") * self._pragma("page_size")

    def description(self) -> Description:
        """Put everything together."""
        wal = self._path.with_name(self._path.name + "-wal")
        wal_octets = wal.stat().st_size if wal.exists() else 0
        own = [self._items, *([self._vectors] if self._vectors else [])]
        return Description(
            backend="SQLite",
            version=sqlite3.sqlite_version,
            schema=None,
            tables=tuple(map(self._table, own)),
            ledgers=tuple(self._ledgers()),
            indexes=tuple(index for table in own for index in self._indexes(table)),
            vectors=self._vector_setup(),
            octets=self._octets + wal_octets,
            facts=self._facts(wal_octets),
        )

    def _facts(self, wal_octets: int) -> dict[str, Any]:
        page = self._pragma("page_size")
        facts: dict[str, Any] = {
            "journal_mode": "wal" if is_wal(self._path) else "delete",
            "encoding": _text(self._pragma("encoding")),
            "page_size": page,
            "free_bytes": self._pragma("freelist_count") * page,
        }
        if wal_octets:
            facts["wal_bytes"] = wal_octets
        if self._vectors:
            declared = self._connection.execute(_FOREIGN, (self._vectors,)).fetchone()[0]
            facts["foreign_key"] = "declared, but LangGraph never switches it on" if declared else "missing"
        if beside := sorted(self._tables & _CHECKPOINTER):
            facts["checkpointer_tables"] = beside
        known = {self._items, self._vectors, *_CHECKPOINTER, self._ledger, self._vector_ledger}
        if other := sorted(name for name in self._tables - known if not name.startswith("sqlite_")):
            facts["other_tables"] = other
        return facts

    @property
    def _ledger(self) -> str:
        return f"{self._items}_migrations"

    @property
    def _vector_ledger(self) -> str:
        return "vector_migrations" if self._items == "store" else f"{self._items}_vector_migrations"

    def _table(self, name: str) -> Table:
        quoted = _quoted(name)
        columns = {_text(column): _text(declared) for column, declared in self._rows(_COLUMNS, name)}
        rows = estimate = None
        if self._octets <= COUNTED_BELOW:
            rows = self._connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0]
        elif "sqlite_stat1" in self._tables:
            estimate = self._connection.execute(_ESTIMATE, (name,)).fetchone()[0]
        return Table(name, columns, rows=rows, estimate=estimate)

    def _indexes(self, table: str) -> Iterator[Index]:
        key = ", ".join(_text(column) for (column,) in self._rows(_PRIMARY, table))
        for kind, name, owner, statement in self._objects:
            if kind == "index" and owner == table:
                yield Index(name, table, statement or f"PRIMARY KEY ({key})")

    def _ledgers(self) -> Iterator[Ledger]:
        """What each migration left behind, in the order of `schema.MIGRATIONS`, beside what is recorded."""
        columns = {_text(column) for column, _ in self._rows(_COLUMNS, self._items)}
        indexes = {name for kind, name, owner, _ in self._objects if kind == "index" and owner == self._items}
        effects = (
            True,
            f"{self._items}_prefix_idx" in indexes,
            "expires_at" in columns,
            "ttl_minutes" in columns,
            f"idx_{self._items}_expires_at" in indexes,
        )
        yield self._compare(self._ledger, range(len(MIGRATIONS)), effects)
        if self._vectors or self._vector_ledger in self._tables:
            yield self._compare(
                self._vector_ledger, range(len(VECTOR_MIGRATIONS)), (self._vectors is not None,)
            )

    def _compare(self, table: str, known: range, effects: tuple[bool, ...]) -> Ledger:
        recorded: tuple[int, ...] = ()
        if "v" in [_text(column) for column, _ in self._rows(_COLUMNS, table)]:
            rows = self._connection.execute(f'SELECT v FROM "{_quoted(table)}" ORDER BY v')
            recorded = tuple(version for (version,) in rows)
        applied = tuple(version for version, there in zip(known, effects, strict=True) if there)
        return Ledger(table, recorded, tuple(known), applied)

    def _vector_setup(self) -> VectorSetup | None:
        if not self._vectors:
            return None
        declared = {_text(column): _text(kind) for column, kind in self._rows(_COLUMNS, self._vectors)}
        sql = _WIDTHS.format(table=_quoted(self._vectors), rows=SAMPLED_ROWS)
        widths = tuple(width for (width,) in self._connection.execute(sql))
        return VectorSetup(f"{declared.get('embedding', '?')} of float32", widths)

    def _rows(self, sql: str, table: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, (table,)).fetchall()

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]


def _text(cell: Any) -> Any:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell


def _quoted(name: str) -> str:
    return name.replace('"', '""')
