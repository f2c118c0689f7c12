"""What somebody may have meant: names near to one that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import chain, islice
from typing import TypeVar

from memctl.errors import NothingThere
from memctl.model import EVERYTHING, Scope, shown
from memctl.namespaces import show
from memctl.store import Store

Found = TypeVar("Found")

_LOOKED_AT = 5_000
_NAMED = 3


def expect(found: Iterable[Found], otherwise: Callable[[], NothingThere]) -> Iterator[Found]:
    """Return what was found, all of it; raise what `otherwise` makes where that is nothing."""
    rest = iter(found)
    for first in rest:
        return chain((first,), rest)
    raise otherwise()


def missing_namespace(store: Store, prefix: str) -> NothingThere:
    """Return the error for a namespace that holds nothing, with the nearest ones that do."""
    names = [show(shown(name)) for name in _near(prefix, _namespaces_around(store, prefix))]
    hint = f"nearest: {'  '.join(names)}" if names else "`memctl ls` lists the namespaces"
    return NothingThere(f"nothing is stored under {show(shown(prefix))!r}", hint=hint)


def missing_keys(store: Store, prefix: str, keys: list[str]) -> NothingThere:
    """Return the error for keys that a namespace does not hold, with the nearest ones that it does."""
    scope = Scope(prefix, descend=False)
    known = [item.key for item in islice(store.scan(scope, values=False), _LOOKED_AT)]
    if not known:
        return missing_namespace(store, prefix)
    near = dict.fromkeys(name for key in keys for name in _near(key, known))
    quoted = ", ".join(repr(shown(key)) for key in keys[:_NAMED]) + (", …" if len(keys) > _NAMED else "")
    hint = "nearest: " + "  ".join(map(shown, islice(near, _NAMED))) if near else None
    return NothingThere(
        f"{show(shown(prefix))} holds no item {quoted}",
        hint=hint or f"`memctl ls --items` lists its {len(known)}",
    )


def _namespaces_around(store: Store, prefix: str) -> list[str]:
    """The namespaces below the nearest ancestor that holds any, else below its first label's siblings."""
    labels = prefix.split(".")
    for depth in range(len(labels) - 1, 0, -1):
        found = _names(store, Scope(".".join(labels[:depth])))
        if found:
            return found
    return _names(store, EVERYTHING)


def _names(store: Store, scope: Scope) -> list[str]:
    found: dict[str, None] = {}
    for namespace in islice(store.namespaces(scope), _LOOKED_AT):
        labels = namespace.prefix.split(".")
        found.update((".".join(labels[:depth]), None) for depth in range(1, len(labels) + 1))
    return list(found)


def _near(name: str, known: Iterable[str]) -> list[str]:
    folded = {candidate.casefold(): candidate for candidate in known}
    return [folded[match] for match in get_close_matches(name.casefold(), folded, n=_NAMED, cutoff=0.5)]
