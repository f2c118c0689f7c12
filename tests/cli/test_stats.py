"""`memctl stats` against SQL and in its formats."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memctl.stores.demo import create_demo
from tests.databases import Database
from tests.invocation import NOW, Memctl

KEYS = {
    "store",
    "scope",
    "now",
    "items",
    "live",
    "expired",
    "never_expiring",
    "namespaces",
    "bytes",
    "vectors",
    "items_with_vectors",
    "items_without_vectors",
    "dims",
    "created_at",
    "updated_at",
    "largest",
    "prompt",
    "creation",
    "expiry",
    "problems",
    "history",
}


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    path = tmp_path / "demo.db"
    create_demo(path, NOW)
    return path


def execute(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, parameters).fetchall()


def test_one_object_of_stable_keys(memctl: Memctl, sqlite_data: Path) -> None:
    found = memctl.json("-s", sqlite_data, "stats")
    assert found.keys() == KEYS
    assert found["now"] == "2026-11-30T08:00:00.000000Z"
    assert (found["items"], found["live"], found["expired"], found["never_expiring"]) == (9, 8, 1, 5)
    assert found["bytes"] == execute(sqlite_data, "SELECT sum(length(CAST(value AS BLOB))) FROM store")[0][0]
    assert (found["vectors"], found["items_with_vectors"], found["items_without_vectors"]) == (13, 9, 0)
    assert found["dims"] == {"8": 13}
    assert [entry["items"] for entry in found["expiry"]] == [1, 2, 1, 0, 0, 0, 5]
    assert found["largest"][0] == {"namespace": ["org", "acme", "facts"], "key": "unicode", "bytes": 96}
    assert found["prompt"]["depth"] == 2
    assert found["prompt"]["namespaces"] == 4
    assert found["prompt"]["tokens"]["largest"] == -(-found["prompt"]["bytes"]["largest"] // 4)
    assert sum(bar["items"] for bar in found["creation"]["bars"]) == 9
    assert found["problems"] == {"items": 0, "parts": {}}


def test_postgres_says_the_same_of_the_same_items(memctl: Memctl, postgres_data: Database) -> None:
    found = memctl.json("-s", postgres_data.url, "stats")
    assert found.keys() == KEYS
    assert (found["items"], found["namespaces"]) == (9, 5)
    (items, octets, vectors), *_ = postgres_data.execute(
        "SELECT count(*), sum(octet_length(value::text)), (SELECT count(*) FROM store_vectors) FROM store"
    )
    assert (found["items"], found["bytes"], found["vectors"]) == (items, octets, vectors)
    assert found["live"] + found["expired"] == items


def test_a_namespace_covers_its_descendants_and_the_depth_follows_it(
    memctl: Memctl, sqlite_data: Path
) -> None:
    found = memctl.json("-s", sqlite_data, "stats", "users.ana")
    assert (found["scope"], found["items"], found["namespaces"]) == ("users.ana", 4, 2)
    assert (found["prompt"]["depth"], found["prompt"]["namespaces"]) == (3, 2)
    found = memctl.json("-s", sqlite_data, "stats", "users.ana", "--depth", "1")
    assert (found["prompt"]["depth"], found["prompt"]["largest_namespace"]) == (1, ["users"])


def test_a_literal_namespace_without_items_is_an_error_and_names_the_nearest(
    memctl: Memctl, sqlite_data: Path
) -> None:
    error = memctl.refuse("-s", sqlite_data, "stats", "users.anna", code=5)
    assert error["code"] == "not-found"
    assert "users.ana" in error["hint"]


def test_wildcards_that_match_nothing_are_zero_items(memctl: Memctl, sqlite_data: Path) -> None:
    found = memctl.json("-s", sqlite_data, "stats", "users.*.nothing")
    assert found.keys() == KEYS
    assert (found["items"], found["largest"], found["creation"]["bars"]) == (0, [], [])
    assert memctl("-s", sqlite_data, "stats", "users.*.nothing").out.startswith("users.*.nothing: 0 items")


def test_wildcards_select_label_by_label(memctl: Memctl, sqlite_data: Path) -> None:
    assert memctl.json("-s", sqlite_data, "stats", "users.*.prefs")["items"] == 4
    assert memctl.json("-s", sqlite_data, "stats", "*.*.memories")["items"] == 2


def test_the_clock_decides_what_has_expired(memctl: Memctl, sqlite_data: Path) -> None:
    memctl.now = NOW - timedelta(days=1)
    assert memctl.json("-s", sqlite_data, "stats")["expired"] == 0
    memctl.now = NOW + timedelta(days=1)
    assert memctl.json("-s", sqlite_data, "stats")["expired"] == 4


def test_a_file_without_expiry_and_vectors(memctl: Memctl, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    execute(
        path,
        "CREATE TABLE store (prefix TEXT, key TEXT, value TEXT, created_at TIMESTAMP, updated_at TIMESTAMP,"
        " PRIMARY KEY (prefix, key))",
    )
    execute(path, "INSERT INTO store VALUES ('a.b', 'k', '{}', '2026-11-30 07:00:00', '2026-11-30 07:00:00')")
    found = memctl.json("-s", path, "stats")
    assert (found["items"], found["expired"], found["never_expiring"]) == (1, 0, 1)
    assert (found["vectors"], found["items_with_vectors"], found["items_without_vectors"]) == (
        None,
        None,
        None,
    )
    assert found["dims"] == {}
    out = memctl("-s", path, "stats").out
    assert "Expiring" not in out
    assert "vectors" not in out


def test_an_empty_store_has_a_headline_only(memctl: Memctl, sqlite_data: Path) -> None:
    execute(sqlite_data, "DELETE FROM store")
    outcome = memctl("-s", sqlite_data, "stats")
    assert (outcome.code, outcome.lines) == (0, ["0 items in 0 namespaces, 0 B of values"])


def test_what_cannot_be_decoded_is_counted_and_the_rest_goes_on(memctl: Memctl, demo: Path) -> None:
    outcome = memctl("-s", demo, "-o", "json", "stats")
    found = outcome.json()
    assert outcome.code == 3
    assert found["items"] == execute(demo, "SELECT count(*) FROM store")[0][0]
    assert found["problems"]["items"] > 0
    assert set(found["problems"]["parts"]) >= {"created_at", "expires_at", "key", "vectors"}
    assert f"{found['problems']['items']} items could not be decoded in full" in outcome.err


def test_a_width_counts_only_where_there_is_a_row_of_numbers(memctl: Memctl, sqlite_data: Path) -> None:
    execute(sqlite_data, "UPDATE store_vectors SET embedding = x'00' WHERE field_name = 'text'")
    found = memctl.json("-s", sqlite_data, "stats", code=3)
    assert (found["vectors"], found["dims"]) == (13, {"8": 12})
    assert found["problems"] == {"items": 1, "parts": {"vectors": 1}}


@pytest.mark.parametrize("width", [80, 120])
def test_people_see_bars_that_fit(memctl: Memctl, demo: Path, width: int) -> None:
    outcome = memctl("-s", demo, "stats", "--no-color", terminal=True, width=width)
    assert outcome.lines[0].startswith("110 items in 28 namespaces")
    for title in ("Tokens in a prompt, estimated", "Created", "Expiring", "Largest"):
        assert title in outcome.lines
    assert any("█" in line for line in outcome.lines)
    assert all(len(line) <= width for line in outcome.lines)
    assert "17 namespaces at --depth 2" in outcome.out


def test_the_prompt_is_called_an_estimate_and_names_its_depth(memctl: Memctl, sqlite_data: Path) -> None:
    out = memctl("-s", sqlite_data, "stats", "--depth", "3").out
    assert "estimated" in out
    assert "5 namespaces at --depth 3, 4 bytes a token" in out


def test_names_are_escaped_for_people_and_exact_in_json(memctl: Memctl, sqlite_data: Path) -> None:
    key = "red\x1b[31m[bold]"
    execute(sqlite_data, "UPDATE store SET prefix = 'a.*', key = ? WHERE key = 'unicode'", key)
    outcome = memctl("-s", sqlite_data, "stats", "--no-color", terminal=True, width=100)
    assert "\x1b" not in outcome.out
    assert r"red\x1b[31m[bold]" in outcome.out
    assert r"a.\*" in outcome.out
    assert memctl.json("-s", sqlite_data, "stats")["largest"][0]["key"] == key


@pytest.mark.parametrize("depth", ["0", "-1", "x"])
def test_a_depth_is_a_number_from_one_on(memctl: Memctl, sqlite_data: Path, depth: str) -> None:
    assert memctl("-s", sqlite_data, "stats", "--depth", depth).code == 2


def test_reading_changes_nothing(memctl: Memctl, sqlite_data: Path) -> None:
    before = sqlite_data.read_bytes()
    memctl.json("-s", sqlite_data, "stats")
    assert sqlite_data.read_bytes() == before
    assert [path.name for path in sqlite_data.parent.iterdir()] == [sqlite_data.name]
