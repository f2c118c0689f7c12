"""What the store looks like: tables, indexes, the ledger, and whether the row-level TTL job runs."""

from __future__ import annotations

import re
from typing import Any

from psycopg import sql

from memctl.store import Description, Index, Ledger, Table, VectorSetup
from memctl.stores.cockroach.session import Session
from memctl.stores.postgres.layout import Layout, Relation

MIGRATIONS = (0, 1)
"""Of `langchain-cockroachdb` 0.5.0: the ledger itself and the items' table; vector tables are not recorded."""
INDEXES = """
SELECT indexname, tablename, indexdef FROM pg_catalog.pg_indexes
WHERE schemaname = %s AND tablename = ANY(%s) ORDER BY tablename, indexname
"""
LEDGER_THERE = """
SELECT count(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s
"""
RECORDED = "SELECT DISTINCT v FROM {ledger} ORDER BY v"
SHOW_CREATE = "SELECT create_statement FROM [SHOW CREATE TABLE {table}]"
SAMPLED_DIMS = """
SELECT DISTINCT vector_dims(embedding) FROM (SELECT embedding FROM {vectors} LIMIT 1000) AS sample ORDER BY 1
"""

_STORAGE = re.compile(r"\b(ttl\w*)\s*=\s*'?([^',)]*)'?")
_WIDTH = re.compile(r"\bembedding VECTOR\((\d+)\)", re.IGNORECASE)
_OPCLASS = re.compile(r"vector_(cosine|l2|ip)_ops")
_METRICS = {"cosine": "cosine", "l2": "l2", "ip": "inner_product"}


def describe(session: Session, layout: Layout) -> Description:
    """Describe the store; reads the catalog, the ledger, and at most 1,000 vectors."""
    relations = [relation for relation in (layout.items, layout.vectors) if relation is not None]
    names = [relation.name for relation in relations]
    indexes = tuple(
        Index(name, table, definition)
        for name, table, definition in session.fetch(INDEXES, [layout.schema, names])
    )
    facts: dict[str, Any] = {"as_of": session.as_of}
    for relation in relations:
        job = ttl_job(session, relation) if session.is_cockroach else "unknown: the server is not CockroachDB"
        facts[f"ttl_job_of_{relation.name}"] = job or "does not run: what has expired stays until a sweep"
    return Description(
        backend="CockroachDB" if session.is_cockroach else "PostgreSQL with tables in CockroachDB's layout",
        version=session.version,
        schema=layout.schema,
        tables=tuple(_table(relation) for relation in relations),
        ledgers=(_ledger(session, layout),),
        indexes=indexes,
        vectors=_vectors(session, layout, indexes),
        octets=None,
        facts=facts,
    )


def ttl_job(session: Session, relation: Relation) -> str | None:
    """Return how often the row-level TTL job runs on a table, as cron; None where it does not run."""
    return job_of(_create_statement(session, relation)) if session.is_cockroach else None


def declared_dims(session: Session, relation: Relation) -> int | None:
    """Return the width that VECTOR(N) declares, which the catalog's type modifier may not tell."""
    found = _WIDTH.search(_create_statement(session, relation)) if session.is_cockroach else None
    return int(found[1]) if found else None


def job_of(create_statement: str) -> str | None:
    """Read the TTL job's cron off what SHOW CREATE TABLE says; `@daily` is the server's own default."""
    found = dict(_STORAGE.findall(create_statement))
    if "ttl_expiration_expression" not in found and "ttl_expire_after" not in found:
        return None
    return "paused" if found.get("ttl_pause") == "true" else found.get("ttl_job_cron", "@daily")


def _create_statement(session: Session, relation: Relation) -> str:
    table = sql.Identifier(relation.schema, relation.name)
    ((statement,),) = session.fetch(sql.SQL(SHOW_CREATE).format(table=table))
    return str(statement)


def _table(relation: Relation) -> Table:
    return Table(relation.name, {column.name: column.declared for column in relation.columns.values()})


def _ledger(session: Session, layout: Layout) -> Ledger:
    recorded: tuple[int, ...] = ()
    ((there,),) = session.fetch(LEDGER_THERE, [layout.schema, layout.ledger])
    if there:
        query = sql.SQL(RECORDED).format(ledger=sql.Identifier(layout.schema, layout.ledger))
        recorded = tuple(int(v) for (v,) in session.fetch(query))
    return Ledger(layout.ledger, recorded, MIGRATIONS, MIGRATIONS if there else MIGRATIONS[1:])


def _vectors(session: Session, layout: Layout, indexes: tuple[Index, ...]) -> VectorSetup | None:
    vectors = layout.vectors
    if vectors is None:
        return None
    dims: tuple[int, ...] = (layout.dims,) if layout.dims else ()
    if not dims:
        query = sql.SQL(SAMPLED_DIMS).format(vectors=sql.Identifier(vectors.schema, vectors.name))
        dims = tuple(int(width) for (width,) in session.fetch(query))
    ann = next((index for index in indexes if index.name == f"{vectors.name}_embedding_idx"), None)
    opclass = _OPCLASS.search(ann.definition) if ann else None
    metric = _METRICS[opclass[1]] if opclass else None
    return VectorSetup("vector", dims, index="cspann" if ann else None, metric=metric)
