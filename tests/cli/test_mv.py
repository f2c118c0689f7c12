"""`memctl mv`: what it takes, when it asks, and what it finds before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import PREFS, MakeStore
from tests.contract.backends import RawItem, vector
from tests.invocation import Memctl


def places(memctl: Memctl, store: Path) -> list[tuple[str, ...]]:
    return memctl.names("-s", store, "ls", "--items")


def test_it_asks(memctl: Memctl, store: Path) -> None:
    before = store.read_bytes()
    assert memctl.refuse("-s", store, "mv", "users", "people", code=2)["code"] == "needs-yes"
    outcome = memctl("-s", store, "mv", "users", "people", "--dry-run")
    assert (outcome.code, store.read_bytes()) == (0, before)
    assert "users.ana.prefs → people.ana.prefs: 2 items" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("users",), ("a", "b", "c", "d"), ("users", "users"), (PREFS, "seat", "seat"), ("users.*", "people"),
        ("users.{a}", "people"), ("users", "people.{a}"), ("users", "a..b"), ("users", "langgraph.users"),
        ("--map", "users=people", "x", "y"), ("users", "people", "--on-conflict", "perhaps"), ("users.*", "seat", "x"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(memctl: Memctl, store: Path, arguments: tuple[str, ...]) -> None:
    assert memctl.refuse("-s", store, "mv", *arguments, "--yes", code=2)["code"] in (
        "usage",
        "invalid-namespace",
    )


def test_exit_codes(memctl: Memctl, store: Path) -> None:
    assert memctl.refuse("-s", store, "mv", "nobody", "x", "--yes", code=5)["code"] == "not-found"
    assert memctl.refuse("-s", store, "mv", PREFS, "nothing", "x", "--yes", code=5)["code"] == "not-found"
    assert memctl.json("-s", store, "mv", "nobody.{x}", "{x}", "--yes")["items"] == 0
    assert memctl.json("-s", store, "mv", "org", "firms", "--yes")["items"] == 1
    assert memctl.refuse("-s", store, "mv", "org", "firms", "--yes", code=5)["code"] == "not-found"


def test_a_sibling_that_begins_alike_stays(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([RawItem("users.bo", "k"), RawItem("users.bo_2", "k"), RawItem("users.bo.x", "k")])
    outcome = memctl("-s", store, "mv", "users.bo", "bo", "--yes")
    assert "leaves users.bo_2: " in outcome.err
    assert places(memctl, store) == [("bo", "k"), ("bo.x", "k"), ("users.bo_2", "k")]


def test_a_taken_key(memctl: Memctl, store: Path) -> None:
    assert memctl.refuse("-s", store, "mv", PREFS, "seat", "meal", "--yes", code=1)["code"] == "conflict"
    report = memctl.json("-s", store, "mv", PREFS, "seat", "meal", "--on-conflict", "overwrite", "--yes")
    assert (report["items"], report["overwritten"]) == (1, 1)


def test_a_circle_of_names_with_one_that_is_taken(memctl: Memctl, make_store: MakeStore) -> None:
    """a → b → c, and c is taken: what cannot move is in the way of what comes behind it."""
    store = make_store(
        RawItem(name, "k", f'{{"n": "{name}"}}', vectors=(vector("$", name),)) for name in "abc"
    )
    rules = ("--map", "a=b", "--map", "b=c")
    assert memctl.refuse("-s", store, "mv", *rules, "--yes", code=1)["code"] == "conflict"
    report = memctl.json("-s", store, "mv", *rules, "--on-conflict", "skip", "--yes")
    assert (report["items"], report["skipped"]) == (0, 2)
    report = memctl.json("-s", store, "mv", *rules, "--on-conflict", "overwrite", "--yes")
    assert (report["items"], report["overwritten"]) == (2, 1)
    found = memctl.json("-s", store, "search")
    assert sorted((item["namespace"], item["value"]["n"]) for item in found) == [(["b"], "a"), (["c"], "b")]


def test_three_in_a_circle(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store(
        RawItem(name, "k", f'{{"n": "{name}"}}', vectors=(vector("$", name),)) for name in "abc"
    )
    report = memctl.json("-s", store, "mv", "--map", "a=b", "--map", "b=c", "--map", "c=a", "--yes")
    assert (report["items"], report["vectors"]) == (3, 3)
    found = memctl.json("-s", store, "search")
    assert sorted((item["namespace"], item["value"]["n"]) for item in found) == [
        (["a"], "c"), (["b"], "a"), (["c"], "b"),
    ]  # fmt: skip


def test_what_takes_one_transaction_has_a_limit(
    memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl import untangling

    monkeypatch.setattr(untangling, "AT_ONCE", 3)
    before = store.read_bytes()
    assert memctl.refuse("-s", store, "mv", "users", "users.old", "--yes", code=1)["code"] == "entangled"
    assert store.read_bytes() == before
    memctl.json("-s", store, "mv", "users", "old", "--yes")
    memctl.json("-s", store, "mv", "old", "users.old", "--yes")
    assert len(places(memctl, store)) == 6
