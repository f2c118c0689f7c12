"""Fixtures that every test can use. None of them starts a server before a test asks for it.

Databases (`tests.databases.Database`: `url`, `tcp_url`, `name`, `kind`, `connect()`, `execute(sql,
*parameters)`, `load(dump)`, `role(*grants, **settings)`, `reader(schema, **settings)`,
`configure(**settings)`, `pooled(url="", mode="fresh"|"shared")`); each is empty, has pgvector and is dropped
after the test:

- `database`: on PostgreSQL 18. `postgres_url`: its `url`.
- `each_database`: the test runs once for every kind in `tests.databases.KINDS`: PostgreSQL 16, PostgreSQL 18,
  and one that sorts by en_US.UTF-8.
- `new_database(kind=DEFAULT_KIND, *, vector=True) -> Database`: as many as a test likes.

- `server`: the run's LangGraph server (`tests.langgraph_server`): `url`, `put`, `delete`, `items`.

Addresses at which no store is: `closed_port` (connections are refused), `silent_port` (accepts, never
answers).

Stores (see `tests.writers` to write others):

- `sqlite_sample`: path of a file by SqliteStore with index and TTL, holding `tests.writers.SAMPLE`.
- `postgres_sample`: a `Database` with the same by PostgresStore.
- `sqlite_data`: path of a private copy of each `tests/data/sqlite-*.db`; `postgres_data`: a `Database` with
  each `tests/data/postgres-*.sql`. A test runs once for every file. `DATA` in this module is the folder.

The command line: `memctl`, a `tests.invocation.Memctl` in the test's own folder `tmp_path`.

Options: `--fail-on-skip` (see `tests.skips`). `-n 2` works: the workers share the servers. The environment is
cleared of `PG*` and of memctl's own variables first; `MEMCTL_TEST_POSTGRES_URL` is kept (see
`tests.servers`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import DEFAULT_KIND, KINDS, Database, Databases
from tests.invocation import Memctl
from tests.langgraph_server import LanggraphServer, langgraph_server
from tests.servers import Servers, UnavailableError
from tests.skips import (  # noqa: F401  (hooks of this plugin)
    pytest_addoption,
    pytest_make_collect_report,
    pytest_runtest_makereport,
)
from tests.writers import Index, postgres_store, sqlite_store, write_sample

DATA = Path(__file__).parent / "data"
_SERVERS = pytest.StashKey[Servers]()
_UNTRACED = {
    "test_beside_an_agent.py",
    "test_benchmarks.py",
    "test_concurrency.py",
    "test_crashes.py",
    "test_looking_changes_nothing.py",
    "test_properties.py",
}

NewDatabase = Callable[..., Database]


def pytest_configure(config: pytest.Config) -> None:
    for name in list(os.environ):
        if name.startswith("PG") or (name.startswith("MEMCTL_") and not name.startswith("MEMCTL_TEST_")):
            del os.environ[name]
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist uses the servers of its controller
        config.stash[_SERVERS] = Servers(Path(config.workerinput["servers"]))
        return
    run = contextlib.ExitStack()
    servers = config.stash[_SERVERS] = run.enter_context(Servers.run())
    run.callback(run.enter_context(contextlib.closing(Databases(servers))).sweep)
    config.add_cleanup(run.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["servers"] = str(node.config.stash[_SERVERS].folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Trace no lines where much is done again and again, or in other processes: others have met them all."""
    for item in items:
        if item.path.name in _UNTRACED or item.path.parent.name == "interop":
            item.add_marker("no_cover")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _skipping():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _skipping():
        return (yield)


@contextlib.contextmanager
def _skipping() -> Iterator[None]:
    """What this machine lacks is a skip that says so."""
    try:
        yield
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Servers:
    """The run's servers."""
    return pytestconfig.stash[_SERVERS]


@pytest.fixture(scope="session")
def databases(servers: Servers) -> Iterator[Databases]:
    """Makes this process's databases; for wider scopes: `with databases.new(kind) as database`."""
    with contextlib.closing(Databases(servers)) as databases:
        yield databases


@pytest.fixture
def new_database(databases: Databases) -> Iterator[NewDatabase]:
    """Makes an empty database: `new_database(kind=DEFAULT_KIND, *, vector=True)`."""
    with contextlib.ExitStack() as stack:
        yield lambda kind=DEFAULT_KIND, *, vector=True: stack.enter_context(
            databases.new(kind, vector=vector)
        )


@pytest.fixture
def database(new_database: NewDatabase) -> Database:
    """An empty database on the newest server."""
    return new_database()


@pytest.fixture
def postgres_url(database: Database) -> str:
    """The address of `database`."""
    return database.url


@pytest.fixture(params=KINDS)
def each_database(request: pytest.FixtureRequest, new_database: NewDatabase) -> Database:
    """An empty database of each kind."""
    return new_database(request.param)


@pytest.fixture
def server(servers: Servers) -> Iterator[LanggraphServer]:
    """The run's LangGraph server, empty, and nobody else's for this test."""
    with langgraph_server(servers) as server:
        yield server


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections, and that nobody else can take meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port of 127.0.0.1 that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def memctl(tmp_path: Path) -> Memctl:
    """The command line in the test's own folder."""
    return Memctl(tmp_path)


@pytest.fixture
def sqlite_sample(tmp_path: Path) -> Path:
    """A SQLite file with the standard sample, written by the real library."""
    path = tmp_path / "sample.db"
    with sqlite_store(
        path, index=Index(text_fields=["text", "tags[*]"]), ttl={"refresh_on_read": True}
    ) as store:
        write_sample(store)
    return path


@pytest.fixture
def postgres_sample(database: Database) -> Database:
    """A database with the standard sample, written by the real library."""
    with postgres_store(database.url, index=Index(), ttl={"refresh_on_read": True}) as store:
        write_sample(store)
    return database


@pytest.fixture(params=sorted(DATA.glob("sqlite-*.db")), ids=lambda path: path.stem)
def sqlite_data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of each SQLite file that a real library of some age wrote."""
    return Path(shutil.copy(request.param, tmp_path))


@pytest.fixture(params=sorted(DATA.glob("postgres-*.sql")), ids=lambda path: path.stem)
def postgres_data(request: pytest.FixtureRequest, database: Database) -> Database:
    """A database with each dump of what a real library of some age wrote."""
    database.load(request.param)
    return database
