"""Imports and migrations that are killed, cut off, starved of disk or interrupted, and then run again.

Real processes are killed at points of their own choosing. Whatever happened, the rerun has to leave the very
store that an uninterrupted run leaves, with its vector index and its ledgers.
"""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contract.backends import SqliteBackend
from tests.databases import Database
from tests.invocation import Memctl
from tests.writers import Index, postgres_store, sqlite_store

COUNT = 1_400
FILLING = "x" * 7_500
"""In all more than one batch of either backend's, and more than SQLite keeps in its page cache."""
_PATIENCE = 60.0


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose every tenth item has a vector."""
    backend = SqliteBackend(tmp_path_factory.mktemp("source"))
    backend.create()
    with closing(sqlite3.connect(backend.path)) as connection, connection:
        times = "2026-11-29 10:20:30", "2026-11-30 07:42:43.843759"
        connection.executemany(
            "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES (?, ?, ?, ?, ?)",
            (
                (f"users.{n // 100:04}", f"{n:06}", f'{{"n": {n}, "text": "{FILLING}"}}', *times)
                for n in range(COUNT)
            ),
        )
        connection.executemany(
            "INSERT INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at)"
            " VALUES (?, ?, 'text', ?, ?, ?)",
            (
                (f"users.{n // 100:04}", f"{n:06}", struct.pack("<8f", *[n / 7] * 8), *times)
                for n in range(0, COUNT, 10)
            ),
        )
    return backend.path


@pytest.fixture(scope="module")
def archive(source: Path) -> Path:
    """The same as an archive."""
    path = source.with_name("source.jsonl")
    outcome = Memctl(source.parent)("-s", source, "export", "-f", path)
    assert outcome.code == 0, outcome.err
    return path


@contextlib.contextmanager
def started(memctl: Memctl, *arguments: str | Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone at the end, whatever happens; Ctrl-C reaches it even where nobody's reaches us."""
    process = subprocess.Popen(
        memctl.command(*arguments),
        env=memctl.environment(),
        cwd=memctl.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 no threads
        **options,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def until(
    is_so: Callable[[], Any], process: subprocess.Popen[bytes] | None = None, every: float = 0.03
) -> None:
    """Wait for something that is about to happen, before the process ends."""
    deadline = time.monotonic() + _PATIENCE
    while not is_so():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(every)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for a process; return its exit code and what it said."""
    _, stderr = process.communicate(timeout=_PATIENCE)
    return process.returncode, stderr.decode()


def check_complete(memctl: Memctl, source: Path, target: str | Path) -> None:
    """The target holds just what the source does, and another run finds nothing to do."""
    outcome = memctl("diff", source, target, "-o", "json")
    assert (outcome.code, outcome.json()) == (0, []), outcome.err
    again = memctl.json("migrate", source, target, "--init")
    assert (again["items"], again["unchanged"]) == (0, COUNT)


class TestKilled:
    """kill -9."""

    @pytest.mark.parametrize("command", ["import", "migrate"])
    def test_sqlite_at_random_points(
        self, memctl: Memctl, source: Path, archive: Path, tmp_path: Path, command: str
    ) -> None:
        target = tmp_path / "target.db"
        line = ("-s", target, "import", archive) if command == "import" else ("migrate", source, target)
        seed = random.randrange(10**6)
        chance = random.Random(seed)
        reached = []
        for _ in range(5):
            with started(memctl, *line, "--init") as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0.15, 0.9))
                process.kill()
            reached.append(target.stat().st_size if target.exists() else 0)
        outcome = memctl(*line, "--init")
        assert outcome.code == 0, (seed, reached, outcome.err)
        check_complete(memctl, source, target)

    @pytest.mark.parametrize("octets", [0, 1_000_000, 3_000_000])
    def test_sqlite_in_the_middle_of_a_transaction(
        self, memctl: Memctl, source: Path, archive: Path, tmp_path: Path, octets: int
    ) -> None:
        """What the killed transaction had written already is rolled back by whoever comes next."""
        target, journal = tmp_path / "target.db", tmp_path / "target.db-journal"

        def is_under_way() -> bool:
            return target.exists() and journal.exists() and target.stat().st_size >= octets

        with started(memctl, "-s", target, "import", archive, "--init") as process:
            until(lambda: is_under_way() or process.poll() is not None, every=0.001)
            process.kill()
            process.wait()
        outcome = memctl("-s", target, "import", archive, "--init")
        assert outcome.code == 0, outcome.err
        check_complete(memctl, source, target)

    def test_postgres_at_random_points(
        self, memctl: Memctl, source: Path, archive: Path, database: Database
    ) -> None:
        seed = random.randrange(10**6)
        chance = random.Random(seed)
        for _ in range(4):
            with started(memctl, "-s", database.url, "import", archive, "--init") as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0.3, 1.2))
                process.kill()
        outcome = memctl("-s", database.url, "import", archive, "--init")
        assert outcome.code == 0, (seed, outcome.err)
        check_complete(memctl, source, database.url)
        check_index(database)

    def test_postgres_between_two_batches(
        self, memctl: Memctl, source: Path, archive: Path, database: Database
    ) -> None:
        assert memctl("-s", database.url, "init", "--dims", "8").code == 0
        with obstructed(database), started(memctl, "-s", database.url, "import", archive) as process:
            until(lambda: is_waiting(database), process)
            process.kill()
        until(lambda: not is_waiting(database))
        [(held,)] = database.execute("SELECT count(*) FROM store")
        assert 0 < held < COUNT
        rest = memctl.json("-s", database.url, "import", archive)
        assert (rest["items"], rest["unchanged"]) == (COUNT - held, held)
        check_complete(memctl, source, database.url)

    def test_before_the_vector_index_was_built(
        self, memctl: Memctl, source: Path, database: Database
    ) -> None:
        line = ("migrate", source, database.url, "--init", "--index", "hnsw")
        with database.connect() as other, started(memctl, *line) as process:
            until(lambda: database.execute("SELECT to_regclass('store_vectors')") != [(None,)], process)
            with other.transaction(force_rollback=True):
                other.execute(
                    "LOCK TABLE store_vectors IN ROW EXCLUSIVE MODE"
                )  # CREATE INDEX waits, COPY does not
                until(lambda: is_waiting(database), process)
                process.kill()
                process.wait()
        until(lambda: not is_waiting(database))
        assert database.execute("SELECT count(*) FROM store") == [(COUNT,)]
        assert database.execute("SELECT to_regclass('store_vectors_embedding_idx')") == [(None,)]
        assert database.execute("SELECT max(v) FROM vector_migrations") == [(1,)]
        again = memctl.json(*line)
        assert (again["items"], again["unchanged"]) == (0, COUNT)
        check_index(database)
        check_complete(memctl, source, database.url)


class TestCutOff:
    def test_a_terminated_session(
        self, memctl: Memctl, source: Path, archive: Path, database: Database
    ) -> None:
        assert memctl("-s", database.url, "init", "--dims", "8").code == 0
        with obstructed(database), started(memctl, "-s", database.url, "import", archive) as process:
            until(lambda: is_waiting(database), process)
            database.execute(f"SELECT pg_terminate_backend(pid) FROM ({WAITING}) AS waiting")
            code, said = ended(process)
        assert code == 1, said
        assert "the connection to" in said
        assert "internal error" not in said
        [(held,)] = database.execute("SELECT count(*) FROM store")
        assert 0 < held < COUNT
        assert memctl.json("-s", database.url, "import", archive)["items"] == COUNT - held
        check_complete(memctl, source, database.url)

    def test_a_lock_that_is_not_given_back(self, memctl: Memctl, archive: Path, database: Database) -> None:
        assert memctl("-s", database.url, "init", "--dims", "8").code == 0
        with database.connect() as other, other.transaction(force_rollback=True):
            other.execute("LOCK TABLE store IN SHARE MODE")
            outcome = memctl("-s", database.url, "import", archive, "--timeout", "0.3")
        assert outcome.code == 11, outcome.err
        assert database.execute("SELECT count(*) FROM store") == [(0,)]


WAITING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
    "AND pid <> pg_backend_pid()"
)


def is_waiting(database: Database) -> bool:
    """Whether anybody waits for a lock there."""
    return bool(database.execute(WAITING))


@contextlib.contextmanager
def obstructed(database: Database) -> Iterator[None]:
    """Let somebody be about to write an item of the second batch, which keeps that batch waiting."""
    with database.connect() as other, other.transaction(force_rollback=True):
        other.execute("INSERT INTO store (prefix, key, value) VALUES ('users.0013', '001300', '{}')")
        yield


def check_index(database: Database) -> None:
    """The index is valid and recorded, and the real library's `setup()` leaves everything as it is."""
    query = (
        "SELECT indisvalid, am.amname, (SELECT array_agg(v ORDER BY v) FROM vector_migrations) FROM pg_index "
        "JOIN pg_class c ON c.oid = indexrelid JOIN pg_am am ON am.oid = c.relam "
        "WHERE c.relname = 'store_vectors_embedding_idx'"
    )
    assert database.execute(query) == [(True, "hnsw", [0, 1, 2])]
    oid = database.execute("SELECT 'store_vectors_embedding_idx'::regclass::oid")
    with postgres_store(database.url, index=Index()) as store:
        assert store.get(("users", "0000"), "000000") is not None
    assert database.execute("SELECT 'store_vectors_embedding_idx'::regclass::oid") == oid


class TestFullDisk:
    @pytest.fixture
    def cramped(self, tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
        """A folder of 2 MB, and how to let more in; where nothing can be mounted a process's files are limited."""
        folder = tmp_path / "small"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
        is_mounted = subprocess.run(mount, capture_output=True).returncode == 0
        if not is_mounted:
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))

        def let_in() -> None:
            if is_mounted:
                subprocess.run(["mount", "-o", "remount,size=50m", str(folder)], check=True)
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

        try:
            yield folder, let_in
        finally:
            if is_mounted:
                subprocess.run(["umount", "-l", str(folder)], check=True)
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def test_import(
        self, memctl: Memctl, source: Path, archive: Path, cramped: tuple[Path, Callable[[], None]]
    ) -> None:
        folder, let_in = cramped
        target = folder / "target.db"
        outcome = memctl.process("-s", target, "import", archive, "--init")
        assert outcome.code == 1, outcome.err
        assert "internal error" not in outcome.err
        assert "full" in outcome.err or "disk I/O error" in outcome.err
        with closing(sqlite3.connect(target)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        let_in()
        assert memctl.process("-s", target, "import", archive, "--init").code == 0
        check_complete(memctl, source, target)

    def test_export(self, memctl: Memctl, source: Path, cramped: tuple[Path, Callable[[], None]]) -> None:
        folder, let_in = cramped
        archive = folder / "out.jsonl"
        outcome = memctl.process("-s", source, "export", "-f", archive)
        assert outcome.code == 1, outcome.err
        assert "internal error" not in outcome.err
        assert list(folder.iterdir()) == []
        let_in()
        assert memctl.process("-s", source, "export", "-f", archive).code == 0
        assert memctl("diff", source, archive).code == 0


class TestInterrupted:
    def test_sqlite(self, memctl: Memctl, source: Path, archive: Path, tmp_path: Path) -> None:
        target = tmp_path / "target.db"
        with started(memctl, "-s", target, "import", archive, "--init") as process:
            until(target.exists, process, every=0.001)
            process.send_signal(signal.SIGINT)
            code, said = ended(process)
        assert (code, said) == (130, "memctl: interrupted\n")
        assert memctl("-s", target, "import", archive, "--init").code == 0
        check_complete(memctl, source, target)

    def test_postgres(self, memctl: Memctl, source: Path, archive: Path, database: Database) -> None:
        assert memctl("-s", database.url, "init", "--dims", "8").code == 0
        with obstructed(database), started(memctl, "-s", database.url, "import", archive) as process:
            until(lambda: is_waiting(database), process)
            process.send_signal(signal.SIGINT)
            code, said = ended(process)
        assert (code, said) == (130, "memctl: interrupted\n")
        assert memctl("-s", database.url, "import", archive).code == 0
        check_complete(memctl, source, database.url)


AGENT = """
import sys, time
from pathlib import Path
from langgraph.store.sqlite import SqliteStore

path, stop = sys.argv[1], Path(sys.argv[2])
with SqliteStore.from_conn_string(path) as store:
    count = 0
    while count < 5 or not stop.exists():
        store.put(("agent", str(count % 7)), f"{count:06}", {"n": count})
        count += 1
        time.sleep(0.01)
        if count == 1:
            print("writing", flush=True)
print(count, flush=True)
"""


@pytest.mark.parametrize("command", ["import", "migrate"])
@pytest.mark.parametrize("wal", [False, True], ids=["journal", "wal"])
def test_an_agent_that_goes_on_writing_into_the_target(
    memctl: Memctl, source: Path, archive: Path, tmp_path: Path, command: str, wal: bool
) -> None:
    """It loses no put and meets no error, with the time limit of 5 s that the library sets."""
    target, stop = tmp_path / "target.db", tmp_path / "stop"
    with sqlite_store(target, index=Index(), wal=wal):
        pass
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(target), str(stop)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with agent:
        try:
            assert agent.stdout is not None
            assert agent.stdout.readline() == b"writing\n"
            line = ("-s", target, "import", archive) if command == "import" else ("migrate", source, target)
            outcome = memctl.process(*line)
            stop.touch()
            written, complaints = agent.communicate(timeout=_PATIENCE)
        finally:
            agent.kill()
    assert outcome.code == 0, outcome.err
    assert (agent.returncode, complaints) == (0, b"")
    with closing(sqlite3.connect(target)) as connection:
        there = connection.execute("SELECT count(*) FROM store WHERE prefix LIKE 'agent.%'").fetchone()
    assert there == (int(written),)
    assert memctl("diff", source, target, "users").code == 0
