"""Nearest items by the vectors that are stored: exact, and without any extension of the database."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import TypeAlias

from memctl.model import Detail, Item, Position, Vector, floats
from memctl.selection import Selection
from memctl.store import Store

Query: TypeAlias = "array[float]"


@dataclass(slots=True)
class Ranking:
    """The best items, best first, and the dims that were met on the way."""

    best: list[tuple[float, Position]]
    dims: Counter[int] = field(default_factory=Counter)


def rank(
    store: Store,
    selection: Selection,
    queries: Sequence[Query],
    *,
    limit: int,
    without: Position | None = None,
) -> Ranking:
    """Rank the selected items by cosine, from 1 (same direction) to -1.

    An item counts once, with its best vector among those of a query's dims; ties go by namespace and key.
    Vectors without a direction (all zero, NaN, infinite) match nothing.
    """
    by_dims: dict[int, list[tuple[Query, float]]] = {}
    for query in queries:
        if length := _length(query):
            by_dims.setdefault(len(query), []).append((query, length))
    ranking = Ranking([])
    heap: list[tuple[float, int, Position]] = []
    items = selection.select(store, values=False, vectors=Detail.FULL)
    for order, item in enumerate(items):
        ranking.dims.update(vector.dims for vector in item.vectors)
        score = _best(item, by_dims)
        if score is None or (item.prefix, item.key) == (without and (without.prefix, without.key)):
            continue
        # An earlier item wins a tie, and the heap's smallest is the next to go.
        entry = (score, -order, Position(item.prefix, item.key))
        if len(heap) < limit:
            heapq.heappush(heap, entry)
        elif heap and entry > heap[0]:
            heapq.heapreplace(heap, entry)
    ranking.best = [(score, place) for score, _, place in sorted(heap, reverse=True)]
    return ranking


def queries_of(vectors: Sequence[Vector]) -> list[Query]:
    """Return an item's own vectors as queries."""
    return [floats(vector.embedding) for vector in vectors if vector.embedding]


def _best(item: Item, by_dims: dict[int, list[tuple[Query, float]]]) -> float | None:
    best: float | None = None
    for vector in item.vectors:
        if vector.embedding is None or vector.dims not in by_dims:
            continue
        numbers = floats(vector.embedding)
        length = _length(numbers)
        if not length:
            continue
        for query, query_length in by_dims[vector.dims]:
            cosine = _product(numbers, query) / (length * query_length)
            if best is None or cosine > best:
                best = cosine
    return None if best is None else max(-1.0, min(1.0, best))


def _length(numbers: Query) -> float:
    """Return the Euclidean length; 0 where there is no direction."""
    square = _product(numbers, numbers)
    return math.sqrt(square) if math.isfinite(square) else 0.0


def _sum_of_products(a: Query, b: Query) -> float:
    return float(sum(map(mul, a, b)))


_product: Callable[[Query, Query], float] = getattr(math, "sumprod", _sum_of_products)
"""`math.sumprod` came with Python 3.12."""
