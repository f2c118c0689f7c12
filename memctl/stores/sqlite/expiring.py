"""Finding what has expired in a SQLite store: by instants, through the index on the spellings.

The index `idx_store_expires_at` of `langgraph-checkpoint-sqlite` 3.1.2 sorts text. The spellings of its own sort
as their instants do, to the second, so that all that has come lies before one bound; what is spelled otherwise
can stand anywhere, and is told by its form without a look at its row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from memctl.model import EVERYTHING, Detail, Instant, Item, Scope, Vector, order_of
from memctl.sorting import sort
from memctl.stores.sqlite.connect import translated
from memctl.stores.sqlite.decode import items_of, owner_of, vector_of
from memctl.stores.sqlite.ranges import Bound

if TYPE_CHECKING:
    from memctl.stores.sqlite.store import SqliteStore

HOLD = 0.02
"""Seconds after which a read transaction in rollback-journal mode is brought to its end."""
_ROWS = 500
_ENTRIES = 200
"""Index entries after which it is time to look at the clock."""
_VECTOR_OCTETS = 500
"""What a vector takes beside its embedding, roughly."""
_INDEX = "idx_store_expires_at"

_IS_OWN = """(typeof(expires_at) = 'text'
AND expires_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*'
AND (length(expires_at) = 19 OR (expires_at GLOB '*+00:00' AND (length(expires_at) = 25
OR substr(expires_at, 20, 1) = '.'))))"""
_ENTRIES_FROM = """SELECT rowid, expires_at, typeof(expires_at) = 'blob', NOT (expires_at > ? AND {is_own})
FROM "{table}" INDEXED BY {index} WHERE expires_at IS NOT NULL AND {where} ORDER BY expires_at, rowid"""
_ITEMS = """SELECT prefix, key, NULL, {size}, created_at, updated_at, {expires_at}, {ttl_minutes}, {blobs}
FROM "{table}" WHERE rowid IN ({rowids})"""
_VECTORS = """SELECT v.prefix, v.key, v.field_name, {embedding}, {octets}, v.created_at, v.updated_at, {vector_blobs}
FROM "{table}" AS s CROSS JOIN "{table}_vectors" AS v ON v.prefix = s.prefix AND v.key = s.key
WHERE s.rowid IN ({rowids}) ORDER BY v.prefix, v.key, v.field_name"""

_Row = tuple[Any, ...]


def expiring(store: SqliteStore, scope: Scope, until: Instant, detail: Detail) -> Iterator[Item]:
    """Yield the items in `scope` whose expiry has come by `until`, see `store.Expiring`."""
    if scope == EVERYTHING and _has_index(store):
        found = _by_index(store, until, detail)
        yield from sort(found, order_of, size=_octets)
        return
    for item in store.scan(scope, values=False, vectors=detail):
        if has_come(item, until):
            yield item


def has_come(item: Item, until: Instant) -> bool:
    """Tell whether an item's expiry has come, or is there and cannot be told."""
    if item.expires_at is not None:
        return item.expires_at <= until
    return any(problem.part == "expires_at" for problem in item.problems)


def _has_index(store: SqliteStore) -> bool:
    with translated(store.path):
        found = store._connection.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ? AND tbl_name = ?",
            (_INDEX, store.table),
        )
        return found.fetchone() is not None


def _by_index(store: SqliteStore, until: Instant, detail: Detail) -> Iterator[Item]:
    """Walk through the index page by page, and end whatever snapshot was held: it would keep the WAL growing."""
    walk = _Walk(store, until)
    try:
        while not walk.is_over:
            with store._transaction():
                rows, vectors = walk.page(detail)
            yield from (item for item in items_of(rows, vectors) if has_come(item, until))
    finally:
        store.release()


class _Walk:
    """A way through the index on expiries, in steps of some `HOLD` seconds."""

    def __init__(self, store: SqliteStore, until: Instant) -> None:
        self._connection, self._sql = store._connection, store._sql
        self._has_vectors = store.has_vectors
        self._hold = math.inf if store._snapshot else HOLD
        # "~" sorts behind whatever follows the seconds
        self._bound = f"{until[:10]} {until[11:19]}~"
        self._after: tuple[int, Bound | float] | None = None
        self.is_over = False

    def page(self, detail: Detail) -> tuple[list[_Row], dict[tuple[Any, ...], tuple[Vector, ...]]]:
        """Return the next rows that may have expired, with their vectors by name; inside a transaction."""
        ends = perf_counter() + self._hold
        rowids = self._entries(ends)
        rows: list[_Row] = []
        vectors: dict[tuple[Any, ...], tuple[Vector, ...]] = {}
        if rowids:
            marks = ", ".join("?" * len(rowids))
            rows = self._connection.execute(self._sql(_ITEMS, rowids=marks), rowids).fetchall()
            if detail is not Detail.NONE and self._has_vectors:
                vectors = self._vectors(marks, rowids, detail)
        return rows, vectors

    def _entries(self, ends: float) -> Sequence[int]:
        """Step on by some entries of the index; return the rows to look at."""
        rowids: list[int] = []
        for where, parameters in self._rest():
            sql = self._sql(_ENTRIES_FROM, where=where, is_own=_IS_OWN, index=_INDEX)
            cursor = self._connection.execute(sql, (self._bound, *parameters))
            while entries := cursor.fetchmany(_ENTRIES):
                rowids += [rowid for rowid, _, _, is_wanted in entries if is_wanted]
                rowid, cell, is_blob, _ = entries[-1]
                self._after = rowid, Bound(cell, bool(is_blob)) if isinstance(cell, bytes) else cell
                if len(rowids) >= _ROWS or perf_counter() > ends:
                    cursor.close()
                    return rowids
        self.is_over = True
        return rowids

    def _rest(self) -> Iterable[tuple[str, tuple[Any, ...]]]:
        """What lies behind the last entry, in parts that the index serves however many entries are equal."""
        if self._after is None:
            return (("1", ()),)
        rowid, cell = self._after
        sql, bound = (cell.sql, cell.octets) if isinstance(cell, Bound) else ("?", cell)
        return (
            (f"expires_at = {sql} AND rowid > ?", (bound, rowid)),
            (f"expires_at > {sql}", (bound,)),
        )

    def _vectors(
        self, marks: str, rowids: Sequence[int], detail: Detail
    ) -> dict[tuple[Any, ...], tuple[Vector, ...]]:
        embedding = "v.embedding" if detail is Detail.FULL else "NULL"
        sql = self._sql(_VECTORS, embedding=embedding, rowids=marks)
        found: dict[tuple[Any, ...], tuple[Vector, ...]] = {}
        for row in self._connection.execute(sql, rowids):
            owner = owner_of(row)
            found[owner] = (*found.get(owner, ()), vector_of(row))
        return found


def _octets(item: Item) -> int:
    names = len(item.prefix) + len(item.key)
    if not item.vectors:
        return names
    return names + sum(_VECTOR_OCTETS + len(vector.embedding or b"") for vector in item.vectors)
