"""`memctl diff`: rows, parts, and any mix of stores and archives."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import PREFS
from tests.invocation import Memctl


@pytest.fixture
def other(store: Path) -> Path:
    """A copy, with one item gone, one more, and one different in all its parts."""
    path = Path(shutil.copy(store, store.with_name("other.db")))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "DELETE FROM store WHERE key = 'cadence';"
            "INSERT INTO store (prefix, key, value) VALUES ('zoo', 'new', '{}');"
            "UPDATE store SET value = '{}', created_at = '2020-01-01 00:00:00', updated_at = '2020-01-01 00:00:00',"
            " expires_at = NULL, ttl_minutes = 60 WHERE key = 'meal';"
            "DELETE FROM store_vectors WHERE key = 'meal' AND field_name = 'text';"
            'UPDATE store SET value = \'{"n": null, "value": "window"}\' WHERE prefix = \'users.bo.prefs\';'
        )
    return path


PARTS = ["value", "created_at", "updated_at", "expires_at", "ttl_minutes", "vectors"]
ROWS = [
    {"namespace": ["org", "acme", "facts"], "key": "cadence", "in": "a", "parts": []},
    {"namespace": PREFS.split("."), "key": "meal", "in": "both", "parts": PARTS},
    {"namespace": ["zoo"], "key": "new", "in": "b", "parts": []},
]


def test_rows(memctl: Memctl, store: Path, other: Path) -> None:
    outcome = memctl("-o", "json", "diff", store, other)
    assert (outcome.code, outcome.json()) == (4, ROWS)
    assert list(outcome.json()[0]) == ["namespace", "key", "in", "parts"]
    assert "3 differ: 1 only in A, 1 only in B, 1 in both; 4 equal" in outcome.err


def test_equal(memctl: Memctl, store: Path) -> None:
    outcome = memctl("-o", "json", "diff", store, store)
    assert (outcome.code, outcome.json()) == (0, [])
    assert "equal: 6 items" in outcome.err


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_archives_in_any_mix(memctl: Memctl, store: Path, other: Path, suffix: str) -> None:
    one, two = memctl.folder / f"one.{suffix}", memctl.folder / f"two.{suffix}"
    assert memctl("-s", store, "export", "-f", one).code == 0
    assert memctl("-s", other, "export", "-f", two).code == 0
    assert memctl("diff", store, one).code == 0
    for a, b in ((one, two), (store, two), (one, other)):
        assert memctl.json("diff", a, b, code=4) == ROWS


def test_one_namespace(memctl: Memctl, store: Path, other: Path) -> None:
    assert memctl.json("diff", store, other, "users", code=4) == ROWS[1:2]
    assert memctl.json("diff", store, other, "*.acme", code=4) == ROWS[:1]
    assert memctl.json("diff", store, other, "users.bo") == []


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        (["value"], PARTS[1:]),
        (["expiry"], ["value", "created_at", "updated_at", "vectors"]),
        (["value,created_at,updated_at", "vectors"], ["expires_at", "ttl_minutes"]),
    ],
)
def test_ignoring(memctl: Memctl, store: Path, other: Path, ignored: list[str], left: list[str]) -> None:
    options = [word for each in ignored for word in ("--ignore", each)]
    rows = memctl.json("diff", store, other, *options, code=4)
    assert [row["parts"] for row in rows] == [[], left, []]


def test_ignoring_all_that_differs(memctl: Memctl, store: Path, other: Path) -> None:
    assert memctl("diff", store, other, PREFS, "--ignore", ",".join(PARTS)).code == 0


def test_renamed(memctl: Memctl, store: Path) -> None:
    target = memctl.folder / "renamed.db"
    rule = "users.{u}.prefs=a.{u}"
    assert memctl("migrate", store, target, "--init", "--map", rule).code == 0
    assert memctl("diff", store, target, "--map", rule).code == 0
    assert memctl("diff", store, target).code == 4
    assert memctl("diff", store, target, "a.ana", "--map", rule).code == 0


def test_two_items_of_one_name(memctl: Memctl, store: Path) -> None:
    error = memctl.refuse("diff", store, store, "--map", "users.ana=u", "--map", "users.bo=u", code=1)
    assert (error["code"], error["message"]) == (
        "collision",
        "--map gives two items the same name: u.prefs seat",
    )


def test_a_namespace_that_neither_holds(memctl: Memctl, store: Path, other: Path) -> None:
    archive = memctl.folder / "one.jsonl"
    assert memctl("-s", store, "export", "-f", archive).code == 0
    for a, b in ((store, other), (archive, other), (store, archive)):
        error = memctl.refuse("diff", a, b, "users.ana.pref", code=5)
        assert "'users.ana.pref'" in error["message"]
        assert "nearest: users.ana.prefs" in error["hint"]
    assert memctl.refuse("diff", archive, archive, "users.cho", code=5)["hint"]
    assert memctl("diff", store, other, "users.*.nothing").code == 0
    assert memctl("diff", store, other, "zoo").code == 4  # one of them is enough


@pytest.mark.parametrize(
    "options", [["-s", "x.db"], ["--schema", "x"], ["--table", "x"], ["--ignore", "colour"], ["--map", "a"]]
)
def test_usage(memctl: Memctl, store: Path, other: Path, options: list[str]) -> None:
    memctl.refuse("diff", store, other, *options, code=2)


def test_what_is_not_there(memctl: Memctl, store: Path) -> None:
    assert memctl.refuse("diff", store, "none.db", code=10)["code"] == "missing"


def test_nothing_is_changed(memctl: Memctl, store: Path, other: Path) -> None:
    before = store.read_bytes(), other.read_bytes()
    memctl("diff", store, other)
    assert (store.read_bytes(), other.read_bytes()) == before
    assert sorted(path.name for path in memctl.folder.iterdir()) == ["other.db", "store.db"]
