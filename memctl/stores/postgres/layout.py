"""Where in the database the store is, found by looking at the catalog and nowhere else.

LangGraph names its tables `store` and `store_vectors` and puts them wherever `search_path` points
(`langgraph-checkpoint-postgres` 2.0 to 3.2), so all schemas are looked through. The catalog also shows what
the role may not read, which `information_schema` hides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memctl.errors import MemctlError, NoStore, Refused, UsageError
from memctl.store import Capability
from memctl.stores.postgres.connect import Query, Row

DEFAULT_TABLE = "store"
REQUIRED = frozenset({"prefix", "key", "value"})
"""The columns that make a table a store."""
VECTOR_TYPES = ("vector", "halfvec")

TABLES = """
SELECT n.nspname, c.relname, c.oid::int8, c.relkind::text,
       has_schema_privilege(n.oid, 'USAGE'),
       (SELECT json_agg(json_build_array(
                   a.attname,
                   replace(format_type(a.atttypid, a.atttypmod), quote_ident(tn.nspname) || '.', ''),
                   t.typname, tn.nspname, a.atttypmod,
                   has_column_privilege(c.oid, a.attnum, 'SELECT')) ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
        JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = ANY(%s::text[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_(catalog|toast|temp_)'
ORDER BY n.nspname, c.relname
"""
OTHER_NAMES = """
SELECT n.nspname, c.relname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND a.attname IN ('prefix', 'key', 'value', 'created_at', 'updated_at')
GROUP BY n.nspname, c.relname
HAVING count(*) = 5
ORDER BY n.nspname, c.relname
LIMIT 10
"""
"""Tables that look like a store and are called something else."""
CASCADE = """
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_constraint
    WHERE conrelid = %s AND confrelid = %s AND contype = 'f' AND confdeltype = 'c')
"""


class Catalog(Protocol):
    """What is asked for the catalog: an open session on a server that has PostgreSQL's."""

    address: str
    encoding: str

    def fetch(self, query: Query | str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return all rows of a small result."""
        ...

    def can_hold(self, text: str) -> bool:
        """Tell whether the database can hold `text` at all."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its declared type as SQL spells it (unqualified), the type's name, schema and modifier."""

    name: str
    declared: str
    type: str
    type_schema: str
    modifier: int
    readable: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table (or a view in its place) with its columns in order."""

    schema: str
    name: str
    oid: int
    kind: str
    usable: bool
    """Whether the role has USAGE on the schema."""
    columns: Mapping[str, Column]

    def has(self, *names: str) -> bool:
        """Tell whether these columns are there and can be read."""
        return self.usable and all(name in self.columns and self.columns[name].readable for name in names)


@dataclass(frozen=True, slots=True)
class Layout:
    """One store in the database: its tables, and what they allow."""

    items: Relation
    vectors: Relation | None
    encoding: str
    cascade: bool = False
    capabilities: frozenset[Capability] = field(default_factory=frozenset)

    @property
    def schema(self) -> str:
        """The schema of all its tables."""
        return self.items.schema

    @property
    def embedding(self) -> Column | None:
        """The column of embeddings, if there is one."""
        return self.vectors.columns["embedding"] if self.vectors else None

    @property
    def dims(self) -> int | None:
        """The declared width of every embedding, None where the type declares none."""
        return self.embedding.modifier if self.embedding and self.embedding.modifier > 0 else None

    @property
    def ledger(self) -> str:
        """The table that records the migrations of the items' table."""
        return f"{self.items.name}_migrations"

    @property
    def vector_ledger(self) -> str:
        """The table that records the migrations of the vectors' table."""
        return "vector_migrations"


def locate(session: Catalog, *, schema: str | None, table: str | None) -> Layout:
    """Find the store that is meant. Raises NoStore, Refused, or UsageError where several could be."""
    name = table or DEFAULT_TABLE
    relations = _relations(session, [name, f"{name}_vectors"])
    if schema is not None:
        relations = [relation for relation in relations if relation.schema == schema]
    candidates = [relation for relation in relations if relation.name == name]
    stores = [relation for relation in candidates if relation.columns.keys() >= REQUIRED]
    readable = [store for store in stores if store.has(*REQUIRED)]
    if len(readable) > 1:
        raise _several(session.address, readable, table)
    if not readable:
        if stores:
            raise _unreadable(session.address, stores[0], REQUIRED)
        raise _none(session, candidates, schema, name)
    items = readable[0]
    vectors = next((r for r in relations if (r.schema, r.name) == (items.schema, f"{name}_vectors")), None)
    return _assemble(session, items, vectors)


def _relations(session: Catalog, names: list[str]) -> list[Relation]:
    return [
        Relation(schema, name, oid, kind, usable, {column[0]: Column(*column) for column in columns or ()})
        for schema, name, oid, kind, usable, columns in session.fetch(TABLES, [names])
    ]


def _assemble(session: Catalog, items: Relation, vectors: Relation | None) -> Layout:
    needed = ("prefix", "key", "field_name", "embedding")
    if vectors is not None:
        if not vectors.columns.keys() >= set(needed) or vectors.columns["embedding"].type not in VECTOR_TYPES:
            vectors = None
        elif not vectors.has(*needed):
            raise _unreadable(session.address, vectors, needed)
    cascade = vectors is not None and bool(session.fetch(CASCADE, [vectors.oid, items.oid])[0][0])
    found = {
        Capability.SNAPSHOT: True,
        Capability.KEEPS_CREATED: True,
        Capability.TIMES: True,
        Capability.EXPIRY: items.has("expires_at", "ttl_minutes"),
        Capability.VECTORS: vectors is not None,
        Capability.VECTOR_TIMES: vectors is not None and vectors.has("created_at", "updated_at"),
        Capability.CASCADE: cascade,
    }
    capabilities = frozenset(capability for capability, is_there in found.items() if is_there)
    return Layout(items, vectors, session.encoding, cascade, capabilities)


def _several(address: str, stores: Iterable[Relation], table: str | None) -> MemctlError:
    named = f" --table {table}" if table else ""
    lines = "\n".join(f"  --schema {store.schema}{named}" for store in stores)
    return UsageError(
        f"{address} holds several stores; say which one:\n{lines}",
        hint="where a command takes two stores, add ?schema=… to the address",
        code="several-stores",
    )


def _unreadable(address: str, relation: Relation, needed: Iterable[str]) -> MemctlError:
    name = f"{relation.schema}.{relation.name}"
    if not relation.usable:
        return Refused(
            f"{address}: the role may not look into the schema {relation.schema}, where {name} is",
            hint=f"GRANT USAGE ON SCHEMA {relation.schema} TO …; GRANT SELECT ON {name} TO …",
        )
    hidden = [column for column in needed if not relation.columns[column].readable]
    whole = len(hidden) == len(list(needed))
    what = name if whole else f"{', '.join(sorted(hidden))} of {name}"
    return Refused(f"{address}: the role may not read {what}", hint=f"GRANT SELECT ON {name} TO …")


def _none(session: Catalog, candidates: list[Relation], schema: str | None, name: str) -> MemctlError:
    where = f"{session.address}, schema {schema}" if schema else session.address
    if not candidates:
        other: list[Any] = session.fetch(OTHER_NAMES) if name == DEFAULT_TABLE else []
        options = "; ".join(f"--schema {found} --table {table}" for found, table in other)
        return NoStore(
            f"{where}: there is no LangGraph store, no table is called {name}",
            code="no-tables",
            hint=f"these look like one: {options}" if options else "--schema and --table say where it is",
        )
    found = candidates[0]
    if "namespace_path" in found.columns:
        return NoStore(
            f"{where}: {found.schema}.{found.name} is a store of LangGraph.js, which memctl cannot read",
            code="foreign-tables",
            hint="memctl administers the stores of LangGraph for Python",
        )
    return NoStore(
        f"{where}: {found.schema}.{found.name} is no LangGraph store, it has the columns "
        + ", ".join(found.columns),
        code="foreign-tables",
        hint="--schema and --table name another one",
    )
