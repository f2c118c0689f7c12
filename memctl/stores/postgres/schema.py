"""The tables that LangGraph keeps its memories in, as its own migrations leave them in a database.

The statements are those of `langgraph-checkpoint-postgres` 3.2.0 (`MIGRATIONS`, `VECTOR_MIGRATIONS` and
`setup()` in `langgraph.store.postgres.base`), with every name qualified, and recorded in its ledgers as it
records them: its `setup()` then finds nothing to do. Its indexes are built CONCURRENTLY, which cannot be
undone; here they are built in a transaction together with their ledger rows, and turn out the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import errors as states
from psycopg import sql

from memctl.errors import MemctlError, Refused, UsageError
from memctl.store import Setup
from memctl.stores.postgres.connect import Query
from memctl.stores.postgres.transactions import Cursor

LEDGER = "CREATE TABLE {ledger} (v INTEGER PRIMARY KEY)"
RECORD = "INSERT INTO {ledger} (v) VALUES (%s) ON CONFLICT DO NOTHING"
"""An agent that starts meanwhile may have recorded the same."""
RECORDED = "SELECT coalesce(max(v), -1) FROM {ledger}"

MIGRATIONS = (
    """
CREATE TABLE IF NOT EXISTS {schema}.store (
    prefix text NOT NULL,
    key text NOT NULL,
    value jsonb NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (prefix, key)
)""",
    "CREATE INDEX IF NOT EXISTS store_prefix_idx ON {schema}.store USING btree (prefix text_pattern_ops)",
    """
ALTER TABLE {schema}.store
ADD COLUMN IF NOT EXISTS expires_at TIMESTAMP WITH TIME ZONE,
ADD COLUMN IF NOT EXISTS ttl_minutes INT""",
    """
CREATE INDEX IF NOT EXISTS idx_store_expires_at ON {schema}.store (expires_at)
WHERE expires_at IS NOT NULL""",
)
"""What `store_migrations` counts."""

EXTENSION = "CREATE EXTENSION vector WITH SCHEMA {schema}"
VECTORS = """
CREATE TABLE IF NOT EXISTS {schema}.store_vectors (
    prefix text NOT NULL,
    key text NOT NULL,
    field_name text NOT NULL,
    embedding {home}.{type}({dims}),
    created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (prefix, key, field_name),
    FOREIGN KEY (prefix, key) REFERENCES {schema}.store(prefix, key) ON DELETE CASCADE
)"""
INDEX = """
CREATE INDEX IF NOT EXISTS store_vectors_embedding_idx ON {schema}.store_vectors
USING {method} (embedding {home}.{operators})"""
DROP_INDEX = "DROP INDEX {schema}.store_vectors_embedding_idx"
_INDEX_STEP = 2
"""`vector_migrations` counts the extension, the table and the index; a flat store never takes the last step."""

SCHEMA = "CREATE SCHEMA {schema}"
SCHEMA_EXISTS = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s)"
TABLE_EXISTS = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = %s AND c.relname = %s)
"""
HOME = """
SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'
"""
EMBEDDING = """
SELECT t.typname, a.atttypmod
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE n.nspname = %s AND c.relname = 'store_vectors' AND a.attname = 'embedding' AND NOT a.attisdropped
"""
INVALID_INDEX = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_index x
    JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = 'store_vectors_embedding_idx' AND NOT x.indisvalid)
"""
WORK_MEMORY = """
SELECT set_config('maintenance_work_mem', greatest(
    pg_size_bytes(current_setting('maintenance_work_mem')) / 1024,
    least({most}, (SELECT count(*) FROM {schema}.store_vectors) * {row} / 1024 + {least}))::text, true)
"""
WITHOUT_WORKERS = "SELECT set_config('max_parallel_maintenance_workers', '0', true)"

_MOST_KILOBYTES = 1024 * 1024
_LEAST_KILOBYTES = 64 * 1024
_NODE_OCTETS = 1024
"""What an HNSW graph under construction takes for a row, its numbers not counted."""

COLUMN_DIMS = 16_000
"""What pgvector's columns hold at most; its indexes hold `INDEX_DIMS`."""
INDEX_DIMS = {"vector": 2_000, "halfvec": 4_000}
_METRICS = {"cosine": "cosine", "l2": "l2", "inner_product": "ip"}
_INDEXES = ("hnsw", "ivfflat", "flat")


def check(setup: Setup) -> None:
    """Raise UsageError for tables that pgvector cannot make."""
    if setup.dims is None:
        return
    for name, chosen, known in (
        ("--vector-type", setup.vector_type, INDEX_DIMS),
        ("--index", setup.index, _INDEXES),
        ("--metric", setup.metric, _METRICS),
    ):
        if chosen not in known:
            raise UsageError(f"{name} {chosen}: there is only {', '.join(known)}")
    if not 1 <= setup.dims <= COLUMN_DIMS:
        raise UsageError(f"--dims {setup.dims}: a vector has 1 to {COLUMN_DIMS:,} dims")
    most = INDEX_DIMS[setup.vector_type]
    if setup.index != "flat" and setup.dims > most:
        half = INDEX_DIMS["halfvec"]
        wider = f"--vector-type halfvec holds {half:,}, " if most < setup.dims <= half else ""
        raise UsageError(
            f"--dims {setup.dims}: an {setup.index} index holds at most {most:,} dims of a {setup.vector_type}",
            hint=f"{wider}--index flat {COLUMN_DIMS:,}",
        )


