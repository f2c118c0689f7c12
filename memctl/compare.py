"""Two ordered streams of items side by side, and what differs between two items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from memctl.filters import equal
from memctl.model import Item, Vector, encode
from memctl.values import decode_exact

PARTS = ("value", "created_at", "updated_at", "expires_at", "ttl_minutes", "vectors")
"""What an item consists of beside its name, in the order in which differences are told."""

Pair = tuple[Item | None, Item | None]


def merge(a: Iterable[Item], b: Iterable[Item]) -> Iterator[Pair]:
    """Pair the items of two streams, both in byte order of (prefix, key); what has no partner has None."""
    left, right = iter(a), iter(b)
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        if one is not None and other is not None and one.key == other.key and one.prefix == other.prefix:
            yield one, other
            one, other = next(left, None), next(right, None)
        elif other is None or (one is not None and _order(one) < _order(other)):
            yield one, None
            one = next(left, None)
        else:
            yield None, other
            other = next(right, None)


def differences(a: Item, b: Item, parts: Iterable[str] = PARTS) -> tuple[str, ...]:
    """Return which of `parts` differ: values as JSON and not as text, times as instants, vectors by the bit."""
    return tuple(part for part in parts if not _SAME[part](a, b))


def same_value(a: Item, b: Item) -> bool:
    """Tell whether two values mean the same; those that are no JSON have to be the same text."""
    if a.value == b.value:
        return True
    if a.value is None or b.value is None:
        return False
    try:
        return equal(decode_exact(a.value), decode_exact(b.value))
    except (ValueError, RecursionError):
        return False


def _order(item: Item) -> tuple[bytes, bytes]:
    return encode(item.prefix), encode(item.key)


def _cell(item: Item, part: str) -> Any:
    """A part as it can be compared: what could not be read as what stands in the database."""
    value = getattr(item, part)
    if value is None and item.problems:
        return next((problem.raw for problem in item.problems if problem.part == part), None)
    return value


def _same_vectors(a: Item, b: Item) -> bool:
    if a.vectors == b.vectors:
        return True
    if len(a.vectors) != len(b.vectors):
        return False
    others = {vector.field: vector for vector in b.vectors}
    return all(vector.field in others and _same(vector, others[vector.field]) for vector in a.vectors)


def _same(a: Vector, b: Vector) -> bool:
    """Compare two vectors; times count where both stores keep them."""
    return (
        a.embedding == b.embedding
        and _agree(a.created_at, b.created_at)
        and _agree(a.updated_at, b.updated_at)
    )


def _agree(a: str | None, b: str | None) -> bool:
    return a is None or b is None or a == b


_SAME = {
    "value": same_value,
    "created_at": lambda a, b: (
        a.created_at == b.created_at and _cell(a, "created_at") == _cell(b, "created_at")
    ),
    "updated_at": lambda a, b: (
        a.updated_at == b.updated_at and _cell(a, "updated_at") == _cell(b, "updated_at")
    ),
    "expires_at": lambda a, b: (
        a.expires_at == b.expires_at and _cell(a, "expires_at") == _cell(b, "expires_at")
    ),
    "ttl_minutes": lambda a, b: (
        a.ttl_minutes == b.ttl_minutes and _cell(a, "ttl_minutes") == _cell(b, "ttl_minutes")
    ),
    "vectors": _same_vectors,
}
