"""`sweep` and what it stands on: what has expired is found by instants, and goes only while it still has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memctl.changes import carry_out
from memctl.model import EVERYTHING, Detail, Instant, Item, Scope
from memctl.namespaces import parse
from memctl.store import Capability, Change, Expiring, Repairable, Store
from memctl.stores.sqlite import expiring as by_index
from memctl.sweeping import Sweep, whole
from tests.contract.backends import UPDATED, Backend, RawItem, in_order, vector
from tests.contract.comparing import expected, places, yielded
from tests.contract.test_apply import check, writing
from tests.invocation import Memctl

PAST, EARLIER, FUTURE = (
    "2020-03-01T00:00:00.500000Z",
    "2020-02-01T00:00:00.000000Z",
    "2099-01-01T00:00:00.000000Z",
)
ITEMS = in_order(
    [
        RawItem("users.ana.facts", "live"),
        RawItem(
            "users.ana.facts", "gone", expires_at=PAST, ttl_minutes=60, vectors=(vector("$"), vector("text"))
        ),
        RawItem("users.ana.facts", "later", expires_at=FUTURE, ttl_minutes=60, vectors=(vector("$"),)),
        RawItem("users.ana", "gone", '{"n": 22}', expires_at=EARLIER, ttl_minutes=5),
        RawItem("users.ana-b", "gone", expires_at=PAST, vectors=(vector("$"),)),
        RawItem("users.bo", "gone", expires_at=EARLIER),
    ]
)
EXPIRED = [item for item in ITEMS if item.expires_at in (PAST, EARLIER)]
LEFT = [item for item in ITEMS if item not in EXPIRED]


@pytest.fixture
def filled(backend: Backend) -> Backend:
    backend.create()
    backend.insert(reversed(ITEMS))
    return backend


def expiring(store: Store, scope: Scope, until: Instant) -> Iterator[Item]:
    """What has expired, from the index where the store finds it there."""
    if isinstance(store, Expiring):
        return store.expiring(scope, until, vectors=Detail.SHAPE)
    found = store.scan(scope, values=False, vectors=Detail.SHAPE)
    return (item for item in found if item.expires_at is not None and item.expires_at <= until)


def shape(items: Iterable[RawItem], backend: Backend) -> list[dict[str, Any]]:
    return expected(backend, items, values=False, vectors=Detail.SHAPE)


@pytest.mark.parametrize("has_small_pages", [False, True])
def test_what_has_expired_is_found_in_byte_order(
    filled: Backend, has_small_pages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_small_pages:
        filled.small_pages(monkeypatch)
        for name, value in {"HOLD": 1e-9, "_ROWS": 1, "_ENTRIES": 1}.items():
            monkeypatch.setattr(by_index, name, value)
    with filled.open() as store:
        for scope, found in (
            (EVERYTHING, EXPIRED),
            (
                Scope("users.ana"),
                [item for item in EXPIRED if item.prefix in ("users.ana", "users.ana.facts")],
            ),
            (Scope("users.ana", descend=False), [item for item in EXPIRED if item.prefix == "users.ana"]),
            (Scope("nobody"), []),
        ):
            assert yielded(expiring(store, scope, store.now())) == shape(found, filled)
        assert places(expiring(store, EVERYTHING, EARLIER)) == places(
            item for item in EXPIRED if item.expires_at == EARLIER
        )
        if isinstance(store, Expiring):
            assert not any(item.vectors for item in store.expiring(EVERYTHING, PAST))


def test_it_goes_with_its_vectors_and_nothing_else_does(filled: Backend, memctl: Memctl) -> None:
    rehearsed = memctl.json("-s", filled.address, "sweep", "--dry-run")
    check(filled, ITEMS)
    swept = memctl.json("-s", filled.address, "sweep", "--batch", "2", "--pause", "1ms")
    check(filled, LEFT)
    assert (swept["items"], swept["vectors"], swept["bytes"]) == (
        4,
        3 * filled.has_vectors,
        33,
    )
    assert (swept["skipped"], swept["rejected"], swept["dry_run"]) == (0, 0, False)
    assert [(".".join(row["namespace"]), row["items"], row["vectors"]) for row in swept["namespaces"]] == [
        ("users.ana", 1, 0),
        ("users.ana-b", 1, 1),
        ("users.ana.facts", 1, 2),
        ("users.bo", 1, 0),
    ]
    for one in (rehearsed, swept):
        del one["seconds"]
    assert rehearsed == {**swept, "dry_run": True}
    assert memctl.json("-s", filled.address, "sweep")["items"] == 0


def test_a_namespace_its_descendants_and_no_other(filled: Backend, memctl: Memctl) -> None:
    assert memctl.json("-s", filled.address, "sweep", "users.ana")["items"] == 2
    check(filled, [item for item in ITEMS if item in LEFT or item.prefix in ("users.ana-b", "users.bo")])
    assert memctl.json("-s", filled.address, "sweep", "*.bo")["items"] == 1
    assert memctl.refuse("-s", filled.address, "sweep", "users.nobody", code=5)["code"] == "not-found"


def test_grace(filled: Backend, memctl: Memctl) -> None:
    with filled.open() as store:
        age = f"{(days_since(EARLIER, store.now()) + days_since(PAST, store.now())) // 2}d"
    assert memctl.json("-s", filled.address, "sweep", "--grace", age)["items"] == 2
    check(filled, [item for item in ITEMS if item.expires_at != EARLIER])


def days_since(then: Instant, now: Instant) -> int:
    from memctl.instants import to_datetime

    return (to_datetime(now) - to_datetime(then)).days


def test_what_goes_can_be_saved_and_brought_back(filled: Backend, memctl: Memctl) -> None:
    swept = memctl.json("-s", filled.address, "sweep", "--save", "swept.jsonl", "--batch", "1")
    assert swept["items"] == len(EXPIRED)
    verified = memctl.json("verify", "swept.jsonl")
    assert (verified["good"], verified["items"]) == (True, len(EXPIRED))
    check(filled, LEFT)
    assert memctl("-s", filled.address, "import", "swept.jsonl").code == 0
    check(filled, ITEMS)
    assert memctl.refuse("-s", filled.address, "sweep", "--save", "swept.jsonl", code=2)["code"] == "exists"


def test_odd_times_are_left_unless_they_are_trusted(backend: Backend, memctl: Memctl) -> None:
    backend.create()
    keys = {f"k{number:02}": sql for number, sql in enumerate(backend.odd_times)}
    backend.insert(RawItem("odd", key, expires_at=FUTURE) for key in keys)
    for key, sql in keys.items():
        backend.set_time("expires_at", sql, key)
    with backend.open() as store:
        now = store.now()
        items = {item.key: item for item in store.scan(EVERYTHING)}
    odd = {key for key, item in items.items() if any(each.part == "expires_at" for each in item.problems)}
    come = {key for key, item in items.items() if item.expires_at is not None and item.expires_at <= now}
    unreadable = {key for key in odd if items[key].expires_at is None}
    assert odd, "a backend has odd times"
    left = sorted((odd & come) | unreadable)
    swept = memctl.json("-s", backend.address, "sweep", code=3)
    assert (swept["items"], swept["rejected"]) == (len(come - odd), len(left))
    assert [sample["key"] for sample in swept["odd"]] == left[:5]
    assert keys_of(backend) == sorted(items.keys() - (come - odd))
    trusting = memctl.json("-s", backend.address, "sweep", "--include-odd", code=3)
    assert (trusting["items"], trusting["rejected"]) == (len(come & odd), len(unreadable))
    assert keys_of(backend) == sorted(items.keys() - come)


def keys_of(backend: Backend) -> list[str]:
    with backend.open() as store:
        return [item.key for item in store.scan(EVERYTHING)]


def test_every_spelling_is_compared_as_an_instant(backend: Backend) -> None:
    """Around one second, at which text and instants disagree."""
    backend.create()
    moments = [
        "2020-03-01T12:00:00.000000Z",
        "2020-03-01T12:00:00.200000Z",
        "2020-03-01T12:00:00.900000Z",
        "2020-03-01T12:00:01.000000Z",
        "2020-03-01T11:59:59.999999Z",
    ]
    backend.insert(RawItem("a", str(number), expires_at=each) for number, each in enumerate(moments))
    with backend.open() as store:
        for until in moments:
            found = [int(item.key) for item in expiring(store, EVERYTHING, until)]
            assert found == [number for number, each in enumerate(moments) if each <= until]


def test_what_is_refreshed_or_rewritten_meanwhile_stays(backend: Backend) -> None:
    backend.create()
    names = ("refreshed", "rewritten", "gone", "deleted")
    backend.insert(RawItem("a", name, expires_at=PAST, ttl_minutes=60) for name in names)
    with writing(backend) as target:
        sweep = Sweep(target.now())
        found = [Change(going.item, None) for going in sweep.find(target, never)]
        assert len(found) == 4
        with backend.agent() as agent:
            agent.put(("a",), "rewritten", {"n": 3})
            agent.put(("a",), "refreshed", {"n": 1}, ttl=60)
            agent.delete(("a",), "deleted")
        outcome = carry_out(found, target)
    assert outcome.items == 1
    assert [change.was.key for change in outcome.left if change.was] == ["deleted", "refreshed", "rewritten"]
    assert keys_of(backend) == ["refreshed", "rewritten"]


def never(item: Item) -> None:
    raise AssertionError(item)


def test_what_is_read_whole_for_an_archive_is_what_was_found(filled: Backend) -> None:
    left: list[str] = []
    with writing(filled) as target:
        found = list(Sweep(target.now()).find(target, never))
        items = [each.item for each in whole(target, found, lambda each: left.append(each.item.key))]
    assert yielded(items) == expected(filled, EXPIRED, vectors=Detail.FULL)
    assert left == []


def test_two_sweeps_at_once(filled: Backend) -> None:
    with writing(filled) as one, writing(filled) as other:
        found = [[Change(each.item, None) for each in Sweep(s.now()).find(s, never)] for s in (one, other)]
        assert carry_out(found[0], one).items == 4
        late = carry_out(found[1], other)
    assert (late.items, len(late.left)) == (0, 4)
    check(filled, LEFT)


def test_space_is_given_back_or_it_is_told_why_not(filled: Backend, memctl: Memctl) -> None:
    with writing(filled) as target:
        can = isinstance(target, Repairable)
    swept = memctl.json("-s", filled.address, "sweep", "--vacuum", code=0 if can else 3)
    assert swept["items"] == len(EXPIRED)
    assert (swept["reclaimed"] is not None) is can
    check(filled, LEFT)


def test_a_store_without_expiry(backend: Backend, memctl: Memctl) -> None:
    backend.create(expiry=False)
    if backend.can(Capability.EXPIRY):  # its library never made a store without
        assert memctl.json("-s", backend.address, "sweep")["items"] == 0
        return
    backend.insert([RawItem("a", "old", updated_at=PAST), RawItem("a", "new", updated_at=UPDATED)])
    assert memctl.refuse("-s", backend.address, "sweep", code=1)["code"] == "unsupported"
    policy(memctl.folder, "keep_last = 1")
    options = ("-s", backend.address, "sweep", "--policy", "p.toml")
    assert memctl.json("-s", backend.address, "policy", "check", "p.toml")["goes"] == 1
    assert memctl.json(*options, "--policy-only", "--dry-run")["items"] == 1
    assert memctl.json(*options, "--yes")["items"] == 1
    assert keys_of(backend) == ["new"]


POLICY = """
[[rule]]
name = "unconfirmed"
namespace = "*.facts"
filter = "confirmed=false"
keep = "30d"
[[rule]]
namespace = "*.facts.kept"
keep = "forever"
[[rule]]
name = "some"
namespace = "*.facts"
keep_last = 2
"""
OLD, NEW = "2020-01-02T00:00:00.000000Z", "2098-01-02T00:00:00.000000Z"
RULED = in_order(
    [
        RawItem("ana.facts", "a", '{"confirmed": false}', updated_at=OLD, vectors=(vector("$"),)),
        RawItem("ana.facts", "b", '{"confirmed": false}', updated_at=NEW),
        RawItem("ana.facts", "c", '{"confirmed": true}', updated_at="2020-01-03T00:00:00.000000Z"),
        RawItem("ana.facts", "d", '{"confirmed": true}', updated_at="2020-01-03T00:00:00.000000Z"),
        RawItem("ana.facts", "e", '{"confirmed": true}', updated_at="2020-01-04T00:00:00.000000Z"),
        RawItem("ana.facts", "f", '{"n": 1}', updated_at="2020-01-05T00:00:00.000000Z", expires_at=PAST),
        RawItem("ana.facts.kept", "a", updated_at=OLD),
        RawItem("ana.facts.kept", "b", updated_at=OLD, expires_at=PAST),
        RawItem("ana.facts.sub", "a", updated_at=OLD),
        RawItem("other", "a", updated_at=OLD),
    ]
)


def policy(folder: Path, text: str) -> None:
    text = text if "[[rule]]" in text else f"[[rule]]\n{text}\n"
    (folder / "p.toml").write_text(text)


def without(*names: tuple[str, str]) -> list[RawItem]:
    return [item for item in RULED if (item.prefix, item.key) not in names]


def test_a_policy(backend: Backend, memctl: Memctl) -> None:
    backend.create()
    backend.insert(RULED)
    policy(memctl.folder, POLICY)
    sweep = ("-s", backend.address, "sweep", "--policy", "p.toml")
    assert memctl.refuse(*sweep, code=2)["code"] == "needs-yes"
    explained = memctl.json("-s", backend.address, "policy", "check", "p.toml")
    rehearsed = memctl.json(*sweep, "--dry-run")
    check(backend, RULED)
    by_rule = [("expired", 2), ("unconfirmed", 1), ("rule 2", 0), ("some", 1)]
    assert [(rule["name"], rule["goes"]) for rule in explained["rules"]] == [*by_rule, ("no rule", 0)]
    assert explained["goes"] == rehearsed["items"] == 4
    only = memctl.json(*sweep, "--policy-only", "--yes")
    assert [rule["items"] for rule in only["rules"]] == [0, 1, 0, 1]
    check(backend, without(("ana.facts", "a"), ("ana.facts", "d")))
    swept = memctl.json(*sweep, "--yes", "--save", "swept.jsonl")
    assert [rule["items"] for rule in swept["rules"]] == [2, 0, 0, 0]
    check(
        backend, without(("ana.facts", "a"), ("ana.facts", "d"), ("ana.facts", "f"), ("ana.facts.kept", "b"))
    )
    assert memctl.json("verify", "swept.jsonl")["items"] == 2


def test_a_policy_within_a_namespace(backend: Backend, memctl: Memctl) -> None:
    backend.create()
    backend.insert(RULED)
    policy(memctl.folder, "keep_last = 0")
    swept = memctl.json("-s", backend.address, "sweep", "ana.facts.kept", "--policy", "p.toml", "--yes")
    assert swept["items"] == 2
    check(backend, without(("ana.facts.kept", "a"), ("ana.facts.kept", "b")))


def test_what_was_rewritten_meanwhile_is_decided_anew(backend: Backend) -> None:
    backend.create()
    backend.insert(RawItem("a", key, updated_at=OLD, created_at=OLD) for key in ("new", "old"))
    from memctl.retention import parse as parse_policy

    with writing(backend) as target:
        sweep = Sweep(target.now(), parse("a"), policy=parse_policy('[[rule]]\nkeep = "1d"'))
        found = list(sweep.find(target, never))
        with backend.agent() as agent:
            agent.put(("a",), "new", {"n": 2})
        with backend.open() as store:
            now = {item.key: item for item in store.scan(EVERYTHING)}
    assert [(each.item.key, each.rule) for each in found] == [("new", 1), ("old", 1)]
    assert [sweep.still_takes(now[key], 1) for key in ("new", "old")] == [False, True]
    assert sweep.grace == timedelta()
