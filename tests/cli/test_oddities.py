"""What only a SQLite file can hold goes from one to another as it is, and nowhere else without a word."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PREFS
from tests.databases import Database
from tests.invocation import Memctl

ODD = """
UPDATE store_vectors SET embedding = '[0.25, 1e-3]', created_at = 'yesterday' WHERE key = 'm1';
UPDATE store_vectors SET embedding = 7, updated_at = x'32303236' WHERE key = 'seat';
UPDATE store_vectors SET created_at = 1795000000, updated_at = NULL WHERE field_name = 'text' AND key = 'meal';
INSERT INTO store (prefix, key, value) VALUES
('users.ana.prefs', x'6d65616c', '{"of":"the BLOB"}'), (x'6f7267', 'a', '{}'),
('users.bo', CAST(x'ff61' AS TEXT), '{}'), (x'75ff', x'ff', '{}');
INSERT INTO store_vectors (prefix, key, field_name, embedding)
VALUES ('users.ana.prefs', x'6d65616c', 'text', x'00000000');
"""

ITEMS = ("prefix", "key", "created_at", "updated_at", "expires_at", "ttl_minutes")
VECTORS = ("prefix", "key", "field_name", "embedding", "created_at", "updated_at")


@pytest.fixture
def odd(store: Path) -> Path:
    """The store, with names, embeddings and times that the library would not write."""
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript(ODD)
    return store


def rows(path: Path) -> list[Any]:
    """Everything in a file, each cell with its type; of values, which are text or BLOBs, the octets."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        items, vectors = (
            ", ".join(f"typeof({name}), {name}" for name in names) for names in (ITEMS, VECTORS)
        )
        return [
            *connection.execute(f"SELECT {items}, value FROM store ORDER BY prefix, key"),
            *connection.execute(f"SELECT {vectors} FROM store_vectors ORDER BY prefix, key, field_name"),
        ]


@pytest.mark.parametrize("into", ["new", "there"])
def test_through_an_archive_and_straight(memctl: Memctl, odd: Path, into: str) -> None:
    archive, copy, other = (memctl.folder / name for name in ("all.jsonl", "copy.db", "other.db"))
    assert memctl("-s", odd, "export", "-f", archive).code == 3
    assert memctl("verify", archive).code == 0
    options = ["--init"]
    if into == "there":  # written row by row, and not loaded
        options = []
        assert (
            memctl("-s", copy, "init", "--dims", "8").code == memctl("-s", other, "init", "--dims", "8").code
        )
    for _ in range(2):  # the second time there is nothing left to do
        assert memctl("-s", copy, "import", archive, *options).code == 0
        assert memctl("migrate", odd, other, *options).code == 0
        assert rows(copy) == rows(other) == rows(odd)
    for a, b in ((odd, copy), (odd, archive), (archive, copy), (other, copy)):
        assert memctl("diff", a, b).code == 0, (a, b)


def test_what_is_shown_is_not_taken_for_what_is_stored(memctl: Memctl, odd: Path) -> None:
    array = memctl.folder / "all.json"
    assert memctl("-s", odd, "export", "--format", "json", "-f", array).code == 3
    outcome = memctl("-s", "copy.db", "import", array, "--init", "--on-error", "skip")
    assert outcome.code == 3
    for part in ("key", "vectors", "namespace"):
        assert f"could not decode its {part}" in outcome.err
    assert memctl.json("-s", "copy.db", "get", "org.acme.facts", "cadence")["value"]


def test_a_blob_is_overwritten_as_one(memctl: Memctl, odd: Path) -> None:
    assert memctl("migrate", odd, "copy.db", "--init").code == 0
    with closing(sqlite3.connect(odd)) as connection, connection:
        connection.execute(
            "UPDATE store SET value = '{}', updated_at = '2026-12-01 00:00:00' WHERE key = x'6d65616c'"
        )
    assert memctl("migrate", odd, "copy.db", "--on-conflict", "newer", "--yes").code == 0
    assert rows(memctl.folder / "copy.db") == rows(odd)


def test_a_difference_in_what_cannot_be_read_is_one(memctl: Memctl, odd: Path) -> None:
    archive = memctl.folder / "all.jsonl"
    assert memctl("-s", odd, "export", "-f", archive).code == 3
    for change in (
        "UPDATE store_vectors SET embedding = '[0.25, 2e-3]' WHERE key = 'm1'",
        "UPDATE store_vectors SET embedding = NULL WHERE key = 'seat'",
        "UPDATE store_vectors SET updated_at = '2026-11-30 08:00:00' WHERE updated_at IS NULL",
    ):
        with closing(sqlite3.connect(odd)) as connection, connection:
            connection.execute(change)
    found = memctl.json("diff", odd, archive, code=4)
    assert [(row["key"], row["parts"]) for row in found] == [
        (key, ["vectors"]) for key in ("m1", "meal", "seat")
    ]


def test_one_more_text_before_a_blob_is_one_difference(memctl: Memctl, odd: Path) -> None:
    archive = memctl.folder / "all.jsonl"
    assert memctl("-s", odd, "export", "-f", archive).code == 3
    with closing(sqlite3.connect(odd)) as connection, connection:
        connection.execute("INSERT INTO store (prefix, key, value) VALUES (?, 'zoo', '{}')", (PREFS,))
    [row] = memctl.json("diff", odd, archive, code=4)
    assert (row["key"], row["in"]) == ("zoo", "a")


def test_postgres_is_asked_first(memctl: Memctl, odd: Path, database: Database) -> None:
    outcome = memctl("migrate", odd, database.url, "--init", "--dims", "8")
    assert outcome.code == 1
    for reason in ("an embedding that is text or a number", "a BLOB, and names are text here"):
        assert reason in outcome.err
    outcome = memctl(
        "migrate", odd, database.url, "--init", "--dims", "8", "--drop-vectors", "--on-error", "skip"
    )
    assert outcome.code == 3
    assert "vectors left out" in outcome.err + outcome.out
