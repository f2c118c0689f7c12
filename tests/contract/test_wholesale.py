"""Deleting and renaming a whole scope: all that is in it by then, nothing beside it, and in short batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memctl.changes import BATCH_OCTETS
from memctl.model import EVERYTHING, Scope
from memctl.store import Bulk, Wholesale
from tests.contract.backends import Backend, RawItem, SqliteBackend, WalBackend, in_order, vector
from tests.contract.conftest import make_backend
from tests.contract.test_apply import check, writing
from tests.databases import DEFAULT_KIND
from tests.invocation import Memctl

ITEMS = in_order(
    [
        *(RawItem("u.bo", str(number)) for number in range(3)),
        RawItem("u.bo", "seat", vectors=(vector("$"), vector("text"))),
        RawItem("u.bo.prefs", "seat", '{"n": 22}', expires_at="2026-12-01T00:00:00.500000Z", ttl_minutes=60),
        RawItem("u.bo.prefs.x", "ü", vectors=(vector("$"),)),
        RawItem("u.bo-x", "seat", vectors=(vector("$"),)),
        RawItem("u.bo_2", "seat"),
        RawItem("u.bob", "seat", vectors=(vector("$"),)),
        RawItem("u", "seat"),
        RawItem("v", "seat", vectors=(vector("$"),)),
    ]
)
BO = Scope("u.bo")
MEANT = [item for item in ITEMS if item.prefix == "u.bo" or item.prefix.startswith("u.bo.")]
OTHERS = [item for item in ITEMS if item not in MEANT]
OCTETS = sum(len(item.value) for item in MEANT)


@pytest.fixture(params=[SqliteBackend, WalBackend])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteBackend:
    backend: SqliteBackend = request.param(tmp_path)
    return backend


@pytest.fixture
def full_file(file: SqliteBackend) -> SqliteBackend:
    file.create()
    file.insert(reversed(ITEMS))
    return file


@pytest.fixture(params=["sqlite-rollback", "sqlite-wal", f"postgres-{DEFAULT_KIND}"])
def able(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Those that can do it."""
    with make_backend(request.param, tmp_path, lambda: request.getfixturevalue("databases")) as backend:
        yield backend


@pytest.fixture(params=[True, False], ids=["whole", "plain"])
def filled(able: Backend, request: pytest.FixtureRequest) -> Backend:
    able.create(expiry=request.param, vectors=request.param)
    able.insert(reversed(ITEMS))
    return able


@contextlib.contextmanager
def wholesale(backend: Backend) -> Iterator[Wholesale]:
    with writing(backend) as target:
        assert isinstance(target, Wholesale)
        yield target


def renamed(item: RawItem, old: str, new: str) -> RawItem:
    return replace(item, prefix=new + item.prefix.removeprefix(old))


def total(found: list[Bulk]) -> tuple[int, int, int]:
    """What was done in all, and no batch without anything."""
    assert all(bulk.items and not bulk.passed_over for bulk in found)
    return sum(b.items for b in found), sum(b.vectors for b in found), sum(b.octets for b in found)


def vectors(backend: Backend, items: list[RawItem]) -> int:
    return sum(len(backend.remembered(item).vectors) for item in items)


@pytest.mark.parametrize("rows", [1, 3, 500])
class TestEveryBatchSize:
    def test_a_subtree_goes_and_no_more(self, filled: Backend, rows: int) -> None:
        with wholesale(filled) as target:
            found = list(target.remove(BO, lambda: rows, BATCH_OCTETS))
        assert total(found) == (len(MEANT), vectors(filled, MEANT), OCTETS)
        assert max(bulk.items for bulk in found) == min(rows, len(MEANT))
        check(filled, OTHERS)

    def test_a_namespace_itself_goes(self, filled: Backend, rows: int) -> None:
        with wholesale(filled) as target:
            assert sum(b.items for b in target.remove(Scope("u.bo", descend=False), lambda: rows, 9999)) == 4
        check(filled, [item for item in ITEMS if item.prefix != "u.bo"])

    def test_everything_goes(self, filled: Backend, rows: int) -> None:
        with wholesale(filled) as target:
            assert sum(b.items for b in target.remove(EVERYTHING, lambda: rows, 9999)) == len(ITEMS)
        check(filled, [])

    def test_a_subtree_gets_other_names(self, filled: Backend, rows: int) -> None:
        old = "u.bo"
        with wholesale(filled) as target:
            for new in ("u.al", "w", "a much longer.name", "u.boo", "é"):
                found = list(target.rename(Scope(old), new, lambda: rows, BATCH_OCTETS))
                assert total(found) == (len(MEANT), vectors(filled, MEANT), OCTETS)
                old = new
        check(filled, in_order([*OTHERS, *(renamed(item, "u.bo", "é") for item in MEANT)]))


