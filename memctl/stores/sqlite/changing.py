"""Changing items that were read before: each one only while it still is as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from memctl.model import Item, Vector, encode
from memctl.store import Change
from memctl.stores.sqlite.decode import item_of
from memctl.stores.sqlite.encode import Cell, item_cells, vector_cells
from memctl.stores.sqlite.ranges import Bound

Sql = Callable[..., str]
"""Fills a template with the names of the store's tables and columns."""

_AT = "prefix = {prefix} AND key = {key}"
_READ = """SELECT prefix, key, {value}, created_at, updated_at, {expires_at}, {ttl_minutes}, {blobs}
FROM "{table}" WHERE {at}"""
_DELETE = 'DELETE FROM "{table}" WHERE {at}'
_DELETE_VECTORS = 'DELETE FROM "{table}_vectors" WHERE {at}'
_DELETE_VECTOR = 'DELETE FROM "{table}_vectors" WHERE {at} AND field_name = {field}'
_SET = 'UPDATE "{table}" SET {columns} WHERE {at}'
_RENAME = 'UPDATE OR IGNORE "{table}" SET prefix = CAST(? AS TEXT), key = CAST(? AS TEXT) WHERE {at}'
_RENAME_VECTORS = (
    """UPDATE "{table}_vectors" SET prefix = CAST(? AS TEXT), key = CAST(? AS TEXT) WHERE {at}"""
)
INSERT = """INSERT INTO "{table}" (prefix, key, value, created_at, updated_at{expiry_columns})
VALUES (CAST(:prefix AS TEXT), CAST(:key AS TEXT), :value, :created_at, :updated_at{expiry_values})
ON CONFLICT DO NOTHING"""
INSERT_VECTOR = """INSERT INTO "{table}_vectors" (prefix, key, field_name, embedding, created_at, updated_at)
VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?)"""
_COLUMNS = ("value", "created_at", "updated_at", "expires_at", "ttl_minutes")


class Changing:
    """Changes within one transaction that holds the write lock, so that what is compared stays as it is."""

    def __init__(
        self, connection: sqlite3.Connection, sql: Sql, *, has_vectors: bool, has_expiry: bool
    ) -> None:
        self._connection, self._sql = connection, sql
        self._has_vectors = has_vectors
        self._columns = _COLUMNS if has_expiry else _COLUMNS[:3]

    def apply(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Carry them out; return those that were left alone."""
        return tuple(change for change in changes if not self._apply(change))

    def _apply(self, change: Change) -> bool:
        was, becomes = change.was, change.becomes
        if was is None:
            return becomes is not None and self._insert(becomes)
        if not self._is_still(was):
            return False
        if becomes is None:
            self._delete(was)
        elif (becomes.prefix, becomes.key) != (was.prefix, was.key):
            return self._rename(was, becomes)
        else:
            self._set(was, becomes)
            self._set_vectors(was, becomes)
        return True

    def _is_still(self, was: Item) -> bool:
        at, place = _place(was)
        value = "NULL, {size}" if was.value is None else "value, 0"
        row = self._connection.execute(self._sql(_READ, at=at, value=self._sql(value)), place).fetchone()
        if row is None:
            return False
        now = item_of(row, ())
        return all(getattr(now, part) == getattr(was, part) for part in (*_COLUMNS, "size", "problems"))

    def _insert(self, item: Item) -> bool:
        if not self._connection.execute(self._sql(INSERT), item_cells(item)).rowcount:
            return False
        if self._has_vectors:
            at, place = _place(item)
            self._connection.execute(self._sql(_DELETE_VECTORS, at=at), place)  # of a former item
            self._insert_vectors(item, item.vectors)
        return True

    def _delete(self, item: Item) -> None:
        at, place = _place(item)
        self._connection.execute(self._sql(_DELETE, at=at), place)
        if self._has_vectors:
            self._connection.execute(self._sql(_DELETE_VECTORS, at=at), place)

    def _rename(self, was: Item, becomes: Item) -> bool:
        at, place = _place(was)
        name = encode(becomes.prefix), encode(becomes.key)
        if not self._connection.execute(self._sql(_RENAME, at=at), (*name, *place)).rowcount:
            return False
        if self._has_vectors:
            new_at, new_place = _place(becomes)
            self._connection.execute(self._sql(_DELETE_VECTORS, at=new_at), new_place)  # of a former item
            self._connection.execute(self._sql(_RENAME_VECTORS, at=at), (*name, *place))
        return True

    def _set(self, was: Item, becomes: Item) -> None:
        before, after = item_cells(was), item_cells(becomes)
        columns = [
            name
            for name in self._columns
            if before[name] != after[name] and not (name == "value" and becomes.value is None)
        ]
        if columns:
            at, place = _place(was)
            sets = ", ".join(f"{name} = ?" for name in columns)
            cells = (*(after[name] for name in columns), *place)
            self._connection.execute(self._sql(_SET, at=at, columns=sets), cells)

    def _set_vectors(self, was: Item, becomes: Item) -> None:
        if not self._has_vectors or was.vectors == becomes.vectors:
            return
        at, place = _place(was)
        kept = set(becomes.vectors)
        for vector in was.vectors:
            if vector not in kept:
                sql = self._sql(_DELETE_VECTOR, at=at, field="CAST(? AS TEXT)")
                self._connection.execute(sql, (*place, encode(vector.field)))
        there = set(was.vectors)
        self._insert_vectors(becomes, [vector for vector in becomes.vectors if vector not in there])

    def _insert_vectors(self, item: Item, vectors: Iterable[Vector]) -> None:
        rows = (vector_cells(item, vector) for vector in vectors)
        self._connection.executemany(self._sql(INSERT_VECTOR), rows)


def _place(item: Item) -> tuple[str, tuple[Cell, ...]]:
    """Return the condition that finds an item's row, whatever its name is stored as, and what is bound."""
    prefix, key = Bound(encode(item.prefix)), Bound(encode(item.key))
    for problem in item.problems:
        if isinstance(problem.raw, bytes):
            if problem.part == "namespace":
                prefix = Bound(problem.raw, blob=True)
            elif problem.part == "key":
                key = Bound(problem.raw, blob=True)
    return _AT.format(prefix=prefix.sql, key=key.sql), (prefix.octets, key.octets)
