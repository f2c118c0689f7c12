"""Store addresses to store modules; each module is imported only when a store of its kind is opened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from memctl.errors import UsageError

if TYPE_CHECKING:
    from memctl.addresses import Address
    from memctl.store import Setup, Store, Target


def open_store(
    address: Address, *, timeout: float, clock: Callable[[], datetime], immutable: bool = False
) -> Store:
    """Open the store at `address` for reading.

    `timeout` is in seconds: connecting, and waiting for locks. `clock` is asked where the store has no clock
    of its own. Raises what `memctl.errors` has for a store that is not there or cannot be opened.
    """
    match address.scheme:
        case "sqlite":
            from memctl.stores.sqlite.store import open_sqlite

            return open_sqlite(
                address.target,
                schema=address.schema,
                table=address.table,
                timeout=timeout,
                clock=clock,
                immutable=immutable,
            )
        case "postgres":
            from memctl.stores.postgres import open_postgres

            return open_postgres(address.target, schema=address.schema, table=address.table, timeout=timeout)
        case _:
            raise _not_yet(address)


def open_writer(
    address: Address, *, timeout: float, clock: Callable[[], datetime], setup: Setup | None = None
) -> Target:
    """Open the store at `address` for writing; with `setup` its tables are made where there are none.

    Nothing is written before the first `write`, but for what `setup` makes.
    """
    match address.scheme:
        case "sqlite":
            from memctl.stores.sqlite.writer import open_sqlite_writer

            return open_sqlite_writer(
                address.target,
                schema=address.schema,
                table=address.table,
                timeout=timeout,
                clock=clock,
                setup=setup,
            )
        case "postgres":
            from memctl.stores.postgres.writer import open_postgres_writer

            return open_postgres_writer(
                address.target, schema=address.schema, table=address.table, timeout=timeout, setup=setup
            )
        case _:
            raise _not_yet(address)


def _not_yet(address: Address) -> UsageError:
    return UsageError(
        f"this version of memctl cannot open a store of the kind {address.scheme!r} yet",
        hint="a SQLite file or postgresql://…",
    )
