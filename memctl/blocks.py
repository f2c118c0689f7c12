"""Items by column, for what goes through a whole store and looks at no single item of it.

A million items with nothing odd about them need not become a million objects: a store that can gives them a
block at a time, and whoever writes or compares them handles a column at once. The rest comes as items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Protocol, runtime_checkable

import msgspec

from memctl.model import Detail, Instant, Item, Scope, Vector


class Block(msgspec.Struct, frozen=True, gc=False):
    """Items that follow one another in a store's order and have no `problems`: the parts of `Item`, by column.

    At least one item; no value is null. `vectors` go by the place of their item.
    """

    prefixes: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[bytes, ...]
    created_at: tuple[Instant, ...]
    updated_at: tuple[Instant, ...]
    expires_at: tuple[Instant | None, ...]
    ttl_minutes: tuple[float | None, ...]
    vectors: Mapping[int, tuple[Vector, ...]]

    def __len__(self) -> int:
        return len(self.keys)

    def items(self) -> Iterator[Item]:
        """Yield the items one by one."""
        beside: Iterable[tuple[Vector, ...]] = repeat(())
        if self.vectors:
            beside = [self.vectors.get(place, ()) for place in range(len(self))]
        return map(
            Item,
            self.prefixes,
            self.keys,
            self.values,
            map(len, self.values),
            self.created_at,
            self.updated_at,
            self.expires_at,
            self.ttl_minutes,
            beside,
        )

    def item(self, place: int) -> Item:
        """Return one of the items, the first being at 0."""
        return next(self._between(place, place + 1).items())

    def cut(self, rows: int) -> tuple[Block, Block]:
        """Return the first `rows` items, fewer than there are, and the others."""
        return self._between(0, rows), self._between(rows, len(self))

    def _between(self, start: int, end: int) -> Block:
        return Block(
            self.prefixes[start:end],
            self.keys[start:end],
            self.values[start:end],
            self.created_at[start:end],
            self.updated_at[start:end],
            self.expires_at[start:end],
            self.ttl_minutes[start:end],
            {place - start: found for place, found in self.vectors.items() if start <= place < end},
        )


Piece = Block | Iterable[Item]
"""What comes in blocks: one, or items that make none. Each is read to its end before the next is asked for."""


@runtime_checkable
class Columnar(Protocol):
    """A store that can give its items by column."""

    def blocks(self, scope: Scope, *, vectors: Detail = Detail.NONE) -> Iterator[Piece]:
        """Yield what `Store.scan` yields, with values, in the same order."""
        ...


@runtime_checkable
class Loading(Protocol):
    """A store that takes new items by the block."""

    @property
    def loads(self) -> bool:
        """Whether `load` works here."""
        ...

    def holds(self, block: Block) -> bool:
        """Tell whether every item of a block can be held for certain; one that may not be is to be asked about."""
        ...

    def load(self, blocks: Sequence[Block]) -> bool:
        """Insert items in one transaction; false, with nothing written, where one of them is there by now."""
        ...
