"""Deleting and renaming all items of a scope: the server is told their names, and nothing else of them travels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from psycopg import Rollback, sql

from memctl.model import Position, Scope
from memctl.store import Bulk
from memctl.stores.postgres.changing import DELETE_NAMED, NAMED_ANEW, RENAME_VECTORS, others_of
from memctl.stores.postgres.queries import CASCADING_VECTORS, SWEEP_VECTORS, Query
from memctl.stores.postgres.rows import DELETE_VECTORS, NAMED
from memctl.stores.postgres.transactions import Cursor

if TYPE_CHECKING:
    from memctl.stores.postgres.writer import PostgresWriter

DELETE = (
    "WITH gone AS (DELETE FROM {items} AS item USING "
    + NAMED
    + " WHERE item.prefix = named.prefix AND item.key = named.key"
    " RETURNING item.prefix, item.key, {octets} AS octets) {loose}"
    " SELECT count(*), {vectors}, coalesce(sum(octets), 0)::int8 FROM gone"
)
COPY_RENAMED = (
    "WITH made AS (INSERT INTO {items} AS item (prefix, key, {others}) SELECT new_prefix, new_key, {others_of_item}"
    " FROM " + NAMED_ANEW + " JOIN {items} AS item ON item.prefix = named.prefix AND item.key = named.key"
    " ON CONFLICT DO NOTHING RETURNING {octets} AS octets)"
    " SELECT count(*), coalesce(sum(octets), 0)::int8 FROM made"
)

_Names = tuple[list[str], list[str]]
"""Prefixes and keys."""


def remove(writer: PostgresWriter, scope: Scope, rows: Callable[[], int]) -> Iterator[Bulk]:
    """Delete items with their vectors, see `store.Wholesale`."""
    layout, held = writer._layout, writer._rows
    loose: sql.Composable = sql.SQL("")
    if layout.vectors is not None:
        loose = held.sql(CASCADING_VECTORS if layout.cascade else SWEEP_VECTORS)
    statement = held.sql(
        DELETE,
        octets=writer._queries.octets("item.value"),
        loose=loose,
        vectors=sql.SQL("0" if layout.vectors is None else "(SELECT count(*) FROM loose)"),
    )

    def act(cursor: Cursor, names: _Names) -> Bulk:
        [(items, vectors, octets)] = cursor.execute(statement, *names)
        return Bulk(items, vectors, octets)

    return _through(writer, scope, rows, act, are_locked=False)


def rename(writer: PostgresWriter, scope: Scope, new: str, rows: Callable[[], int]) -> Iterator[Bulk]:
    """Give a namespace and its descendants another name, see `store.Wholesale`."""
    layout, held = writer._layout, writer._rows
    old_name = scope.prefix or ""
    copy = held.sql(COPY_RENAMED, octets=writer._queries.octets("item.value"), **others_of(layout))

    def act(cursor: Cursor, names: _Names) -> Bulk:
        prefixes, keys = names
        others = [new + prefix[len(old_name) :] for prefix in prefixes]
        with cursor.savepoint():
            [(items, octets)] = cursor.execute(copy, prefixes, keys, others, keys)
            if items < len(keys):
                raise Rollback
        if items < len(keys):
            return Bulk(0, 0, 0, len(keys))
        vectors = 0
        if layout.vectors is not None:
            if not layout.cascade:
                cursor.execute(held.sql(DELETE_VECTORS), others, keys)  # of a former item
            vectors = len(
                cursor.execute(held.sql(RENAME_VECTORS + " RETURNING 1"), prefixes, keys, others, keys)
            )
        cursor.execute(held.sql(DELETE_NAMED), prefixes, keys)
        return Bulk(items, vectors, octets)

    return _through(writer, scope, rows, act, are_locked=True)


def _through(
    writer: PostgresWriter,
    scope: Scope,
    rows: Callable[[], int],
    act: Callable[[Cursor, _Names], Bulk],
    *,
    are_locked: bool,
) -> Iterator[Bulk]:
    """Act on what is in a scope, a batch after the other, each in a transaction."""
    after: Position | None = None
    while writer._can_hold(scope.prefix):
        query = writer._queries.first(scope, after, rows(), are_locked=are_locked)

        def step(cursor: Cursor, query: Query) -> tuple[Bulk, Position | None]:
            found = cursor.fetch(query.statement, query.values)
            if not found:
                return Bulk(0, 0, 0), None
            names = [str(prefix) for prefix, _ in found], [str(key) for _, key in found]
            return act(cursor, names), Position(names[0][-1], names[1][-1])

        done, after = writer._transactions.run(partial(step, query=query))
        if after is None:
            return
        yield done
