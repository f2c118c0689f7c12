"""An item that a store yielded beside the item that the oracle remembers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memctl.model import Detail, Item
from tests.contract.backends import Backend, RawItem


def yielded(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Items as plain data."""
    return [
        {
            "place": (item.prefix, item.key),
            "value": item.value,
            "size": item.size,
            "times": (item.created_at, item.updated_at, item.expires_at),
            "ttl_minutes": item.ttl_minutes,
            "vectors": [
                (found.field, found.dims, found.embedding, found.created_at, found.updated_at)
                for found in item.vectors
            ],
            "problems": [*item.problems, *(problem for found in item.vectors for problem in found.problems)],
        }
        for item in items
    ]


def expected(
    backend: Backend, items: Iterable[RawItem], *, values: bool = True, vectors: Detail = Detail.NONE
) -> list[dict[str, Any]]:
    """What a store has to yield for these items, which nothing is wrong with."""
    return [
        {
            "place": (item.prefix, item.key),
            "value": item.value.encode() if values else None,
            "size": len(item.value.encode()),
            "times": (item.created_at, item.updated_at, item.expires_at),
            "ttl_minutes": item.ttl_minutes,
            "vectors": [
                (
                    found.field,
                    len(found.numbers),
                    found.octets if vectors is Detail.FULL else None,
                    found.created_at,
                    found.updated_at,
                )
                for found in item.vectors
            ]
            if vectors is not Detail.NONE
            else [],
            "problems": [],
        }
        for item in map(backend.remembered, items)
    ]


def places(items: Iterable[Item | RawItem]) -> list[tuple[str, str]]:
    """Where items are."""
    return [(item.prefix, item.key) for item in items]
