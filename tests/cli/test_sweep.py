"""`memctl sweep`: asking, options, signals, and what goes on beside it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ITEMS, MakeStore
from tests.cli.test_api_stores import make_memory
from tests.contract.backends import RawItem, vector
from tests.invocation import Memctl
from tests.writers import sqlite_store

PAST = "2020-03-01T00:00:00.500000Z"
SWEPT = ("org.acme.facts", "cadence")


def rows(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT prefix, key FROM store ORDER BY 1, 2").fetchall()


def test_a_plain_sweep_never_asks(memctl: Memctl, store: Path) -> None:
    outcome = memctl("-s", store, "sweep")
    assert outcome.code == 0, outcome.err
    assert "1 item and 0 vectors" in outcome.out
    assert "org.acme.facts" in outcome.out
    assert rows(store) == [(item.prefix, item.key) for item in ITEMS if (item.prefix, item.key) != SWEPT]


def test_a_dry_run_changes_no_byte(memctl: Memctl, store: Path) -> None:
    before = store.read_bytes()
    (memctl.folder / "p.toml").write_text("[[rule]]\nkeep_last = 0\n")
    for options in ((), ("--policy", "p.toml"), ("--save", "saved.jsonl"), ("--vacuum",)):
        swept = memctl.json("-s", store, "sweep", "-n", *options)
        assert swept["dry_run"] is True
        assert swept["items"] == (len(ITEMS) if "--policy" in options else 1)
    assert store.read_bytes() == before
    assert sorted(path.name for path in store.parent.iterdir()) == ["p.toml", store.name]


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 6), (b"", 1, 6)])
def test_a_policy_asks_on_a_terminal(
    memctl: Memctl, store: Path, answer: bytes, code: int, left: int
) -> None:
    (memctl.folder / "p.toml").write_text('[[rule]]\nname = "everything"\nkeep_last = 0\n')
    outcome = memctl("-s", store, "sweep", "--policy", "p.toml", typed=answer)
    assert outcome.code == code
    assert "everything: 5 items" in outcome.err
    assert len(rows(store)) == left


def test_without_a_terminal_a_policy_needs_yes(memctl: Memctl, store: Path) -> None:
    (memctl.folder / "p.toml").write_text("[[rule]]\nkeep_last = 0\n")
    assert memctl.refuse("-s", store, "sweep", "--policy", "p.toml", code=2)["code"] == "needs-yes"
    assert len(rows(store)) == len(ITEMS)
    assert memctl.json("-s", store, "sweep", "--policy", "p.toml", "--yes")["items"] == len(ITEMS)
    assert rows(store) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--grace", "soon"), "'soon'"),
        (("--pause", "x"), "'x'"),
        (("--batch", "0"), "0 is less than 1"),
        (("--policy-only",), "--policy FILE"),
        (("--policy", "none.toml"), "none.toml cannot be read"),
        (("--watch", "0s"), "at least a second"),
        (("--watch", "1m", "--save", "x"), "exclude each other"),
        (("-o", "name"), "no such form"),
    ],
)
def test_what_is_no_order(memctl: Memctl, store: Path, options: tuple[str, ...], says: str) -> None:
    outcome = memctl("-s", store, "sweep", *options)
    assert outcome.code == 2
    assert says in outcome.err
    assert len(rows(store)) == len(ITEMS)


def test_space_is_given_back(memctl: Memctl, make_store: MakeStore) -> None:
    big = '{"t": "' + "x" * 4_000 + '"}'
    path = make_store(RawItem("a", str(n), big, expires_at=PAST, vectors=(vector("$"),)) for n in range(50))
    before = path.stat().st_size
    swept = memctl.json("-s", path, "sweep", "--vacuum")
    assert swept["items"] == swept["vectors"] == 50
    assert swept["reclaimed"] == before - path.stat().st_size > 100_000


def test_a_busy_store_is_exit_11_and_unchanged(memctl: Memctl, store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert memctl.refuse("-s", store, "--timeout", "0.1", "sweep", code=11)["code"] == "busy"
        other.execute("ROLLBACK")
    assert len(rows(store)) == len(ITEMS)


def test_an_index_that_is_not_there_is_not_needed(memctl: Memctl, store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DROP INDEX idx_store_expires_at")
    assert memctl.json("-s", store, "sweep")["items"] == 1


def test_many_equal_expiries_take_many_pages(memctl: Memctl, make_store: MakeStore) -> None:
    path = make_store(RawItem(f"a{n % 7}", str(n), expires_at=PAST) for n in range(1_500))
    swept = memctl.json("-s", path, "sweep", "--pause", "0")
    assert swept["items"] == 1_500
    assert [row["items"] for row in swept["namespaces"]] == [215, 215, 214, 214, 214, 214, 214]


def test_names_that_are_no_text_go_but_cannot_be_saved(memctl: Memctl, store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(
            "INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at) SELECT x'6f7267',"
            " x'ff', value, created_at, updated_at, '2020-03-01 00:00:00' FROM store LIMIT 1"
        )
    saved = memctl.json("-s", store, "sweep", "--save", "s.jsonl", code=3)
    assert (saved["items"], saved["rejected"]) == (1, 1)
    assert memctl.json("-s", store, "sweep")["items"] == 1


def test_interrupted_halfway_whole_batches_are_gone(
    memctl: Memctl, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.sqlite.writer import SqliteWriter

    path = make_store(RawItem("a", f"{n:02}", expires_at=PAST, vectors=(vector("$"),)) for n in range(10))
    apply, calls = SqliteWriter.apply, []

    def interrupted(self: SqliteWriter, changes: Any) -> Any:
        calls.append(len(changes))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return apply(self, changes)

    monkeypatch.setattr(SqliteWriter, "apply", interrupted)
    outcome = memctl("-s", path, "sweep", "--batch", "4", "--pause", "0", "--save", "saved.jsonl")
    assert outcome.code == 130
    assert "8 items deleted until then" in outcome.err
    assert [key for _, key in rows(path)] == ["08", "09"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM store_vectors").fetchone() == (2,)
    assert memctl.json("verify", "saved.jsonl")["items"] == 10
    monkeypatch.setattr(SqliteWriter, "apply", apply)
    assert memctl.json("-s", path, "sweep")["items"] == 2


@contextmanager
def watching(memctl: Memctl, *arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        memctl.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=memctl.folder,
        env=memctl.environment({"PYTHONUNBUFFERED": "1"}),
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_watching_goes_on_until_a_signal(memctl: Memctl, tmp_path: Path, number: int, code: int) -> None:
    path = tmp_path / "agent.db"
    with sqlite_store(path) as agent:
        agent.put(("a",), "live", {"n": 1})
        with watching(memctl, "-s", path, "sweep", "--watch", "1s", "-o", "jsonl") as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["items"] == 0
            agent.put(("a",), "brief", {"n": 1}, ttl=0.001)
            with closing(sqlite3.connect(path, isolation_level=None)) as other:  # busy, for once
                other.execute("BEGIN IMMEDIATE")
                time.sleep(0.2)
                other.execute("COMMIT")
            found = [json.loads(process.stdout.readline())["items"] for _ in range(2)]
            assert sum(found) == 1
            os.kill(process.pid, number)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == code, errors.decode()
        assert [item.key for item in agent.search(("a",))] == ["live"]


def test_watching_outlives_a_store_that_is_busy(memctl: Memctl, store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        options = ("-s", store, "--timeout", "0.2", "sweep", "--watch", "1s", "-o", "jsonl")
        with watching(memctl, *options) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            assert b"trying again later" in process.stderr.readline()
            other.execute("ROLLBACK")
            assert json.loads(process.stdout.readline())["items"] >= 1
            process.terminate()
            assert process.wait(20) == 0


def test_a_policy_sweeps_a_store_without_expiry(memctl: Memctl, make_store: MakeStore) -> None:
    items = [RawItem("a", key, "{}", updated_at=f"2026-11-30T0{key}:00:00.000000Z") for key in "567"]
    store = make_store(items, expiry=False)
    (memctl.folder / "p.toml").write_text('[[rule]]\nkeep = "150m"\n')
    assert memctl.refuse("-s", store, "sweep", code=1)["code"] == "unsupported"
    assert memctl.json("-s", store, "policy", "check", "p.toml")["goes"] == 1
    assert memctl.json("-s", store, "sweep", "--policy", "p.toml", "--yes")["items"] == 1
    assert rows(store) == [("a", "6"), ("a", "7")]


def test_a_policy_sweeps_what_shows_no_expiry(memctl: Memctl, store: Path) -> None:
    memory = make_memory(memctl.folder)
    assert memctl("migrate", store, memory).code == 3  # vectors are left out
    (memctl.folder / "p.toml").write_text('[[rule]]\nfilter = "n=9"\nkeep_last = 0\n')
    assert memctl.json("-s", memory, "sweep", "--policy", "p.toml", "--yes")["items"] == 1
    assert memctl.refuse("-s", memory, "get", "users.ana.prefs", "seat", code=5)["code"] == "not-found"


def test_a_reader_keeps_the_wal_from_being_emptied(memctl: Memctl, make_store: MakeStore) -> None:
    items = [RawItem("a", f"{n:03}", f'{{"text": "{"x" * 900}"}}', expires_at=PAST) for n in range(40)]
    store = make_store(items)
    with closing(sqlite3.connect(store, isolation_level=None)) as reader:
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM store").fetchone()
        outcome = memctl("-s", store, "--timeout", "0.2", "sweep", "--vacuum")
        assert outcome.code == 3
        assert (
            "no space was given back: store.db is rebuilt, but somebody still reads from the WAL"
            in outcome.err
        )
        reader.execute("COMMIT")
        assert memctl("-s", store, "sweep", "--vacuum").code == 0
