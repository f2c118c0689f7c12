"""Memory stays flat: a scan holds pages, not stores."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest

from memctl.model import EVERYTHING, Detail
from tests.contract.backends import Backend, RawItem

MEGABYTE = 1_000_000
pytestmark = pytest.mark.no_cover
"""Tracing both the lines and the memory takes three times as long, and the lines are met elsewhere."""


def peak(items: Iterable[object]) -> float:
    """Megabytes that Python held at most while something was consumed and thrown away."""
    tracemalloc.start()
    try:
        for _ in items:
            pass
        return tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()


def test_values(backend: Backend) -> None:
    backend.create(vectors=False)
    text = f'{{"text": "{"x" * MEGABYTE}"}}'
    backend.insert(RawItem("a", f"{number:02}", text) for number in range(24))
    with backend.open() as store:
        assert peak(store.scan(EVERYTHING)) < 14
        assert peak(store.scan(EVERYTHING, values=False)) < 2
        assert peak(store.get("a", [f"{number:02}" for number in range(6)])) < 14


@pytest.mark.parametrize(("items", "each"), [(3000, 1), (1, 3000)], ids=["of many items", "of one item"])
def test_vectors(backend: Backend, items: int, each: int) -> None:
    """An item's own vectors are held together, however many: they are one row of output."""
    backend.create(dims=2000)
    backend.execute(
        f"INSERT INTO store (prefix, key, value) {series(items)} SELECT 'a', CAST(10000 + n AS TEXT), '{{}}' FROM s"
    )
    backend.execute(
        "INSERT INTO store_vectors (prefix, key, field_name, embedding)"
        f" SELECT prefix, key, CAST(10000 + n AS TEXT), {backend.zeros(2000)}"
        f" FROM store, ({series(each)} SELECT n FROM s) AS field"
    )
    with backend.open() as store:
        assert peak(store.scan(EVERYTHING, vectors=Detail.FULL)) < (14 if each == 1 else 40)
        assert peak(store.scan(EVERYTHING, vectors=Detail.SHAPE)) < 5


def test_namespaces(backend: Backend) -> None:
    backend.create(vectors=False)
    backend.execute(
        f"INSERT INTO store (prefix, key, value) {series(24_000)}"
        f" SELECT CAST(10000 + n AS TEXT) || '{'x' * 300}', 'k', '{{}}' FROM s"
    )
    with backend.open() as store:
        assert peak(store.namespaces(EVERYTHING)) < 5


def series(count: int) -> str:
    """SQL that counts from 1."""
    return f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})"
