"""The rows of a Postgres store inside one transaction: inserted, updated and deleted many at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from psycopg import errors as states
from psycopg import sql

from memctl.blocks import Block
from memctl.model import Item, decode, encode
from memctl.store import Capability
from memctl.stores.postgres.connect import Query
from memctl.stores.postgres.encode import (
    BINARY_END,
    BINARY_HEAD,
    VectorCells,
    binary_row,
    columns,
    line,
    lines,
    vector_cells,
    vector_rows,
)
from memctl.stores.postgres.layout import Layout
from memctl.stores.postgres.transactions import Cursor

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

_Thing = TypeVar("_Thing")
_ROW_OCTETS = 200
_ITEM_COLUMNS = ("prefix", "key", "value", "created_at", "updated_at")
_EXPIRY_COLUMNS = ("expires_at", "ttl_minutes")
_VECTOR_COLUMNS = ("prefix", "key", "field_name", "embedding")
_TIME_COLUMNS = ("created_at", "updated_at")


class Rows:
    """The statements of one store; every method runs inside the transaction of the cursor it is given."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.has_expiry = Capability.EXPIRY in layout.capabilities
        self._has_times = Capability.VECTOR_TIMES in layout.capabilities
        self._half = layout.embedding is not None and layout.embedding.type == "halfvec"
        self.names: dict[str, sql.Composable] = {
            "items": sql.Identifier(layout.schema, layout.items.name),
            "vectors": sql.Identifier(layout.schema, layout.vectors.name if layout.vectors else ""),
        }

    def insert(self, cursor: Cursor, items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """Insert items; return those that were, and those that had come from elsewhere meanwhile."""
        absent, there = list(items), []
        while absent:
            try:
                with cursor.savepoint():
                    self._copy_items(cursor, absent)
                break
            except states.UniqueViolation:
                present = set(cursor.execute(self.sql(PRESENT), *named(absent)))
                if not present:  # a constraint of somebody else's
                    raise
                there += [item for item in absent if (item.prefix, item.key) in present]
                absent = [item for item in absent if (item.prefix, item.key) not in present]
        return absent, there

    def load(self, cursor: Cursor, blocks: Sequence[Block]) -> bool:
        """Insert the items of some blocks, or none where one is there."""
        try:
            with cursor.savepoint():
                self._copy(cursor, (lines(block, expiry=self.has_expiry) for block in blocks))
        except states.UniqueViolation:
            return False
        if any(block.vectors for block in blocks):
            times = self._has_times
            rows = (vector_rows(block, half=self._half, times=times) for block in blocks)
            self._copy_vectors(cursor, chain.from_iterable(rows))
        return True

    def _copy_items(self, cursor: Cursor, items: Iterable[Item]) -> None:
        self._copy(cursor, _blocks(line(item, expiry=self.has_expiry) for item in items))

    def _copy(self, cursor: Cursor, octets: Iterable[bytes]) -> None:
        names = _ITEM_COLUMNS + (_EXPIRY_COLUMNS if self.has_expiry else ())
        with cursor.copy(self.sql(COPY_ITEMS, columns=listed(names))) as copy:
            for some in octets:
                copy.write(some)

    def update(
        self, cursor: Cursor, items: Sequence[Item], *, only_older: bool
    ) -> tuple[list[Item], list[Item]]:
        """Update items; return those that were, and those that have become newer, or gone, meanwhile."""
        statement = self.sql(
            UPDATE,
            expiry=sql.SQL(EXPIRY if self.has_expiry else ""),
            condition=sql.SQL(OLDER if only_older else ""),
        )
        updated: set[tuple[str, str]] = set()
        for part in _parts(items, _octets, UPDATED_OCTETS):
            rows = map(columns, part)
            texts = ((*row[:2], decode(row.value), *row[3:]) for row in rows)
            updated.update(map(tuple, cursor.execute(statement, *map(list, zip(*texts, strict=True)))))
        done = [item for item in items if (item.prefix, item.key) in updated]
        return done, [item for item in items if (item.prefix, item.key) not in updated]

    def stale(self, cursor: Cursor, items: Sequence[Item]) -> list[Item]:
        """Return those items whose vectors are not exactly what they are to be."""
        times = _TIME_COLUMNS if self._has_times else ()
        query = self.sql(VECTORS, times=listed(times) if times else sql.SQL("NULL, NULL"))
        stale: list[Item] = []
        for start in range(0, len(items), COMPARED_ITEMS):
            part = items[start : start + COMPARED_ITEMS]
            there: defaultdict[tuple[bytes, bytes], set[VectorCells]] = defaultdict(set)
            for row in cursor.execute_raw(query, *named(part)):
                there[row[0], row[1]].add(row)
            stale += [
                item
                for item in part
                if there.get((encode(item.prefix), encode(item.key)), set()) != set(self._cells(item))
            ]
        return stale

    def delete_vectors(self, cursor: Cursor, items: Sequence[Item]) -> None:
        if items:
            cursor.execute(self.sql(DELETE_VECTORS), *named(items))

    def copy_vectors(self, cursor: Cursor, items: Sequence[Item]) -> None:
        if not any(item.vectors for item in items):
            return
        width = len(self._vector_columns)
        rows = (binary_row(cells[:width]) for item in items for cells in self._cells(item))
        self._copy_vectors(cursor, rows)

    @property
    def _vector_columns(self) -> tuple[str, ...]:
        return _VECTOR_COLUMNS + (_TIME_COLUMNS if self._has_times else ())

    def _copy_vectors(self, cursor: Cursor, rows: Iterable[bytes]) -> None:
        names = self._vector_columns
        with cursor.copy(self.sql(COPY_VECTORS, columns=listed(names))) as copy:
            copy.write(BINARY_HEAD)
            for block in _blocks(rows):
                copy.write(block)
            copy.write(BINARY_END)

    def _cells(self, item: Item) -> Iterator[VectorCells]:
        for vector in item.vectors:
            cells = vector_cells(item, vector, half=self._half)
            yield cells if self._has_times else (*cells[:4], None, None)

    def sql(self, template: str, **parts: sql.Composable) -> Query:
        return sql.SQL(template).format(**self.names | parts)


def _octets(item: Item) -> int:
    return len(item.value or b"") + len(item.prefix) + len(item.key) + _ROW_OCTETS


def named(items: Iterable[Item]) -> tuple[list[str], list[str]]:
    prefixes, keys = [], []
    for item in items:
        prefixes.append(item.prefix)
        keys.append(item.key)
    return prefixes, keys


def listed(names: Iterable[str]) -> sql.Composable:
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
