"""Which items a command changes: those of certain names, or those that a selection selects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Protocol

from memctl.model import EVERYTHING, Detail, Item, Position, Scope
from memctl.selection import Selection
from memctl.sorting import sort
from memctl.store import Expiring, Store

KEYS_AT_ONCE = 500
HELD_OCTETS = 8 * 1024 * 1024
"""What is held of chosen items before they go to a file."""


class Choice(Protocol):
    """Items of a store. It can be asked again and again, and of another look at the same store."""

    def items(self, store: Store, *, values: bool, vectors: Detail) -> Iterator[Item]:
        """Yield the chosen items in byte order of (prefix, key), each once."""
        ...

    def holds(self, item: Item) -> bool:
        """Tell whether an item that was chosen, and has been read anew with its value, still is."""
        ...


@dataclass(slots=True)
class Named:
    """The items of these names. `missing` counts the names under which nothing was when they were last read."""

    places: Callable[[], Iterable[Position]]
    missing: int = 0
    samples: list[Position] = field(default_factory=list)
    """The first of the missing."""

    def items(self, store: Store, *, values: bool, vectors: Detail) -> Iterator[Item]:  # noqa: ARG002
        """Yield those that are there; names may come in any order and more than once."""
        self.missing, self.samples = 0, []
        for prefix, places in groupby(distinct(self.places()), key=lambda place: place.prefix):
            keys = (place.key for place in places)
            while batch := list(islice(keys, KEYS_AT_ONCE)):
                wanted = dict.fromkeys(batch)
                for item in store.get(prefix, batch, vectors=vectors):
                    del wanted[item.key]
                    yield item
                self.missing += len(wanted)
                room = KEYS_AT_ONCE - len(self.samples)
                self.samples += [Position(prefix, key) for key in islice(wanted, room)]

    def holds(self, item: Item) -> bool:  # noqa: ARG002
        """A name means whatever it names."""
        return True


@dataclass(frozen=True, slots=True)
class Selected:
    """The items that a selection selects."""

    selection: Selection

    @property
    def scope(self) -> Scope | None:
        """The scope of which everything is selected, if there is one."""
        selection = self.selection
        if selection.is_everything:
            return EVERYTHING
        is_whole = (
            selection.is_unconditional and selection.pattern is not None and selection.pattern.is_literal
        )
        return selection.scope if is_whole else None

    def items(self, store: Store, *, values: bool, vectors: Detail) -> Iterator[Item]:
        """Yield what is selected; what has expired is looked up where the store has an index on expiries."""
        selection = self.selection
        looks_inside = values or selection.text or selection.filters
        if selection.expiry == "expired" and not looks_inside and isinstance(store, Expiring):
            found = store.expiring(selection.scope, selection.now, vectors=vectors)
            return filter(selection.matches, found)
        return selection.select(store, values=values, vectors=vectors)

    def holds(self, item: Item) -> bool:
        """Decide anew: whoever wrote it meanwhile may have meant it to stay."""
        return self.selection.matches(item)


def distinct(places: Iterable[Position]) -> Iterator[Position]:
    """Yield places in byte order, each once, in bounded memory."""
    last: Position | None = None
    for place in sort(places, key=lambda place: place.order, size=lambda place: len(place.key)):
        if place != last:
            yield place
        last = place


def read_anew(store: Store, items: Iterable[Item]) -> Iterator[tuple[Item, Item | None]]:
    """Pair items, in any order, with what stands under their names now, values and vectors included."""
    for prefix, group in groupby(items, key=lambda item: item.prefix):
        while batch := list(islice(group, KEYS_AT_ONCE)):
            keys = list(dict.fromkeys(item.key for item in batch))
            found = {item.key: item for item in store.get(prefix, keys, vectors=Detail.FULL)}
            yield from ((item, found.get(item.key)) for item in batch)


def octets_of(item: Item) -> int:
    """Estimate what an item takes in memory, its embeddings apart, beyond what every one takes."""
    return len(item.prefix) + len(item.key) + len(item.value or b"") + 500 * len(item.vectors)
