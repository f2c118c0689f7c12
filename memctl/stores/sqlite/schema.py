"""The tables that LangGraph keeps its memories in, as its own migrations leave them in a SQLite file.

The statements come from `langgraph-checkpoint-sqlite` 3.1.2 (`SqliteStore.setup` in
`langgraph.store.sqlite.base`, `SqliteSaver.setup` in `langgraph.checkpoint.sqlite`) and are run in its order,
so that `sqlite_master` ends up the same to the byte, root pages included. The library adds the two expiry
columns by `ALTER TABLE`; so does this module, because SQLite keeps the difference in the text of the table.
Without the ledger `store_migrations` the library would run its migrations again and die of a duplicate
column: whoever makes the tables fills it too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

LEDGER = """CREATE TABLE store_migrations (
                    v INTEGER PRIMARY KEY
                )"""

MIGRATIONS = (
    """CREATE TABLE store (
    -- 'prefix' represents the doc's 'namespace'
    prefix text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (prefix, key)
)""",
    "CREATE INDEX store_prefix_idx ON store (prefix)",
    "ALTER TABLE store ADD COLUMN expires_at TIMESTAMP",
    "ALTER TABLE store ADD COLUMN ttl_minutes REAL",
    """CREATE INDEX idx_store_expires_at ON store (expires_at)
WHERE expires_at IS NOT NULL""",
)
"""What `store_migrations` counts: the row `v` says that the statement at that place was run."""

VECTOR_LEDGER = """CREATE TABLE vector_migrations (
                        v INTEGER PRIMARY KEY
                    )"""

VECTOR_MIGRATIONS = (
    """CREATE TABLE store_vectors (
    prefix text NOT NULL,
    key text NOT NULL,
    field_name text NOT NULL,
    embedding BLOB,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (prefix, key, field_name),
    FOREIGN KEY (prefix, key) REFERENCES store(prefix, key) ON DELETE CASCADE
)""",
)
"""What `vector_migrations` counts; only in a store that was opened with an index."""

CHECKPOINTER = (
    """CREATE TABLE checkpoints (
                thread_id TEXT NOT NULL,
                checkpoint_ns TEXT NOT NULL DEFAULT '',
                checkpoint_id TEXT NOT NULL,
                parent_checkpoint_id TEXT,
                type TEXT,
                checkpoint BLOB,
                metadata BLOB,
                PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
            )""",
    """CREATE TABLE writes (
                thread_id TEXT NOT NULL,
                checkpoint_ns TEXT NOT NULL DEFAULT '',
                checkpoint_id TEXT NOT NULL,
                task_id TEXT NOT NULL,
                task_path TEXT NOT NULL DEFAULT '',
                idx INTEGER NOT NULL,
                channel TEXT NOT NULL,
                type TEXT,
                value BLOB,
                PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
            )""",
)
"""The tables of a checkpointer, which often shares the file. It has no ledger."""


_RECORD_VECTORS = "INSERT INTO vector_migrations (v) VALUES (?)"


def create(connection: sqlite3.Connection, *, vectors: bool) -> None:
    """Create an empty store, with the tables of a vector index when `vectors`, in one transaction.

    The connection must not be in a transaction. The journal mode stays what it is, as with the library.
    Raises sqlite3.OperationalError when one of the tables is there already, and leaves the file as it was.
    """
    with _transaction(connection):
        _migrate(connection, LEDGER, MIGRATIONS, "INSERT INTO store_migrations (v) VALUES (?)")
        if vectors:
            _migrate(connection, VECTOR_LEDGER, VECTOR_MIGRATIONS, _RECORD_VECTORS)


def add_vectors(connection: sqlite3.Connection) -> None:
    """Create the tables of a vector index in a store that has none, as the library does when it is given one."""
    with _transaction(connection):
        recorded = "SELECT count(*) FROM sqlite_master WHERE name = 'vector_migrations'"
        if not connection.execute(recorded).fetchone()[0]:
            connection.execute(VECTOR_LEDGER)
        for version, statement in enumerate(VECTOR_MIGRATIONS):
            connection.execute(statement)
            connection.execute("INSERT OR IGNORE INTO vector_migrations (v) VALUES (?)", (version,))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _migrate(connection: sqlite3.Connection, ledger: str, migrations: Iterable[str], record: str) -> None:
    connection.execute(ledger)
    for version, statement in enumerate(migrations):
        connection.execute(statement)
        connection.execute(record, (version,))
