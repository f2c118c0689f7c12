"""The store that PostgresStore of `langgraph-checkpoint-postgres` keeps, read in one snapshot."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, dropwhile, islice

from memctl.blocks import Block, Piece
from memctl.guard import Guard
from memctl.history import Entry, Operation, Status
from memctl.model import (
    EVERYTHING,
    Detail,
    Instant,
    Item,
    Namespace,
    Position,
    Problem,
    Scope,
    Vector,
    decode,
    encode,
)
from memctl.store import Ailment, Capability, Count, Description, Right, Store
from memctl.stores.postgres import columns
from memctl.stores.postgres import decode as rows_as
from memctl.stores.postgres.connect import Session
from memctl.stores.postgres.decode import ItemRow, VectorRow
from memctl.stores.postgres.describe import describe
from memctl.stores.postgres.history import History
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

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what the tables cannot hold, as far as that can be told without trying."""
        from memctl.stores.postgres.holding import Holding, Judge

        return Judge(Holding.of_store(self._session, self._layout)).faults(item)

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
        if after is None and keep is None and values and self._can_copy(scope, vectors):
            for piece in self._everything():
                yield from piece.items() if isinstance(piece, Block) else piece
            return
        start = self._holdable(after) if after else None
        items = self._items(self._queries.items(scope, start, values=values), values=values)
        if keep is not None:
            items = (pair for pair in items if keep(pair[1]))
        if beside_none:
            found = (rows_as.item(row, value) for row, value in items)
        else:
            beside = self._beside(self._queries.vectors(scope, start, detail=vectors), vectors)
            found = (rows_as.item(row, value, beside.take(row[0], row[1])) for row, value in items)
        if after is None or start == after:
            yield from found
        else:
            first = after.order
            yield from dropwhile(lambda item: (encode(item.prefix), encode(item.key)) <= first, found)

    def blocks(self, scope: Scope, *, vectors: Detail = Detail.NONE) -> Iterator[Piece]:
        """Yield the items in byte order, in blocks where they come through COPY."""
        if self._can_copy(scope, vectors):
            return self._everything()
        return iter((self.scan(scope, vectors=vectors),))

    def _can_copy(self, scope: Scope, vectors: Detail) -> bool:
        has_none = self._layout.vectors is None or vectors is Detail.NONE
        return scope == EVERYTHING and has_none and self._queries.can_copy

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

    def expiring(self, scope: Scope, until: Instant, *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield the items whose expiry has come, in byte order."""
        from memctl.stores.postgres.expiring import expiring

        return expiring(self, scope, until, vectors)

    def keeps_threads(self) -> bool:
        """Tell whether a checkpointer has its tables beside the store's, and they can be read."""
        from memctl.stores.postgres.threads import keeps_threads

        return keeps_threads(self._session, self._layout.schema)

    def threads(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of these threads the checkpointer still has."""
        from memctl.stores.postgres.threads import threads

        return threads(self._session, self._layout.schema, names)

    def orphans(self, scope: Scope, *, detail: Detail = Detail.SHAPE) -> Iterator[Item]:
        """Yield the vectors that have no item."""
        from memctl.stores.postgres.examine import orphans

        return orphans(self, scope, detail)

    def prefixes(self, scope: Scope) -> Iterator[str]:
        """Yield each namespace that directly holds items, from an index alone."""
        from memctl.stores.postgres.examine import prefixes

        return prefixes(self, scope)

    def ailments(self, *, thorough: bool) -> Iterator[Ailment]:  # noqa: ARG002 (it is all in the catalog)
        """Yield what the server's statistics tell of the tables."""
        from memctl.stores.postgres.health import ailments

        return ailments(self)

    def schema_faults(self) -> Iterator[Ailment]:
        """Yield where the schema is not what the library would have made."""
        from memctl.stores.postgres.health import schema_faults

        return schema_faults(self)

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give this store: all that it reads is one transaction."""
        yield self

    def history(self) -> Status | None:
        """Return how history stands."""
        return self._history.status(self._session.fetch)

    def entries(
        self,
        scope: Scope,
        *,
        key: str | None = None,
        after: int = 0,
        since: Instant | None = None,
        operations: Sequence[Operation] = (),
        oldest_first: bool = False,
    ) -> Iterator[Entry]:
        """Yield recorded changes, the newest first."""
        return self._history.entries(
            self._session.fetch_raw,
            scope,
            key=key,
            after=after,
            since=since,
            operations=operations,
            oldest_first=oldest_first,
        )

    def former(self, scope: Scope, *, seq: int | None = None, at: Instant | None = None) -> Iterator[Entry]:
        """Yield what items were before the first change that counts."""
        return self._history.former(self._session.fetch_raw, scope, seq=seq, at=at)

    def guards(self) -> tuple[Guard, ...]:
        """Return how each rule of the guard stands."""
        from memctl.stores.postgres.guard import guards

        return guards(self._session.fetch, self._layout)

    def moment(self) -> str:
        """Return the name of this transaction's snapshot."""
        ((name,),) = self._session.fetch("SELECT pg_export_snapshot()")
        return str(name)

    def cuts(self, scope: Scope, rows: int) -> Iterator[Position]:
        """Yield the place of every `rows`-th item, from an index."""
        if self._can_hold(scope.prefix):
            query = self._queries.cuts(scope, rows)
            for prefix, key in self._session.fetch_raw(query.statement, query.values):
                yield Position(decode(prefix), decode(key))

    def check_writing(self, *rights: Right) -> None:
        """Raise Refused where the role lacks one of these."""
        from memctl.stores.postgres.rights import check_rights

        check_rights(self._session, self._layout, rights)

    def describe(self) -> Description:
        """Return the live schema, without reading all rows."""
        return describe(self._session, self._layout)

    def close(self) -> None:
        """Release the connection; a second call does nothing."""
        self._session.close()

    @cached_property
    def _history(self) -> History:
        return History(self._layout)

    def _everything(self) -> Iterator[Piece]:
        """Yield all items without vectors: the first through a cursor, at once, the many through COPY.

        When the connection is wanted for something else meanwhile, the rest comes through a cursor too.
        """
        query = self._queries.items(EVERYTHING, None, values=True)
        first = next(self._session.batches(query.statement, query.values, size=FETCHED_ROWS), [])
        yield (rows_as.item(row, value) for row, value in self._with_values(first))
        if len(first) < FETCHED_ROWS:
            return
        place = Position(decode(first[-1][0]), decode(first[-1][1]))
        copied = self._session.copy(self._queries.copy())
        for lines in columns.cut(islice(copied, FETCHED_ROWS, None)):
            block = columns.block_of(lines)
            if block is not None:
                place = Position(block.prefixes[-1], block.keys[-1])
                yield block
            else:
                items = [rows_as.item(row, row[2]) for row in map(rows_as.copied, lines)]
                place = Position(items[-1].prefix, items[-1].key)
                yield items
        if copied.interrupted:
            yield self.scan(EVERYTHING, after=place)

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

    def _beside(self, query: Query, detail: Detail) -> _Vectors:
        """Return the vectors that a query gives in byte order, to be taken item by item."""
        octets = 4 * (self._layout.dims or _WIDEST) if detail is Detail.FULL else 1
        size = max(1, min(FETCHED_ROWS, FETCHED_OCTETS // octets))
        rows = chain.from_iterable(self._session.batches(query.statement, query.values, size=size))
        return _Vectors(rows, full=detail is Detail.FULL)

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
