"""The tables as `langchain-cockroachdb` 0.5.0 makes them (`StoreSQL.migrations`, `vector_statements`).

Its `setup()` afterwards finds both migrations recorded, and the rest is `IF NOT EXISTS`. No row-level TTL is
switched on: a store without a TTL configuration has none, and one with it switches it on itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import sql

from memctl.errors import UsageError
from memctl.store import Setup
from memctl.stores.cockroach.describe import MIGRATIONS

SCHEMA = "CREATE SCHEMA IF NOT EXISTS {schema}"
LEDGER = "CREATE TABLE IF NOT EXISTS {ledger} (v INTEGER PRIMARY KEY)"
ITEMS = """
CREATE TABLE IF NOT EXISTS {items} (
    prefix TEXT NOT NULL,
    key TEXT NOT NULL,
    value JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    expires_at TIMESTAMPTZ,
    ttl_minutes DECIMAL,
    PRIMARY KEY (prefix, key)
)"""
VECTORS = """
CREATE TABLE IF NOT EXISTS {vectors} (
    prefix TEXT NOT NULL,
    key TEXT NOT NULL,
    field_name TEXT NOT NULL,
    embedding VECTOR({dims}) NOT NULL,
    expires_at TIMESTAMPTZ,
    ttl_minutes DECIMAL,
    PRIMARY KEY (prefix, key, field_name)
)"""
RECORD = "INSERT INTO {ledger} (v) VALUES ({version}) ON CONFLICT DO NOTHING"
INDEX = "CREATE VECTOR INDEX IF NOT EXISTS {index} ON {vectors} (prefix, embedding {operators})"
_OPERATORS = {"cosine": "vector_cosine_ops", "l2": "vector_l2_ops", "inner_product": "vector_ip_ops"}


def check(setup: Setup) -> None:
    """Raise UsageError for what CockroachDB does not have."""
    if setup.vector_type != "vector":
        raise UsageError(f"--vector-type {setup.vector_type}: CockroachDB has vector only")
    if setup.index == "ivfflat":
        raise UsageError("--index ivfflat: CockroachDB's own index is meant by hnsw, or there is none: flat")


def statements(schema: str, table: str, setup: Setup) -> Iterator[sql.Composed]:
    """Yield what makes the tables that are missing, each to be run by itself; the index comes last, see `index`."""
    parts = _names(schema, table)
    if schema != "public":
        yield sql.SQL(SCHEMA).format(**parts)
    yield sql.SQL(LEDGER).format(**parts)
    yield sql.SQL(ITEMS).format(**parts)
    if setup.dims is not None:
        yield sql.SQL(VECTORS).format(dims=sql.Literal(setup.dims), **parts)
    for version in MIGRATIONS:
        yield sql.SQL(RECORD).format(version=sql.Literal(version), **parts)


def index(schema: str, table: str, setup: Setup) -> sql.Composed | None:
    """Return what builds the vector index; on a filled table it blocks writes to it up to v25.3.

    It takes the cluster setting `feature.vector_index.enabled`, and other metrics than l2 take v25.3.
    """
    if setup.dims is None or setup.index == "flat":
        return None
    return sql.SQL(INDEX).format(
        index=sql.Identifier(f"{table}_vectors_embedding_idx"),
        operators=sql.SQL(_OPERATORS[setup.metric]),
        **_names(schema, table),
    )


def _names(schema: str, table: str) -> dict[str, sql.Composable]:
    return {
        "schema": sql.Identifier(schema),
        "items": sql.Identifier(schema, table),
        "vectors": sql.Identifier(schema, f"{table}_vectors"),
        "ledger": sql.Identifier(schema, f"{table}_migrations"),
    }
