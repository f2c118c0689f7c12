"""What the store asks of PostgreSQL: constants, put together for one layout and one part of the store.

Identifiers go through `psycopg.sql`, values are bound. Text is compared and sorted by bytes whatever the
database's collation: `~<~` and its like do, and `store_prefix_idx` (text_pattern_ops) serves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from psycopg import sql

from memctl.model import Detail, Instant, Position, Scope
from memctl.stores.postgres.layout import Layout, Relation

ITEMS = """
SELECT prefix, key, CASE WHEN octet_length(value) <= {inline} THEN value END, {size}, created_at, updated_at,
       expires_at, ttl_minutes
FROM (SELECT prefix, key, value::text AS value, {created_at} AS created_at, {updated_at} AS updated_at,
             {expires_at} AS expires_at, {ttl_minutes} AS ttl_minutes
      FROM {items} WHERE {condition} ORDER BY {order} OFFSET 0) AS item
"""
"""OFFSET keeps the planner from folding the two levels into one, which would write each value out twice. The
outer level keeps the order of the inner one, and must not ask for it again: the planner would then sort the
whole table before the first row. Values longer than `inline` are read apart, see `VALUES`."""
COPIED = """
COPY (SELECT prefix, key, value, {created_at}, {updated_at}, {expires_at}, {ttl_minutes}
      FROM {items} ORDER BY {order}) TO STDOUT (NULL '')
"""
"""For `decode.copied`. COPY sends while its rows are read, and long values need no other way."""
SIZES = """
SELECT prefix, key, NULL::text, octet_length({text}), {created_at}, {updated_at}, {expires_at}, {ttl_minutes}
FROM {items} WHERE {condition} ORDER BY {order}
"""
VALUES = """
SELECT item.value::text
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS wanted(prefix, key, place)
JOIN {items} AS item ON item.prefix = wanted.prefix AND item.key = wanted.key
ORDER BY wanted.place
"""
VECTORS = """
SELECT prefix, key, field_name, {dims}, {embedding}, {created_at}, {updated_at}
FROM {vectors} WHERE {condition} ORDER BY {order}, {field_order}
"""
OF_ITEMS = "(prefix, key) IN (SELECT prefix, key FROM {items} WHERE {condition})"
"""The vectors of a part of the store: only the items' table has an index that serves a range of bytes."""
NAMESPACES = """
SELECT item.prefix, item.items, {vectors}, item.octets, item.newest
FROM (SELECT prefix, count(*) AS items, coalesce(sum(octet_length({text})), 0)::int8 AS octets,
             (max({updated_at}) FILTER (WHERE {updated_at} >= '0001-01-01 00:00:00+00'
                                          AND {updated_at} < '10000-01-01 00:00:00+00'))::varchar AS newest
      FROM {items} WHERE {condition} GROUP BY prefix) AS item
{joined}
ORDER BY {order}
"""
VECTOR_COUNTS = """
LEFT JOIN (SELECT item.prefix AS owner, count(*) AS vectors
           FROM (SELECT prefix, key FROM {items} WHERE {condition}) AS item
           JOIN {vectors} AS vector ON vector.prefix = item.prefix AND vector.key = item.key
           GROUP BY item.prefix) AS vector ON vector.owner = item.prefix
"""

PREFIXES = "SELECT prefix FROM {items} WHERE {condition} GROUP BY prefix ORDER BY {order}"
ORPHANED = """({condition}) AND NOT EXISTS (
SELECT FROM {items} AS item WHERE item.prefix = {vectors}.prefix AND item.key = {vectors}.key)"""

CUTS = """
SELECT prefix, key
FROM (SELECT prefix, key, row_number() OVER (ORDER BY {order}) AS place, count(*) OVER () AS total
      FROM {items} WHERE {condition}) AS numbered
WHERE mod(place, {rows}) = 0 AND place < total ORDER BY place
"""
FIRST = "SELECT prefix, key FROM {items} WHERE {condition} ORDER BY {order} LIMIT %(rows)s {lock}"
COUNT = "SELECT (SELECT count(*) FROM {items} WHERE {condition}), {vectors}"
COUNTED_VECTORS = """(counted).found, (counted).owned FROM (
SELECT count(*) AS found, count(item.key) AS owned
FROM (SELECT prefix, key FROM {vectors} WHERE {condition}) AS vector
LEFT JOIN {items} AS item ON item.prefix = vector.prefix AND item.key = vector.key) AS counted"""

