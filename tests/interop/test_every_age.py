"""Every store in `tests/data/`, written by libraries old and new, beside what plain SQL says of it."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import struct
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DATA
from tests.databases import Database
from tests.invocation import Memctl
from tests.writers import SAMPLE


class Truth:
    """A store as SQL shows it."""

    def __init__(self, address: str, items: list[dict[str, Any]], vectors: list[dict[str, Any]]) -> None:
        self.address = address
        self.items = items
        self.vectors = [row for row in vectors if any(_same_place(row, item) for item in items)]

    def of(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        """The vectors of an item."""
        return sorted(
            (row for row in self.vectors if _same_place(row, item)),
            key=lambda row: row["field_name"].encode(),
        )


def _same_place(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return (a["prefix"], a["key"]) == (b["prefix"], b["key"])


def instant(cell: Any) -> str | None:
    """A timestamp as either database hands it over."""
    if cell is None:
        return None
    moment = cell if isinstance(cell, datetime) else datetime.fromisoformat(cell)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def minutes(cell: float | None) -> Decimal | None:
    """A TTL, as exactly as JSON is read."""
    return None if cell is None else Decimal(str(cell))


@pytest.fixture
def sqlite_truth(sqlite_data: Path) -> Truth:
    """A SQLite file."""
    with closing(sqlite3.connect(f"file:{sqlite_data}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        items = [dict(row) for row in connection.execute("SELECT * FROM store")]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        vectors = (
            [dict(row) for row in connection.execute("SELECT * FROM store_vectors")]
            if "store_vectors" in tables
            else []
        )
    for item in items:
        item["text"] = bytes(item["value"]) if isinstance(item["value"], bytes) else item["value"].encode()
    return Truth(str(sqlite_data), items, vectors)


@pytest.fixture
def postgres_truth(postgres_data: Database) -> Truth:
    """A PostgreSQL dump, loaded."""
    items = [
        row
        for (row,) in postgres_data.execute(
            "SELECT to_jsonb(s) || jsonb_build_object('text', value::text) FROM store s"
        )
    ]
    vectors = [
        row
        for (row,) in postgres_data.execute(
            "SELECT to_jsonb(v) || jsonb_build_object('embedding', embedding::vector::real[]) FROM store_vectors v"
        )
    ]
    for item in items:
        item["text"] = item["text"].encode()
    for row in vectors:
        row["embedding"] = struct.pack(f"<{len(row['embedding'])}f", *row["embedding"])
    return Truth(postgres_data.url, items, vectors)


def check(memctl: Memctl, truth: Truth) -> None:
    """Hold every reading command against the truth."""
    items = sorted(truth.items, key=lambda item: (item["prefix"].encode(), item["key"].encode()))
    assert len(items) == len(SAMPLE)
    assert [(tuple(item["prefix"].split(".")), item["key"]) for item in items] == list(SAMPLE)
    expected = [
        {
            "namespace": item["prefix"].split("."),
            "key": item["key"],
            "value": json.loads(item["text"], parse_float=Decimal),
            "created_at": instant(item["created_at"]),
            "updated_at": instant(item["updated_at"]),
            "expires_at": instant(item.get("expires_at")),
            "ttl_minutes": minutes(item.get("ttl_minutes")),
        }
        for item in items
    ]
    assert memctl.json("-s", truth.address, "search", "--order", "name") == expected
    for item, row in zip(items, expected, strict=True):
        assert memctl.json("-s", truth.address, "get", item["prefix"], item["key"]) == row
        whole = memctl("-s", truth.address, "get", item["prefix"], item["key"], "--value").stdout
        assert whole == item["text"] + b"\n"
        vectors = memctl.json("-s", truth.address, "get", item["prefix"], item["key"], "--vectors")["vectors"]
        assert vectors == [
            {
                "field": found["field_name"],
                "embedding": base64.b64encode(found["embedding"]).decode(),
                "created_at": instant(found["created_at"]),
                "updated_at": instant(found["updated_at"]),
            }
            for found in truth.of(item)
        ]
    listed = memctl.json("-s", truth.address, "ls", "--items")
    assert [(row["bytes"], row["vectors"]) for row in listed] == [
        (len(item["text"]), len(truth.of(item))) for item in items
    ]
    prefixes = list(dict.fromkeys(item["prefix"] for item in items))
    assert memctl.json("-s", truth.address, "ls") == [
        {
            "namespace": prefix.split("."),
            "items": sum(item["prefix"] == prefix for item in items),
            "vectors": sum(row["prefix"] == prefix for row in truth.vectors),
            "bytes": sum(len(item["text"]) for item in items if item["prefix"] == prefix),
            "newest": max(instant(item["updated_at"]) or "" for item in items if item["prefix"] == prefix),
        }
        for prefix in prefixes
    ]
    assert memctl.json("-s", truth.address, "search", "--count") == {"count": len(items)}
    stats = memctl.json("-s", truth.address, "stats")
    assert stats["items"] == len(items)
    assert memctl("-s", truth.address, "info").code == 0
    if any("expires_at" in item for item in items):
        assert {row["key"] for row in memctl.json("-s", truth.address, "search", "--live")} | {
            row["key"] for row in memctl.json("-s", truth.address, "search", "--expired")
        } == {item["key"] for item in items}


def test_sqlite(memctl: Memctl, sqlite_truth: Truth) -> None:
    check(memctl, sqlite_truth)


def test_postgres(memctl: Memctl, postgres_truth: Truth) -> None:
    check(memctl, postgres_truth)


def test_expiry_by_the_clock(memctl: Memctl, tmp_path: Path) -> None:
    """Both of SQLite's spellings: what put wrote expires at 07:42, what a read refreshed at 09:13."""
    path = shutil.copy(DATA / "sqlite-3.1.2.db", tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        expiring = "SELECT key, expires_at FROM store WHERE expires_at IS NOT NULL"
        spellings = dict(connection.execute(expiring).fetchall())
    assert {len(cell) for cell in spellings.values()} == {19, 32}
    moments = {key: instant(cell) or "" for key, cell in spellings.items()}
    for clock in sorted(moments.values()):
        memctl.now = datetime.fromisoformat(clock)
        expired = {row["key"] for row in memctl.json("-s", path, "search", "--expired")}
        assert expired == {key for key, moment in moments.items() if moment <= clock}
