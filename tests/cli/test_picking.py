"""--order, --limit and --offset mean the same on every command that selects."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memctl.stores.sqlite.schema import create
from tests.invocation import Memctl

AGES = {"a": "2026-11-03", "b": "2026-11-01", "c": "2026-11-05", "d": "2026-11-02", "e": "2026-11-04"}
SIZES = {"a": 30, "b": 10, "c": 20, "d": 50, "e": 40}
EXPECTED = [
    (("--limit", "2"), "ce"),
    (("--order", "oldest", "--limit", "2"), "bd"),
    (("--order", "bytes", "--limit", "1", "--offset", "1"), "e"),
    (("--order", "name", "--offset", "3"), "de"),
    (("--limit", "9", "--offset", "1"), "abde"),
    (("--offset", "7"), ""),
    (("--limit", "0"), ""),
]


@pytest.fixture
def store(memctl: Memctl) -> Path:
    path = memctl.folder / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        create(connection, vectors=False)
        connection.executemany(
            "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES ('n', ?, ?, ?, ?)",
            [
                (key, f'{{"t":"{"x" * SIZES[key]}"}}', f"{day} 00:00:00", f"{day} 00:00:00")
                for key, day in AGES.items()
            ],
        )
    return path


def keys(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return "".join(key for (key,) in connection.execute("SELECT key FROM store ORDER BY key"))


@pytest.mark.parametrize(("options", "expected"), EXPECTED)
def test_the_same_items_whatever_is_done_with_them(
    memctl: Memctl, store: Path, options: tuple[str, ...], expected: str
) -> None:
    assert "".join(sorted(row["key"] for row in memctl.json("-s", store, "search", *options))) == expected
    assert memctl("-s", store, "export", *options, "-f", "some.jsonl").code == 0
    assert memctl.json("verify", "some.jsonl")["items"] == len(expected)
    assert memctl.json("-s", "a.db", "import", "some.jsonl", "--init")["items"] == len(expected)
    assert memctl("-s", store, "export", "-f", "all.jsonl").code == 0
    assert memctl.json("-s", "b.db", "import", "all.jsonl", "--init", *options)["items"] == len(expected)
    assert memctl.json("migrate", store, "c.db", "--init", "--verify", *options)["items"] == len(expected)
    for copy in ("a.db", "b.db", "c.db"):
        assert keys(memctl.folder / copy) == expected
    times = ("--at", "2027-01-01")
    assert memctl.json("-s", store, "expire", "n", *options, *times, "--yes")["items"] == len(expected)
    assert "".join(row["key"] for row in memctl.json("-s", store, "search", "--order", "name", "--filter", "t~x")
                   if row["expires_at"]) == expected  # fmt: skip
    report = memctl.json("-s", store, "rm", "n", *options, "--yes", code=0 if expected else 5)
    assert report["items"] == len(expected)
    assert keys(store) == "".join(sorted(set(AGES) - set(expected)))


def test_a_limit_is_no_condition(memctl: Memctl, store: Path) -> None:
    """Without one it still may be any of the whole store."""
    assert memctl.refuse("-s", store, "rm", "--limit", "1", "--yes", code=2)["code"] == "needs-all"
    assert memctl.json("-s", store, "rm", "--limit", "1", "--all", "--yes")["items"] == 1
    assert keys(store) == "abde"


def test_a_namespace_that_the_input_does_not_have(memctl: Memctl, store: Path) -> None:
    assert memctl("-s", store, "export", "-f", "all.jsonl").code == 0
    error = memctl.refuse("-s", "a.db", "import", "all.jsonl", "--init", "--in", "nope", code=5)
    assert "'nope'" in error["message"]
    assert not (memctl.folder / "a.db").exists()
    assert memctl.json("-s", "a.db", "import", "all.jsonl", "--init", "--in", "n")["items"] == 5
    assert memctl("-s", "a.db", "import", "all.jsonl", "--in", "nope.*").code == 0
    assert memctl("-s", "a.db", "import", "all.jsonl", "--in", "n", "--text", "nothing says this").code == 0