def test_what_the_names_are_made_of_does_not_matter(file: SqliteBackend) -> None:
    """In a file: invalid UTF-8, NUL, blanks before the dot, names and keys that are BLOBs."""
    file.create()
    file.insert([RawItem("u.bo", "1"), RawItem("z", "1")])
    for prefix, key in (
        ("CAST(x'752e626f2eff' AS TEXT)", "CAST(x'ff' AS TEXT)"),
        ("CAST(x'752e626f2e6100' AS TEXT)", "'a' || char(0) || 'b'"),
        ("'u.bo x'", "'1'"),
        ("x'752e626f'", "'blob prefix'"),
        ("'u.bo.k'", "x'00ff'"),
    ):
        file.execute(
            f"INSERT INTO store (prefix, key, value, created_at, updated_at) "
            f"VALUES ({prefix}, {key}, '{{}}', '2026-01-01 00:00:00', '2026-01-01 00:00:00')"
        )
    names = "SELECT hex(prefix), typeof(prefix), hex(key), typeof(key) FROM store ORDER BY rowid"
    before = file.execute(names)
    with wholesale(file) as target:
        found = list(target.rename(BO, "new", lambda: 1, 9999))
    assert [(bulk.items, bulk.passed_over) for bulk in found] == [(1, 0), (1, 0), (0, 1), (1, 0)]
    moved = [
        (name.replace("752E626F", "6E6577", 1), *rest) if number in (0, 2, 3) else (name, *rest)
        for number, (name, *rest) in enumerate(before)
    ]
    assert file.execute(names) == moved
    with wholesale(file) as target:
        assert sum(bulk.items for bulk in target.remove(EVERYTHING, lambda: 2, 9999)) == len(before)
    assert file.execute(names) == []


def test_orphans_stay_where_they_are(full_file: SqliteBackend) -> None:
    full_file.orphan("u.bo", "none", vector("$"))
    full_file.orphan("w.prefs", "seat", vector("$"), vector("old"))
    full_file.orphan("w.prefs", "other", vector("$"))
    names = "SELECT prefix, key, field_name FROM store_vectors WHERE {} ORDER BY 1, 2, 3"
    with wholesale(full_file) as target:
        assert sum(bulk.vectors for bulk in target.rename(BO, "w", lambda: 2, 9999)) == 3
    # those of an item that takes their name would count as its own
    assert full_file.execute(names.format("prefix GLOB 'w*'")) == [
        ("w", "seat", "$"),
        ("w", "seat", "text"),
        ("w.prefs", "other", "$"),
        ("w.prefs.x", "ü", "$"),
    ]
    with wholesale(full_file) as target:
        assert sum(bulk.vectors for bulk in target.remove(Scope("w"), lambda: 2, 9999)) == 3
    left = full_file.execute(names.format("prefix GLOB 'w*' OR prefix = 'u.bo'"))
    assert left == [("u.bo", "none", "$"), ("w.prefs", "other", "$")]


def test_a_batch_of_which_a_name_is_taken_is_passed_over(filled: Backend) -> None:
    taken = RawItem("w.prefs", "seat", '{"n": 7}', vectors=(vector("$"),))
    filled.insert([taken])
    with wholesale(filled) as target:
        found = list(target.rename(BO, "w", lambda: 1, 9999))
    assert sum(bulk.items for bulk in found) == len(MEANT) - 1
    assert sum(bulk.passed_over for bulk in found) == 1
    stays = next(item for item in MEANT if item.prefix == "u.bo.prefs")
    moved = [renamed(item, "u.bo", "w") for item in MEANT if item != stays]
    check(filled, in_order([*OTHERS, *moved, stays, taken]))


def test_a_batch_ends_where_its_values_come_to_so_many_octets(full_file: SqliteBackend) -> None:
    with wholesale(full_file) as target:
        assert [bulk.items for bulk in target.remove(BO, lambda: 500, 16)] == [2, 2, 2]
    check(full_file, OTHERS)


