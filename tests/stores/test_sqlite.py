"""What only a SQLite file can do to a reader."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.invocation import Memctl

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def store(memctl: Memctl) -> Path:
    path = memctl.folder / "store.db"
    shutil.copy(DATA / "sqlite-3.1.2.db", path)
    return path


@pytest.mark.parametrize("cell", ["text", 5, 2.5, b"\0\0\0"])
def test_an_embedding_that_is_no_vector(memctl: Memctl, store: Path, cell: object) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE store_vectors SET embedding = ? WHERE key = 'm1'", (cell,))
    connection.close()
    shown = memctl("-s", store, "get", "users.ana.memories", "m1", "--vectors", "-o", "json")
    assert shown.code == 3
    assert "problems" in shown.out
    for command in (["search", "--like", "users.bo.prefs", "seat"], ["stats"], ["export"], ["ls", "--items"]):
        assert memctl("-s", store, *command).code in (0, 3), command


def test_reading_after_writing_in_one_process(memctl: Memctl, store: Path) -> None:
    """A module of the writing side once took the place of a function of the reading side."""
    assert memctl("migrate", store, "copy.db", "--init").code == 0
    assert memctl("-s", "copy.db", "get", "users.ana.memories", "m1").code == 0
    assert memctl("diff", store, "copy.db").code == 0
