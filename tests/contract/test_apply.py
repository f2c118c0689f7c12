"""What a store does with changes: all of it or nothing, and never to an item that is another one by now."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.model import EVERYTHING, Detail, Item
from memctl.store import Change, Target
from tests.contract.backends import CREATED, UPDATED, Backend, RawItem, vector
from tests.contract.comparing import expected, yielded
from tests.invocation import NOW

LATER = "2026-11-30T07:00:09.000000Z"
ITEMS = [
    RawItem("a", "1", vectors=(vector("$"), vector("tags[*].0"))),
    RawItem("a", "2", expires_at="2026-12-01T00:00:00.500000Z", ttl_minutes=60),
    RawItem("a.b", "1", '{"n": 2}', vectors=(vector("$"),)),
    RawItem("c", "1"),
]


@contextlib.contextmanager
def writing(backend: Backend) -> Iterator[Target]:
    store = stores.open_writer(parse(backend.address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(store):
        yield store


def found(target: Target) -> dict[tuple[str, str], Item]:
    return {(item.prefix, item.key): item for item in target.scan(EVERYTHING, vectors=Detail.FULL)}


def check(backend: Backend, items: list[RawItem]) -> None:
    """The store holds exactly these items and their vectors, and no vector beside them."""
    with backend.open() as store:
        assert yielded(store.scan(EVERYTHING, vectors=Detail.FULL)) == expected(
            backend, items, vectors=Detail.FULL
        )
    if backend.has_vectors:
        ((rows,),) = backend.execute("SELECT count(*) FROM store_vectors")
        assert rows == sum(len(backend.remembered(item).vectors) for item in items)


@pytest.fixture(params=[(True, True), (False, False)], ids=["whole", "plain"])
def filled(backend: Backend, request: pytest.FixtureRequest) -> Backend:
    expiry, vectors = request.param
    backend.create(expiry=expiry, vectors=vectors)
    backend.insert(ITEMS)
    return backend


def test_an_item_goes_with_its_vectors(filled: Backend) -> None:
    with writing(filled) as target:
        items = found(target)
        assert target.apply([Change(items["a", "1"], None), Change(items["a", "2"], None)]) == ()
    check(filled, ITEMS[2:])


def test_a_new_item_comes_with_its_vectors_and_only_once(filled: Backend) -> None:
    new = RawItem("d", "1", vectors=(vector("x"),))
    with writing(filled) as target:
        source = found(target)["a", "1"]
        item = msgspec.structs.replace(source, prefix="d", vectors=source.vectors[:1])
        again = msgspec.structs.replace(item, value=b'{"n": 9}', size=8)
        left = target.apply([Change(None, item), Change(None, again), Change(None, source)])
        assert left == (Change(None, again), Change(None, source))
    check(filled, [*ITEMS, replace(new, vectors=(vector("$"),))])


def test_only_what_differs_is_set(filled: Backend) -> None:
    with writing(filled) as target:
        was = next(target.get("a", ["2"]))
        becomes = msgspec.structs.replace(was, value=None, updated_at=LATER)
        assert target.apply([Change(was, becomes)]) == ()
    check(filled, [ITEMS[0], replace(ITEMS[1], updated_at=LATER), *ITEMS[2:]])


def test_value_and_expiry_are_set(filled: Backend) -> None:
    with writing(filled) as target:
        was = found(target)["a", "2"]
        becomes = msgspec.structs.replace(was, value=b'{"n": 3}', size=8, created_at=LATER)
        if filled.has_expiry:
            becomes = msgspec.structs.replace(becomes, expires_at=None, ttl_minutes=None)
        assert target.apply([Change(was, becomes)]) == ()
    changed = replace(ITEMS[1], value='{"n": 3}', created_at=LATER, expires_at=None, ttl_minutes=None)
    check(filled, [ITEMS[0], changed, *ITEMS[2:]])


def test_vectors_come_and_go_one_by_one(filled: Backend) -> None:
    with writing(filled) as target:
        items = found(target)
        was, other = items["a", "1"], items["a.b", "1"]
        becomes = msgspec.structs.replace(was, vectors=was.vectors[:1])
        more = other
        if other.vectors:
            added = msgspec.structs.replace(other.vectors[0], field="more")
            more = msgspec.structs.replace(other, vectors=(*other.vectors, added))
        assert target.apply([Change(was, becomes), Change(other, more)]) == ()
    one = replace(ITEMS[0], vectors=ITEMS[0].vectors[:1])
    two = replace(ITEMS[2], vectors=(vector("$"), replace(vector("$"), field="more")))
    check(filled, [one, ITEMS[1], two, ITEMS[3]])


def test_a_renamed_item_takes_all_along(filled: Backend) -> None:
    with writing(filled) as target:
        items = found(target)
        moved = [
            Change(items[old], msgspec.structs.replace(items[old], prefix="z", key=key))
            for old, key in ((("a", "1"), "1"), (("a", "2"), "2"))
        ]
        taken = Change(items["c", "1"], msgspec.structs.replace(items["c", "1"], prefix="a.b"))
        freed = Change(items["a.b", "1"], msgspec.structs.replace(items["a.b", "1"], prefix="a"))
        assert target.apply([*moved, taken, freed]) == (taken,)
    renamed = [replace(ITEMS[2], prefix="a"), ITEMS[3], *(replace(item, prefix="z") for item in ITEMS[:2])]
    check(filled, renamed)


KINDS: list[Callable[[Item], Change]] = [
    lambda item: Change(item, None),
    lambda item: Change(item, msgspec.structs.replace(item, updated_at=LATER)),
    lambda item: Change(item, msgspec.structs.replace(item, key="new")),
    lambda item: Change(item, msgspec.structs.replace(item, value=b'{"n": 5}')),
]


def test_what_has_changed_meanwhile_is_left_alone(filled: Backend) -> None:
    now = ITEMS[0]
    meanwhile = {
        "created_at": ("'2026-11-01 00:00:00+00:00'", "2026-11-01T00:00:00.000000Z"),
        "updated_at": ("'2026-11-30 08:00:00+00:00'", "2026-11-30T08:00:00.000000Z"),
    }
    if filled.has_expiry:
        meanwhile["expires_at"] = "'2026-12-05 00:00:00+00:00'", "2026-12-05T00:00:00.000000Z"
        meanwhile["ttl_minutes"] = "7", "7"
    for column, (sql, value) in meanwhile.items():
        with writing(filled) as target:
            was = found(target)["a", "1"]
            filled.execute(f"UPDATE store SET {column} = {sql} WHERE prefix = 'a' AND key = '1'")
            now = replace(now, **{column: float(value) if column == "ttl_minutes" else value})
            for kind in KINDS:
                change = kind(was)
                assert target.apply([change]) == (change,), column
        check(filled, [now, *ITEMS[1:]])


def test_what_is_gone_meanwhile_stays_gone(filled: Backend) -> None:
    with writing(filled) as target:
        was = found(target)["a", "1"]
        if filled.has_vectors:
            filled.execute("DELETE FROM store_vectors WHERE prefix = 'a' AND key = '1'")
        filled.execute("DELETE FROM store WHERE prefix = 'a' AND key = '1'")
        for kind in KINDS:
            change = kind(was)
            assert target.apply([change]) == (change,)
    check(filled, ITEMS[1:])


def test_times_nobody_can_read_stay_as_they_are(filled: Backend) -> None:
    for odd, (_instant, is_problem) in filled.odd_times.items():
        if not is_problem or odd == "NULL":
            continue
        filled.set_time("created_at", odd, "2")
        with writing(filled) as target:
            was = next(target.get("a", ["2"]))
            becomes = msgspec.structs.replace(was, updated_at=LATER if was.updated_at != LATER else UPDATED)
            assert target.apply([Change(was, becomes)]) == ()
            assert was.problems
        with filled.open() as store:
            assert next(store.get("a", ["2"])) == becomes
    with writing(filled) as target:
        was = next(target.get("a", ["2"]))
        healed = msgspec.structs.replace(was, created_at=CREATED, updated_at=UPDATED, problems=())
        assert target.apply([Change(was, healed)]) == ()
        assert target.apply([Change(healed, None)]) == ()
    check(filled, [ITEMS[0], *ITEMS[2:]])
