"""What the store looks like in the catalog: tables, indexes, and migration ledgers against the schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg import sql

from memctl.store import Description, Index, Ledger, Table, VectorSetup
from memctl.stores.postgres.connect import Session
from memctl.stores.postgres.layout import Layout, Relation

SAMPLED_ROWS = 1000

SERVER = """
SELECT current_setting('server_version'), pg_is_in_recovery(),
       current_setting('default_transaction_read_only')::bool,
       (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector'),
       row_security_active(%s::oid),
       to_jsonb(d) FROM pg_catalog.pg_database d WHERE d.datname = current_database()
"""
SIZES = """
SELECT oid::int8, CASE WHEN reltuples >= 0 THEN reltuples::int8 END,
       CASE WHEN relkind <> 'v' THEN pg_total_relation_size(oid) END
FROM pg_catalog.pg_class WHERE oid = ANY(%s::oid[])
"""
INDEXES = """
SELECT i.relname, x.indrelid::int8, pg_get_indexdef(x.indexrelid), x.indisvalid AND x.indisready, m.amname,
       (SELECT o.opcname FROM pg_catalog.pg_opclass o WHERE o.oid = x.indclass[0])
FROM pg_catalog.pg_index x
JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
JOIN pg_catalog.pg_am m ON m.oid = i.relam
WHERE x.indrelid = ANY(%s::oid[])
ORDER BY x.indrelid, i.relname
"""
LEDGERS = """
SELECT c.relname, has_column_privilege(c.oid, a.attnum, 'SELECT')
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'v' AND NOT a.attisdropped
WHERE n.nspname = %s AND c.relname = ANY(%s::text[])
"""
RECORDED = "SELECT DISTINCT v FROM {ledger} WHERE v IS NOT NULL ORDER BY v"
SAMPLED_DIMS = """
SELECT DISTINCT {home}.vector_dims(embedding)
FROM (SELECT embedding FROM {vectors} WHERE embedding IS NOT NULL LIMIT {rows}) AS sample ORDER BY 1
"""

ITEM_MIGRATIONS = (0, 1, 2, 3)
"""Of `langgraph-checkpoint-postgres` 3.2.0: the table, the index of prefixes, the columns of expiry, their
index."""
VECTOR_MIGRATIONS = (0, 1, 2)
"""The extension, the table, the ANN index; a flat store never takes the last step."""
_ANN = ("hnsw", "ivfflat")
_METRICS = {"cosine": "cosine", "l2": "l2", "ip": "inner_product", "l1": "l1"}


def describe(session: Session, layout: Layout) -> Description:
    """Describe the store; reads the catalog, the ledgers, and at most 1,000 vectors."""
    relations = [relation for relation in (layout.items, layout.vectors) if relation is not None]
    version, in_recovery, read_only, pgvector, row_security, database = session.fetch(
        SERVER, [layout.items.oid]
    )[0]
    sizes = {oid: (estimate, octets) for oid, estimate, octets in session.fetch(SIZES, [_oids(relations)])}
    tables = tuple(_table(relation, *sizes[relation.oid]) for relation in relations)
    indexes = session.fetch(INDEXES, [_oids(relations)])
    ledgers, unreadable = _ledgers(session, layout, indexes, has_pgvector=pgvector is not None)
    facts: dict[str, Any] = {
        "collation": database["datcollate"],
        "encoding": session.encoding,
        "read_only": read_only,
        "in_recovery": in_recovery,
        "row_security": row_security,
        "pgvector": pgvector,
    }
    if locale := database.get("datlocale") or database.get("daticulocale"):
        facts["locale"] = locale
    if unreadable:
        facts["unreadable"] = unreadable
    names = {relation.oid: relation.name for relation in relations}
    return Description(
        backend="PostgreSQL",
        version=version,
        schema=layout.schema,
        tables=tables,
        ledgers=ledgers,
        indexes=tuple(Index(name, names[oid], sql, valid) for name, oid, sql, valid, _, _ in indexes),
        vectors=_vector_setup(session, layout, indexes),
        octets=sum(table.octets or 0 for table in tables),
        facts=facts,
    )


def _table(relation: Relation, estimate: int | None, octets: int | None) -> Table:
    declared = {column.name: column.declared for column in relation.columns.values()}
    return Table(relation.name, declared, estimate=estimate, octets=octets)


def _ledgers(
    session: Session, layout: Layout, indexes: Iterable[tuple[Any, ...]], *, has_pgvector: bool
) -> tuple[tuple[Ledger, ...], list[str]]:
    """Return the ledgers against the schema, and the names of those that the role may not read.

    The library asks by name whether an index is there (`CREATE INDEX IF NOT EXISTS`), and so does this; an
    invalid one is there and does nothing, so its migration has no effect.
    """
    names = [layout.ledger, layout.vector_ledger]
    found: dict[str, bool] = dict(session.fetch(LEDGERS, [layout.schema, names]))
    valid = {name for name, _, _, is_valid, _, _ in indexes if is_valid}
    items, vectors = layout.items, layout.vectors
    steps: list[tuple[str, tuple[int, ...], tuple[bool, ...]]] = [
        (layout.ledger, ITEM_MIGRATIONS, (
            True,
            f"{items.name}_prefix_idx" in valid,
            {"expires_at", "ttl_minutes"} <= items.columns.keys(),
            f"idx_{items.name}_expires_at" in valid,
        )),
    ]  # fmt: skip
    if vectors is not None or layout.vector_ledger in found:
        steps.append((layout.vector_ledger, VECTOR_MIGRATIONS, (
            has_pgvector,
            vectors is not None,
            vectors is not None and f"{vectors.name}_embedding_idx" in valid,
        )))  # fmt: skip
    ledgers, unreadable = [], []
    for table, known, effects in steps:
        if table in found and not found[table]:
            unreadable.append(table)
            continue
        recorded: tuple[int, ...] = ()
        if table in found:
            ledger = sql.Identifier(layout.schema, table)
            recorded = tuple(v for (v,) in session.fetch(sql.SQL(RECORDED).format(ledger=ledger)))
        applied = tuple(v for v, there in zip(known, effects, strict=True) if there)
        ledgers.append(Ledger(table, recorded, known, applied))
    return tuple(ledgers), unreadable


def _vector_setup(session: Session, layout: Layout, indexes: Iterable[tuple[Any, ...]]) -> VectorSetup | None:
    vectors, embedding = layout.vectors, layout.embedding
    if vectors is None or embedding is None:
        return None
    dims: tuple[int, ...] = (layout.dims,) if layout.dims else ()
    if not dims:
        sampled = sql.SQL(SAMPLED_DIMS).format(
            home=sql.Identifier(embedding.type_schema),
            vectors=sql.Identifier(vectors.schema, vectors.name),
            rows=SAMPLED_ROWS,
        )
        dims = tuple(width for (width,) in session.fetch(sampled))
    ann = [row[4:] for row in indexes if row[1] == vectors.oid and row[4] in _ANN]
    method, opclass = ann[0] if ann else (None, "")
    metric = _METRICS.get(opclass.removeprefix(f"{embedding.type}_").removesuffix("_ops"))
    return VectorSetup(embedding.type, dims, index=method, metric=metric)


def _oids(relations: Iterable[Relation]) -> list[int]:
    return [relation.oid for relation in relations]
