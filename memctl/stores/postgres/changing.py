"""Changing items that were read before: each one only while it still is as it was.

An agent's put sets `updated_at` and a refreshing read `expires_at`, both to the microsecond, so that the times
tell whether a row is still the one that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec
from psycopg import sql

from memctl.model import Item, decode
from memctl.store import Change
from memctl.stores.postgres.connect import Row
from memctl.stores.postgres.encode import Columns, columns
from memctl.stores.postgres.layout import Layout
from memctl.stores.postgres.rows import Rows, listed, named
from memctl.stores.postgres.transactions import Cursor

WAS = "unnest({arrays}) AS was({names})"
STILL = """item.prefix = was.prefix AND item.key = was.key
AND item.created_at IS NOT DISTINCT FROM was.created_at::timestamptz
AND item.updated_at IS NOT DISTINCT FROM was.updated_at::timestamptz"""
STILL_EXPIRING = """
AND item.expires_at IS NOT DISTINCT FROM was.expires_at::timestamptz
AND item.ttl_minutes IS NOT DISTINCT FROM was.ttl_minutes::numeric"""
DELETE = "DELETE FROM {items} AS item USING {was} WHERE {still} RETURNING item.prefix, item.key"
SET = "UPDATE {items} AS item SET {sets} FROM {was} WHERE {still} RETURNING item.prefix, item.key"
CLAIM = "SELECT item.prefix, item.key FROM {items} AS item JOIN {was} ON {still} FOR UPDATE OF item"
NAMED_ANEW = (
    "unnest(%b::text[], %b::text[], %b::text[], %b::text[]) AS named(prefix, key, new_prefix, new_key)"
)
COPY_RENAMED = (
    "INSERT INTO {items} (prefix, key, {others}) SELECT new_prefix, new_key, {others_of_item} FROM "
    + NAMED_ANEW
    + " JOIN {items} AS item ON item.prefix = named.prefix AND item.key = named.key"
    + " ON CONFLICT DO NOTHING RETURNING prefix, key"
)
RENAME_VECTORS = (
    "UPDATE {vectors} AS vector SET prefix = new_prefix, key = new_key FROM "
    + NAMED_ANEW
    + " WHERE vector.prefix = named.prefix AND vector.key = named.key"
)
DELETE_NAMED = (
    "DELETE FROM {items} AS item USING unnest(%b::text[], %b::text[]) AS named(prefix, key)"
    " WHERE item.prefix = named.prefix AND item.key = named.key"
)
DELETE_FIELDS = (
    "DELETE FROM {vectors} AS vector USING unnest(%b::text[], %b::text[], %b::text[]) AS named(prefix, key, field)"
    " WHERE vector.prefix = named.prefix AND vector.key = named.key AND vector.field_name = named.field"
)
_TIMES = ("created_at", "updated_at")
_EXPIRY = ("expires_at", "ttl_minutes")

_Name = tuple[str, str]


class Changing:
    """Changes within one transaction, sent in runs of one kind."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        types = {name: column.type for name, column in rows.layout.items.columns.items()}
        self._types = types
        self._columns = ("value", *_TIMES, *(_EXPIRY if rows.has_expiry else ()))
        self._still = sql.SQL(STILL + (STILL_EXPIRING if rows.has_expiry else ""))
        self._others = others_of(rows.layout)

    def apply(self, cursor: Cursor, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Carry them out; return those that were left alone."""
        left: list[Change] = []
        for kind, run in groupby(changes, self._kind):
            for part in _independent(list(run)):
                done = self._run(cursor, kind, part)
                left += [change for change in part if _name(change.was or change.becomes) not in done]
        return tuple(left)

    def _kind(self, change: Change) -> str | tuple[str, ...]:
        """Return `insert`, `delete`, `rename`, or the columns that are set."""
        was, becomes = change.was, change.becomes
        if was is None or becomes is None:
            return "insert" if was is None else "delete"
        if _name(was) != _name(becomes):
            return "rename"
        before, after = _cells(was), _cells(becomes)
        return tuple(
            name
            for name in self._columns
            if before[name] != after[name] and not (name == "value" and becomes.value is None)
        )

    def _run(self, cursor: Cursor, kind: str | tuple[str, ...], run: Sequence[Change]) -> set[_Name]:
        """Carry out changes of one kind; return the names of the items that were changed."""
        if kind == "insert":
            return self._insert(cursor, [change.becomes for change in run if change.becomes is not None])
        if kind == "delete":
            return self._delete(cursor, [change.was for change in run if change.was is not None])
        pairs = [
            (change.was, change.becomes)
            for change in run
            if change.was is not None and change.becomes is not None
        ]
        if kind == "rename":
            return self._rename(cursor, pairs, [change.over for change in run])
        return self._set(cursor, tuple(kind), pairs)

    def _insert(self, cursor: Cursor, items: Sequence[Item]) -> set[_Name]:
        new, _there = self._rows.insert(cursor, items)
        if self._rows.layout.vectors is not None:
            if not self._rows.layout.cascade:
                self._rows.delete_vectors(cursor, new)  # of a former item
            self._rows.copy_vectors(cursor, new)
        return set(map(_name, new))

    def _delete(self, cursor: Cursor, items: Sequence[Item]) -> set[_Name]:
        done = self._while_still(cursor, DELETE, items)
        if self._rows.layout.vectors is not None and not self._rows.layout.cascade:
            self._rows.delete_vectors(cursor, [item for item in items if _name(item) in done])
        return done

    def _set(self, cursor: Cursor, names: tuple[str, ...], pairs: Sequence[tuple[Item, Item]]) -> set[_Name]:
        items = [was for was, _ in pairs]
        if names:
            new = [_cells(becomes) for _, becomes in pairs]
            sets = sql.SQL(", ").join(
                sql.SQL("{} = {}::{}").format(
                    sql.Identifier(name), sql.Identifier("was", f"new_{name}"), sql.SQL(self._types[name])
                )
                for name in names
            )
            more = {f"new_{name}": [cells[name] for cells in new] for name in names}
            done = self._while_still(cursor, SET, items, more, sets=sets)
        else:
            done = self._while_still(cursor, CLAIM, items)
        self._set_vectors(cursor, [pair for pair in pairs if _name(pair[0]) in done])
        return done

    def _set_vectors(self, cursor: Cursor, pairs: Iterable[tuple[Item, Item]]) -> None:
        gone: list[tuple[str, str, str]] = []
        added: list[Item] = []
        for was, becomes in pairs:
            if was.vectors != becomes.vectors:
                kept, there = set(becomes.vectors), set(was.vectors)
                gone += [(was.prefix, was.key, vector.field) for vector in was.vectors if vector not in kept]
                new = tuple(vector for vector in becomes.vectors if vector not in there)
                added.append(msgspec.structs.replace(becomes, vectors=new))
        if gone:
            cursor.execute(self._rows.sql(DELETE_FIELDS), *map(list, zip(*gone, strict=True)))
        self._rows.copy_vectors(cursor, added)

    def _rename(
        self, cursor: Cursor, pairs: Sequence[tuple[Item, Item]], overs: Sequence[Item | None]
    ) -> set[_Name]:
        rows = self._rows
        claimed = self._while_still(cursor, CLAIM, [was for was, _ in pairs])
        in_the_way = {
            _name(over): over
            for (was, _), over in zip(pairs, overs, strict=True)
            if over is not None and _name(was) in claimed
        }
        gone = self._delete(cursor, list(in_the_way.values())) if in_the_way else set()
        refused = in_the_way.keys() - gone
        pairs = [pair for pair in pairs if _name(pair[0]) in claimed and _name(pair[1]) not in refused]
        if not pairs:
            return set()
        made = _names(cursor.execute(rows.sql(COPY_RENAMED, **self._others), *_anew(pairs)))
        pairs = [pair for pair in pairs if _name(pair[1]) in made]
        if not pairs:
            return set()
        old = [was for was, _ in pairs]
        if rows.layout.vectors is not None:
            if not rows.layout.cascade:
                rows.delete_vectors(cursor, [becomes for _, becomes in pairs])  # of a former item
            cursor.execute(rows.sql(RENAME_VECTORS), *_anew(pairs))
        cursor.execute(rows.sql(DELETE_NAMED), *named(old))
        return set(map(_name, old))

    def _while_still(
        self,
        cursor: Cursor,
        template: str,
        items: Sequence[Item],
        more: dict[str, list[str | None]] | None = None,
        **parts: sql.Composable,
    ) -> set[_Name]:
        """Run a statement on the rows that are still as they were read; return their names."""
        cells = [_cells(item) for item in items]
        arrays: dict[str, list[str | None]] = {
            "prefix": [item.prefix for item in items],
            "key": [item.key for item in items],
        }
        for name in (*_TIMES, *(_EXPIRY if self._rows.has_expiry else ())):
            arrays[name] = [cell[name] for cell in cells]
        arrays |= more or {}
        was = sql.SQL(WAS).format(
            arrays=sql.SQL(", ").join([sql.SQL("%b::text[]")] * len(arrays)), names=listed(arrays)
        )
        statement = self._rows.sql(template, was=was, still=self._still, **parts)
        return _names(cursor.execute(statement, *arrays.values()))


def others_of(layout: Layout) -> dict[str, sql.Composable]:
    """Return the columns but for those of the name, as an INSERT lists them and as it selects them from `item`."""
    others = [name for name in layout.items.columns if name not in ("prefix", "key")]
    columns = sql.SQL(", ").join(sql.Identifier("item", name) for name in others)
    return {"others": listed(others), "others_of_item": columns}


def _cells(item: Item) -> dict[str, str | None]:
    """Return the columns that can change, as text that the server casts."""
    row: Columns = columns(item)
    return {
        "value": None if item.value is None else decode(item.value),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "expires_at": row.expires_at,
        "ttl_minutes": ttl_text(item),
    }


def ttl_text(item: Item) -> str | None:
    """Spell a TTL in minutes, so that an integer column takes it and a decimal one holds the very number."""
    minutes = item.ttl_minutes
    if minutes is None:
        return None
    return str(int(minutes)) if minutes % 1 == 0 else repr(minutes)


def _independent(run: list[Change]) -> Iterator[list[Change]]:
    """Cut a run where a change counts on an earlier one: it names what that one has left or made."""
    part: list[Change] = []
    names: set[_Name] = set()
    for change in run:
        own = {_name(item) for item in (change.was, change.becomes) if item is not None}
        if own & names:
            yield part
            part, names = [], set()
        part.append(change)
        names |= own
    yield part


def _name(item: Item | None) -> _Name:
    return ("", "") if item is None else (item.prefix, item.key)


def _names(rows: Iterable[Row]) -> set[_Name]:
    return {(str(prefix), str(key)) for prefix, key in rows}


def _anew(pairs: Iterable[tuple[Item, Item]]) -> tuple[list[str], ...]:
    rows = [(was.prefix, was.key, becomes.prefix, becomes.key) for was, becomes in pairs]
    return tuple(map(list, zip(*rows, strict=True)))
