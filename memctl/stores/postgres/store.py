"""The store that PostgresStore of `langgraph-checkpoint-postgres` keeps, read in one snapshot."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, dropwhile, islice

from memctl.model import EVERYTHING, Detail, Instant, Item, Namespace, Position, Scope, Vector, decode, encode
from memctl.store import Capability, Count, Description, Store
from memctl.stores.postgres import decode as rows_as
from memctl.stores.postgres.connect import Session
from memctl.stores.postgres.decode import ItemRow, VectorRow
from memctl.stores.postgres.describe import describe
from memctl.stores.postgres.layout import Layout
from memctl.stores.postgres.queries import Queries, Query

FETCHED_ROWS = 1000
INLINE_OCTETS = 16 * 1024
"""A value up to this length comes with its row, so that a fetch is bounded by 1,000 of them."""
FETCHED_OCTETS = 4 * 1024 * 1024
"""Longer values, and embeddings, are fetched together up to this many octets, one at least."""
FETCHED_KEYS = 100
_WIDEST = 16_000
"""Dims that pgvector allows: what to expect where the column declares no width."""


class PostgresStore:
    """An open store; the contract is `memctl.store.Store`'s."""

    kind = "postgres"

    def __init__(self, session: Session, layout: Layout) -> None:
        self._session = session
        self._layout = layout
        self._queries = Queries(layout, INLINE_OCTETS)
        self.address = session.address_in(layout.schema)
        self.capabilities: frozenset[Capability] = layout.capabilities
        self.lock_seconds = 0.0
        self.moved = False  # everything comes from one snapshot

    def now(self) -> Instant:
        """Return the server's time when the snapshot was taken."""
        return self._session.now

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:
        """Yield each namespace in `scope` that directly holds items, in byte order of `prefix`."""
        if self._can_hold(scope.prefix):
            query = self._queries.namespaces(scope)
            yield from map(rows_as.namespace, self._session.stream(query.statement, query.values))

    def count(self, scope: Scope) -> Count:
        """Count items, vectors and orphans."""
        if not self._can_hold(scope.prefix):
            return Count(0, 0, 0)
        query = self._queries.count(scope)
        [(items, vectors, owned)] = self._session.fetch_raw(query.statement, query.values)
        return Count(items, owned, vectors - owned)

    def scan(
        self,
        scope: Scope,
        *,
        after: Position | None = None,
        values: bool = True,
        vectors: Detail = Detail.NONE,
        keep: Callable[[bytes | None], bool] | None = None,
    ) -> Iterator[Item]:
        """Yield the items in `scope` in byte order of (prefix, key), from the first one past `after`."""
        if not self._can_hold(scope.prefix):
            return
        beside_none = self._layout.vectors is None or vectors is Detail.NONE
        whole = scope == EVERYTHING and after is None and keep is None
        if whole and values and beside_none and self._queries.can_copy:
            yield from self._everything()
            return
        start = self._holdable(after) if after else None
        items = self._items(self._queries.items(scope, start, values=values), values=values)
        if keep is not None:
            items = (pair for pair in items if keep(pair[1]))
        if beside_none:
            found = (rows_as.item(row, value) for row, value in items)
        else:
            beside = _Vectors(self._vectors(scope, start, vectors), full=vectors is Detail.FULL)
            found = (rows_as.item(row, value, beside.take(row[0], row[1])) for row, value in items)
        if after is None or start == after:
            yield from found
        else:
            first = after.order
            yield from dropwhile(lambda item: (encode(item.prefix), encode(item.key)) <= first, found)

    def get(self, prefix: str, keys: Sequence[str], *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield those items of exactly the namespace `prefix` that exist, in the order of `keys`."""
        if not self._can_hold(prefix):
            return
        wanted = [key for key in keys if self._can_hold(key)]
        for start in range(0, len(wanted), FETCHED_KEYS):
            chosen = wanted[start : start + FETCHED_KEYS]
            query = self._queries.some_items(prefix, chosen)
            found: dict[bytes, ItemRow] = {
                row[1]: row for row in self._session.fetch_raw(query.statement, query.values)
            }
            beside = self._vectors_of(prefix, chosen, vectors) if found else {}
            rows = [found[octets] for octets in map(encode, chosen) if octets in found]
            for row, value in self._with_values(rows):
                yield rows_as.item(row, value, beside.get(row[1], ()))

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give this store: all that it reads is one transaction."""
        yield self

    def describe(self) -> Description:
        """Return the live schema, without reading all rows."""
        return describe(self._session, self._layout)

    def close(self) -> None:
        """Release the connection; a second call does nothing."""
        self._session.close()

    def _everything(self) -> Iterator[Item]:
        """Yield all items without vectors: the first through a cursor, at once, the many through COPY.

        When the connection is wanted for something else meanwhile, the rest comes through a cursor too.
        """
        query = self._queries.items(EVERYTHING, None, values=True)
        first = next(self._session.batches(query.statement, query.values, size=FETCHED_ROWS), [])
        last: Item | None = None
        for row, value in self._with_values(first):
            last = rows_as.item(row, value)
            yield last
        if last is None or len(first) < FETCHED_ROWS:
            return
        copied = self._session.copy(self._queries.copy())
        for row in map(rows_as.copied, islice(copied, FETCHED_ROWS, None)):
            last = rows_as.item(row, row[2])
            yield last
        if copied.interrupted:
            yield from self.scan(EVERYTHING, after=Position(last.prefix, last.key))

    def _items(self, query: Query, *, values: bool) -> Iterator[tuple[ItemRow, bytes | None]]:
        batches = self._session.batches(query.statement, query.values, size=FETCHED_ROWS)
        if values:
            yield from chain.from_iterable(map(self._with_values, batches))
        else:
            yield from ((row, None) for row in chain.from_iterable(batches))

    def _with_values(self, rows: list[ItemRow]) -> Iterable[tuple[ItemRow, bytes | None]]:
        """Pair rows with their values, those too long to come along being read when their turn comes."""
        long = deque(row for row in rows if row[2] is None and row[3] is not None)
        return self._with_long_values(rows, long) if long else [(row, row[2]) for row in rows]

    def _with_long_values(
        self, rows: list[ItemRow], long: deque[ItemRow]
    ) -> Iterator[tuple[ItemRow, bytes | None]]:
        ready: deque[bytes] = deque()
        for row in rows:
            if row[2] is not None or row[3] is None:
                yield row, row[2]
                continue
            if not ready:
                ready.extend(self._long_values(long))
            yield row, ready.popleft()

    def _long_values(self, long: deque[ItemRow]) -> Iterator[bytes]:
        """Take rows off `long`, as many as are to be read together, and return their values."""
        chosen = [long.popleft()]
        octets = chosen[0][3] or 0
        while long and octets + (long[0][3] or 0) <= FETCHED_OCTETS:
            octets += long[0][3] or 0
            chosen.append(long.popleft())
        places = [decode(row[0]) for row in chosen], [decode(row[1]) for row in chosen]
        return (value for (value,) in self._session.fetch_raw(self._queries.values(), places))

    def _vectors(self, scope: Scope, after: Position | None, detail: Detail) -> Iterator[VectorRow]:
        query = self._queries.vectors(scope, after, detail=detail)
        octets = 4 * (self._layout.dims or _WIDEST) if detail is Detail.FULL else 1
        size = max(1, min(FETCHED_ROWS, FETCHED_OCTETS // octets))
        return chain.from_iterable(self._session.batches(query.statement, query.values, size=size))

    def _vectors_of(self, prefix: str, keys: list[str], detail: Detail) -> dict[bytes, tuple[Vector, ...]]:
        if self._layout.vectors is None or detail is Detail.NONE:
            return {}
        query = self._queries.some_vectors(prefix, keys, detail=detail)
        found: defaultdict[bytes, tuple[Vector, ...]] = defaultdict(tuple)
        for row in self._session.fetch_raw(query.statement, query.values):
            found[row[1]] += (rows_as.vector(row, full=detail is Detail.FULL),)
        return found

    def _can_hold(self, text: str | None) -> bool:
        return text is None or self._session.can_hold(text)

    def _holdable(self, after: Position) -> Position:
        """Return the last place up to `after` that can be written in this database.

        Nothing stored lies between the two but what belongs to the keys of one namespace.
        """
        prefix = self._session.holdable(after.prefix)
        return Position(prefix, self._session.holdable(after.key) if prefix == after.prefix else "")


class _Vectors:
    """A stream of vectors in byte order beside the stream of their items; orphans are passed over."""

    def __init__(self, rows: Iterator[VectorRow], *, full: bool) -> None:
        self._rows = rows
        self._full = full
        self._head = next(rows, None)

    def take(self, prefix: bytes, key: bytes) -> tuple[Vector, ...]:
        """Return the vectors of the next item."""
        head = self._head
        while head is not None and (head[0], head[1]) < (prefix, key):
            head = next(self._rows, None)
        found: tuple[Vector, ...] = ()
        while head is not None and head[1] == key and head[0] == prefix:
            found += (rows_as.vector(head, full=self._full),)
            head = next(self._rows, None)
        self._head = head
        return found