EXPIRED = """({condition})
AND (expires_at <= %(until)s::timestamptz OR expires_at >= '10000-01-01 00:00:00+00'::timestamptz)"""
"""What no instant can say (`infinity`) is found too, wherever it sorts."""
SWEEP = """
WITH gone AS (
    DELETE FROM {items} WHERE {row} AND expires_at <= now() - %(grace)s
    RETURNING prefix, key, expires_at, octet_length({text}) AS octets
) {loose}
SELECT gone.prefix, count(*), {vectors}, coalesce(sum(gone.octets), 0)::int8,
       (SELECT max(expires_at) FROM gone)::varchar
FROM gone {joined} GROUP BY gone.prefix
"""
"""A row that an agent is changing is waited for, and looked at again: what it has refreshed is not expired."""
OLDEST = """
SELECT {columns} FROM {items}
WHERE {condition} AND expires_at <= now() - %(grace)s AND expires_at >= %(after)s::timestamptz
ORDER BY expires_at LIMIT %(rows)s
"""
"""From where the last batch ended: the index leads past all that has gone for as long as anybody reads an older
snapshot."""
SWEEP_VECTORS = """, loose AS (
    DELETE FROM {vectors} AS vector USING gone WHERE vector.prefix = gone.prefix AND vector.key = gone.key
    RETURNING vector.prefix
)"""
"""Where the database does not do that by itself."""
CASCADING_VECTORS = """, loose AS (
    SELECT vector.prefix FROM gone
    JOIN {vectors} AS vector ON vector.prefix = gone.prefix AND vector.key = gone.key
)"""
"""A statement sees what was there when it began."""
SWEPT_VECTORS = (
    "LEFT JOIN (SELECT prefix, count(*) AS vectors FROM loose GROUP BY prefix) AS loose USING (prefix)"
)
WHOLE = "TRUE"
EXACTLY = "prefix = %(prefix)s"
SUBTREE = """prefix ~>=~ %(prefix)s AND prefix ~<~ (%(prefix)s || '/')
AND (prefix = %(prefix)s OR prefix ~>=~ (%(prefix)s || '.'))"""
"""A namespace and what is below it as one range of the index; `/` is the character after the dot."""
AMONG = "prefix = %(prefix)s AND key = ANY(%(keys)s::text[])"


@dataclass(frozen=True, slots=True)
class Order:
    """Byte order of (prefix, key), and what comes after a place in it."""

    prefix: str
    key: str
    field: str
    after: str


BY_BYTES = Order(
    prefix="prefix USING ~<~",
    key='key COLLATE "C"',
    field='field_name COLLATE "C"',
    after='prefix ~>=~ %(after_prefix)s AND (prefix ~>~ %(after_prefix)s OR key COLLATE "C" > %(after_key)s)',
)
BY_UTF8 = Order(
    prefix="convert_to(prefix, 'UTF8')",
    key="convert_to(key, 'UTF8')",
    field="convert_to(field_name, 'UTF8')",
    after="""(convert_to(prefix, 'UTF8'), convert_to(key, 'UTF8'))
             > (convert_to(%(after_prefix)s, 'UTF8'), convert_to(%(after_key)s, 'UTF8'))""",
)
"""The order where the database's own bytes sort otherwise than UTF-8; no index serves it."""
_SORTED_LIKE_UTF8 = ("UTF8", "SQL_ASCII", "LATIN1")


