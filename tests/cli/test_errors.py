"""What is no store, cannot be reached or may not be read: each has its own code, and nothing is created."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.cli.conftest import ITEMS, PREFS, MakeStore
from tests.databases import Database
from tests.invocation import Memctl
from tests.servers import PASSWORD, unprivileged
from tests.writers import SAMPLE, Index, postgres_store, sqlite_store

READERS = (["ls"], ["ls", "--items"], ["get", "a", "b"], ["search"], ["stats"], ["info"])


def listing(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, with a hash of what it holds."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file()
    }


class TestNoStore:
    @pytest.fixture(
        params=["missing", "missing folder", "empty", "text", "not sqlite", "folder", "below a file"]
    )
    def nothing(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
        path = tmp_path / "x.db"
        match request.param:
            case "missing":
                return path, "missing"
            case "missing folder":
                return tmp_path / "no" / "x.db", "missing"
            case "empty":
                path.touch()
                return path, "empty"
            case "text":
                path.write_text("hello")
                return path, "not-a-database"
            case "not sqlite":
                path.write_bytes(bytes(range(256)) * 100)
                return path, "not-a-database"
            case "folder":
                path.mkdir()
                return path, "not-a-database"
        path.write_text("hello")
        return path / "y.db", "missing"

    @pytest.mark.parametrize("command", READERS, ids=" ".join)
    def test_files(
        self, memctl: Memctl, tmp_path: Path, nothing: tuple[Path, str], command: list[str]
    ) -> None:
        path, code = nothing
        before = listing(tmp_path)
        error = memctl.refuse("-s", path, *command, code=10)
        assert error["code"] == code
        assert str(path) in error["message"]
        assert listing(tmp_path) == before
        assert memctl("-s", f"sqlite:///{path}", *command).code == 10

    @pytest.mark.parametrize(
        ("sql", "code"),
        [
            ("CREATE TABLE other (a)", "no-tables"),
            ("CREATE TABLE store (namespace_path, key, value, created_at, updated_at)", "foreign-tables"),
            ("CREATE TABLE store (id, name)", "foreign-tables"),
            ("CREATE TABLE t (a); DROP TABLE t", "no-tables"),
        ],
    )
    def test_databases_of_others(self, memctl: Memctl, tmp_path: Path, sql: str, code: str) -> None:
        path = tmp_path / "x.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(sql)
        before = listing(tmp_path)
        for command in READERS:
            assert memctl.refuse("-s", path, *command, code=10)["code"] == code
        assert listing(tmp_path) == before

    def test_a_cut_off_file(self, memctl: Memctl, store: Path) -> None:
        octets = store.read_bytes()
        store.write_bytes(octets[:60])
        assert memctl("-s", store, "ls").code in (1, 10)
        store.write_bytes(octets[:3000])
        assert memctl("-s", store, "ls").code in (1, 10)

    def test_a_damaged_page(self, memctl: Memctl, store: Path) -> None:
        octets = bytearray(store.read_bytes())
        for page in range(1, len(octets) // 4096):
            octets[page * 4096 : page * 4096 + 8] = b"\xff" * 8
        store.write_bytes(octets)
        assert memctl.refuse("-s", store, "ls", code=1)["code"] == "corrupt"

    def test_another_table(self, memctl: Memctl, store: Path) -> None:
        with closing(sqlite3.connect(store)) as connection:
            connection.executescript(
                "ALTER TABLE store RENAME TO memories; ALTER TABLE store_vectors RENAME TO memories_vectors"
            )
        assert "memories" in memctl.refuse("-s", store, "ls", code=10)["hint"]
        rows = memctl.json("-s", store, "--table", "memories", "ls")
        assert sum(row["items"] for row in rows) == len(ITEMS)
        assert sum(row["vectors"] for row in rows) == sum(len(item.vectors) for item in ITEMS)
        assert memctl.json("-s", f"sqlite:///{store}?table=memories", "ls") == rows
        assert memctl.json("-s", store, "ls", variables={"MEMCTL_TABLE": "memories"}) == rows

    def test_a_schema_is_no_matter_of_sqlite(self, memctl: Memctl, store: Path) -> None:
        assert memctl.refuse("-s", store, "--schema", "x", "ls", code=2)["code"] == "usage"


class TestAddress:
    @pytest.mark.parametrize(
        "address",
        [
            f"postgresql://me:{PASSWORD}@127.0.0.1:1/x",
            f"postgresql://me:{PASSWORD}@[::1/x",
            f"postgres://me:{PASSWORD}@host:port/x?nonsense",
            f"postgresql+psycopg://me:{PASSWORD}@h/x",
            f"host=127.0.0.1 port=1 password={PASSWORD} oops",
            f"password='{PASSWORD} host=x",
            f"mysql://me:{PASSWORD}@h/x",
            f"sqlite://me:{PASSWORD}@h/x",
            f"sqlite:///x.db?password={PASSWORD}",
        ],
    )
    def test_what_is_malformed_is_not_echoed(self, memctl: Memctl, address: str) -> None:
        """`Memctl` looks for the password in whatever was written."""
        for form in (("ls",), ("-o", "json", "ls"), ("-v", "--debug", "info")):
            outcome = memctl("-s", address, *form)
            assert outcome.code in (2, 13), outcome.err
            assert outcome.err
            assert memctl(*form, variables={"MEMCTL_STORE": address}).code == outcome.code

    @pytest.mark.parametrize(
        "address", ["", "redis://x", "sqlite://x", "sqlite:x", "a\0b", "python:x y", "http://["]
    )
    def test_what_no_store_speaks(self, memctl: Memctl, address: str) -> None:
        assert memctl.refuse("-s", address, "ls", code=2)["message"]

    def test_no_store_is_named(self, memctl: Memctl) -> None:
        error = memctl.refuse("ls", code=2)
        assert error["code"] == "no-store-named"
        for way in ("-s", "MEMCTL_STORE", "memctl.toml", "memctl demo"):
            assert way in error["hint"]

    def test_two_stores_are_named(self, memctl: Memctl, store: Path) -> None:
        assert memctl.refuse("-s", store, "-s", store, "ls", code=2)["code"] == "usage"
        assert memctl.refuse("-s", store, "ls", "-s", store, code=2)["code"] == "usage"


class TestSqliteAccess:
    @pytest.mark.parametrize("wal", [False, True], ids=["rollback", "wal"])
    def test_permissions(self, tmp_path: Path, wal: bool) -> None:
        """As a user who is not root: a folder that may not be written to, a file that may not be read."""
        folder = tmp_path / "shared"
        folder.mkdir()
        path = folder / "x.db"
        with sqlite_store(path, wal=wal) as agent:
            agent.put(("a",), "b", {"n": 1})
        for parent in folder.parents:
            if parent.stat().st_uid == os.getuid() and parent.is_relative_to(tempfile.gettempdir()):
                parent.chmod(parent.stat().st_mode | 0o055)
        folder.chmod(0o555)
        path.chmod(0o444)
        try:
            code, error, out = self.without_rights(path)
            assert code == (12 if wal else 0), error
            assert ("--immutable" in error) == wal
            assert out == ("" if wal else "a\n")
            assert self.without_rights(path, "--immutable") == (0, "", "a\n")
            assert [file.name for file in folder.iterdir()] == ["x.db"]
            path.chmod(0o000)
            assert self.without_rights(path)[0] == 12
        finally:
            folder.chmod(0o755)

    def without_rights(self, path: Path, *options: str) -> tuple[int, str, str]:
        """`ls` in a process that gives root's rights away, when it has all of its imports behind it."""
        user = unprivileged()
        script = (
            "import io, os, sys\n"
            "from memctl.cli.app import run\n"
            "from memctl.cli.environment import Environment\n"
            "run(sys.argv[1:], Environment(stdout=io.BytesIO(), stderr=io.BytesIO()))\n"
            f"user = {user!r}\n"
            "if user: os.setgroups([]); os.setgid(user['group']); os.setuid(user['user'])\n"
            "sys.exit(run(sys.argv[1:]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, "-s", str(path), "-o", "name", *options, "ls"],
            capture_output=True, text=True, env=Memctl(Path("/")).environment(), timeout=60,
        )  # fmt: skip
        return done.returncode, done.stderr, done.stdout

    @pytest.mark.parametrize("wal", [False, True], ids=["rollback", "wal"])
    def test_an_exclusive_lock(self, memctl: Memctl, tmp_path: Path, wal: bool) -> None:
        path = tmp_path / "x.db"
        with sqlite_store(path, wal=wal) as agent:
            agent.put(("a",), "b", {"n": 1})
        with another_process(LOCKER, path):
            for command in READERS:
                started = time.monotonic()
                outcome = memctl("-s", path, "-o", "json", "--timeout", "0.3", *command)
                assert outcome.code == 11, (command, outcome.out)
                assert outcome.error["code"] == "busy"
                assert "--timeout" in outcome.error["hint"]
                assert 0.2 < time.monotonic() - started < 5
            assert memctl("-s", path, "ls", variables={"MEMCTL_TIMEOUT": "0.1"}).code == 11
        assert memctl("-s", path, "get", "a", "b").code == 0

    def test_a_lock_that_is_given_up_in_time(self, memctl: Memctl, store: Path) -> None:
        with another_process(LOCKER, store) as release:
            threading.Timer(0.4, release).start()
            assert memctl("-s", store, "--timeout", "20", "ls").code == 0

    def test_a_hot_journal_is_never_rolled_back_in_silence(self, memctl: Memctl, tmp_path: Path) -> None:
        path = tmp_path / "x.db"
        with sqlite_store(path) as agent:
            for number in range(50):
                agent.put(("a",), f"k{number}", {"text": "x" * 1000})
        with another_process(CRASHER, path) as release:
            release()
        journal = path.with_name("x.db-journal")
        assert journal.stat().st_size > 0
        before = listing(tmp_path)
        for command in READERS:
            error = memctl.refuse("-s", path, *command, code=11)
            assert error["code"] == "needs-recovery"
        assert memctl.refuse("-s", path, "--immutable", "ls", code=1)["code"] == "not-at-rest"
        assert listing(tmp_path) == before
        with closing(sqlite3.connect(path)) as connection:  # what an agent that starts again does
            assert connection.execute("SELECT count(*) FROM store").fetchone() == (50,)
        assert memctl.json("-s", path, "ls")[0]["items"] == 50

    def test_a_wal_that_a_crash_left(self, memctl: Memctl, tmp_path: Path) -> None:
        """Its commits are there and are shown; the main file is not written to."""
        path = tmp_path / "x.db"
        with sqlite_store(path, wal=True) as agent:
            agent.put(("a",), "b", {"n": 1})
        with another_process(WAL_CRASHER, path) as release:
            release()
        assert path.with_name("x.db-wal").stat().st_size > 0
        before = path.read_bytes()
        assert memctl.json("-s", path, "ls")[0]["items"] == 2
        assert memctl.json("-s", path, "get", "a", "late")["value"] == {"n": 2}
        assert path.read_bytes() == before
        assert memctl.refuse("-s", path, "--immutable", "ls", code=1)["code"] == "not-at-rest"


