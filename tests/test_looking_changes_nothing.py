"""Guarantees 1 and 2 of the design: looking changes nothing, and the agent goes on.

A SQLite main file never changes a byte and nothing is left beside it; no row of PostgreSQL gets another
`xmin` or `ctid`. Beside a live agent no put fails and none is lost.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Database
from tests.invocation import Memctl
from tests.writers import SAMPLE, Index, postgres_store, sqlite_store, write_sample

READERS = (
    ["ls"],
    ["ls", "--tree"],
    ["ls", "--items"],
    ["ls", "users.ana"],
    ["get", "users.ana.prefs", "seat", "meal", "--vectors"],
    ["get", "users.ana.prefs", "nothing"],
    ["get", "org.acme.facts", "cadence-2", "--value"],
    ["search"],
    ["search", "seat", "--in", "users"],
    ["search", "--expired"],
    ["search", "--count"],
    ["search", "--like", "users.ana.prefs", "meal"],
    ["stats"],
    ["stats", "users"],
    ["info"],
    ["doctor"],
)
"""Every reading command. One key is missing; the others are there."""


def read_everything(memctl: Memctl, address: str | Path) -> list[bytes]:
    """Run every reading command and return what they print."""
    answers = []
    for command in READERS:
        outcome = memctl("-s", address, "-o", "json", *command)
        expected = 5 if "nothing" in command else 4 if command[0] == "doctor" else 0  # it finds something
        assert outcome.code == expected, (command, outcome.err)
        answers.append(outcome.stdout)
    return answers


def state(path: Path) -> tuple[dict[str, bytes], int, int]:
    """A file and everything beside it: contents, and the main file's time and size."""
    found = {file.name: hashlib.sha256(file.read_bytes()).digest() for file in path.parent.iterdir()}
    return found, path.stat().st_mtime_ns, path.stat().st_size


@pytest.fixture(params=[False, True], ids=["rollback", "wal"])
def agent_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file by the real library in either journal mode, alone in its folder, with nobody in it."""
    folder = tmp_path / "memory"
    folder.mkdir()
    path = folder / "agent.db"
    with sqlite_store(
        path, index=Index(text_fields=["text", "tags[*]"]), ttl={"refresh_on_read": True}, wal=request.param
    ) as store:
        write_sample(store)
    assert [file.name for file in folder.iterdir()] == ["agent.db"]
    return path


class TestSqlite:
    def test_at_rest(self, memctl: Memctl, agent_file: Path) -> None:
        before = state(agent_file)
        for command in READERS:
            memctl("-s", agent_file, *command)
            assert state(agent_file) == before, command

    def test_every_old_file(self, memctl: Memctl, sqlite_data: Path) -> None:
        before = state(sqlite_data)
        for command in READERS:
            memctl("-s", sqlite_data, *command)
        assert state(sqlite_data) == before

    def test_on_media_that_cannot_be_written(self, memctl: Memctl, agent_file: Path) -> None:
        agent_file.chmod(0o444)
        before = state(agent_file)
        assert {memctl("-s", agent_file, "--immutable", *command).code for command in READERS} == {0, 4, 5}
        assert state(agent_file) == before

    def test_when_a_command_fails_or_is_left_in_the_middle(self, memctl: Memctl, agent_file: Path) -> None:
        before = state(agent_file)
        assert memctl("-s", agent_file, "search", "--regex", "(").code == 2
        assert memctl("-s", agent_file, "--table", "none", "ls").code == 10
        assert memctl("-s", agent_file, "get", "no", "such").code == 5
        with subprocess.Popen(
            memctl.command("-s", agent_file, "-o", "json", "search"), stdout=subprocess.PIPE,
            env=memctl.environment(), cwd=memctl.folder,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            process.stdout.close()
        assert state(agent_file) == before

    def test_beside_an_agent_that_holds_the_file_open(self, memctl: Memctl, agent_file: Path) -> None:
        """Its side files are its own; the main file stays as it is, also when memctl closes last."""
        wal = agent_file.read_bytes()[18] == 2
        with closing(sqlite3.connect(agent_file)) as agent:
            agent.execute("PRAGMA wal_autocheckpoint = 0")
            agent.execute("INSERT INTO store (prefix, key, value) VALUES ('a', 'late', '{}')")
            agent.commit()
            before = state(agent_file)
            assert len(before[0]) == (3 if wal else 1)
            answers = read_everything(memctl, agent_file)
            assert len(json.loads(answers[2])) == len(SAMPLE) + 1
            after = state(agent_file)
            assert after[0].pop("agent.db-shm", b"") is not None
            before[0].pop("agent.db-shm", None)
            assert after == before

    def test_no_expiry_is_refreshed(self, memctl: Memctl, agent_file: Path) -> None:
        with closing(sqlite3.connect(agent_file)) as connection:
            before = connection.execute("SELECT * FROM store ORDER BY rowid").fetchall()
            read_everything(memctl, agent_file)
            assert connection.execute("SELECT * FROM store ORDER BY rowid").fetchall() == before


AGENT = """
import json, select, sys, time
from tests.writers import {opened}

count, slowest = 0, 0.0
with {opened}(sys.argv[1], **json.loads(sys.argv[2])) as store:
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        started = time.monotonic()
        store.put(("agent", str(count % 7)), f"k{{count:06}}", {{"n": count, "text": "x" * 200}})
        slowest = max(slowest, time.monotonic() - started)
        count += 1
