"""What only the doctor asks of a database: vectors without an item, and namespaces by an index alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby
from typing import TYPE_CHECKING

from memctl.model import Detail, Item, Problem, Scope, decode, is_clean
from memctl.stores.postgres import decode as rows_as
from memctl.stores.postgres.decode import VectorRow

if TYPE_CHECKING:
    from memctl.stores.postgres.store import PostgresStore

ROWS = 1_000
FULL_ROWS = 200
"""Fewer, where each brings its embedding along."""


def orphans(store: PostgresStore, scope: Scope, detail: Detail) -> Iterator[Item]:
    """Yield the vectors that have no item, see `store.Examined`."""
    if store._layout.vectors is None or not store._can_hold(scope.prefix):
        return
    query = store._queries.orphans(scope, detail=detail)
    size = FULL_ROWS if detail is Detail.FULL else ROWS
    rows: Iterator[VectorRow] = chain.from_iterable(
        store._session.batches(query.statement, query.values, size=size)
    )
    for (prefix, key), group in groupby(rows, lambda row: row[:2]):
        vectors = tuple(rows_as.vector(row, full=detail is Detail.FULL) for row in group)
        space, name = decode(prefix), decode(key)
        problems = tuple(
            Problem(part, "invalid UTF-8", text)
            for part, text in (("namespace", space), ("key", name))
            if not is_clean(text)
        )
        yield Item(space, name, None, 0, None, None, None, None, vectors, problems)


def prefixes(store: PostgresStore, scope: Scope) -> Iterator[str]:
    """Yield the namespaces that hold items."""
    if not store._can_hold(scope.prefix):
        return
    query = store._queries.prefixes(scope)
    for rows in store._session.batches(query.statement, query.values, size=ROWS):
        yield from (decode(prefix) for (prefix,) in rows)
