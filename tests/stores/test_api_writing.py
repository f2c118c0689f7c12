"""Writing by put and delete: each item compared first, what cannot be set refused before anything is written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import msgspec
import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.errors import Unsupported
from memctl.model import EVERYTHING, Item
from memctl.store import Batch, Change, Narrow, Target
from memctl.stores import Surroundings
from tests.contract.backends import RawItem
from tests.contract.conftest import requested
from tests.contract.interfaces import ApiBackend
from tests.invocation import NOW

ITEMS = [RawItem("a", "1"), RawItem("a", "2", '{"n": 2}'), RawItem("a.b", "1", '{"n": 3}'), RawItem("c", "1")]
LATER = "2099-01-01T00:00:00.000000Z"


@pytest.fixture(params=["in-memory", "server"])
def backend(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[ApiBackend]:
    with requested(request, tmp_path) as backend:  # type: ignore[arg-type]
        assert isinstance(backend, ApiBackend)
        backend.insert(ITEMS)
        yield backend


@contextlib.contextmanager
def writing(backend: ApiBackend) -> Iterator[Target]:
    target = stores.open_writer(
        parse(backend.address), timeout=5, clock=lambda: NOW, surroundings=Surroundings(variables={})
    )
    with contextlib.closing(target):
        yield target


def found(target: Target) -> dict[tuple[str, str], Item]:
    return {(item.prefix, item.key): item for item in target.scan(EVERYTHING)}


def held(backend: ApiBackend) -> dict[str, str]:
    with writing(backend) as target:
        return {
            f"{prefix}/{key}": (item.value or b"").decode() for (prefix, key), item in found(target).items()
        }


START = {"a/1": '{"n":1}', "a/2": '{"n":2}', "a.b/1": '{"n":3}', "c/1": '{"n":1}'}


def valued(item: Item, value: bytes, **changed: object) -> Item:
    return msgspec.structs.replace(item, value=value, size=len(value), **changed)


def test_a_batch(backend: ApiBackend) -> None:
    with writing(backend) as target:
        items = found(target)
        there = valued(items["a", "1"], b'{"n":9}')
        new = valued(items["a", "1"], b'{"n":5}', prefix="d", key="\u00e9 / ?&=\t")
        changed = valued(items["a", "2"], b'{"n":6}')
        assert [place.key for place in target.write(Batch([there, new], [changed]))] == ["1"]
        assert target.write(Batch((), [valued(items["a.b", "1"], b"{}")], only_older=True)) == ()
        older = valued(items["c", "1"], b"{}", updated_at="2020-01-01T00:00:00.000000Z")
        assert [place.prefix for place in target.write(Batch((), [older], only_older=True))] == ["c"]
        target.finish()
    assert held(backend) == START | {"d/\u00e9 / ?&=\t": '{"n":5}', "a/2": '{"n":6}', "a.b/1": "{}"}


def test_a_batch_of_many_sees_what_somebody_else_added(backend: ApiBackend) -> None:
    """Whether many are still absent is told by counting; when that does not agree they are asked for."""
    with writing(backend) as target:
        item = found(target)["a", "1"]
        many = [msgspec.structs.replace(item, prefix="many", key=str(number)) for number in range(40)]
        assert target.write(Batch(many[:20])) == ()
        backend.insert([RawItem("many", "25", '{"other": 1}')])
        assert [place.key for place in target.write(Batch(many[20:]))] == ["25"]
    now = held(backend)
    assert len(now) == len(START) + 40
    assert now["many/25"] == '{"other":1}'


def test_changes(backend: ApiBackend) -> None:
    with writing(backend) as target:
        items = found(target)
        one, two, three, four = (items[place] for place in (("a", "1"), ("a", "2"), ("a.b", "1"), ("c", "1")))
        changes = [
            Change(one, None),
            Change(two, valued(two, b'{"n":20}')),
            Change(three, msgspec.structs.replace(three, value=None, prefix="z")),
            Change(None, valued(four, b'{"n":7}', prefix="new")),
        ]
        taken = [
            Change(None, valued(four, b'{"n":8}')),
            Change(four, msgspec.structs.replace(four, prefix="new")),
            Change(one, valued(one, b'{"again":1}')),
        ]
        assert target.apply([*changes, *taken]) == tuple(taken)
    assert held(backend) == {"a/2": '{"n":20}', "z/1": '{"n":3}', "new/1": '{"n":7}', "c/1": '{"n":1}'}


def test_what_an_earlier_change_freed_or_made(backend: ApiBackend) -> None:
    with writing(backend) as target:
        items = found(target)
        one, two = items["a", "1"], items["a", "2"]
        moved = msgspec.structs.replace(two, key="1")
        assert target.apply([Change(one, None), Change(two, moved), Change(moved, None)]) == ()
    assert held(backend) == {"a.b/1": '{"n":3}', "c/1": '{"n":1}'}


def test_a_name_that_is_taken_over(backend: ApiBackend) -> None:
    with writing(backend) as target:
        items = found(target)
        one, two, four = items["a", "1"], items["a", "2"], items["c", "1"]
        over = Change(two, msgspec.structs.replace(two, key="1"), over=one)
        stale = Change(four, msgspec.structs.replace(four, prefix="a.b"), over=four)
        assert target.apply([over, stale]) == (stale,)
    assert held(backend) == {"a/1": '{"n":2}', "a.b/1": '{"n":3}', "c/1": '{"n":1}'}


def test_an_item_that_no_get_finds_can_go(backend: ApiBackend) -> None:
    """A server takes an empty key and then answers no question for it."""
    backend.insert_unseen(RawItem("a", ""))
    with writing(backend) as target:
        change = Change(found(target)["a", ""], None)
        assert [item.key for item in target.get("a", ["", "1"])] == ["", "1"]
        assert target.apply([change]) == ()
        assert target.apply([change]) == (change,)
    assert held(backend) == START


def test_what_has_changed_meanwhile_is_left_alone(backend: ApiBackend) -> None:
    with writing(backend) as target:
        items = found(target)
        one, two = items["a", "1"], items["a", "2"]
        backend.insert([RawItem("a", "1", '{"n": 4}', updated_at=LATER)])
        for becomes in (None, valued(one, b"{}"), msgspec.structs.replace(one, key="new")):
            change = Change(one, becomes)
            assert target.apply([change]) == (change,)
        unseen = msgspec.structs.replace(two, value=None)
        assert target.apply([Change(unseen, None)]) == ()
        assert target.apply([Change(unseen, None)]) == (Change(unseen, None),)
    assert held(backend) == {name: value for name, value in START.items() if name != "a/2"} | {
        "a/1": '{"n":4}'
    }


def test_what_cannot_be_set_is_refused_before_anything_is_written(backend: ApiBackend) -> None:
    with writing(backend) as target:
        items = found(target)
        one, two = items["a", "1"], items["a", "2"]
        for changed in ({"expires_at": LATER}, {"ttl_minutes": 5.0}, {"value": None, "created_at": LATER}):
            with pytest.raises(Unsupported):
                target.apply([Change(two, None), Change(one, msgspec.structs.replace(one, **changed))])
    assert held(backend) == START


def test_what_cannot_be_held_is_told_without_writing(backend: ApiBackend) -> None:
    with writing(backend) as target:
        assert isinstance(target, Narrow)
        item = found(target)["a", "1"]
        many_digits = "1" * 30
        for value, is_held in {
            b'{"n": 1.5e3, "t": "1234567890123456789", "f": 0.1, "z": -0.0}': True,
            b'{"n": 9223372036854775807, "u": 18446744073709551615, "x": 1e22}': True,
            b'{"n": 1e400}': False,
            b'{"n": 0.12345678901234567890123}': False,
            f'{{"n": {many_digits}}}'.encode(): backend.offers >= {"times"},  # Python's own integers
            b"[1]": False,
            b'{"a": ': False,
            b'{"a": "\\ud800"}': False,
            b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}": True,
            b'{"a": ' + b"[" * 600 + b"]" * 600 + b"}": False,
            b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}": False,
        }.items():
            problems = target.unholdable(valued(item, value))
            assert bool(problems) != is_held, value
            assert {problem.part for problem in problems} <= {"value"}
            if is_held:  # and is given back as it was
                target.write(Batch((), [valued(item, value)]))
                [again] = target.get("a", ["1"])
                assert json.loads(again.value or b"") == json.loads(value)
        for part, changed in (
            ("namespace", {"prefix": "a..b"}),
            ("namespace", {"prefix": ""}),
            ("namespace", {"prefix": "langgraph.x"}),
            ("namespace", {"prefix": "a\0"}),
            ("namespace", {"prefix": "a\udcff"}),
            ("key", {"key": ""}),
            ("key", {"key": "\0"}),
        ):
            [problem] = target.unholdable(msgspec.structs.replace(item, **changed))
            assert problem.part == part
        expiring = msgspec.structs.replace(item, expires_at=LATER, ttl_minutes=5)
        assert target.unholdable(expiring) == ()
        assert {"created_at", "updated_at", "expires_at", "ttl_minutes", "vectors"} == target.lost
