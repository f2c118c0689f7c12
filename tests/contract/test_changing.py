"""`put`, `rm`, `mv` and `expire` on every kind of store: what they change, and what they leave alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memctl.model import EVERYTHING, Detail, Item
from memctl.store import Capability, Change
from tests.contract.backends import CREATED, Backend, RawItem, in_order, vector
from tests.contract.comparing import expected, yielded
from tests.contract.test_apply import writing
from tests.invocation import Memctl

EXPIRES = "2099-01-01T00:00:00.000000Z"
ITEMS = [
    RawItem("users.bo", "note", '{"n": 1}', vectors=(vector("$"),)),
    RawItem("users.bo.prefs", "meal", '{"n": 2}', vectors=(vector("text"), vector("tags[*].0"))),
    RawItem("users.bo.prefs", "seat", '{"n": 3}', expires_at=EXPIRES, ttl_minutes=60),
    RawItem("users.bo_2.prefs", "seat", '{"n": 4}', vectors=(vector("$"),)),
    RawItem("z", "1", '{"n": 5}'),
]


class Shop:
    """A store that memctl works on, and what is in it."""

    def __init__(self, backend: Backend, memctl: Memctl) -> None:
        self.backend, self._memctl = backend, memctl

    def __call__(self, *arguments: str | Path, code: int = 0, **rest: Any) -> Any:
        """Run a command; return its report."""
        return self._memctl.json("-s", self.backend.address, *arguments, code=code, **rest)

    def refuse(self, *arguments: str | Path, code: int, **rest: Any) -> dict[str, Any]:
        """Run a command that fails and changes nothing; return its error."""
        before = self.items()
        error = self._memctl.refuse("-s", self.backend.address, *arguments, code=code, **rest)
        assert self.items() == before
        return error

    def items(self) -> list[Item]:
        """Everything, whole."""
        with self.backend.open() as store:
            return list(store.scan(EVERYTHING, vectors=Detail.FULL))

    def item(self, prefix: str, key: str) -> Item:
        """One item, whole."""
        return next(item for item in self.items() if (item.prefix, item.key) == (prefix, key))

    def holds(self, *items: RawItem) -> None:
        """Check that the store holds exactly these items and vectors, and no vector beside them."""
        with self.backend.open() as store:
            found = yielded(store.scan(EVERYTHING, vectors=Detail.FULL))
        assert found == expected(self.backend, in_order(items), vectors=Detail.FULL)
        ((rows,),) = self.backend.execute("SELECT count(*) FROM store_vectors")
        assert rows == sum(len(item.vectors) for item in items)


@pytest.fixture(scope="module")
def made(shared_backend: Backend) -> Backend:
    """A store of each kind for all tests of this module."""
    shared_backend.create()
    return shared_backend


@pytest.fixture
def shop(made: Backend, memctl: Memctl) -> Shop:
    """A store that holds `ITEMS` and nothing else."""
    made.execute("DELETE FROM store_vectors")
    made.execute("DELETE FROM store")
    made.insert(ITEMS)
    return Shop(made, memctl)


def counts(report: dict[str, Any]) -> tuple[int, int]:
    return report["items"], report["vectors"]


class TestRm:
    def test_a_namespace_itself(self, shop: Shop) -> None:
        assert counts(shop("rm", "users.bo", "--dry-run")) == (1, 1)
        shop.holds(*ITEMS)
        report = shop("rm", "users.bo", "--yes")
        assert counts(report) == (1, 1)
        assert report["skipped"] == report["rejected"] == 0
        shop.holds(*ITEMS[1:])

    def test_a_subtree(self, shop: Shop) -> None:
        assert counts(shop("rm", "users.bo", "--recursive", "--yes")) == (3, 3)
        shop.holds(*ITEMS[3:])

    def test_keys(self, shop: Shop) -> None:
        shop("rm", "users.bo.prefs", "meal", "nothing", "--yes", code=5)
        shop.holds(ITEMS[0], *ITEMS[2:])

    def test_what_conditions_select(self, shop: Shop) -> None:
        assert counts(shop("rm", "--filter", "n>=4", "--yes")) == (2, 1)
        shop.holds(*ITEMS[:3])
        assert counts(shop("rm", "users.bo", "--recursive", "--live", "--filter", "n=3", "--yes")) == (1, 0)
        shop.holds(*ITEMS[:2])

    def test_names(self, shop: Shop) -> None:
        names = b"z\t1\nusers.bo\tnote\nz\t1\n"
        assert counts(shop("rm", "--from", "-", "--yes", stdin=names)) == (2, 1)
        shop.holds(*ITEMS[1:4])

    def test_everything(self, shop: Shop) -> None:
        assert counts(shop("rm", "--all", "--yes")) == (5, 4)
        shop.holds()
        shop("rm", "--all", "--yes", code=5)

    def test_what_went_comes_back(self, shop: Shop, tmp_path: Path) -> None:
        archive = tmp_path / "gone.jsonl.gz"
        before = shop.items()
        shop("rm", "users", "--recursive", "--save", archive, "--yes")
        shop.holds(ITEMS[4])
        shop("verify", archive)
        assert counts(shop("import", archive)) == (4, 4)
        assert shop.items() == before


class TestExpire:
    def test_in(self, shop: Shop) -> None:
        before = shop.item("users.bo.prefs", "seat")
        report = shop("expire", "users.bo.prefs", "seat", "--in", "30d")
        assert (report["items"], report["unchanged"]) == (1, 0)
        now = shop.item("users.bo.prefs", "seat")
        assert now.expires_at is not None
        assert now.expires_at < "2099"
        assert replace_expiry(now, before) == before
        assert now.ttl_minutes == 60

    def test_at_and_ttl(self, shop: Shop) -> None:
        arguments = ("--at", "2031-01-01T00:00:00.5Z", "--ttl", "45d")
        shop("expire", "users.bo", "--recursive", *arguments, "--yes")
        late = [
            replace(item, expires_at="2031-01-01T00:00:00.500000Z", ttl_minutes=64_800) for item in ITEMS[:3]
        ]
        shop.holds(*late, *ITEMS[3:])
        assert shop("expire", "users.bo", "--recursive", *arguments, "--yes")["unchanged"] == 3

    def test_never(self, shop: Shop) -> None:
        shop("expire", "users.bo.prefs", "--never", "--yes")
        shop.holds(*ITEMS[:2], replace(ITEMS[2], expires_at=None, ttl_minutes=None), *ITEMS[3:])

    def test_a_ttl_begins_now(self, shop: Shop) -> None:
        shop("expire", "z", "--ttl", "1h")
        now = shop.item("z", "1")
        assert now.ttl_minutes == 60
        _, latest = shop.backend.bounds_of_now()
        assert now.expires_at is not None
        assert now.expires_at >= "2026-11-30T08"
        assert now.expires_at > latest

    def test_a_fraction_of_a_minute(self, shop: Shop) -> None:
        if shop.backend.holds_fractions:
            shop("expire", "z", "--ttl", "90s")
            assert shop.item("z", "1").ttl_minutes == 1.5
        else:
            for arguments in (("expire", "z", "--ttl", "90s"), ("put", "z", "1", "{}", "--ttl", "90s", "-n")):
                error = shop.refuse(*arguments, code=1)
                assert (error["code"], error["hint"]) == ("unholdable", "--round-ttl up")
        shop("expire", "z", "--ttl", "90s", "--round-ttl", "up")
        assert shop.item("z", "1").ttl_minutes == 2

    def test_a_store_without_expiry(self, backend: Backend, memctl: Memctl) -> None:
        backend.create(expiry=False)
        backend.insert(ITEMS)
        shop = Shop(backend, memctl)
        for arguments in (("expire", "z", "--in", "1d"), ("put", "z", "1", "{}", "--ttl", "1d")):
            if backend.can(Capability.EXPIRY):  # some kinds have it whatever their age
                shop(*arguments)
            else:
                assert shop.refuse(*arguments, code=1)["code"] == "unsupported"
        shop("put", "z", "1", '{"n": 6}', "--no-ttl")


def replace_expiry(item: Item, other: Item) -> Item:
    """The item with the expiry of another."""
    return msgspec.structs.replace(item, expires_at=other.expires_at)


class TestMv:
    def test_a_namespace_with_its_descendants(self, shop: Shop) -> None:
        assert counts(shop("mv", "users.bo", "people.b", "--dry-run")) == (3, 3)
        shop.holds(*ITEMS)
        assert counts(shop("mv", "users.bo", "people.b", "--yes")) == (3, 3)
        moved = [replace(item, prefix=item.prefix.replace("users.bo", "people.b")) for item in ITEMS[:3]]
        shop.holds(*moved, *ITEMS[3:])
        shop("mv", "people.b", "users.bo", "--yes")
        shop.holds(*ITEMS)

    def test_a_template(self, shop: Shop) -> None:
        assert counts(shop("mv", "users.{who}.prefs", "{who}.prefs", "--yes")) == (3, 3)
        moved = [replace(item, prefix=item.prefix.removeprefix("users.")) for item in ITEMS[1:4]]
        shop.holds(*moved, ITEMS[0], ITEMS[4])

    def test_a_key(self, shop: Shop) -> None:
        assert counts(shop("mv", "users.bo.prefs", "meal", "dinner", "--yes")) == (1, 2)
        shop.holds(ITEMS[0], replace(ITEMS[1], key="dinner"), *ITEMS[2:])

    def test_into_its_own_subtree(self, shop: Shop) -> None:
        shop("mv", "users", "users.bo", "--yes")
        shop.holds(
            *(replace(item, prefix=item.prefix.replace("users", "users.bo", 1)) for item in ITEMS[:4]),
            ITEMS[4],
        )
        shop("mv", "users.bo", "users", "--yes")
        shop.holds(*ITEMS)

    def test_a_swap(self, shop: Shop) -> None:
        shop.backend.insert([RawItem("bo.users", "note", '{"n": 6}'), RawItem("bo.users", "x", '{"n": 7}')])
        report = shop("mv", "--map", "users.bo=bo.users", "--map", "bo.users=users.bo", "--yes")
        assert counts(report) == (5, 3)
        shop.holds(
            *(replace(item, prefix=item.prefix.replace("users.bo", "bo.users")) for item in ITEMS[:3]),
            *ITEMS[3:],
            RawItem("users.bo", "note", '{"n": 6}'),
            RawItem("users.bo", "x", '{"n": 7}'),
        )

    def test_two_onto_one(self, shop: Shop) -> None:
        error = shop.refuse(
            "mv", "--map", "users.bo.prefs=one", "--map", "users.bo_2.prefs=one", "--yes", code=1
        )
        assert error["code"] == "collision"

    def test_a_taken_name(self, shop: Shop) -> None:
        taken = RawItem(
            "other", "seat", '{"n": 9}', updated_at="2026-11-30T07:00:00.000000Z", vectors=(vector("o"),)
        )
        shop.backend.insert([taken])
        error = shop.refuse("mv", "users.bo.prefs", "other", "--yes", code=1)
        assert error["code"] == "conflict"
        report = shop("mv", "users.bo.prefs", "other", "--on-conflict", "skip", "--yes")
        assert (counts(report), report["skipped"]) == ((1, 2), 1)
        meal, seat = (replace(item, prefix="other") for item in ITEMS[1:3])
        shop.holds(ITEMS[0], ITEMS[2], *ITEMS[3:], taken, meal)
        report = shop("mv", "users.bo.prefs", "other", "--on-conflict", "newer", "--yes")
        assert (counts(report), report["overwritten"]) == ((1, 0), 1)
        shop.holds(ITEMS[0], *ITEMS[3:], meal, seat)

    def test_older_stays(self, shop: Shop) -> None:
        shop.backend.insert([RawItem("other", "seat", '{"n": 9}', updated_at="2026-11-30T07:00:09.000000Z")])
        report = shop("mv", "users.bo.prefs", "seat", "meal", "--on-conflict", "newer", "--yes")
        assert (report["items"], report["skipped"]) == (0, 1)
        report = shop("mv", "users.bo.prefs", "other", "--on-conflict", "newer", "--yes")
        assert (report["items"], report["skipped"]) == (1, 1)

    def test_overwriting_keeps_what_goes(self, shop: Shop, tmp_path: Path) -> None:
        archive = tmp_path / "gone.jsonl"
        shop("mv", "users.bo.prefs", "seat", "meal", "--on-conflict", "overwrite", "--save", archive, "--yes")
        shop.holds(ITEMS[0], replace(ITEMS[2], key="meal"), *ITEMS[3:])
        lines = [json.loads(line) for line in archive.read_text().splitlines()]
        assert [(line["key"], line["value"], len(line["vectors"])) for line in lines[1:-1]] == [
            ("meal", {"n": 2}, 2)
        ]

    def test_what_is_equal_is_no_conflict(self, shop: Shop) -> None:
        shop.backend.insert([replace(ITEMS[4], prefix="y")])
        assert counts(shop("mv", "z", "y", "--yes")) == (1, 0)
        shop.holds(*ITEMS[:4], replace(ITEMS[4], prefix="y"))

    def test_interrupted_and_run_again(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch, small_batches: Callable[[int], None]
    ) -> None:
        small_batches(1)
        from memctl.cli import progress

        calls: list[int] = []

        def advance(count: int) -> None:
            calls.append(count)
            if len(calls) == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(progress, "_nothing", advance)
        outcome = shop._memctl("-s", shop.backend.address, "mv", "users.bo", "people.b", "--yes")
        assert outcome.code == 130
        assert "2 items renamed until then" in outcome.err
        moved = [replace(item, prefix=item.prefix.replace("users.bo", "people.b")) for item in ITEMS[:3]]
        shop.holds(*moved[:2], *ITEMS[2:])
        assert counts(shop("mv", "users.bo", "people.b", "--yes")) == (1, 0)
        shop.holds(*moved, *ITEMS[3:])


class TestPut:
    def test_a_new_item(self, shop: Shop) -> None:
        report = shop("put", "a", "k", '{"n": 12345678901234567890.10, "é": 1}')
        assert (report["items"], report["created"], report["vectors"]) == (1, True, 0)
        item = shop.item("a", "k")
        assert b"12345678901234567890.10" in (item.value or b"")
        earliest, latest = shop.backend.bounds_of_now()
        assert item.created_at == item.updated_at
        assert earliest <= (item.updated_at or "") <= latest
        assert item.expires_at is item.ttl_minutes is None

    def test_over_what_is_there(self, shop: Shop) -> None:
        report = shop("put", "users.bo.prefs", "meal", '{"n": 22}')
        assert (report["created"], report["vectors"]) == (False, 2)
        item = shop.item("users.bo.prefs", "meal")
        assert item.created_at == CREATED
        assert (item.updated_at or "") > "2026-11-30T07:30"
        assert (item.vectors, json.loads(item.value or b"")) == ((), {"n": 22})

    def test_an_equal_value_keeps_its_vectors(self, shop: Shop) -> None:
        before = shop.item("users.bo.prefs", "meal").vectors
        shop("put", "users.bo.prefs", "meal", '{ "n":2.0 }')
        item = shop.item("users.bo.prefs", "meal")
        assert [(each.field, each.embedding) for each in item.vectors] == [
            (each.field, each.embedding) for each in before
        ]
        assert len(before) == 2
        for now, then in zip(item.vectors, before, strict=True):
            assert now.created_at == then.created_at
            assert now.updated_at in (item.updated_at, None)  # as the library's put would have it

    def test_the_ttl_goes_on(self, shop: Shop) -> None:
        shop("put", "users.bo.prefs", "seat", '{"n": 33}')
        item = shop.item("users.bo.prefs", "seat")
        assert item.ttl_minutes == 60
        assert (item.expires_at or "") < EXPIRES
        assert (item.expires_at or "")[13:] == (item.updated_at or "")[13:]
        shop("put", "users.bo.prefs", "seat", '{"n": 34}', "--no-ttl")
        assert shop.item("users.bo.prefs", "seat").expires_at is None
        shop("put", "users.bo.prefs", "seat", '{"n": 34}', "--ttl", "2h")
        assert shop.item("users.bo.prefs", "seat").ttl_minutes == 120

    def test_merging(self, shop: Shop) -> None:
        shop("put", "z", "1", '{"n": null, "a": {"b": 1.50, "c": [1]}}', "--merge")
        shop("put", "z", "1", '{"a": {"c": null, "d": 1e300}}', "--merge")
        value = (shop.item("z", "1").value or b"").replace(b" ", b"")
        assert value.startswith(b'{"a":{"b":1.50,"d":1')
        assert b"n" not in value

    def test_a_lost_update(self, shop: Shop) -> None:
        error = shop.refuse("put", "z", "1", "{}", "--if-unchanged-since", "2026-11-30T07:00:00Z", code=1)
        assert error["code"] == "changed"
        shop("put", "z", "1", "{}", "--if-unchanged-since", "2026-11-30T07:00:01Z")
        assert shop.item("z", "1").value == b"{}"

    def test_what_cannot_be_held(self, shop: Shop) -> None:
        value = '{"n": "\\u0000"}'
        if shop.backend.can(Capability.RAW_TEXT):
            shop("put", "z", "1", value)
            return
        for rehearsal in ((), ("--dry-run",)):
            error = shop.refuse("put", "z", "1", value, *rehearsal, code=1)
            assert error["code"] == "unholdable"


def test_a_renamed_item_takes_the_place_of_another_or_nothing_happens(shop: Shop) -> None:
    seat, meal = (shop.item("users.bo.prefs", key) for key in ("seat", "meal"))
    becomes = msgspec.structs.replace(seat, key="meal")
    with writing(shop.backend) as target:
        for was, over in (
            (seat, msgspec.structs.replace(meal, updated_at=CREATED)),
            (msgspec.structs.replace(seat, updated_at=CREATED), meal),
            (seat, None),
        ):
            change = Change(was, becomes, over)
            assert target.apply([change]) == (change,)
    shop.holds(*ITEMS)
    with writing(shop.backend) as target:
        assert target.apply([Change(seat, becomes, meal)]) == ()
    shop.holds(ITEMS[0], replace(ITEMS[2], key="meal"), *ITEMS[3:])


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes every store that is opened from now on be written in batches of so many items."""

    def make(rows: int) -> None:
        from memctl.changes import _Size

        monkeypatch.setattr(_Size, "of", lambda _pace, _target: _Size(rows, rows, adapts=False))

    return make