LOCKER = """
connection.execute("PRAGMA locking_mode = exclusive")
connection.execute("BEGIN EXCLUSIVE")
connection.execute("UPDATE store SET key = key")
"""
CRASHER = """
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN EXCLUSIVE")
connection.execute("UPDATE store SET value = value || 'y', key = key || 'z'")
"""
WAL_CRASHER = """
connection.execute("INSERT INTO store (prefix, key, value) VALUES ('a', 'late', '{\\"n\\": 2}')")
"""


@contextmanager
def another_process(script: str, path: Path) -> Iterator[Callable[[], None]]:
    """A process that has done something to the file, and dies without a word when told to, or at the end."""
    program = (
        "import sqlite3, sys, time\nconnection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        f"{script}\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:

        def kill() -> None:
            process.send_signal(signal.SIGKILL)
            process.wait()

        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield kill
        finally:
            kill()


class TestPostgres:
    def test_a_server_that_is_down(self, memctl: Memctl, closed_port: int) -> None:
        error = memctl.refuse("-s", f"postgresql://me@127.0.0.1:{closed_port}/x", "ls", code=13)
        assert error["code"] == "unreachable"
        assert f"127.0.0.1:{closed_port}" in error["message"]

    def test_a_server_that_never_answers(self, memctl: Memctl, silent_port: int) -> None:
        started = time.monotonic()
        address = f"postgresql://me@127.0.0.1:{silent_port}/x"
        assert memctl.refuse("--timeout", "2", "-s", address, "ls", code=13)["code"] == "unreachable"
        assert time.monotonic() - started < 8

    def test_a_host_that_nobody_knows(self, memctl: Memctl) -> None:
        address = f"host=no-such-host.invalid user=me dbname=x password='{PASSWORD}'"
        assert memctl.refuse("-s", address, "ls", code=13)["code"] == "unreachable"

    def test_a_wrong_password_and_none(self, memctl: Memctl, postgres_sample: Database) -> None:
        right = postgres_sample.reader()
        assert memctl("-s", right, "ls").code == 0
        wrong = make_conninfo(right, password=f"not {PASSWORD}")
        for command in READERS:
            assert memctl.refuse("-s", wrong, *command, code=12)["code"] == "refused"
        user = psycopg.conninfo.conninfo_to_dict(right)
        del user["password"]
        none = make_conninfo("", **user)
        assert "PGPASSWORD" in memctl.refuse("-s", none, "ls", code=12)["hint"]

    def test_a_missing_permission(self, memctl: Memctl, postgres_sample: Database) -> None:
        for grants in (
            [],
            ["USAGE ON SCHEMA public"],
            ["SELECT ON store_vectors"],
            ["SELECT (prefix, key) ON store"],
        ):
            address = postgres_sample.role(*grants)
            for command in READERS:
                error = memctl.refuse("-s", address, *command, code=12)
                assert error["code"] == "refused"
                assert "SELECT" in error["hint"]

    def test_no_such_database(self, memctl: Memctl, database: Database) -> None:
        address = make_conninfo(database.tcp_url, dbname="no_such_database")
        assert memctl.refuse("-s", address, "ls", code=10)["code"] == "no-database"

    def test_nothing_is_created_in_an_empty_database(self, memctl: Memctl, database: Database) -> None:
        for command in READERS:
            assert memctl.refuse("-s", database.url, *command, code=10)["code"] == "no-tables"
        assert database.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname LIKE 'store%'"
        ) == []  # fmt: skip

    def test_a_store_of_langgraph_js(self, memctl: Memctl, database: Database) -> None:
        database.execute(
            "CREATE TABLE store (namespace_path text, key text, value jsonb, created_at timestamptz,"
            " updated_at timestamptz, expires_at timestamptz, PRIMARY KEY (namespace_path, key));"
            "CREATE TABLE store_migrations (v int)"
        )
        error = memctl.refuse("-s", database.url, "ls", code=10)
        assert error["code"] == "foreign-tables"
        assert "LangGraph.js" in error["message"]

    def test_several_stores_and_none_named(self, memctl: Memctl, database: Database) -> None:
        for schema in ("agents", "public", "Bo's"):
            with postgres_store(database.url, schema="" if schema == "public" else schema) as store:
                store.put((schema,), "k", {"n": 1})
        error = memctl.refuse("-s", database.tcp_url, "ls", code=2)
        assert error["code"] == "several-stores"
        for schema in ("agents", "public", "Bo's"):
            assert schema in error["message"]
            row = [{"namespace": [schema], "items": 1}]
            for way in (
                ["--schema", schema, "-s", database.tcp_url, "ls"],
                ["-s", database.tcp_url, "ls", "--schema", schema],
            ):
                found = memctl.json(*way)
                assert [{name: found[0][name] for name in row[0]}] == row
        assert memctl.json("-s", f"{database.tcp_url}?schema=agents", "ls")[0]["namespace"] == ["agents"]
        assert memctl.json("-s", database.url, "ls", variables={"MEMCTL_SCHEMA": "agents"})[0]["items"] == 1
        assert memctl.refuse("-s", database.url, "--schema", "nobody", "ls", code=10)["code"] == "no-tables"

    @pytest.mark.parametrize("form", ["postgres", "psycopg", "key=value", "url"])
    def test_spellings_of_an_address(self, memctl: Memctl, postgres_sample: Database, form: str) -> None:
        url = postgres_sample.tcp_url
        address = {
            "url": url,
            "postgres": url.replace("postgresql://", "postgres://"),
            "psycopg": url.replace("postgresql://", "postgresql+psycopg://"),
            "key=value": make_conninfo(url),
        }[form]
        assert sum(row["items"] for row in memctl.json("-s", address, "ls")) == len(SAMPLE)
        assert memctl("-s", address, "info").code == 0
        assert memctl("-s", address, "--debug", "-v", "info", "-o", "json").code == 0

    def test_a_locked_table(self, memctl: Memctl, postgres_sample: Database) -> None:
        with postgres_sample.connect() as connection, connection.transaction():
            connection.execute("LOCK TABLE store IN ACCESS EXCLUSIVE MODE")
            error = memctl.refuse("-s", postgres_sample.url, "--timeout", "0.3", "ls", code=11)
            assert error["code"] == "busy"
        assert memctl("-s", postgres_sample.url, "ls").code == 0

    def test_expiry_that_the_store_does_not_know(self, memctl: Memctl, database: Database) -> None:
        with postgres_store(database.url, index=Index()):
            pass
        database.execute("ALTER TABLE store DROP COLUMN expires_at, DROP COLUMN ttl_minutes")
        assert memctl.refuse("-s", database.url, "search", "--expired", code=1)["code"] == "unsupported"


