"""`memctl migrate`: one store into another."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import NAMES, PREFS
from tests.contract.backends import SqliteBackend
from tests.databases import Database
from tests.invocation import Memctl

KEYS = {"items", "vectors", "bytes", "skipped", "rejected", "dry_run", "seconds"}


@pytest.fixture
def target(memctl: Memctl) -> Path:
    """Where a store is to be."""
    return memctl.folder / "target.db"


def test_everything(memctl: Memctl, store: Path, target: Path) -> None:
    outcome = memctl("-o", "json", "migrate", store, target, "--init", "--verify")
    assert outcome.code == 0, outcome.err
    report = outcome.json()
    assert report.keys() >= KEYS
    assert (report["items"], report["vectors"], report["dry_run"]) == (len(NAMES), 4, False)
    assert "verified: 6 items are equal in every part" in outcome.err
    assert "writers to the source waited at most" in outcome.err
    assert memctl("diff", store, target).code == 0


def test_again(memctl: Memctl, store: Path, target: Path) -> None:
    memctl.json("migrate", store, target, "--init")
    before = target.read_bytes()
    report = memctl.json("migrate", store, target, "--init")
    assert (report["items"], report["unchanged"]) == (0, 6)
    assert target.read_bytes() == before


def test_to_postgres_and_what_it_cannot_hold(memctl: Memctl, store: Path, database: Database) -> None:
    error = memctl.refuse("migrate", store, database.url, "--init", code=1)
    assert error["code"] == "rejected"
    assert "1 × ttl_minutes: not a whole number of minutes" in error["message"]
    assert f"{PREFS} 'meal'" in error["message"]
    assert database.execute("SELECT to_regclass('store')") == [(None,)]
    outcome = memctl(
        "migrate", store, database.url, "--init", "--on-error", "skip", "--rejects", "rejects", "-o", "json"
    )
    assert (outcome.code, outcome.json()["items"], outcome.json()["rejected"]) == (3, 5, 1)
    assert len((memctl.folder / "rejects").read_bytes().splitlines()) == 1
    report = memctl.json("-s", database.url, "import", "rejects", "--round-ttl", "up")
    assert report["items"] == 1
    rows = memctl.json("diff", store, database.url, code=4)
    assert [(row["key"], row["parts"]) for row in rows] == [("meal", ["ttl_minutes"])]


def test_verify_tells_what_differs(memctl: Memctl, store: Path, database: Database) -> None:
    outcome = memctl("migrate", store, database.url, "--init", "--round-ttl", "up", "--verify")
    assert outcome.code == 4
    assert "verified: 1 item differs, 5 are equal" in outcome.err
    assert f"{PREFS} 'meal': ttl_minutes" in outcome.err


def test_a_selection(memctl: Memctl, store: Path, target: Path) -> None:
    report = memctl.json(
        "migrate", store, target, "--init", "--in", "users.ana", "--text", "fintech", "--verify"
    )
    assert report["items"] == 1
    assert memctl.names("-s", target, "search") == [("users.ana.memories", "m1")]


def test_renamed(memctl: Memctl, store: Path, target: Path) -> None:
    memctl.json("migrate", store, target, "--init", "--map", "users.{u}={u}", "--into", "all", "--verify")
    assert {row[0] for row in memctl.names("-s", target, "search")} == {
        "all.org.acme.facts", "all.ana.memories", "all.ana.prefs", "all.bo.prefs",
    }  # fmt: skip


def test_two_onto_one_name(memctl: Memctl, store: Path, target: Path) -> None:
    error = memctl.refuse(
        "migrate", store, target, "--init", "--map", "users.ana=x", "--map", "users.bo=x", code=1
    )
    assert "the same namespace and key as another item" in error["message"]
    assert not target.exists()


@pytest.mark.parametrize("rule", ["overwrite", "newer"])
def test_overwriting_needs_yes(memctl: Memctl, store: Path, target: Path, rule: str) -> None:
    memctl.json("migrate", store, target, "--init")
    backend = SqliteBackend(target.parent)
    backend.path = target
    backend.execute("UPDATE store SET value = '{}', updated_at = '2020-01-01 00:00:00' WHERE key = 'm1'")
    before = target.read_bytes()
    assert memctl.refuse("migrate", store, target, code=1)["code"] == "conflict"
    assert memctl.refuse("migrate", store, target, "--on-conflict", rule, code=2)["code"] == "needs-yes"
    assert memctl.json("migrate", store, target, "--on-conflict", rule, "--dry-run")["overwritten"] == 1
    assert target.read_bytes() == before
    assert memctl.json("migrate", store, target, "--on-conflict", rule, "--yes")["overwritten"] == 1
    assert memctl("diff", store, target).code == 0


def test_a_dry_run_creates_nothing(memctl: Memctl, store: Path, target: Path, database: Database) -> None:
    report = memctl.json("migrate", store, target, "--init", "--dry-run", "--verify")
    assert (report["items"], report["vectors"], report["dry_run"]) == (6, 4, True)
    assert not target.exists()
    memctl.refuse("migrate", store, database.url, "--init", "--dry-run", code=1)
    memctl.json("migrate", store, database.url, "--init", "--dry-run", "--round-ttl", "up")
    assert database.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'store%'") == [(0,)]


@pytest.mark.parametrize(
    "options", [["-s", "x.db"], ["--schema", "x"], ["--table", "x"], ["--on-conflict", "x"]]
)
def test_usage(memctl: Memctl, store: Path, target: Path, options: list[str]) -> None:
    memctl.refuse("migrate", store, target, "--init", *options, code=2)
    assert not target.exists()


def test_onto_itself_and_from_an_archive(memctl: Memctl, store: Path, target: Path) -> None:
    assert "the same store" in memctl.refuse("migrate", store, store, code=2)["message"]
    assert memctl("-s", store, "export", "-f", "a.jsonl").code == 0
    assert "import" in (memctl.refuse("migrate", "a.jsonl", target, "--init", code=2)["hint"] or "")


def test_stores_that_are_not_there(memctl: Memctl, store: Path, target: Path) -> None:
    assert memctl.refuse("migrate", store, target, code=10)["code"] == "missing"
    assert memctl.refuse("migrate", "none.db", target, "--init", code=10)["code"] == "missing"
    assert not target.exists()


def test_a_target_in_use(memctl: Memctl, store: Path, target: Path) -> None:
    memctl("-s", target, "init", "--dims", "8")
    with closing(sqlite3.connect(target, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        memctl.refuse("migrate", store, target, "--timeout", "0.2", code=11)
    assert memctl("-s", target, "search", "--count").out.strip() == "0"


def test_the_source_is_left_as_it_was(memctl: Memctl, store: Path, target: Path) -> None:
    before = store.read_bytes()
    memctl("migrate", store, target, "--init", "--verify")
    assert store.read_bytes() == before
