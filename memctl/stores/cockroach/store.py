"""The store that CockroachDBStore of `langchain-cockroachdb` 0.5 keeps, read as of one moment."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from sys import byteorder
from typing import Any

from psycopg import sql

from memctl.errors import Unsupported
from memctl.guard import Guard
from memctl.model import Detail, Instant, Item, Namespace, Position, Problem, Scope, Vector, decode, encode
from memctl.store import Ailment, Count, Description, Store
from memctl.stores.cockroach import queries
from memctl.stores.cockroach.describe import declared_dims, describe, ttl_job
from memctl.stores.cockroach.guard import guards
from memctl.stores.cockroach.session import Session
from memctl.stores.postgres import decode as rows_as
from memctl.stores.postgres.holding import Holding, Judge
from memctl.stores.postgres.layout import Layout, locate

PAGE_ROWS = 1000
INLINE_OCTETS = 16 * 1024
"""A value up to this length comes with its row; longer ones are read one by one."""
PAGE_OCTETS = 4 * 1024 * 1024
_KEYS_AT_ONCE = 100
_MOST_OF_ONE = 1_000_000
"""Vectors of one item, which are read together."""
_WIDEST = 4_000
"""Dims to expect where the column declares no width."""


class CockroachStore:
    """An open store; the contract is `memctl.store.Store`'s."""

    kind = "cockroach"

    def __init__(self, session: Session, layout: Layout) -> None:
        self._session = session
        self._layout = layout
        self.address = session.address_in(layout.schema)
        self.capabilities = layout.capabilities
        self.lock_seconds = 0.0
        self.moved = False
        self.age = session.age
        session.when_moved = self._move
        self._names: dict[str, sql.Composable] = {
            "items": sql.Identifier(layout.schema, layout.items.name),
            "vectors": sql.Identifier(layout.schema, layout.vectors.name if layout.vectors else ""),
        }

    def now(self) -> Instant:
        """Return the server's time when the store was opened."""
        return self._session.now

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what the tables cannot hold, as far as that can be told without trying."""
        return Judge(Holding.of_store(self._session, self._layout)).faults(item)

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:
        """Yield each namespace in `scope` that directly holds items, in byte order of `prefix`."""
        if not self._can_hold(scope.prefix):
            return
        vectors = self._groups(queries.VECTOR_COUNTS, scope, "vector") if self._layout.vectors else iter(())
        side = next(vectors, None)
        for prefix, items, octets, newest in self._groups(queries.NAMESPACES, scope):
            while side is not None and side[0] < prefix:
                side = next(vectors, None)
            count = side[1] if side is not None and side[0] == prefix else 0
            yield rows_as.namespace((prefix, items, count, octets or 0, newest))

    def count(self, scope: Scope) -> Count:
        """Count items, vectors and orphans."""
        if not self._can_hold(scope.prefix):
            return Count(0, 0, 0)
        items = self._number(queries.COUNT, scope)
        if self._layout.vectors is None:
            return Count(items, 0, 0)
        owned = self._number(queries.COUNT_OWNED, scope, "vector")
        return Count(items, owned, self._number(queries.COUNT_VECTORS, scope) - owned)

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
        beside = self._vector_groups(scope, after, vectors)
        side = next(beside, None)
        for row in self._pages(queries.ITEMS if values else queries.SIZES, scope, after):
            value = self._value(row) if values else None
            if values and keep is not None and not keep(value):
                continue
            place = row[:2]
            while side is not None and side[0] < place:
                side = next(beside, None)
            found = side[1] if side is not None and side[0] == place else ()
            yield rows_as.item(row, value, found)

    def get(self, prefix: str, keys: Sequence[str], *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield those items of exactly the namespace `prefix` that exist, in the order of `keys`."""
        if not self._can_hold(prefix):
            return
        wanted = [key for key in keys if self._can_hold(key)]
        for start in range(0, len(wanted), _KEYS_AT_ONCE):
            bound = {"prefix": prefix, "keys": wanted[start : start + _KEYS_AT_ONCE]}
            query = self._sql(queries.ITEMS, condition=queries.AMONG, rows=_KEYS_AT_ONCE)
            rows = {row[1]: row for row in self._session.fetch_raw(query, bound)}
            with_vectors = self._layout.vectors is not None and vectors is not Detail.NONE
            for octets in map(encode, bound["keys"]):
                if octets in rows:
                    beside = self._vectors_of(prefix, decode(octets), vectors) if with_vectors else ()
                    yield rows_as.item(rows[octets], self._value(rows[octets]), beside)

    def expiring(self, scope: Scope, until: Instant, *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield the items in `scope` whose expiry has come by `until`, or cannot be read."""
        if not self._can_hold(scope.prefix):
            return
        for row in self._pages(queries.EXPIRED, scope, until=until):
            beside: tuple[Vector, ...] = ()
            if vectors is not Detail.NONE and self._layout.vectors is not None:
                beside = self._vectors_of(decode(row[0]), decode(row[1]), vectors)
            yield rows_as.item(row, None, beside)

    def orphans(self, scope: Scope, *, detail: Detail = Detail.SHAPE) -> Iterator[Item]:
        """Yield the vectors in `scope` that have no item."""
        if self._layout.vectors is None or not self._can_hold(scope.prefix):
            return
        pages = self._vector_pages(scope, None, detail, queries.ORPHANS, "vector")
        for (prefix, key), group in groupby(pages, lambda row: row[:2]):
            vectors = tuple(self._vector(row) for row in group)
            yield Item(decode(prefix), decode(key), None, 0, None, None, None, None, vectors)

    def prefixes(self, scope: Scope) -> Iterator[str]:
        """Yield the namespaces in `scope` that directly hold items."""
        if self._can_hold(scope.prefix):
            yield from (decode(row[0]) for row in self._groups(queries.PREFIXES, scope))

    def ailments(self, *, thorough: bool) -> Iterator[Ailment]:  # noqa: ARG002 (the cluster looks after itself)
        """Yield nothing: ranges, replicas and garbage are the cluster's own affair."""
        return iter(())

    def schema_faults(self) -> Iterator[Ailment]:
        """Yield where the ledger and the tables disagree."""
        for ledger in self.describe().ledgers:
            if unrecorded := sorted(set(ledger.applied) - set(ledger.recorded)):
                versions = ",".join(map(str, unrecorded))
                yield Ailment(
                    f"unrecorded:{ledger.table}:{versions}",
                    f"{ledger.table} lacks {versions}, which the schema has",
                    brief=f"{ledger.table} lacks {versions}",
                    remedy="record them",
                )

    def ttl_jobs(self) -> dict[str, str | None]:
        """Return, by table, how often the row-level TTL job runs; PostgreSQL never runs one."""
        relations = (self._layout.items, self._layout.vectors)
        return {each.name: ttl_job(self._session, each) for each in relations if each is not None}

    def unequal_expiries(self, scope: Scope) -> Iterator[Position]:
        """Yield the items in `scope` of which a vector expires at another time, in byte order."""
        if self._layout.vectors is None or not self._can_hold(scope.prefix):
            return
        for row in self._pages(queries.UNEQUAL, scope, table="item"):
            yield Position(decode(row[0]), decode(row[1]))

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give this store: all that it reads is of one moment."""
        yield self

    def moment(self) -> str:
        """Return the timestamp that all is read as of. Raises Unsupported where the server has none."""
        if self._session.as_of is None:
            raise Unsupported(f"{self.address}: only CockroachDB itself can be read by several --jobs")
        return self._session.as_of

    def cuts(self, scope: Scope, rows: int) -> Iterator[Position]:
        """Yield the place of every `rows`-th item, from the primary key."""
        if self._can_hold(scope.prefix):
            where, bound = queries.condition(scope)
            for prefix, key in self._session.fetch_raw(
                self._sql(queries.CUTS, condition=where, rows=rows), bound
            ):
                yield Position(decode(prefix), decode(key))

    def guards(self) -> tuple[Guard, ...]:
        """Return how each rule of the guard stands."""
        return guards(self._session.fetch, self._layout, is_cockroach=self._session.is_cockroach)

    def describe(self) -> Description:
        """Return the live schema and the row-level TTL, without reading all rows."""
        return describe(self._session, self._layout)

    def close(self) -> None:
        """Release the connection; a second call does nothing."""
        self._session.close()

    def _pages(
        self, template: str, scope: Scope, after: Position | None = None, *, table: str = "", **bound: object
    ) -> Iterator[Any]:
        """Yield rows that begin with prefix and key, a page at a time."""
        start = self._holdable(after) if after else None
        before = after.order if after and after != start else None
        while True:
            more = [queries.AFTER] if start else []
            where, own = queries.condition(scope, *more, table=table)
            own |= bound | (queries.after(start) if start else {})
            rows = self._session.fetch_raw(self._sql(template, condition=where, rows=PAGE_ROWS), own)
            yield from rows if before is None else (row for row in rows if (row[0], row[1]) > before)
            if len(rows) < PAGE_ROWS:
                return
            start = Position(decode(rows[-1][0]), decode(rows[-1][1]))

    def _value(self, row: Any) -> bytes | None:
        if row[2] is not None or row[3] is None:
            value: bytes | None = row[2]
            return value
        bound = {"prefix": decode(row[0]), "key": decode(row[1])}
        found = self._session.fetch_raw(self._sql(queries.VALUE), bound)
        return found[0][0] if found else None

    def _vectors_of(self, prefix: str, key: str, detail: Detail) -> tuple[Vector, ...]:
        query = self._vector_query(queries.OF_ONE, detail, rows=_MOST_OF_ONE)
        found = self._session.fetch_raw(query, {"prefix": prefix, "key": key})
        return tuple(self._vector(row) for row in found)

    def _vector_groups(
        self, scope: Scope, after: Position | None, detail: Detail
    ) -> Iterator[tuple[tuple[bytes, bytes], tuple[Vector, ...]]]:
        """Yield the vectors of each name in byte order, those without an item among them."""
        if self._layout.vectors is None or detail is Detail.NONE:
            return
        for place, group in groupby(self._vector_pages(scope, after, detail), lambda row: row[:2]):
            yield place, tuple(self._vector(row) for row in group)

    def _vector_pages(
        self,
        scope: Scope,
        after: Position | None,
        detail: Detail,
        template: str = queries.VECTORS,
        table: str = "",
    ) -> Iterator[Any]:
        dims = self._layout.dims or _WIDEST
        size = max(1, min(PAGE_ROWS, PAGE_OCTETS // (12 * dims))) if detail is Detail.FULL else PAGE_ROWS
        bound: dict[str, object] = queries.after(self._holdable(after)) if after else {}
        more = [queries.AFTER] if after else []
        while True:
            where, own = queries.condition(scope, *more, table=table)
            query = self._vector_query(where, detail, rows=size, template=template)
            rows = self._session.fetch_raw(query, own | bound)
            yield from rows
            if len(rows) < size:
                return
            prefix, key, field = map(decode, rows[-1][:3])
            more = [queries.AFTER_FIELD]
            bound = {"after_prefix": prefix, "after_key": key, "after_field": field}

    def _vector_query(
        self, where: str, detail: Detail, *, rows: int, template: str = queries.VECTORS
    ) -> sql.Composed:
        if detail is Detail.FULL:
            embedding = "embedding::VARCHAR"
        else:
            embedding = "NULL::VARCHAR" if self._layout.dims else "vector_dims(embedding)::VARCHAR"
        return self._sql(template, condition=where, rows=rows, embedding=embedding)

    def _vector(self, row: Any) -> Vector:
        """Make a vector of a row: prefix, key, field, and the embedding's text, its dims as text, or null."""
        text: str | None = row[3]
        if text is not None and text.startswith("["):
            embedding = float32(text)
            return Vector(decode(row[2]), len(embedding) // 4, embedding, None, None)
        return Vector(decode(row[2]), int(text) if text else self._layout.dims or 0, None, None, None)

    def _groups(self, template: str, scope: Scope, table: str = "") -> Iterator[Any]:
        last: bytes | None = None
        while True:
            more = [queries.AFTER_PREFIX] if last is not None else []
            where, bound = queries.condition(scope, *more, table=table)
            if last is not None:
                bound["after_prefix"] = decode(last)
            rows = self._session.fetch_raw(self._sql(template, condition=where, rows=PAGE_ROWS), bound)
            yield from rows
            if len(rows) < PAGE_ROWS:
                return
            last = rows[-1][0]

    def _number(self, template: str, scope: Scope, table: str = "") -> int:
        where, bound = queries.condition(scope, table=table)
        ((number,),) = self._session.fetch(self._sql(template, condition=where), bound)
        return int(number)

    def _sql(self, template: str, *, rows: int = 0, condition: str = "", embedding: str = "") -> sql.Composed:
        return sql.SQL(template).format(
            **self._names,
            condition=sql.SQL(condition),
            embedding=sql.SQL(embedding),
            rows=sql.Literal(rows),
            inline=sql.Literal(INLINE_OCTETS),
        )

    def _move(self) -> None:
        self.moved = True

    def _can_hold(self, text: str | None) -> bool:
        return text is None or self._session.can_hold(text)

    def _holdable(self, after: Position) -> Position:
        """Return the last place up to `after` that can be written in this database."""
        prefix = self._session.holdable(after.prefix)
        return Position(prefix, self._session.holdable(after.key) if prefix == after.prefix else "")


def find(session: Session, *, schema: str | None, table: str | None) -> Layout:
    """Find the store that is meant, as `locate` does, and how wide its vectors are declared."""
    layout = locate(session, schema=schema, table=table)
    vectors, embedding = layout.vectors, layout.embedding
    if vectors is None or embedding is None or layout.dims is not None:
        return layout
    width = declared_dims(session, vectors)
    if width is None:
        return layout
    columns = {**vectors.columns, "embedding": replace(embedding, modifier=width)}
    return replace(layout, vectors=replace(vectors, columns=columns))


def float32(text: str) -> bytes:
    """Return a vector's text, `[1,2.5]`, as little-endian float32: the shortest spelling of each is exact."""
    numbers = array("f", map(float, text[1:-1].split(",")))
    if byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def open_cockroach(
    conninfo: str, *, schema: str | None, table: str | None, timeout: float, as_of: str | None = None
) -> CockroachStore:
    """Open the store in the database that `conninfo` names, in libpq's terms.

    Without `schema` it is looked for in all of them; `table` is the name of the items' table if not `store`.
    `as_of` is None for the present, or see `session.Session`.
    """
    session = Session(conninfo, timeout=timeout, as_of=as_of)
    try:
        return CockroachStore(session, find(session, schema=schema, table=table))
    except BaseException:
        session.close()
        raise
