"""What a change covers and what it leaves: told before anything is done."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from memctl.model import EVERYTHING, Item, Position, Scope
from memctl.selection import Selection
from memctl.store import Store

NAMED = 5
"""So many namespaces are named, those that hold the most."""
_LAST = "\U0010ffff" * 4
"""Sorts behind every key and label that anybody has."""


@dataclass(slots=True)
class Coverage:
    """How much is covered: items, their vectors, the octets of their values, by namespace."""

    items: int = 0
    vectors: int = 0
    octets: int = 0
    namespaces: int = 0
    largest: list[tuple[int, int, str]] = field(default_factory=list)
    """(items, minus its number, namespace) of the `NAMED` that hold the most, as a heap."""

    def add(self, prefix: str, items: int, vectors: int, octets: int) -> None:
        """Count what one namespace holds; each comes once."""
        self.items += items
        self.vectors += vectors
        self.octets += octets
        self.namespaces += 1
        heapq.heappush(self.largest, (items, -self.namespaces, prefix))
        if len(self.largest) > NAMED:
            heapq.heappop(self.largest)

    @property
    def named(self) -> list[tuple[str, int]]:
        """The namespaces that hold the most and how many items each, the largest first."""
        return [(prefix, items) for items, _, prefix in sorted(self.largest, reverse=True)]


def of_items(items: Iterable[Item]) -> Coverage:
    """Add up items that come in byte order."""
    coverage = Coverage()
    prefix: str | None = None
    count = vectors = octets = 0
    for item in items:
        if item.prefix != prefix:
            if prefix is not None:
                coverage.add(prefix, count, vectors, octets)
            prefix, count, vectors, octets = item.prefix, 0, 0, 0
        count += 1
        vectors += len(item.vectors)
        octets += item.size
    if prefix is not None:
        coverage.add(prefix, count, vectors, octets)
    return coverage


def of_selection(selection: Selection, store: Store) -> Coverage:
    """Add up what a selection selects by namespace alone: the database does most of it."""
    coverage = Coverage()
    pattern, scope = selection.pattern, selection.scope
    for found in store.namespaces(scope):
        if pattern is None or pattern.matches(found.prefix):
            coverage.add(found.prefix, found.items, found.vectors, found.octets)
    return coverage


def below(store: Store, prefix: str) -> tuple[int, int]:
    """Count what lies below a namespace and not in it: namespaces and items."""
    namespaces = items = 0
    for found in store.namespaces(Scope(prefix)):
        if found.prefix != prefix:
            namespaces += 1
            items += found.items
    return namespaces, items


def alike(store: Store, prefix: str, most: int = 3) -> list[str]:
    """Return namespaces whose last label only begins like that of `prefix`: no part of it, easily taken for one.

    Each as far as it has labels in common; the first `most` of them in byte order.
    """
    found: dict[str, None] = {}
    for name in _names_from(store, prefix):
        if not name.startswith(prefix) or len(found) == most:
            break
        found[".".join(name.split(".")[: prefix.count(".") + 1])] = None
    return list(found)


def _names_from(store: Store, prefix: str) -> Iterator[str]:
    """Yield the namespaces behind `prefix` in byte order, without its descendants, one of each family."""
    depth = prefix.count(".") + 1
    place, last = Position(prefix, _LAST), None
    while (item := next(store.scan(EVERYTHING, after=place, values=False), None)) is not None:
        if item.prefix == last:  # its keys go on behind `_LAST`
            return
        name = last = item.prefix
        family = ".".join(name.split(".")[:depth])
        if family != prefix:
            yield name
        place = Position(name, _LAST) if name == family else Position(f"{family}.{_LAST}", "")