def prepare(cursor: Cursor, schema: str, setup: Setup) -> None:
    """Make what is missing of the store's tables, and all but the vector index of their vectors.

    Of an older store it runs the migrations that are missing, as the library does. Where everything is
    there, nothing is run and no privilege needed. Raises UsageError where there are other vectors already.
    """
    if not cursor.execute(SCHEMA_EXISTS, schema)[0][0]:
        cursor.execute(sql.SQL(SCHEMA).format(schema=sql.Identifier(schema)))
    steps = [sql.SQL(step).format(schema=sql.Identifier(schema)) for step in MIGRATIONS]
    _migrate(cursor, schema, "store_migrations", steps)
    if setup.dims is None:
        return
    home = _home(cursor, schema)
    _refuse_other_vectors(cursor, schema, setup)
    table = sql.SQL(VECTORS).format(
        schema=sql.Identifier(schema),
        home=sql.Identifier(home),
        type=sql.Identifier(setup.vector_type),
        dims=sql.Literal(setup.dims),
    )
    _migrate(cursor, schema, "vector_migrations", [sql.SQL("SELECT"), table])


def build_index(cursor: Cursor, schema: str, setup: Setup) -> None:
    """Build the vector index and record it, unless somebody did so meanwhile.

    Writers wait until it is built: it is for a store that nobody uses yet.
    """
    if setup.dims is None or setup.index == "flat":
        return
    if _version(cursor, schema, "vector_migrations") >= _INDEX_STEP:
        return
    names = {"schema": sql.Identifier(schema), "home": sql.Identifier(_home(cursor, schema))}
    if cursor.execute(INVALID_INDEX, schema)[0][0]:
        cursor.execute(sql.SQL(DROP_INDEX).format(**names))
    octets = 4 * setup.dims + _NODE_OCTETS
    memory = sql.SQL(WORK_MEMORY).format(
        row=sql.Literal(octets), most=_MOST_KILOBYTES, least=_LEAST_KILOBYTES, **names
    )
    operators = f"{setup.vector_type}_{_METRICS[setup.metric]}_ops"
    index = sql.SQL(INDEX).format(
        method=sql.Identifier(setup.index), operators=sql.Identifier(operators), **names
    )
    cursor.execute(memory)
    try:
        with cursor.savepoint():
            cursor.execute(index)
    except (states.DiskFull, states.OutOfMemory):
        # Workers share the memory through /dev/shm, which is small in a container.
        cursor.execute(WITHOUT_WORKERS)
        cursor.execute(index)
    _record(cursor, schema, "vector_migrations", _INDEX_STEP)


def _migrate(cursor: Cursor, schema: str, ledger: str, steps: Iterable[Query]) -> None:
    """Run the steps past the last one recorded, which is how the library goes about it."""
    if not cursor.execute(TABLE_EXISTS, schema, ledger)[0][0]:
        cursor.execute(sql.SQL(LEDGER).format(ledger=sql.Identifier(schema, ledger)))
    version = _version(cursor, schema, ledger)
    for number, step in enumerate(steps):
        if number > version:
            cursor.execute(step)
            _record(cursor, schema, ledger, number)


def _version(cursor: Cursor, schema: str, ledger: str) -> int:
    ((version,),) = cursor.execute(sql.SQL(RECORDED).format(ledger=sql.Identifier(schema, ledger)))
    return int(version)


def _record(cursor: Cursor, schema: str, ledger: str, version: int) -> None:
    cursor.execute(sql.SQL(RECORD).format(ledger=sql.Identifier(schema, ledger)), version)


def _home(cursor: Cursor, schema: str) -> str:
    """Return the schema of the extension, which is created where the tables are if it is not there."""
    found = cursor.execute(HOME)
    if found:
        return str(found[0][0])
    try:
        cursor.execute(sql.SQL(EXTENSION).format(schema=sql.Identifier(schema)))
    except states.InsufficientPrivilege as error:
        raise Refused(
            "the database has no pgvector, and this role may not create extensions",
            hint="a superuser runs: CREATE EXTENSION vector",
        ) from error
    except (states.FeatureNotSupported, states.UndefinedFile) as error:
        raise MemctlError(
            "the server has no pgvector, which stores with vectors need",
            hint="install it there (the package postgresql-NN-pgvector), or leave --dims out",
            code="no-pgvector",
        ) from error
    return schema


def _refuse_other_vectors(cursor: Cursor, schema: str, setup: Setup) -> None:
    found = cursor.execute(EMBEDDING, schema)
    if found and found[0] != (setup.vector_type, setup.dims):
        kind, dims = found[0]
        there = f"{kind}({dims})" if dims > 0 else str(kind)
        raise UsageError(
            f"the store in the schema {schema} has embeddings of type {there}, "
            f"not {setup.vector_type}({setup.dims})",
            hint="leave --dims and --vector-type out to keep them",
        )
