"""The rows of a CockroachDB store inside one transaction. Vectors carry the expiry of their item, and no times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import sql

from memctl.model import Item, Position, Vector, decode, floats
from memctl.stores.postgres.changing import ttl_text
from memctl.stores.postgres.connect import Query
from memctl.stores.postgres.encode import columns
from memctl.stores.postgres.rows import Rows
from memctl.stores.postgres.transactions import Cursor

ROWS_AT_ONCE = 500
"""Rows a statement, as the library itself sends them at most."""
VECTORS_AT_ONCE = 100

INSERT = """
INSERT INTO {items} (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
SELECT prefix, key, value::JSONB, created_at::TIMESTAMPTZ, updated_at::TIMESTAMPTZ, expires_at::TIMESTAMPTZ,
       ttl_minutes::DECIMAL
FROM unnest(%s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[])
     AS new(prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
ON CONFLICT DO NOTHING RETURNING prefix, key
"""
UPDATE = """
UPDATE {items} AS item
SET value = new.value::JSONB, created_at = new.created_at::TIMESTAMPTZ, updated_at = new.updated_at::TIMESTAMPTZ,
    expires_at = new.expires_at::TIMESTAMPTZ, ttl_minutes = new.ttl_minutes::DECIMAL
FROM unnest(%s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[])
     AS new(prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
WHERE item.prefix = new.prefix AND item.key = new.key {condition}
RETURNING item.prefix, item.key
"""
OLDER = "AND coalesce(item.updated_at < new.updated_at::TIMESTAMPTZ, TRUE)"
INSERT_VECTORS = """
INSERT INTO {vectors} (prefix, key, field_name, embedding, expires_at, ttl_minutes)
SELECT prefix, key, field_name, embedding::VECTOR, expires_at::TIMESTAMPTZ, ttl_minutes::DECIMAL
FROM unnest(%s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[], %s::TEXT[])
     AS new(prefix, key, field_name, embedding, expires_at, ttl_minutes)
"""
FOLLOW_EXPIRY = """
UPDATE {vectors} AS vector SET expires_at = item.expires_at, ttl_minutes = item.ttl_minutes
FROM {items} AS item, unnest(%s::TEXT[], %s::TEXT[]) AS named(prefix, key)
WHERE vector.prefix = named.prefix AND vector.key = named.key
  AND item.prefix = named.prefix AND item.key = named.key
"""


class CockroachRows(Rows):
    """`Rows` for the library's own layout; no COPY, which would end the transaction on the first conflict."""

    def insert(self, cursor: Cursor, items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """Insert items; return those that were, and those that were there already."""
        done = self._send(cursor, self.sql(INSERT), items)
        return _split(items, done)

    def update(
        self, cursor: Cursor, items: Sequence[Item], *, only_older: bool
    ) -> tuple[list[Item], list[Item]]:
        """Update items; return those that were, and those that have become newer, or gone, meanwhile."""
        condition = sql.SQL(OLDER if only_older else "")
        return _split(items, self._send(cursor, self.sql(UPDATE, condition=condition), items))

    def copy_vectors(self, cursor: Cursor, items: Sequence[Item]) -> None:
        """Insert the items' vectors, with their items' expiry."""
        rows = [
            (item.prefix, item.key, vector.field, spelled(vector), item.expires_at, ttl_text(item))
            for item in items
            for vector in item.vectors
        ]
        for start in range(0, len(rows), VECTORS_AT_ONCE):
            part = rows[start : start + VECTORS_AT_ONCE]
            cursor.execute(self.sql(INSERT_VECTORS), *map(list, zip(*part, strict=True)))

    def follow_expiry(self, cursor: Cursor, items: Sequence[Item | Position]) -> None:
        """Give the vectors of these items their items' expiry."""
        if items and self.layout.vectors is not None:
            cursor.execute(
                self.sql(FOLLOW_EXPIRY), [each.prefix for each in items], [each.key for each in items]
            )

    def _send(self, cursor: Cursor, statement: Query, items: Sequence[Item]) -> set[tuple[str, str]]:
        done: set[tuple[str, str]] = set()
        for start in range(0, len(items), ROWS_AT_ONCE):
            cells = map(_cells, items[start : start + ROWS_AT_ONCE])
            found = cursor.execute(statement, *map(list, zip(*cells, strict=True)))
            done.update((str(prefix), str(key)) for prefix, key in found)
        return done


def spelled(vector: Vector) -> str | None:
    """Spell an embedding as CockroachDB and pgvector read it: float32 in digits that bring back its bits."""
    if vector.embedding is None:
        return None
    return "[" + ",".join(map(repr, floats(vector.embedding))) + "]"


def _cells(item: Item) -> tuple[str | None, ...]:
    row = columns(item)
    return (
        row.prefix,
        row.key,
        decode(row.value),
        row.created_at,
        row.updated_at,
        row.expires_at,
        ttl_text(item),
    )


def _split(items: Iterable[Item], done: set[tuple[str, str]]) -> tuple[list[Item], list[Item]]:
    here: list[Item] = []
    others: list[Item] = []
    for item in items:
        (here if (item.prefix, item.key) in done else others).append(item)
    return here, others