def test_what_comes_meanwhile_goes_as_well_and_what_is_behind_stays(filled: Backend) -> None:
    """Between two batches nothing is locked, and each takes what is there when it is begun."""
    ahead, behind = RawItem("u.bo.z", "new", vectors=(vector("$"),)), RawItem("u.bo", "-")
    with wholesale(filled) as target:
        batches = target.remove(BO, lambda: 2, 9999)
        assert next(batches).items == 2
        filled.insert([ahead, behind])
        filled.execute("UPDATE store SET value = '{\"n\": 12345}' WHERE prefix = 'u.bo.prefs'")
        rest = list(batches)
    assert sum(bulk.items for bulk in rest) == len(MEANT) - 1
    check(filled, in_order([*OTHERS, behind]))


def test_a_batch_that_fails_has_changed_nothing(full_file: SqliteBackend) -> None:
    full_file.execute(
        "CREATE TRIGGER refuse BEFORE DELETE ON store WHEN OLD.prefix = 'u.bo.prefs' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with wholesale(full_file) as target:
        batches = target.remove(BO, lambda: 3, 9999)
        assert next(batches).items == 3
        with pytest.raises(Exception, match="no"):
            next(batches)
    gone = [item for item in MEANT if item.prefix == "u.bo"][:3]
    check(full_file, [item for item in ITEMS if item not in gone])


def test_the_commands_take_the_short_way(
    filled: Backend, memctl: Memctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs no look at each item is not read item by item, once it is known what it is."""
    from memctl.stores.postgres import changing as postgres
    from memctl.stores.sqlite import changing as sqlite

    def never(*_: Any) -> Any:
        raise AssertionError("item by item")

    monkeypatch.setattr(sqlite.Changing, "apply", never)
    monkeypatch.setattr(postgres.Changing, "apply", never)
    found = memctl.json("-s", filled.address, "mv", "u.bo", "w", "--yes")
    assert (found["items"], found["vectors"], found["bytes"]) == (6, vectors(filled, MEANT), OCTETS)
    found = memctl.json("-s", filled.address, "rm", "w", "--recursive", "--yes")
    assert (found["items"], found["vectors"], found["bytes"]) == (6, vectors(filled, MEANT), OCTETS)
    check(filled, OTHERS)


def test_a_name_that_is_taken_between_looking_and_renaming_is_told(
    filled: Backend, memctl: Memctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.cli.context import Context

    taken = RawItem("w.prefs", "seat", '{"n": 7}')
    monkeypatch.setattr(Context, "confirm", lambda *_: filled.insert([taken]))
    outcome = memctl("-s", filled.address, "mv", "u.bo", "w", "--yes")
    assert outcome.code == 3
    assert "1 of the new names were taken meanwhile" in outcome.err
    stays = next(item for item in MEANT if item.prefix == "u.bo.prefs")
    moved = [renamed(item, "u.bo", "w") for item in MEANT if item != stays]
    check(filled, in_order([*OTHERS, *moved, stays, taken]))


def test_what_takes_a_closer_look_is_renamed_all_the_same(file: SqliteBackend, memctl: Memctl) -> None:
    file.create()
    file.insert([RawItem("u.bo", "1"), RawItem("u.bo.k", "2")])
    file.execute("UPDATE store SET key = x'6b' WHERE key = '2'")
    assert memctl.json("-s", file.address, "mv", "u.bo", "w", "--yes")["items"] == 2
    assert file.execute("SELECT prefix, key FROM store ORDER BY 1") == [("w", "1"), ("w.k", "k")]


@pytest.mark.parametrize("able", [f"postgres-{DEFAULT_KIND}"], indirect=True)
def test_a_name_that_gets_too_long_is_told_before_anything_is_renamed(able: Backend, memctl: Memctl) -> None:
    able.create()
    long = "".join(f"{number * 7919:06x}" for number in range(420))
    items = in_order([RawItem("u.bo", "1"), RawItem("u.bo.z", long, vectors=(vector("$"),))])
    able.insert(items)
    new = "w" * 40 + ".".join(f"{number * 104729:x}" for number in range(30))
    assert memctl.refuse("-s", able.address, "mv", "u.bo", new, "--yes", code=1)["code"] == "unholdable"
    check(able, items)
    assert memctl.json("-s", able.address, "mv", "u.bo", "u.longer", "--yes")["items"] == 2
    check(able, [renamed(item, "u.bo", "u.longer") for item in items])


def test_history_tells_of_each_item(file: SqliteBackend, memctl: Memctl) -> None:
    file.create()
    file.insert(ITEMS)
    memctl("-s", file.address, "history", "on", "--yes")
    assert memctl.json("-s", file.address, "rm", "u.bo", "--recursive", "--yes")["vectors"] == 3
    told = "SELECT prefix, key, operation FROM memctl_history ORDER BY seq"
    assert file.execute(told) == [(item.prefix, item.key, "deleted") for item in MEANT]
