"""The threads that a checkpointer keeps in the same file: SqliteSaver of `langgraph-checkpoint-sqlite`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memctl.model import decode, encode

if TYPE_CHECKING:
    from memctl.stores.sqlite.store import SqliteStore

_KEPT = "SELECT count(*) FROM pragma_table_info('checkpoints') WHERE name = 'thread_id'"
_AMONG = """WITH wanted(name) AS (VALUES {marks})
SELECT name FROM wanted WHERE EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = name)"""
"""One seek in the primary key for each: a thread can have thousands of checkpoints."""
_AT_ONCE = 400


def keeps_threads(store: SqliteStore) -> bool:
    """Tell whether a checkpointer has its tables in the store's file."""
    with store._transaction():
        return bool(store._connection.execute(_KEPT).fetchone()[0])


def threads(store: SqliteStore, names: Sequence[str]) -> frozenset[str]:
    """Return which of these threads have a checkpoint."""
    found: set[str] = set()
    for start in range(0, len(names), _AT_ONCE):
        wanted = [encode(name) for name in names[start : start + _AT_ONCE]]
        marks = ", ".join(["(CAST(? AS TEXT))"] * len(wanted))
        with store._transaction():
            rows = store._connection.execute(_AMONG.format(marks=marks), wanted).fetchall()
        found.update(decode(name) for (name,) in rows)
    return frozenset(found)
