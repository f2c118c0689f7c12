"""Stores written, and asked, by each of the real libraries' classes.

A test gives a `Library` puts and questions (the library's own operations), and memctl's answers are held
against the library's. Async classes run in an event loop of their own, behind the same methods.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.databases import EACH_SERVER, Databases
from tests.writers import (
    Index,
    async_postgres_store,
    async_sqlite_store,
    postgres_store,
    sqlite_store,
)


@dataclass(frozen=True, slots=True)
class Library:
    """One class of one library, on a store of its own."""

    address: str
    opened: Callable[..., Any]
    is_async: bool

    def batch(self, *operations: Any, **options: Any) -> list[Any]:
        """Run operations in an opened store and return its answers."""
        if self.is_async:
            return asyncio.run(self._abatch(self.opened(self.address, **options), operations))
        manager: AbstractContextManager[Any] = self.opened(self.address, **options)
        with manager as store:
            return list(store.batch(operations))

    async def _abatch(
        self, manager: AbstractAsyncContextManager[Any], operations: Sequence[Any]
    ) -> list[Any]:
        async with manager as store:
            return list(await store.abatch(operations))


LIBRARIES = (
    "SqliteStore",
    "SqliteStore in WAL",
    "AsyncSqliteStore",
    *(f"PostgresStore {kind}" for kind in EACH_SERVER),
    "AsyncPostgresStore",
)


@contextlib.contextmanager
def library_of(kind: str, folder: Path, databases: Callable[[], Databases]) -> Iterator[Library]:
    """A class of a library, and with PostgresStore the kind of database, with an empty place to write to."""
    with contextlib.ExitStack() as stack:
        if "Sqlite" in kind:
            address = str(folder / "agent.db")
        else:
            named = kind.partition(" ")[2]
            address = stack.enter_context(databases().new(*([named] if named else []))).url
        opened: dict[str, Callable[..., Any]] = {
            "SqliteStore": sqlite_store,
            "SqliteStore in WAL": lambda path, **options: sqlite_store(path, wal=True, **options),
            "AsyncSqliteStore": async_sqlite_store,
            "AsyncPostgresStore": async_postgres_store,
        }
        yield Library(address, opened.get(kind, postgres_store), kind.startswith("Async"))


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    """Each class of both libraries, with an empty place to write to."""
    with library_of(request.param, tmp_path, lambda: request.getfixturevalue("databases")) as found:
        yield found


@pytest.fixture
def index() -> Index:
    """One vector an item, so that no library's window of candidates is too small."""
    return Index(dims=8, fields=["text"], text_fields=["text"], metric="cosine")
