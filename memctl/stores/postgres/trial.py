"""The server's own word on what it can hold, for the few items that come near its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import errors as states
from psycopg import sql

from memctl.model import decode
from memctl.stores.postgres.holding import DEPTH, NOT_ENCODABLE, NOT_JSON, NUMBER, SIZE
from memctl.stores.postgres.transactions import Cursor, Runs, Transactions

TRY_VALUE = "SELECT %s::text::jsonb IS NULL"
TRY_ITEM = "INSERT INTO {items} (prefix, key, value) VALUES (%s, %s, '{{}}') ON CONFLICT DO NOTHING"
TRY_VECTORS = (
    "INSERT INTO {vectors} (prefix, key, field_name) SELECT %s, %s, unnest(%b::text[]) ON CONFLICT DO NOTHING"
)

_REASONS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (states.NumericValueOutOfRange, NUMBER),
    (states.StatementTooComplex, DEPTH),
    (states.ProgramLimitExceeded, SIZE),
    (states.UntranslatableCharacter, NOT_ENCODABLE),
    (psycopg.DataError, NOT_JSON),
)
"""What the server says of a value; the last is the class of what else it can find wrong with one."""


def _reason_of(error: psycopg.Error) -> str | None:
    """Return what the server's refusal says about a value; None where it is about something else."""
    return next((reason for refusal, reason in _REASONS if isinstance(error, refusal)), None)


class ServerTrial:
    """A `holding.Trial` in transactions of its own. `names` are the store's tables, `items` and `vectors`.

    Without `vectors` only the names of items are tried: where a row of vectors takes an embedding.
    """

    def __init__(self, transactions: Runs, names: Mapping[str, sql.Composable]) -> None:
        self._transactions = transactions
        self._item = sql.SQL(TRY_ITEM).format(**names)
        self._vectors = sql.SQL(TRY_VECTORS).format(**names) if "vectors" in names else None

    def value(self, value: bytes) -> str | None:
        """Return why jsonb cannot hold a value, or None."""

        def attempt(cursor: Cursor) -> str | None:
            try:
                with cursor.savepoint():
                    cursor.execute(TRY_VALUE, decode(value))
            except psycopg.Error as error:
                if (reason := _reason_of(error)) is None:
                    raise
                return reason
            return None

        return self._transactions.run(attempt)

    def fits(self, prefix: str, key: str, fields: Sequence[str]) -> bool:
        """Tell whether the indexes hold these names, by an insert that is rolled back."""

        def attempt(cursor: Cursor) -> bool:
            try:
                with cursor.savepoint():
                    cursor.execute(self._item, prefix, key)
                    if fields and self._vectors is not None:
                        cursor.execute(self._vectors, prefix, key, list(fields))
                    raise psycopg.Rollback
            except states.ProgramLimitExceeded:
                return False
            return True

        return self._transactions.run(attempt)


class ValueTrial:
    """Asks about values alone, over a connection of its own; it takes no table."""

    def __init__(self, conninfo: str, *, timeout: float) -> None:
        self._transactions = Transactions(conninfo, timeout=timeout)
        self._trial = ServerTrial(self._transactions, {"items": sql.SQL("none")})

    def value(self, value: bytes) -> str | None:
        """Return why jsonb cannot hold a value, or None."""
        return self._trial.value(value)

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._transactions.close()
