"""Store addresses to store modules; each module is imported only when a store of its kind is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memctl.errors import UsageError

if TYPE_CHECKING:
    from memctl.addresses import Address
    from memctl.store import Setup, Store, Target
    from memctl.stores.api.interface import Interface


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where memctl was started: the folder that modules are imported from, and the variables that hold keys."""

    folder: Path = field(default_factory=Path.cwd)
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)


def open_store(
    address: Address,
    *,
    timeout: float,
    clock: Callable[[], datetime],
    immutable: bool = False,
    as_of: str | None = None,
    surroundings: Surroundings | None = None,
) -> Store:
    """Open the store at `address` for reading.

    `timeout` is in seconds: connecting, and waiting for locks. `clock` is asked where the store has no clock
    of its own. `as_of` asks for the past where a server keeps it, see `cockroach.session.Session`. Raises what
    `memctl.errors` has for a store that is not there or cannot be opened.
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
            from memctl.stores.postgres.connect import IsCockroach

            if as_of not in (None, "now", "follower"):
                raise UsageError(f"--as-of {as_of}: only CockroachDB can be asked for the past")
            try:
                return open_postgres(
                    address.target, schema=address.schema, table=address.table, timeout=timeout
                )
            except IsCockroach:
                return open_store(
                    replace(address, scheme="cockroach"), timeout=timeout, clock=clock, as_of=as_of
                )
        case "cockroach":
            from memctl.stores.cockroach.store import open_cockroach

            return open_cockroach(
                address.target, schema=address.schema, table=address.table, timeout=timeout, as_of=as_of
            )
        case "http" | "python":
            from memctl.stores.api.store import ApiStore

            if as_of not in (None, "now", "follower"):
                raise UsageError(f"--as-of {as_of}: only CockroachDB can be asked for the past")
            return ApiStore(_interface(address, timeout, surroundings), clock=clock)


def open_moment(address: Address, moment: str, timeout: float) -> Store:
    """Open a store as it is seen by another one that is open: `Splittable.moment`."""
    if address.scheme == "postgres":
        from memctl.stores.postgres import open_postgres

        return open_postgres(
            address.target, schema=address.schema, table=address.table, timeout=timeout, snapshot=moment
        )
    from memctl.stores.cockroach.store import open_cockroach

    return open_cockroach(
        address.target, schema=address.schema, table=address.table, timeout=timeout, as_of=moment
    )


def open_writer(
    address: Address,
    *,
    timeout: float,
    clock: Callable[[], datetime],
    setup: Setup | None = None,
    surroundings: Surroundings | None = None,
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
            from memctl.stores.postgres.connect import IsCockroach
            from memctl.stores.postgres.writer import open_postgres_writer

            try:
                return open_postgres_writer(
                    address.target, schema=address.schema, table=address.table, timeout=timeout, setup=setup
                )
            except IsCockroach:
                return open_writer(
                    replace(address, scheme="cockroach"), timeout=timeout, clock=clock, setup=setup
                )
        case "cockroach":
            from memctl.stores.cockroach.writer import open_cockroach_writer

            return open_cockroach_writer(
                address.target, schema=address.schema, table=address.table, timeout=timeout, setup=setup
            )
        case "http" | "python":
            from memctl.stores.api.writer import ApiWriter

            if setup is not None:
                raise UsageError("a store of this kind makes its own tables", hint="leave --init out")
            return ApiWriter(_interface(address, timeout, surroundings), clock=clock)


def _interface(address: Address, timeout: float, surroundings: Surroundings | None) -> Interface:
    surroundings = surroundings or Surroundings()
    if address.schema is not None or address.table is not None:
        raise UsageError(
            "a store of this kind has neither schemas nor tables", hint="leave --schema and --table out"
        )
    if address.scheme == "python":
        from memctl.stores.api.base_store import BaseStoreInterface
        from memctl.stores.api.loading import load

        return BaseStoreInterface(address.target, load(address.target, surroundings.folder))
    from memctl.stores.api.server import open_server

    return open_server(address.target, timeout=timeout, variables=surroundings.variables)
