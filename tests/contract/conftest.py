"""The fixture `backend`: every test of the suite runs once for each kind of store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.backends import Backend, PostgresBackend, SqliteBackend, WalBackend
from tests.databases import KINDS, Databases

BACKENDS = ("sqlite-rollback", "sqlite-wal", *(f"postgres-{kind}" for kind in KINDS))
NewBackend = Callable[[Path], contextlib.AbstractContextManager[Backend]]


@contextlib.contextmanager
def make_backend(name: str, folder: Path, databases: Callable[[], Databases]) -> Iterator[Backend]:
    """A backend, in a folder or in a database that is dropped at the end."""
    family, _, kind = name.partition("-")
    if family == "sqlite":
        yield (WalBackend if kind == "wal" else SqliteBackend)(folder)
        return
    with databases().new(kind) as database, contextlib.closing(PostgresBackend(database)) as backend:
        yield backend


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A database of each kind, without a store."""
    with make_backend(request.param, tmp_path, lambda: request.getfixturevalue("databases")) as backend:
        yield backend


@pytest.fixture(scope="module", params=BACKENDS)
def shared_backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """A database of each kind for a whole module, whose tests only read."""
    folder = tmp_path_factory.mktemp("shared")
    with make_backend(request.param, folder, lambda: request.getfixturevalue("databases")) as backend:
        yield backend
