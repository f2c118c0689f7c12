"""Namespaces added up: to a depth, or into a tree, in bounded memory whatever their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from memctl.instants import backwards
from memctl.model import Instant, Namespace, encode
from memctl.sorting import sort


class _Total(msgspec.Struct, gc=False):
    items: int = 0
    vectors: int = 0
    octets: int = 0
    newest: Instant | None = None

    def add(self, part: Namespace) -> None:
        self.items += part.items
        self.vectors += part.vectors
        self.octets += part.octets
        if part.newest and (self.newest is None or part.newest > self.newest):
            self.newest = part.newest


def to_depth(namespaces: Iterable[Namespace], depth: int) -> Iterator[Namespace]:
    """Cut each namespace to its first `depth` labels and add up what coincides; byte order.

    `depth` is absolute, as `max_depth` of LangGraph's `list_namespaces`.
    """
    totals = _add_up(namespaces, lambda prefix: (".".join(prefix.split(".", depth)[:depth]),))
    return sort(totals, key=lambda total: encode(total.prefix))


def to_tree(namespaces: Iterable[Namespace], depth: int | None) -> Iterator[Namespace]:
    """Yield every namespace and every ancestor, each with what it and its descendants hold.

    In tree order: label by label, an ancestor before its descendants.
    """
    totals = _add_up(namespaces, lambda prefix: tuple(_lineage(prefix, depth)))
    return sort(totals, key=lambda total: [encode(label) for label in total.prefix.split(".")])


def in_order(namespaces: Iterable[Namespace], by: str, limit: int | None) -> Iterator[Namespace]:
    """Sort namespaces: `name`, or `items`, `bytes` or `newest`, the largest or latest first."""
    keys: dict[str, Callable[[Namespace], tuple[object, bytes]]] = {
        "items": lambda found: (-found.items, encode(found.prefix)),
        "bytes": lambda found: (-found.octets, encode(found.prefix)),
        "newest": lambda found: (backwards(found.newest), encode(found.prefix)),
        "name": lambda found: (0, encode(found.prefix)),
    }
    return sort(namespaces, key=keys[by], limit=limit)


def _add_up(
    namespaces: Iterable[Namespace], groups_of: Callable[[str], tuple[str, ...]]
) -> Iterator[Namespace]:
    """Total each group of namespaces that come in byte order.

    A group, which is an ancestor's name, is complete when the order has come past everything that could
    begin with its name and a dot; so only a chain of names, each the beginning of the next, is ever open.
    """
    open_groups: dict[str, _Total] = {}
    for namespace in namespaces:
        for name in [name for name in open_groups if _is_past(name, namespace.prefix)]:
            yield _closed(name, open_groups.pop(name))
        for name in groups_of(namespace.prefix):
            open_groups.setdefault(name, _Total()).add(namespace)
    for name, total in open_groups.items():
        yield _closed(name, total)


def _is_past(name: str, prefix: str) -> bool:
    return not prefix.startswith(name) or encode(prefix) >= encode(name) + b"/"


def _closed(name: str, total: _Total) -> Namespace:
    return Namespace(name, total.items, total.vectors, total.octets, total.newest)


def _lineage(prefix: str, depth: int | None) -> Iterator[str]:
    labels = prefix.split(".")
    for count in range(1, min(len(labels), depth or len(labels)) + 1):
        yield ".".join(labels[:count])
