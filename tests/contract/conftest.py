"""The fixture `backend`: every test of the suite runs once for each kind of store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.contract.backends import Backend, CockroachBackend, PostgresBackend, SqliteBackend, WalBackend
from tests.contract.interfaces import ApiBackend, InMemoryBackend, ServerBackend
from tests.databases import DEFAULT_KIND, EACH_SERVER, Databases
from tests.langgraph_server import langgraph_server

BACKENDS = ("sqlite-rollback", "sqlite-wal", *(f"postgres-{kind}" for kind in EACH_SERVER), "cockroach")
INTERFACES: dict[str, type[ApiBackend]] = {"in-memory": InMemoryBackend, "server": ServerBackend}
"""Backends that nobody puts rows into by SQL, see `needs` in `tests.contract.interfaces`."""
NewBackend = Callable[[Path], contextlib.AbstractContextManager[Backend]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*offers): runs on every kind of store that offers this")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on every kind of database; one that says what it needs on each interface that has it, too.

    Of the servers of PostgreSQL each test takes one, always the same, so that the suite meets all of them.
    """
    marker = metafunc.definition.get_closest_marker("needs")
    turn = crc32(metafunc.definition.nodeid.encode()) % len(EACH_SERVER)
    others = {f"postgres-{kind}" for number, kind in enumerate(EACH_SERVER) if number != turn}
    names = [name for name in BACKENDS if name not in others]
    if marker is not None:
        names += [name for name, kind in INTERFACES.items() if kind.offers >= set(marker.args)]
    for fixture in ("backend", "shared_backend"):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, names, indirect=True)


@contextlib.contextmanager
def make_backend(name: str, folder: Path, databases: Callable[[], Databases]) -> Iterator[Backend]:
    """A backend, in a folder or in a database that is dropped at the end."""
    family, _, kind = name.partition("-")
    if family == "sqlite":
        yield (WalBackend if kind == "wal" else SqliteBackend)(folder)
        return
    new = CockroachBackend if family == "cockroach" else PostgresBackend
    with databases().new(kind or DEFAULT_KIND) as database, contextlib.closing(new(database)) as backend:
        yield backend


@contextlib.contextmanager
def requested(request: pytest.FixtureRequest, folder: Path) -> Iterator[Backend]:
    """The backend that a test's parameter names."""
    if request.param == "in-memory":
        with contextlib.closing(InMemoryBackend()) as memory:
            yield memory
    elif request.param == "server":
        with langgraph_server(request.getfixturevalue("servers")) as server:
            yield ServerBackend(server)
    else:
        with make_backend(request.param, folder, lambda: request.getfixturevalue("databases")) as backend:
            yield backend


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A database of each kind, without a store."""
    with requested(request, tmp_path) as backend:
        yield backend


@pytest.fixture(scope="module")
def shared_backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """A database of each kind for a whole module, whose tests only read."""
    with requested(request, tmp_path_factory.mktemp("shared")) as backend:
        yield backend
