"""Finding what has expired in a Postgres store: by the index on `expires_at`, sorted by the server.

The server compares instants. What no instant of memctl's can say (`infinity`, the year 10000, years before the
first) arrives without `expires_at` and with a problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from memctl.model import Detail, Instant, Item, Scope
from memctl.stores.postgres import decode
from memctl.stores.postgres.decode import ItemRow

if TYPE_CHECKING:
    from memctl.stores.postgres.store import PostgresStore

FETCHED_ROWS = 1000


def expiring(store: PostgresStore, scope: Scope, until: Instant, detail: Detail) -> Iterator[Item]:
    """Yield the items in `scope` whose expiry has come by `until`, see `store.Expiring`."""
    if not store._can_hold(scope.prefix):
        return
    query = store._queries.expired(scope, until)
    rows: Iterator[ItemRow] = chain.from_iterable(
        store._session.batches(query.statement, query.values, size=FETCHED_ROWS)
    )
    if detail is Detail.NONE or store._layout.vectors is None:
        yield from (decode.item(row, None) for row in rows)
        return
    beside = store._beside(store._queries.expired_vectors(scope, until, detail=detail), detail)
    yield from (decode.item(row, None, beside.take(row[0], row[1])) for row in rows)
