"""A database that this process has open stays locked, whatever of its octets is looked at meanwhile."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memctl.model import EVERYTHING, Item
from memctl.store import Change
from memctl.stores.sqlite import looking
from memctl.stores.sqlite.connect import connect, is_wal
from memctl.stores.sqlite.writer import SqliteWriter
from tests.contract.backends import RawItem, WalBackend
from tests.invocation import NOW

_READ = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT key FROM store").fetchall())
connection.close()
"""


@pytest.fixture
def backend(tmp_path: Path) -> WalBackend:
    backend = WalBackend(tmp_path)
    backend.create()
    backend.insert([RawItem("a", "1")])
    return backend


def another_process(path: Path) -> str:
    """Open the file elsewhere, and close it: the last one to do so removes the log."""
    return subprocess.run(
        [sys.executable, "-c", _READ, path], capture_output=True, text=True, check=True
    ).stdout


def put(writer: SqliteWriter, key: str) -> None:
    assert writer.apply([Change(None, Item("a", key, b"{}", 2, None, None, None, None))]) == ()


def read_beside(path: Path) -> None:
    connect(path, timeout=1).close()


@pytest.mark.parametrize("look", [is_wal, read_beside], ids=["at the file", "through another connection"])
def test_what_is_written_after_a_look_stays(backend: WalBackend, look: Callable[[Path], object]) -> None:
    log = Path(f"{backend.path}-wal")
    with contextlib.closing(SqliteWriter(backend.path, clock=lambda: NOW)) as writer:
        assert len(list(writer.scan(EVERYTHING))) == 1
        put(writer, "2")
        look(backend.path)
        another_process(backend.path)
        assert log.exists()
        put(writer, "3")
    assert another_process(backend.path) == "[('1',), ('2',), ('3',)]\n"


def test_descriptors_are_closed_with_the_last_connection(backend: WalBackend) -> None:
    status = backend.path.stat()
    file = status.st_dev, status.st_ino
    first, second = connect(backend.path, timeout=1), connect(backend.path, timeout=1)
    for _ in range(5):
        is_wal(backend.path)
    first.close()
    kept = list(looking._descriptors[file])
    assert len(kept) >= 5
    assert all(os.fstat(descriptor) for descriptor in kept)
    second.close()
    second.close()
    assert file not in looking._descriptors
    assert not looking._connections[file]