print(json.dumps([count, slowest]))
"""


@dataclass
class Agent:
    """What an agent did in the end."""

    puts: int = 0
    slowest: float = 0
    """Seconds of its slowest put."""


@contextmanager
def live_agent(opened: str, address: str, **options: Any) -> Iterator[Agent]:
    """A process that puts through the real library, every twenty milliseconds, until the context ends."""
    agent = Agent()
    with subprocess.Popen(
        [sys.executable, "-c", AGENT.format(opened=opened), address, json.dumps(options)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=Memctl(Path("/")).environment(),
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
            yield agent
            out, error = process.communicate("stop\n", timeout=60)
            assert process.returncode == 0, error
            agent.puts, agent.slowest = json.loads(out)
        finally:
            process.kill()


BUSY = (
    ["ls"],
    ["ls", "--items"],
    ["search", "seat"],
    ["search", "--filter", "n>5"],
    ["search", "--vectors"],
    ["stats"],
    ["doctor", "--skip", "orphaned-vectors,langmem-shape", "--fail-on", "error"],
)


class TestBesideAnAgent:
    """Thousands of items, so that a read lasts longer than one of the agent's puts."""

    def fill(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 12000)"
                " INSERT INTO store (prefix, key, value)"
                " SELECT 'users.' || (n % 50), printf('k%06d', n), '{\"text\": \"a seat\", \"n\": ' || n || '}' FROM s"
            )

    def test_no_put_fails_and_none_is_lost(self, memctl: Memctl, agent_file: Path) -> None:
        self.fill(agent_file)
        wal = agent_file.read_bytes()[18] == 2
        with live_agent("sqlite_store", str(agent_file), wal=wal) as agent:
            for command in BUSY:
                outcome = memctl("-s", agent_file, "-o", "jsonl", *command)
                assert outcome.code == 0, outcome.err
        assert agent.puts > 5
        assert agent.slowest < 2, "the library gives up after five seconds"
        rows = memctl.json("-s", agent_file, "ls", "agent", "--depth", "1")
        assert [row["items"] for row in rows] == [agent.puts]
        if not wal:
            assert [file.name for file in agent_file.parent.iterdir()] == ["agent.db"]

    def test_a_moving_store_is_said_to_move(self, memctl: Memctl, agent_file: Path) -> None:
        self.fill(agent_file)
        wal = agent_file.read_bytes()[18] == 2
        with live_agent("sqlite_store", str(agent_file), wal=wal):
            outcome = memctl("-s", agent_file, "-o", "jsonl", "search")
            quiet = memctl("-s", agent_file, "-q", "-o", "jsonl", "search")
        assert ("changed meanwhile" in outcome.err) == (not wal)
        assert quiet.err == ""
        names = [(*json.loads(line)["namespace"], json.loads(line)["key"]) for line in outcome.lines]
        assert len(names) == len(set(names))
        assert len([name for name in names if name[0] == "users"]) >= 12_000
        assert "changed meanwhile" not in memctl("-s", agent_file, "-o", "jsonl", "search").err


def versions(database: Database) -> list[Any]:
    """Where every row is and which transaction put it there, with all that it holds."""
    tables = ("store", "store_vectors", "store_migrations", "vector_migrations")
    return [
        database.execute(f"SELECT ctid::text, xmin::text, t::text FROM {table} t ORDER BY 1")
        for table in tables
    ]


class TestPostgres:
    @pytest.fixture
    def agents_database(self, each_database: Database) -> Database:
        with postgres_store(each_database.url, index=Index(), ttl={"refresh_on_read": True}) as store:
            write_sample(store)
        each_database.execute("UPDATE store SET expires_at = '2020-01-01Z' WHERE key = 'cadence-1'")
        return each_database

    def test_by_every_road(self, memctl: Memctl, agents_database: Database) -> None:
        """As superuser, as a role that may read only, in a read-only session, through a pooler in both modes."""
        before = versions(agents_database)
        objects = "SELECT count(*), max(oid::int8) FROM pg_class"
        known = agents_database.execute(objects)
        reader = agents_database.reader()
        strict = agents_database.reader(default_transaction_read_only="on")
        roads = {
            "superuser": agents_database.url,
            "reader": reader,
            "read-only reader": strict,
            "pooled, fresh": agents_database.pooled(mode="fresh"),
            "pooled reader, fresh": agents_database.pooled(reader, mode="fresh"),
            "pooled, shared": agents_database.pooled(strict, mode="shared"),
        }
        answers = {}
        for road, address in roads.items():
            found = read_everything(memctl, address)
            # `info` and `doctor` tell the address, `info` the role's own settings, `stats` what time it is.
            answers[road] = [
                answer
                for command, answer in zip(READERS, found, strict=True)
                if command[0] not in ("info", "stats", "doctor")
            ]
            assert versions(agents_database) == before, road
            assert answers[road] == answers["superuser"], road
        assert agents_database.execute(objects) == known

    def test_in_a_database_that_is_read_only(self, memctl: Memctl, postgres_sample: Database) -> None:
        postgres_sample.configure(default_transaction_read_only="on")
        before = versions(postgres_sample)
        read_everything(memctl, postgres_sample.url)
        assert versions(postgres_sample) == before

    def test_beside_an_agent(self, memctl: Memctl, postgres_sample: Database) -> None:
        postgres_sample.execute(
            "INSERT INTO store (prefix, key, value) SELECT 'users.' || n % 50, 'k' || n,"
            " jsonb_build_object('text', 'a seat', 'n', n) FROM generate_series(1, 10000) n"
        )
        with live_agent("postgres_store", postgres_sample.url) as agent:
            for command in BUSY:
                outcome = memctl("-s", postgres_sample.url, "-o", "jsonl", *command)
                assert outcome.code == 0, outcome.err
                assert "changed" not in outcome.err
        assert agent.puts > 5
        assert agent.slowest < 2
        rows = memctl.json("-s", postgres_sample.url, "ls", "agent", "--depth", "1")
        assert [row["items"] for row in rows] == [agent.puts]
