"""Vectors beside their items: fields in byte order, exact floats, many of one item, orphans nowhere."""

from __future__ import annotations

import struct

import pytest

from memctl.model import EVERYTHING, Detail, Position, Scope
from memctl.store import Capability
from tests.contract.backends import DIMS, Backend, RawItem, RawVector, in_order, vector
from tests.contract.comparing import expected, yielded

FIELDS = [
    "$",
    "text",
    "tags[*]",
    "tags[*].0",
    "tags[*].1",
    "tags[*].10",
    "tags[*].2",
    "a b",
    "a-b",
    "a.b",
    "A",
    "é",
]
ITEMS = in_order(
    [
        RawItem("a", "1", vectors=tuple(map(vector, FIELDS))),
        RawItem("a", "2"),
        RawItem("a", "3", vectors=tuple(vector(f"f{number}") for number in range(50))),
        RawItem("a b", "1", vectors=(vector("$"),)),
        RawItem("a.b", "1", vectors=(vector("$"),)),
        RawItem("a.b", "2", vectors=(vector("x"), vector("y"))),
        *(RawItem("b", f"{number:02}", vectors=(vector("$"),) * (number % 3 > 0)) for number in range(20)),
    ]
)
SMALLEST, LARGEST = 1.401298464324817e-45, 3.4028234663852886e38


@pytest.mark.parametrize("small", [False, True], ids=["usual pages", "small pages"])
@pytest.mark.parametrize("detail", Detail)
def test_scan(backend: Backend, monkeypatch: pytest.MonkeyPatch, small: bool, detail: Detail) -> None:
    backend.create()
    backend.insert(ITEMS)
    for prefix, key in (("a", "0"), ("a", "11"), ("a", "9"), ("a.", ""), ("", ""), ("zz", "zz")):
        backend.orphan(prefix, key, vector("$"), vector("orphan"))
    if small:
        backend.small_pages(monkeypatch)
    with backend.open() as store:
        assert yielded(store.scan(EVERYTHING, vectors=detail)) == expected(backend, ITEMS, vectors=detail)
        for scope in (Scope("a"), Scope("a", descend=False), Scope("a.b"), Scope("")):
            inside = [
                item
                for item in ITEMS
                if item.prefix == scope.prefix
                or (scope.descend and item.prefix.startswith(f"{scope.prefix}."))
            ]
            found = store.scan(scope, values=False, vectors=detail)
            assert yielded(found) == expected(backend, inside, values=False, vectors=detail), scope
        for index, item in enumerate(ITEMS):
            found = store.scan(EVERYTHING, after=item.place, vectors=detail)
            assert yielded(found) == expected(backend, ITEMS[index + 1 :], vectors=detail), item.place
        found = store.scan(EVERYTHING, after=Position("a", "0"), vectors=detail)
        assert yielded(found) == expected(backend, ITEMS, vectors=detail)


@pytest.mark.parametrize("detail", Detail)
def test_get(backend: Backend, monkeypatch: pytest.MonkeyPatch, detail: Detail) -> None:
    backend.create()
    backend.insert(ITEMS)
    backend.orphan("a", "0", vector("$"))
    backend.small_pages(monkeypatch)
    wanted = [item for item in ITEMS if item.prefix == "a"]
    with backend.open() as store:
        found = store.get("a", ["0", "1", "2", "3"], vectors=detail)
        assert yielded(found) == expected(backend, wanted, vectors=detail)


@pytest.mark.needs
@pytest.mark.parametrize("detail", Detail)
def test_a_store_without_vectors_has_none(backend: Backend, detail: Detail) -> None:
    backend.create(vectors=False)
    backend.insert(ITEMS)
    with backend.open() as store:
        assert Capability.VECTORS not in store.capabilities
        assert yielded(store.scan(EVERYTHING, vectors=detail)) == expected(backend, ITEMS, vectors=detail)
        assert [item.vectors for item in store.get("a", ["1"], vectors=detail)] == [()]


def test_floats_travel_bit_for_bit(backend: Backend) -> None:
    numbers = (0.0, -0.0, 0.1, 1 / 3, SMALLEST, LARGEST, -LARGEST, 1e-38)
    assert len(numbers) == DIMS
    backend.create()
    backend.insert([RawItem("a", "b", vectors=(RawVector("$", numbers),))])
    with backend.open() as store:
        [item] = store.scan(EVERYTHING, vectors=Detail.FULL)
        [again] = store.get("a", ["b"], vectors=Detail.FULL)
    assert item.vectors[0].embedding == struct.pack("<8f", *numbers)
    assert again == item


def test_vectors_have_times_of_their_own(backend: Backend) -> None:
    stale = RawVector("$", (0.5,) * DIMS, "2020-01-02T03:04:05.000000Z", "2021-01-02T03:04:05.000000Z")
    backend.create()
    backend.insert([RawItem("a", "b", vectors=(stale,))])
    with backend.open() as store:
        assert (Capability.VECTOR_TIMES in store.capabilities) == backend.can(Capability.VECTOR_TIMES)
        [item] = store.scan(EVERYTHING, vectors=Detail.SHAPE)
    times = (stale.created_at, stale.updated_at) if backend.can(Capability.VECTOR_TIMES) else (None, None)
    assert (item.vectors[0].created_at, item.vectors[0].updated_at) == times
