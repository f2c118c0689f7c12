"""The database as such: damaged pages, a WAL that nobody empties, dead rows, bloat."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memctl.stores.postgres import health as postgres
from memctl.stores.sqlite import health as sqlite
from tests.contract.backends import PostgresBackend, RawItem, SqliteBackend, WalBackend
from tests.databases import Database
from tests.invocation import Memctl


@pytest.fixture
def doctor(tmp_path: Path) -> Memctl:
    return Memctl(tmp_path, now=datetime.now(UTC))


def integrity(report: Any) -> dict[str, Any]:
    found: dict[str, Any] = next(check for check in report["checks"] if check["id"] == "integrity")
    return found


def test_damaged_pages_are_told_and_what_can_run_runs(tmp_path: Path, doctor: Memctl) -> None:
    backend = SqliteBackend(tmp_path)
    backend.create()
    backend.insert(
        RawItem("users.ana", f"k{number:04}", '{"text": "' + "x" * 300 + '"}') for number in range(400)
    )
    octets = bytearray(backend.path.read_bytes())
    page = int.from_bytes(octets[16:18], "big")
    roots = dict(backend.execute("SELECT name, rootpage FROM sqlite_master WHERE name = 'store'"))
    start = roots["store"] * page
    octets[start + page * 8 : start + page * 9] = b"\xff" * page
    backend.path.write_bytes(octets)
    report = doctor.json("-s", backend.address, "doctor", "--skip", "duplicates", code=1)
    found = integrity(report)
    assert (found["level"], found["status"], found["fix"]) == ("error", "found", None)
    assert found["samples"]
    assert ".recover" in found["message"]
    statuses = {check["id"]: check["status"] for check in report["checks"]}
    assert statuses["schema"] == "ok"
    assert "failed" in statuses.values()


def test_a_wal_that_nobody_empties(tmp_path: Path, doctor: Memctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WAL_OCTETS", 1_000_000)
    backend = WalBackend(tmp_path)
    backend.create()
    with contextlib.closing(sqlite3.connect(backend.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for number in range(20):
            value = '{"text": "' + "x" * 60_000 + '"}'
            connection.execute("INSERT INTO store (prefix, key, value) VALUES ('a', ?, ?)", [number, value])
        check = ("-s", backend.address, "doctor", "--check", "integrity")
        found = integrity(doctor.json(*check, code=4))
        assert found["bytes"] > 1_000_000
        with contextlib.closing(sqlite3.connect(backend.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM store").fetchone()
            report = doctor.json(*check, "--fix", "integrity", "--yes", "--timeout", "0.5", code=4)
            assert any("somebody still reads" in remark for remark in report["repairs"][0]["remarks"])
        report = doctor.json(*check, "--fix", "integrity", "--yes")
        assert report["repairs"][0]["parts"] == 1
        assert integrity(report)["status"] == "ok"


def test_dead_rows_and_a_bloated_index(
    database: Database, doctor: Memctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(PostgresBackend(database)) as backend:
        backend.create(vectors=False)
        backend.execute("ALTER TABLE store SET (autovacuum_enabled = false)")
        backend.insert(RawItem("users.ana", f"k{number:05}") for number in range(2_000))
        backend.execute("DELETE FROM store WHERE key >= 'k00050'")
        monkeypatch.setattr(postgres, "DEAD_ROWS", 1_000)
        backend.execute("SELECT pg_stat_force_next_flush()")
        check = ("-s", backend.address, "doctor", "--check", "integrity")
        deadline = time.monotonic() + 10
        while doctor(*check).code == 0 and time.monotonic() < deadline:
            time.sleep(0.2)
        found = integrity(doctor.json(*check, code=4))
        assert "dead rows" in found["message"]
        report = doctor.json(*check, "--fix", "integrity", "--yes")
        assert report["repairs"][0]["parts"] == 1
        assert integrity(report)["status"] == "ok"

        monkeypatch.setattr(postgres, "BLOAT_OCTETS", 50_000)
        report = doctor.json(*check, code=4)
        assert "times as large" in integrity(report)["message"]
        report = doctor.json(*check, "--fix", "integrity", "--yes")
        assert report["repairs"][0]["parts"] >= 1
