"""Repairing a database where no single item is concerned, see `store.Repairable`.

A change of the schema waits for readers, and what has to run outside a transaction (CREATE INDEX CONCURRENTLY,
REINDEX, VACUUM) for older snapshots: the one in which this store is read is ended before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from psycopg import sql

from memctl.errors import MemctlError
from memctl.model import Item
from memctl.store import Ailment
from memctl.stores.postgres import schema as tables
from memctl.stores.postgres.transactions import Cursor

if TYPE_CHECKING:
    from memctl.stores.postgres.writer import PostgresWriter

PURGE = """
DELETE FROM {vectors} AS vector
USING unnest(%b::text[], %b::text[], %b::text[], %b::text[]) AS named(prefix, key, field, written)
WHERE vector.prefix = named.prefix AND vector.key = named.key AND vector.field_name = named.field
  AND (named.written IS NULL OR vector.updated_at = named.written::timestamptz)
  AND NOT EXISTS (SELECT FROM {items} AS item WHERE item.prefix = named.prefix AND item.key = named.key)
RETURNING 1
"""
"""An agent that puts an item of that name meanwhile writes its vector over the old one, and commits while this
waits for the row: then its time has changed, although its item does not show in the statement's snapshot."""
ADD_KEY = """
ALTER TABLE {vectors} ADD CONSTRAINT {name}
FOREIGN KEY (prefix, key) REFERENCES {items} (prefix, key) ON DELETE CASCADE NOT VALID
"""
"""NOT VALID takes a short lock only, and cascades all the same."""
VALIDATE = "ALTER TABLE {vectors} VALIDATE CONSTRAINT {name}"
PREFIX_INDEX = (
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {items} USING btree (prefix text_pattern_ops)"
)
EXPIRY_INDEX = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {items} (expires_at) WHERE expires_at IS NOT NULL"""
REINDEX = "REINDEX INDEX CONCURRENTLY {index}"
VACUUM = "VACUUM (ANALYZE) {table}"
FORGET = "DELETE FROM {ledger} WHERE v = %b"
SIZE = "SELECT sum(pg_total_relation_size(oid))::int8 FROM unnest(%s::oid[]) AS oid"
_INDEX_OF = {1: (PREFIX_INDEX, "{}_prefix_idx"), 3: (EXPIRY_INDEX, "idx_{}_expires_at")}


def purge(writer: PostgresWriter, orphans: Sequence[Item]) -> int:
    """Delete the vectors of names that still have no item; return how many."""
    if not any(orphan.vectors for orphan in orphans):
        return 0
    rows = [
        (orphan.prefix, orphan.key, vector.field, vector.updated_at)
        for orphan in orphans
        for vector in orphan.vectors
    ]
    arrays = [list(column) for column in zip(*rows, strict=True)]
    return writer._transactions.run(lambda cursor: len(cursor.execute(writer._rows.sql(PURGE), *arrays)))


def cure(writer: PostgresWriter, ailment: Ailment) -> str | None:
    """Do what an ailment's remedy says; return why not where that cannot be."""
    kind, _, detail = ailment.code.partition(":")
    subject, _, versions = detail.partition(":")
    with _released(writer):
        return _cure(writer, kind, subject, versions)


def _cure(writer: PostgresWriter, kind: str, subject: str, versions: str) -> str | None:
    match kind:
        case "unrecorded":
            writer._transactions.run(partial(_record, writer, subject, versions.split(",")))
        case "absent":
            _migrate(writer, subject, int(versions))
        case "invalid" | "bloat":
            return _alone(writer, REINDEX, index=sql.Identifier(writer._layout.schema, subject))
        case "foreign-key":
            return _add_key(writer)
        case "dead-rows":
            return _alone(writer, VACUUM, table=sql.Identifier(writer._layout.schema, subject))
        case _:
            return "memctl knows no repair for it"
    return None


def vacuum(writer: PostgresWriter) -> int:
    """Make the room of dead rows usable again; return how many octets the tables are smaller."""
    layout = writer._layout
    relations = [relation for relation in (layout.items, layout.vectors) if relation is not None]
    oids = [relation.oid for relation in relations]
    before = writer._session.fetch(SIZE, [oids])[0][0]
    with _released(writer):
        for relation in relations:
            refusal = _alone(writer, VACUUM, table=sql.Identifier(relation.schema, relation.name))
            if refusal:
                raise MemctlError(refusal)
    return max(int(before - writer._session.fetch(SIZE, [oids])[0][0]), 0)


def _record(writer: PostgresWriter, ledger: str, versions: Sequence[str], cursor: Cursor) -> None:
    schema = writer._layout.schema
    name = sql.Identifier(schema, ledger)
    if not cursor.execute(tables.TABLE_EXISTS, schema, ledger)[0][0]:
        cursor.execute(sql.SQL(tables.LEDGER).format(ledger=name))
    for version in versions:
        cursor.execute(sql.SQL(tables.RECORD).format(ledger=name), int(version))


def _migrate(writer: PostgresWriter, ledger: str, version: int) -> None:
    """Make what one migration would have made, or take one off the ledger that only the agent can run."""
    layout = writer._layout
    if ledger == layout.vector_ledger:
        name = sql.Identifier(layout.schema, ledger)
        writer._transactions.run(lambda cursor: cursor.execute(sql.SQL(FORGET).format(ledger=name), version))
    elif version in _INDEX_OF:
        statement, index = _INDEX_OF[version]
        name = sql.Identifier(index.format(layout.items.name))
        refusal = _alone(writer, statement, name=name, items=sql.Identifier(layout.schema, layout.items.name))
        if refusal:
            raise MemctlError(refusal)
    else:
        schema = sql.Identifier(layout.schema)
        step = sql.SQL(tables.MIGRATIONS[version]).format(schema=schema)
        writer._transactions.run(lambda cursor: cursor.execute(step))


def _add_key(writer: PostgresWriter) -> str | None:
    layout = writer._layout
    assert layout.vectors is not None
    name = sql.Identifier(f"{layout.vectors.name}_prefix_key_fkey")
    writer._transactions.run(lambda cursor: cursor.execute(writer._rows.sql(ADD_KEY, name=name)))
    try:
        writer._transactions.run(lambda cursor: cursor.execute(writer._rows.sql(VALIDATE, name=name)))
    except MemctlError:
        return (
            "it is there and cascades, but old orphans keep it from being validated: --fix orphaned-vectors"
        )
    return None


def _alone(writer: PostgresWriter, statement: str, **names: sql.Composable) -> str | None:
    """Run what cannot run in a transaction; return the server's words where it refuses."""
    try:
        writer._transactions.alone(sql.SQL(statement).format(**names))
    except MemctlError as error:
        if error.exit_code != MemctlError.exit_code:
            raise
        return error.message
    return None


@contextmanager
def _released(writer: PostgresWriter) -> Iterator[None]:
    """Let go of the snapshot that this store is read in, and of its locks; then read it as it is by then."""
    writer._session.close()
    try:
        yield
    finally:
        writer._session = writer._connect()
