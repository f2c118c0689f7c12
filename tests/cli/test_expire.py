"""`memctl expire`: what it takes, and that it touches nothing but the expiry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import ITEMS, PREFS
from tests.contract.backends import SqliteBackend
from tests.invocation import Memctl


def rows(store: Path, columns: str) -> list[tuple[object, ...]]:
    backend = SqliteBackend(store.parent)
    backend.path = store
    return backend.execute(f"SELECT {columns} FROM store ORDER BY prefix, key")


def test_more_than_one_item_asks(memctl: Memctl, store: Path) -> None:
    before = store.read_bytes()
    assert memctl.refuse("-s", store, "expire", PREFS, "--in", "1d", code=2)["code"] == "needs-yes"
    assert memctl.refuse("-s", store, "expire", "--in", "1d", "--yes", code=2)["code"] == "needs-all"
    report = memctl.json("-s", store, "expire", PREFS, "--in", "1d", "--dry-run")
    assert (report["items"], report["dry_run"]) == (2, True)
    assert store.read_bytes() == before
    assert memctl.json("-s", store, "expire", PREFS, "seat", "--in", "1d")["items"] == 1
    assert memctl.json("-s", store, "expire", PREFS, "--in", "1d", "--yes") | {"seconds": 0} == {
        "items": 1, "vectors": 0, "bytes": len(ITEMS[3].value), "skipped": 0, "rejected": 0, "unchanged": 1,
        "dry_run": False, "seconds": 0,
    }  # fmt: skip


def test_everything_else_stays(memctl: Memctl, store: Path) -> None:
    columns = "prefix, key, value, created_at, updated_at"
    before = rows(store, columns)
    memctl.json("-s", store, "expire", "--all", "--in", "90m", "--ttl", "45d", "--yes")
    assert rows(store, columns) == before
    assert set(rows(store, "expires_at, ttl_minutes")) == {("2026-11-30 09:30:00+00:00", 64_800.0)}
    memctl.json("-s", store, "expire", "--all", "--never", "--yes")
    assert set(rows(store, "expires_at, ttl_minutes")) == {(None, None)}


def test_what_the_options_select(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "expire", "--expired", "--never")["items"] == 1
    assert memctl.json("-s", store, "expire", "--expired", "--never")["items"] == 0
    names = b"users.ana.prefs\tmeal\nnobody\tk\n"
    assert memctl.json("-s", store, "expire", "--from", "-", "--ttl", "1h", stdin=names, code=5)["items"] == 1
    assert rows(store, "expires_at")[3] == ("2026-11-30 09:00:00+00:00",)


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("--in", "1d", "--never"), ("--at", "2027-01-01", "--in", "1d"), ("--never", "--ttl", "1d"),
        ("--ttl", "0d"), ("--in", "soon"), ("--at", "45d"), ("--ttl", "1d", "--round-ttl", "down"),
    ],
)  # fmt: skip
def test_what_is_not_said_clearly(memctl: Memctl, store: Path, arguments: tuple[str, ...]) -> None:
    assert memctl.refuse("-s", store, "expire", PREFS, "--yes", *arguments, code=2)["code"] == "usage"


def test_the_past(memctl: Memctl, store: Path) -> None:
    outcome = memctl("-s", store, "expire", PREFS, "seat", "--at", "2020-01-01")
    assert outcome.code == 0
    assert "2020-01-01T00:00:00.000000Z is past" in outcome.err


def test_an_odd_expiry_is_set_right(memctl: Memctl, store: Path) -> None:
    backend = SqliteBackend(store.parent)
    backend.path = store
    backend.set_time("expires_at", "'2026-12-01T00:00:00Z'", "seat")
    memctl.json("-s", store, "expire", PREFS, "seat", "--at", "2026-12-01")
    assert rows(store, "expires_at")[4] == ("2026-12-01 00:00:00+00:00",)
