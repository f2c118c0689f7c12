"""`memctl info` against what the schema really is, intact and damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from memctl.cli.info_report import report_of
from memctl.store import Capability
from memctl.stores.demo import create_demo
from memctl.stores.sqlite import schema
from tests.databases import Database
from tests.invocation import NOW, Memctl
from tests.servers import PASSWORD

KEYS = {
    "kind",
    "backend",
    "version",
    "address",
    "schema",
    "tables",
    "ledgers",
    "indexes",
    "vectors",
    "bytes",
    "facts",
    "capabilities",
    "guard",
    "history",
}


def execute(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, parameters).fetchall()


def present(found: dict[str, Any]) -> set[str]:
    return {name for name, entry in found["capabilities"].items() if entry["present"]}


def test_a_real_file(memctl: Memctl, sqlite_data: Path) -> None:
    found = memctl.json("-s", sqlite_data, "info")
    assert found.keys() == KEYS
    assert (found["backend"], found["version"], found["schema"]) == ("SQLite", sqlite3.sqlite_version, None)
    assert found["address"] == str(sqlite_data)
    assert found["bytes"] == sqlite_data.stat().st_size
    tables = {table["name"]: table for table in found["tables"]}
    assert {name: table["rows"] for name, table in tables.items()} == {"store": 9, "store_vectors": 14}
    for name, table in tables.items():
        columns = execute(sqlite_data, f"SELECT name, type FROM pragma_table_info('{name}') ORDER BY cid")
        assert list(table["columns"].items()) == columns
    indexes = execute(
        sqlite_data, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE 'store%'"
    )
    assert {index["name"] for index in found["indexes"]} == {name for (name,) in indexes}
    assert all(index["valid"] for index in found["indexes"])
    assert found["ledgers"] == [
        {
            "table": "store_migrations",
            "recorded": [0, 1, 2, 3, 4],
            "known": [0, 1, 2, 3, 4],
            "applied": [0, 1, 2, 3, 4],
            "agrees": True,
        },
        {"table": "vector_migrations", "recorded": [0], "known": [0], "applied": [0], "agrees": True},
    ]
    assert found["vectors"] == {"type": "BLOB of float32", "dims": [8], "index": None, "metric": None}
    assert found["facts"]["journal_mode"] == "delete"
    assert present(found) == {"expiry", "vectors", "vector-times", "times", "raw-text"}
    assert found["capabilities"].keys() == {str(name) for name in Capability}


def test_a_sound_store_is_called_one(memctl: Memctl, sqlite_data: Path) -> None:
    lines = memctl("-s", sqlite_data, "info").lines
    assert lines[0] == f"LangGraph store in SQLite {sqlite3.sqlite_version}: schema and migrations agree"
    assert "Wrong" not in lines


@pytest.mark.parametrize(
    ("damage", "agrees", "says"),
    [
        (
            "ALTER TABLE store DROP COLUMN ttl_minutes",
            False,
            "store_migrations records 3, whose effect the schema lacks",
        ),
        ("DROP INDEX store_prefix_idx", False, "store_migrations records 1, whose effect the schema lacks"),
        ("DROP TABLE store_migrations", False, "store_migrations lacks 0-4, which the schema has"),
        ("DELETE FROM store_migrations WHERE v IN (1, 3, 4)", False, "store_migrations lacks 1, 3-4"),
        ("INSERT INTO store_migrations VALUES (9)", True, "9 newer than memctl knows"),
        (
            "UPDATE store_vectors SET embedding = zeroblob(64) WHERE key = 'm1'",
            True,
            "vectors of 8 and 16 dims",
        ),
    ],
)
def test_what_differs_is_said_in_words(
    memctl: Memctl, sqlite_data: Path, damage: str, agrees: bool, says: str
) -> None:
    execute(sqlite_data, damage)
    assert memctl.json("-s", sqlite_data, "info")["ledgers"][0]["agrees"] is agrees
    outcome = memctl("-s", sqlite_data, "info")
    assert outcome.code == 0
    assert says in outcome.out


def test_a_schema_of_an_older_library_is_in_order(memctl: Memctl, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    execute(path, schema.LEDGER)
    for version, statement in enumerate(schema.MIGRATIONS[:2]):
        execute(path, statement)
        execute(path, "INSERT INTO store_migrations VALUES (?)", version)
    found = memctl.json("-s", path, "info")
    assert [(ledger["recorded"], ledger["applied"], ledger["agrees"]) for ledger in found["ledgers"]] == [
        ([0, 1], [0, 1], True)
    ]
    assert found["vectors"] is None
    assert present(found) == {"times", "raw-text"}
    out = memctl("-s", path, "info").out
    assert "in order, in a schema older than today's" in out
    assert "- expiry" in out


def test_wal_mode_a_checkpointer_and_other_tables(memctl: Memctl, tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    create_demo(path, NOW)
    execute(path, "CREATE TABLE invoices (id INTEGER)")
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("PRAGMA journal_mode = wal")
        agent.execute("INSERT INTO invoices VALUES (1)")
        found = memctl.json("-s", path, "info")
        wal = path.with_name("demo.db-wal").stat().st_size
        assert found["facts"]["wal_bytes"] == wal > 0
    facts = found["facts"]
    assert (facts["journal_mode"], facts["encoding"]) == ("wal", "UTF-8")
    assert facts["checkpointer_tables"] == ["checkpoints", "writes"]
    assert facts["other_tables"] == ["invoices"]
    assert "snapshot" in present(found)


def test_a_large_file_is_not_counted(
    memctl: Memctl, sqlite_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memctl.stores.sqlite.describe.COUNTED_BELOW", 4096)
    execute(sqlite_data, "ANALYZE")
    tables = memctl.json("-s", sqlite_data, "info")["tables"]
    assert [(table["rows"], table["estimate"]) for table in tables] == [(None, 9), (None, 14)]
    assert "store (about 9 rows)" in memctl("-s", sqlite_data, "info").out


def test_a_table_of_another_name(memctl: Memctl, sqlite_data: Path) -> None:
    for old, new in (("store", 'my "own"'), ("store_vectors", 'my "own"_vectors')):
        execute(sqlite_data, f"ALTER TABLE {old} RENAME TO " + '"{}"'.format(new.replace('"', '""')))
    found = memctl.json("-s", sqlite_data, "info", "--table", 'my "own"')
    assert [(table["name"], table["rows"]) for table in found["tables"]] == [
        ('my "own"', 9),
        ('my "own"_vectors', 14),
    ]
    assert found["vectors"]["dims"] == [8]


@pytest.mark.parametrize("width", [80, 120])
def test_one_screen(memctl: Memctl, sqlite_data: Path, width: int) -> None:
    lines = memctl("-s", sqlite_data, "info", "--no-color", terminal=True, width=width).lines
    assert all(len(line) <= width for line in lines[2:])
    assert len(lines) <= 40


def test_a_real_database(memctl: Memctl, postgres_data: Database) -> None:
    found = memctl.json("-s", postgres_data.url, "info")
    assert found.keys() == KEYS
    assert (found["backend"], found["schema"]) == ("PostgreSQL", "public")
    assert found["version"].split(".")[0] == "18"
    assert all(ledger["agrees"] for ledger in found["ledgers"])
    assert all(index["valid"] for index in found["indexes"])
    assert found["vectors"]["dims"] == [8]
    outcome = memctl("-s", postgres_data.url, "info")
    assert outcome.code == 0
    assert outcome.lines[0].startswith("LangGraph store in PostgreSQL 18")


def test_a_ledger_ahead_of_a_lost_column_and_an_invalid_index(
    memctl: Memctl, postgres_sample: Database
) -> None:
    postgres_sample.execute("ALTER TABLE store DROP COLUMN expires_at")
    postgres_sample.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'store_vectors_embedding_idx'::regclass"
    )
    outcome = memctl("-s", postgres_sample.url, "info")
    assert "things are wrong" in outcome.lines[0]
    assert "store_migrations records 2-3, whose effect the schema lacks" in outcome.out
    assert "the index store_vectors_embedding_idx is invalid" in outcome.out


def test_no_secret_is_shown(memctl: Memctl, postgres_sample: Database) -> None:
    address = postgres_sample.tcp_url
    secret = quote(PASSWORD, safe="")
    assert secret in address
    outcome = memctl("-s", address, "info")
    assert outcome.code == 0
    assert "127.0.0.1" in outcome.out
    assert secret not in outcome.out
    assert PASSWORD not in outcome.out


def test_a_store_that_cannot_show_its_schema_says_so() -> None:
    class Remote:
        kind = "server"
        address = "https://agents.example"
        capabilities = frozenset({Capability.EXPIRY})

    store: Any = Remote()
    report = report_of(store, None)
    assert "does not show its schema" in report.headline
    assert report.data.keys() == KEYS
    assert report.data["tables"] is None
    assert report.data["capabilities"]["expiry"]["present"]
    assert not report.data["capabilities"]["vectors"]["present"]