@dataclass(frozen=True, slots=True)
class Query:
    """A statement and the values it is bound to."""

    statement: sql.Composed
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Queries:
    """The statements for one store."""

    layout: Layout
    inline: int
    """Octets of a value up to which it comes with its row."""

    def items(self, scope: Scope, after: Position | None, *, values: bool) -> Query:
        """`decode.ItemRow`s in byte order; without values, or with those that are not too long."""
        condition, bound = _part(scope, after, self._order)
        return Query(self._items(ITEMS if values else SIZES, condition), bound)

    @property
    def can_copy(self) -> bool:
        """Whether `decode.copied` understands what COPY makes of this store's values."""
        return self.layout.items.columns["value"].type == "jsonb"

    def copy(self) -> sql.Composed:
        """All items, as lines for `decode.copied`."""
        return self._items(COPIED, WHOLE)

    def some_items(self, prefix: str, keys: Sequence[str]) -> Query:
        """The `decode.ItemRow`s of these keys in one namespace."""
        return Query(self._items(ITEMS, AMONG), {"prefix": prefix, "keys": list(keys)})

    def values(self) -> sql.Composed:
        """The values of items given as two arrays, prefixes and keys, in the order of those."""
        return sql.SQL(VALUES).format(items=_name(self.layout.items))

    def vectors(self, scope: Scope, after: Position | None, *, detail: Detail) -> Query:
        """`decode.VectorRow`s in byte order, those without an item among them."""
        condition, bound = _part(scope, after, self._order)
        part: sql.Composable = sql.SQL(condition)
        if bound:
            part = sql.SQL(OF_ITEMS).format(items=_name(self.layout.items), condition=part)
        return Query(self._vectors(part, detail), bound)

    def some_vectors(self, prefix: str, keys: Sequence[str], *, detail: Detail) -> Query:
        """The `decode.VectorRow`s of these keys in one namespace."""
        return Query(self._vectors(sql.SQL(AMONG), detail), {"prefix": prefix, "keys": list(keys)})

    def expired(self, scope: Scope, until: Instant) -> Query:
        """`decode.ItemRow`s without values of what has expired by `until`, in byte order."""
        condition, bound = _part(scope, None, self._order)
        condition = EXPIRED.format(condition=condition)
        return Query(self._items(SIZES, condition), bound | {"until": until})

    def expired_vectors(self, scope: Scope, until: Instant, *, detail: Detail) -> Query:
        """`decode.VectorRow`s of what has expired by `until`, in byte order."""
        condition, bound = _part(scope, None, self._order)
        part = sql.SQL(OF_ITEMS).format(
            items=_name(self.layout.items), condition=sql.SQL(EXPIRED.format(condition=condition))
        )
        return Query(self._vectors(part, detail), bound | {"until": until})

    def sweep(self, scope: Scope, grace: timedelta, rows: int, after: str) -> Query:
        """Delete so many expired items with their vectors, from the expiry `after` on.

        It gives prefix, items, vectors and octets of each namespace, and the last expiry of all.
        """
        condition, bound = _part(scope, None, self._order)
        items, vectors = self.layout.items, self.layout.vectors
        is_one_table = items.kind == "r"  # else places in several tables are alike
        oldest = sql.SQL(OLDEST).format(
            columns=sql.SQL("ctid" if is_one_table else "prefix, key"),
            items=_name(items),
            condition=sql.SQL(condition),
        )
        row = sql.SQL("ctid = ANY(ARRAY({}))" if is_one_table else "(prefix, key) IN ({})").format(oldest)
        loose: sql.Composable = sql.SQL("")
        if vectors is not None:
            spelled = CASCADING_VECTORS if self.layout.cascade else SWEEP_VECTORS
            loose = sql.SQL(spelled).format(vectors=_name(vectors))
        statement = sql.SQL(SWEEP).format(
            items=_name(items),
            row=row,
            loose=loose,
            joined=sql.SQL("" if vectors is None else SWEPT_VECTORS),
            vectors=sql.SQL("0::int8" if vectors is None else "coalesce(max(loose.vectors), 0)"),
            text=self._as_sent("value::text"),
        )
        return Query(statement, bound | {"grace": grace, "rows": rows, "after": after})

    def namespaces(self, scope: Scope) -> Query:
        """Prefix, items, vectors that have one, octets and newest readable `updated_at`, by byte order."""
        condition, bound = _part(scope, None, self._order)
        items, vectors = self.layout.items, self.layout.vectors
        joined: sql.Composable = sql.SQL("")
        if vectors is not None:
            joined = sql.SQL(VECTOR_COUNTS).format(
                vectors=_name(vectors), items=_name(items), condition=sql.SQL(condition)
            )
        statement = sql.SQL(NAMESPACES).format(
            items=_name(items),
            joined=joined,
            vectors=sql.SQL("0::int8" if vectors is None else "coalesce(vector.vectors, 0)"),
            text=self._as_sent("value::text"),
            updated_at=_column(items, "updated_at", "timestamptz"),
            condition=sql.SQL(condition),
            order=sql.SQL(self._order.prefix),
        )
        return Query(statement, bound)

    def prefixes(self, scope: Scope) -> Query:
        """The prefixes alone, by byte order."""
        condition, bound = _part(scope, None, self._order)
        parts = {"items": _name(self.layout.items), "condition": sql.SQL(condition)}
        return Query(sql.SQL(PREFIXES).format(order=sql.SQL(self._order.prefix), **parts), bound)

    def orphans(self, scope: Scope, *, detail: Detail) -> Query:
        """The `decode.VectorRow`s that have no item, in byte order."""
        condition, bound = _part(scope, None, self._order)
        if self.layout.vectors is None:
            raise ValueError("this store has no vectors")
        names = {"items": _name(self.layout.items), "vectors": _name(self.layout.vectors)}
        part = sql.SQL(ORPHANED).format(condition=sql.SQL(condition), **names)
        return Query(self._vectors(part, detail), bound)

    def cuts(self, scope: Scope, rows: int) -> Query:
        """Prefix and key of every `rows`-th item."""
        condition, bound = _part(scope, None, self._order)
        statement = sql.SQL(CUTS).format(
            items=_name(self.layout.items),
            condition=sql.SQL(condition),
            order=sql.SQL(f"{self._order.prefix}, {self._order.key}"),
            rows=sql.Literal(rows),
        )
        return Query(statement, bound)

    def first(self, scope: Scope, after: Position | None, rows: int, *, are_locked: bool) -> Query:
        """Prefix and key of so many items at most, in byte order; `are_locked` keeps them as they are."""
        condition, bound = _part(scope, after, self._order)
        statement = sql.SQL(FIRST).format(
            items=_name(self.layout.items),
            condition=sql.SQL(condition),
            order=sql.SQL(f"{self._order.prefix}, {self._order.key}"),
            lock=sql.SQL("FOR UPDATE" if are_locked else ""),
        )
        return Query(statement, bound | {"rows": rows})

    def octets(self, column: str) -> sql.Composable:
        """How many octets a value's text has."""
        return sql.SQL("octet_length({})").format(self._as_sent(f"{column}::text"))

    def count(self, scope: Scope) -> Query:
        """How many items, vectors, and vectors that have an item."""
        condition, bound = _part(scope, None, self._order)
        parts = {"items": _name(self.layout.items), "condition": sql.SQL(condition)}
        counted: sql.Composable = sql.SQL("0::int8, 0::int8")
        if self.layout.vectors is not None:
            counted = sql.SQL(COUNTED_VECTORS).format(vectors=_name(self.layout.vectors), **parts)
        return Query(sql.SQL(COUNT).format(vectors=counted, **parts), bound)

    def _items(self, form: str, condition: str) -> sql.Composed:
        items = self.layout.items
        return sql.SQL(form).format(
            items=_name(items),
            inline=sql.Literal(self.inline),
            size=sql.SQL("octet_length({})").format(self._as_sent("value")),
            text=self._as_sent("value::text"),
            created_at=_time(items, "created_at"),
            updated_at=_time(items, "updated_at"),
            expires_at=_time(items, "expires_at"),
            ttl_minutes=_column(items, "ttl_minutes", "int4"),
            condition=sql.SQL(condition),
            order=sql.SQL(f"{self._order.prefix}, {self._order.key}"),
        )

    def _vectors(self, condition: sql.Composable, detail: Detail) -> sql.Composed:
        vectors, embedding = self.layout.vectors, self.layout.embedding
        if vectors is None or embedding is None:
            raise ValueError("this store has no vectors")
        home = sql.Identifier(embedding.type_schema)
        # halfvec is widened by the server, which is exact; a declared width needs no look at the embedding.
        whole = sql.SQL("embedding::{}.vector").format(home)
        measured = sql.SQL("{}.vector_dims(embedding)").format(home)
        if self.layout.dims is not None:
            measured = sql.SQL("CASE WHEN embedding IS NOT NULL THEN {} END").format(self.layout.dims)
        return sql.SQL(VECTORS).format(
            vectors=_name(vectors),
            dims=measured,
            embedding=whole if detail is Detail.FULL else sql.SQL("NULL::bytea"),
            created_at=_time(vectors, "created_at"),
            updated_at=_time(vectors, "updated_at"),
            condition=condition,
            order=sql.SQL(f"{self._order.prefix}, {self._order.key}"),
            field_order=sql.SQL(self._order.field),
        )

    @property
    def _order(self) -> Order:
        return BY_BYTES if self.layout.encoding in _SORTED_LIKE_UTF8 else BY_UTF8

    def _as_sent(self, text: str) -> sql.Composable:
        """Text in the encoding it is sent in, so that its length is right."""
        as_stored = self.layout.encoding in ("UTF8", "SQL_ASCII")
        return sql.SQL(text if as_stored else f"convert_to({text}, 'UTF8')")


def _part(scope: Scope, after: Position | None, order: Order) -> tuple[str, dict[str, object]]:
    """Return the condition for a part of the store, and the values it is bound to."""
    conditions: list[str] = []
    bound: dict[str, object] = {}
    if scope.prefix is not None:
        conditions.append(SUBTREE if scope.descend else EXACTLY)
        bound["prefix"] = scope.prefix
    if after is not None:
        conditions.append(order.after)
        bound |= {"after_prefix": after.prefix, "after_key": after.key}
    return " AND ".join(conditions) or WHOLE, bound


def _name(relation: Relation) -> sql.Identifier:
    return sql.Identifier(relation.schema, relation.name)


def _column(relation: Relation, name: str, kind: str) -> sql.Composable:
    """A column, or null where a store of an older library has none."""
    return sql.Identifier(name) if relation.has(name) else sql.SQL(f"NULL::{kind}")


def _time(relation: Relation, name: str) -> sql.Composable:
    return sql.SQL("{}::varchar").format(_column(relation, name, "timestamptz"))
