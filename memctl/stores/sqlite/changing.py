"""Changing items that were read before: each one only while it still is as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from memctl.model import Item, Vector, encode
from memctl.store import Change
from memctl.stores.sqlite.decode import item_of
from memctl.stores.sqlite.encode import Cell, expiry_cell, item_cells, moment_cell, name_of, vector_cells

Sql = Callable[..., str]
"""Fills a template with the names of the store's tables and columns."""

_AT = "prefix = {prefix} AND key = {key}"
_READ = """SELECT prefix, key, {value}, created_at, updated_at, {expires_at}, {ttl_minutes}, {blobs}
FROM "{table}" WHERE {at}"""
_DELETE = 'DELETE FROM "{table}" WHERE {at}'
_UNCHANGED = """ AND created_at = ? AND updated_at = ? AND {ttl_minutes} IS ?
AND ({expires_at} IS ? OR {expires_at} IS ?) AND {content}"""
"""Both spellings that the library has for an expiry are compared: a put's, and a refresh's."""
_DELETE_VECTORS = 'DELETE FROM "{table}_vectors" WHERE {at}'
_DELETE_VECTOR = 'DELETE FROM "{table}_vectors" WHERE {at} AND field_name = {field}'
_SET = 'UPDATE "{table}" SET {columns} WHERE {at}'
_RENAME = 'UPDATE OR IGNORE "{table}" SET prefix = CAST(? AS TEXT), key = CAST(? AS TEXT) WHERE {at}'
_RENAME_VECTORS = (
    """UPDATE "{table}_vectors" SET prefix = CAST(? AS TEXT), key = CAST(? AS TEXT) WHERE {at}"""
)
INSERT = """INSERT INTO "{table}" (prefix, key, value, created_at, updated_at{expiry_columns})
VALUES ({prefix}, {key}, :value, :created_at, :updated_at{expiry_values})
ON CONFLICT DO NOTHING"""
INSERT_VECTOR = """INSERT INTO "{table}_vectors" (prefix, key, field_name, embedding, created_at, updated_at)
VALUES ({prefix}, {key}, CAST(? AS TEXT), ?, ?, ?)"""
_BOUND_AS_TEXT = {"prefix": "CAST(:prefix AS TEXT)", "key": "CAST(:key AS TEXT)"}
_COLUMNS = ("value", "created_at", "updated_at", "expires_at", "ttl_minutes")


class _Kind(NamedTuple):
    """Changes that one statement makes, whatever the items."""

    template: str
    sets: str
    """The columns that are set, if any."""
    knows_value: bool
    """Whether the items were read with their values."""


