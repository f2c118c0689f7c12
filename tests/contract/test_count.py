"""`Counted`: what is in a scope, vectors with and without their item, without reading a value."""

from __future__ import annotations

import pytest

from memctl.model import EVERYTHING, Scope
from memctl.store import Capability, Count, Counted
from tests.contract.backends import Backend, RawItem, vector


@pytest.fixture
def filled(backend: Backend) -> Backend:
    """Three namespaces, two vectors of one item, and an orphan."""
    backend.create()
    backend.insert(
        [
            RawItem("a", "1"),
            RawItem("a.b", "1", vectors=(vector("x"), vector("y"))),
            RawItem("a.b", "2"),
            RawItem("ab", "1", vectors=(vector("x"),)),
        ]
    )
    backend.orphan("a.b", "gone", vector("x"))
    return backend


@pytest.mark.parametrize(
    ("scope", "count"),
    [
        (EVERYTHING, Count(4, 3, 1)),
        (Scope("a"), Count(3, 2, 1)),
        (Scope("a", descend=False), Count(1, 0, 0)),
        (Scope("ab"), Count(1, 1, 0)),
        (Scope("none"), Count(0, 0, 0)),
    ],
)
def test_what_a_scope_holds(filled: Backend, scope: Scope, count: Count) -> None:
    with filled.open() as store:
        assert isinstance(store, Counted)
        assert store.count(scope) == count


def test_without_vectors(backend: Backend) -> None:
    backend.create(vectors=False)
    backend.insert([RawItem("a", "1")])
    with backend.open() as store:
        assert isinstance(store, Counted)
        assert Capability.VECTORS not in store.capabilities
        assert store.count(EVERYTHING) == Count(1, 0, 0)
