"""The threads that a checkpointer keeps beside the store: PostgresSaver of `langgraph-checkpoint-postgres`."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from memctl.model import decode
from memctl.stores.postgres.connect import Session

_KEPT = """
SELECT count(*) FROM pg_catalog.pg_attribute
WHERE attrelid = to_regclass(format('%%I.checkpoints', %s::text)) AND attname = 'thread_id' AND NOT attisdropped
  AND has_schema_privilege(%s::text, 'USAGE') AND has_column_privilege(attrelid, attnum, 'SELECT')
"""
_AMONG = """
SELECT name FROM unnest(%s::text[]) AS wanted(name)
WHERE EXISTS (SELECT FROM {checkpoints} WHERE thread_id = name)
"""


def keeps_threads(session: Session, schema: str) -> bool:
    """Tell whether a checkpointer has its tables in the store's schema, and this role may read them."""
    return bool(session.fetch(_KEPT, [schema, schema])[0][0])


def threads(session: Session, schema: str, names: Sequence[str]) -> frozenset[str]:
    """Return which of these threads have a checkpoint."""
    query = sql.SQL(_AMONG).format(checkpoints=sql.Identifier(schema, "checkpoints"))
    wanted = [name for name in names if session.can_hold(name)]
    return frozenset(decode(name) for (name,) in session.fetch_raw(query, [wanted]))
