"""PostgreSQL: the stores of `langgraph-checkpoint-postgres`, 2.0 to 3.2."""

from __future__ import annotations

from memctl.stores.postgres.connect import Session
from memctl.stores.postgres.layout import locate
from memctl.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "open_postgres"]


def open_postgres(
    conninfo: str, *, schema: str | None, table: str | None, timeout: float, snapshot: str | None = None
) -> PostgresStore:
    """Open the store in the database that `conninfo` names: whatever libpq takes, a URL or `key=value`.

    Without `schema` it is looked for in all of them; `table` is the name of the items' table if not `store`.
    `timeout` is in seconds: for connecting, and for each lock. `snapshot` is another store's `moment`. Raises
    UsageError (an address that cannot be read, several stores), NoStore, Busy, Refused or Unreachable.
    """
    session = Session(conninfo, timeout=timeout, snapshot=snapshot)
    try:
        return PostgresStore(session, locate(session, schema=schema, table=table))
    except BaseException:
        session.close()
        raise