class Changing:
    """Changes within one transaction that holds the write lock, so that what is compared stays as it is."""

    def __init__(
        self, connection: sqlite3.Connection, sql: Sql, *, has_vectors: bool, has_expiry: bool
    ) -> None:
        self._connection, self._sql = connection, sql
        self._has_vectors = has_vectors
        self._columns = _COLUMNS if has_expiry else _COLUMNS[:3]
        self._at = _AT.format(prefix="CAST(? AS TEXT)", key="CAST(? AS TEXT)")
        self._delete_vectors = sql(_DELETE_VECTORS, at=self._at)
        self._rename_vectors = sql(_RENAME_VECTORS, at=self._at)
        self._statement = cache(self._spell)

    def apply(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Carry them out; return those that were left alone."""
        left: list[Change] = []
        for kind, some in groupby(changes, self._kind):
            run = list(some)
            left += self._run(kind, run) if kind else [change for change in run if not self._apply(change)]
        return tuple(left)

    def _kind(self, change: Change) -> _Kind | None:
        """Return the kind of a change that one statement can compare and make; None for one to look closer at."""
        was, becomes = change.was, change.becomes
        if was is None or change.over is not None or was.problems or not (was.created_at and was.updated_at):
            return None
        knows_value = was.value is not None
        if becomes is None:
            return _Kind(_DELETE, "", knows_value)
        if becomes.prefix != was.prefix or becomes.key != was.key:
            return None if becomes.problems else _Kind(_RENAME, "", knows_value)
        sets, _ = self._sets(was, becomes)
        return _Kind(_SET, sets, knows_value) if sets and was.vectors == becomes.vectors else None

    def _run(self, kind: _Kind, run: list[Change]) -> list[Change]:
        """Carry out changes of one kind together, else each half of them; return those that were left alone."""
        if self._is_done_at_once(kind, run):
            return []
        if len(run) == 1:
            return [] if self._apply(run[0]) else run
        middle = len(run) // 2
        return [*self._run(kind, run[:middle]), *self._run(kind, run[middle:])]

    def _is_done_at_once(self, kind: _Kind, run: Sequence[Change]) -> bool:
        """Change these items, each as it was read and as the library spells it: all of them, or none."""
        pairs = [(change.was, change.becomes) for change in run if change.was is not None]
        places = [(encode(was.prefix), encode(was.key)) for was, _ in pairs]
        if kind.template is _SET:
            new: list[Any] = [self._sets(was, becomes)[1] for was, becomes in pairs if becomes is not None]
        else:
            new = [(encode(item.prefix), encode(item.key)) for _, item in pairs if item is not None]
            if not set(new).isdisjoint(places):  # vectors have to move with their items, one after the other
                return False
        old = [(*place, *_spelled(was)) for place, (was, _) in zip(places, pairs, strict=True)]
        self._connection.execute("SAVEPOINT run")
        rows = [(*cells, *row) for cells, row in zip(new, old, strict=True)] if new else old
        is_done = self._connection.executemany(self._statement(kind), rows).rowcount == len(run)
        if not is_done:
            self._connection.execute("ROLLBACK TO run")
        elif self._has_vectors and kind.template is not _SET:
            self._connection.executemany(self._delete_vectors, new or places)  # else those of a former item
            if new:
                both = [(*name, *place) for name, place in zip(new, places, strict=True)]
                self._connection.executemany(self._rename_vectors, both)
        self._connection.execute("RELEASE run")
        return is_done

    def _spell(self, kind: _Kind) -> str:
        content = self._sql("value = ?" if kind.knows_value else "{size} = ?")
        return self._sql(kind.template + _UNCHANGED, at=self._at, columns=kind.sets, content=content)

    def _apply(self, change: Change) -> bool:
        was, becomes = change.was, change.becomes
        if was is None:
            return becomes is not None and self._insert(becomes)
        if not self._is_still(was):
            return False
        if becomes is None:
            self._delete(was)
        elif (becomes.prefix, becomes.key) != (was.prefix, was.key):
            return self._rename(was, becomes, change.over)
        else:
            self._set(was, becomes)
            self._set_vectors(was, becomes)
        return True

    def _is_still(self, was: Item) -> bool:
        at, place = place_of(was)
        value = "NULL, {size}" if was.value is None else "value, 0"
        row = self._connection.execute(self._sql(_READ, at=at, value=self._sql(value)), place).fetchone()
        if row is None:
            return False
        now = item_of(row, ())
        return all(getattr(now, part) == getattr(was, part) for part in (*_COLUMNS, "size", "problems"))

    def _insert(self, item: Item) -> bool:
        sql = self._sql(INSERT, **bound_by_name(item))
        if not self._connection.execute(sql, item_cells(item)).rowcount:
            return False
        if self._has_vectors:
            at, place = place_of(item)
            self._connection.execute(self._sql(_DELETE_VECTORS, at=at), place)  # of a former item
            self._insert_vectors(item, item.vectors)
        return True

    def _delete(self, item: Item) -> None:
        at, place = place_of(item)
        self._connection.execute(self._sql(_DELETE, at=at), place)
        if self._has_vectors:
            self._connection.execute(self._sql(_DELETE_VECTORS, at=at), place)

    def _rename(self, was: Item, becomes: Item, over: Item | None) -> bool:
        if over is not None:
            if not self._is_still(over):
                return False
            self._delete(over)
        at, place = place_of(was)
        name = encode(becomes.prefix), encode(becomes.key)
        if not self._connection.execute(self._sql(_RENAME, at=at), (*name, *place)).rowcount:
            return False
        if self._has_vectors:
            new_at, new_place = place_of(becomes)
            self._connection.execute(self._sql(_DELETE_VECTORS, at=new_at), new_place)  # of a former item
            self._connection.execute(self._sql(_RENAME_VECTORS, at=at), (*name, *place))
        return True

    def _set(self, was: Item, becomes: Item) -> None:
        sets, cells = self._sets(was, becomes)
        if sets:
            at, place = place_of(was)
            self._connection.execute(self._sql(_SET, at=at, columns=sets), (*cells, *place))

    def _sets(self, was: Item, becomes: Item) -> tuple[str, list[Cell]]:
        """Return the columns that differ as an UPDATE sets them, and what they become."""
        before, after = item_cells(was), item_cells(becomes)
        columns = [
            name
            for name in self._columns
            if before[name] != after[name] and not (name == "value" and becomes.value is None)
        ]
        return ", ".join(f"{name} = ?" for name in columns), [after[name] for name in columns]

    def _set_vectors(self, was: Item, becomes: Item) -> None:
        if not self._has_vectors or was.vectors == becomes.vectors:
            return
        at, place = place_of(was)
        kept = set(becomes.vectors)
        for vector in was.vectors:
            if vector not in kept:
                sql = self._sql(_DELETE_VECTOR, at=at, field="CAST(? AS TEXT)")
                self._connection.execute(sql, (*place, encode(vector.field)))
        there = set(was.vectors)
        self._insert_vectors(becomes, [vector for vector in becomes.vectors if vector not in there])

    def _insert_vectors(self, item: Item, vectors: Iterable[Vector]) -> None:
        prefix, key = name_of(item)
        rows = (vector_cells(item, vector) for vector in vectors)
        self._connection.executemany(self._sql(INSERT_VECTOR, prefix=prefix.sql, key=key.sql), rows)


def _spelled(was: Item) -> tuple[Cell, ...]:
    """Return what `_UNCHANGED` compares an item with."""
    return (
        moment_cell(was.created_at),
        moment_cell(was.updated_at),
        was.ttl_minutes,
        expiry_cell(was.expires_at),
        moment_cell(was.expires_at),
        was.size if was.value is None else was.value,
    )


def bound_by_name(item: Item) -> dict[str, str]:
    """Return how prefix and key stand in SQL where they are bound as `:prefix` and `:key`."""
    if not item.problems:
        return _BOUND_AS_TEXT
    cells = zip(("prefix", "key"), name_of(item), strict=True)
    return {column: f":{column}" if cell.blob else f"CAST(:{column} AS TEXT)" for column, cell in cells}


def place_of(item: Item) -> tuple[str, tuple[Cell, ...]]:
    """Return the condition that finds an item's row, whatever its name is stored as, and what is bound."""
    prefix, key = name_of(item)
    return _AT.format(prefix=prefix.sql, key=key.sql), (prefix.octets, key.octets)
