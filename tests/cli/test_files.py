"""Where a file is named: addresses with passwords, databases, pipes, full disks, odd names."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from memctl.stores.sqlite.schema import create
from tests.invocation import Memctl

ADDRESS = "postgresql://ana:secretpw@db.internal/agents"


@pytest.fixture
def store(memctl: Memctl) -> Path:
    assert memctl("demo", "demo.db").code == 0
    return memctl.folder / "demo.db"


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", ADDRESS),
        ("verify", ADDRESS),
        ("export", "-f", ADDRESS),
        ("import", "a.jsonl", "--rejects", ADDRESS),
        ("rm", "preferences.chen", "--yes", "--save", ADDRESS),
        ("rm", "--from", ADDRESS, "--yes"),
    ],
)
def test_an_address_in_the_place_of_a_file_is_not_echoed(
    memctl: Memctl, store: Path, arguments: tuple[str, ...]
) -> None:
    (memctl.folder / "a.jsonl").write_text('{"namespace":["a"],"key":"k","value":{}}\n')
    outcome = memctl("-s", store, *arguments)
    assert outcome.code == 2
    assert "address of a store" in outcome.err
    assert "secretpw" not in outcome.err + outcome.out


def test_an_export_never_replaces_a_database(memctl: Memctl, store: Path) -> None:
    before = store.read_bytes()
    outcome = memctl("-s", store, "export", "-f", store, "--overwrite")
    assert outcome.code == 1
    assert "SQLite database" in outcome.err
    assert store.read_bytes() == before


def test_a_rehearsed_export_ends_as_the_real_one(memctl: Memctl, store: Path) -> None:
    (memctl.folder / "there.jsonl").touch()
    for arguments in (("-f", "there.jsonl"), ("-f", "no/such.jsonl"), ("-f", "new.jsonl"), ("-o", "yaml")):
        before = sorted(memctl.folder.iterdir())
        rehearsed = memctl("-s", store, "export", *arguments, "--dry-run")
        assert sorted(memctl.folder.iterdir()) == before
        assert rehearsed.code == memctl("-s", store, "export", *arguments).code != 0
    (memctl.folder / "new.jsonl").unlink()
    rehearsed = memctl.json("-s", store, "export", "-f", "new.jsonl", "--dry-run", code=3)
    done = memctl.json("-s", store, "export", "-f", "new.jsonl", code=3)
    for part in ("items", "vectors", "orphans"):
        assert rehearsed[part] == done[part]


def test_a_pipe_is_read_like_a_file(memctl: Memctl, store: Path) -> None:
    assert memctl("-s", store, "export", "-f", "all.jsonl").code == 3
    reading, writing = os.pipe()
    process = subprocess.Popen(["cat", memctl.folder / "all.jsonl"], stdout=writing)
    os.close(writing)
    try:
        assert memctl("-s", "copy.db", "import", f"/dev/fd/{reading}", "--init").code == 0
    finally:
        os.close(reading)
        assert process.wait() == 0
    assert memctl("diff", store, "copy.db").code == 0


@pytest.mark.parametrize("command", ["ls", "export"])
def test_a_full_disk_is_no_fault_of_memctl(memctl: Memctl, store: Path, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            memctl.command("-s", store, command), stdout=full, stderr=subprocess.PIPE,
            env=memctl.environment(), cwd=memctl.folder, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr.endswith(b"memctl: No space left on device\n")


def test_names_that_a_uri_would_take_for_something_else(memctl: Memctl, store: Path) -> None:
    for name in ("a%20b.db", "a#b.db", os.fsdecode(b"\xff.db")):
        path = memctl.folder / name
        path.write_bytes(store.read_bytes())
        assert len(memctl.json("-s", f"./{name}", "ls")) == 28
    assert len(memctl.json("-s", f"/{store}", "ls")) == 28


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_service_that_is_stopped_keeps_what_it_has_saved(memctl: Memctl, number: int) -> None:
    path = memctl.folder / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        create(connection, vectors=False)
        connection.execute("BEGIN")
        rows = (("a", f"{number:05}", "{}") for number in range(5_000))
        connection.executemany("INSERT INTO store (prefix, key, value) VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
    process = subprocess.Popen(
        memctl.command("-s", path, "rm", "a", "--yes", "--save", "gone.jsonl", "-o", "json"),
        cwd=memctl.folder, env=memctl.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip

    def left() -> int:
        with closing(sqlite3.connect(path, timeout=20)) as connection:
            count: int = connection.execute("SELECT count(*) FROM store").fetchone()[0]
            return count

    while left() == 5_000 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors.decode()
    assert 0 < left() < 5_000
    assert memctl.json("verify", "gone.jsonl")["items"] >= 5_000 - left()
    assert memctl("-s", path, "import", "gone.jsonl").code == 0
    assert left() == 5_000


def test_interrupted_while_it_starts_it_is_quiet() -> None:
    code = (
        "import sys, builtins, runpy\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'memctl.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "runpy.run_module('memctl', run_name='__main__')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, b"")