class TestCodes:
    def test_a_fault_of_memctls_own(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from memctl.stores.sqlite.store import SqliteStore

        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError("by zero")

        monkeypatch.setattr(SqliteStore, "namespaces", fail)
        error = memctl.refuse("-s", store, "ls", code=1)
        assert error["code"] == "internal"
        assert "Traceback" not in memctl("-s", store, "ls").err
        assert "ZeroDivisionError" in memctl("-s", store, "--debug", "ls").err
        assert "Traceback" in memctl("-s", store, "--debug", "ls").err

    def test_an_interruption(self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from memctl.stores.sqlite.store import SqliteStore

        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(SqliteStore, "namespaces", stop)
        assert memctl("-s", store, "ls").code == 130
        assert memctl("-s", store, "ls", "-o", "json").error["code"] == "interrupted"

    def test_the_first_of_several_counts(self, memctl: Memctl, make_store: MakeStore) -> None:
        """Rows that were reported (3) and a key that is missing (5)."""
        from tests.contract.backends import RawItem

        store = make_store([RawItem("a", "bad", "[1]"), RawItem("a", "good")])
        assert memctl("-s", store, "get", "a", "bad", "good").code == 3
        assert memctl("-s", store, "get", "a", "bad", "missing").code == 5

    def test_an_error_is_told_to_people_with_its_way_out(self, memctl: Memctl, store: Path) -> None:
        outcome = memctl("-s", store, "get", PREFS, "seta")
        assert outcome.err.startswith("memctl: ")
        assert "seat" in outcome.err
        assert outcome.out == ""
