"""Items in byte order in a temporary file: what gives an order to a store that has none."""

from __future__ import annotations

import pickle
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import IO

from memctl.instants import backwards
from memctl.model import Item, Position, encode
from memctl.sorting import sort

BLOCK_OCTETS = 64 * 1024
_ROW_OCTETS = 300
_IN_MEMORY = 8 * 1024 * 1024


class Gathered:
    """All items of a part of a store, each once: of those that came repeatedly, the latest.

    They can be read again, from any place on. The file has no name, and is gone when this is closed.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self.count = 0
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="memctl-")  # noqa: SIM115
        self._places: list[tuple[bytes, bytes]] = []
        self._offsets: list[int] = []
        try:
            self._fill(_distinct(sort(items, key=_order, size=lambda item: item.size)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def __iter__(self) -> Iterator[Item]:
        """Yield all of them."""
        return self.after(None)

    def after(self, place: Position | None) -> Iterator[Item]:
        """Yield those behind a place."""
        first = 0 if place is None else max(0, bisect_right(self._places, place.order) - 1)
        for index in range(first, len(self._offsets)):
            self._file.seek(self._offsets[index])
            block: list[Item] = pickle.load(self._file)  # noqa: S301 our own rows, from a file without a name
            if index == first and place is not None:
                block = [item for item in block if (encode(item.prefix), encode(item.key)) > place.order]
            yield from block

    def _fill(self, items: Iterator[Item]) -> None:
        block: list[Item] = []
        held = 0
        for item in items:
            block.append(item)
            held += _ROW_OCTETS + (len(item.value) if item.value is not None else 0)
            if held >= BLOCK_OCTETS:
                self._write(block)
                block, held = [], 0
        if block:
            self._write(block)

    def _write(self, block: list[Item]) -> None:
        self._places.append((encode(block[0].prefix), encode(block[0].key)))
        self._offsets.append(self._file.tell())
        self.count += len(block)
        pickle.dump(block, self._file, pickle.HIGHEST_PROTOCOL)


def _order(item: Item) -> tuple[bytes, bytes, str]:
    return encode(item.prefix), encode(item.key), backwards(item.updated_at)


def _distinct(items: Iterator[Item]) -> Iterator[Item]:
    last: Item | None = None
    for item in items:
        if last is None or not _is_same(item, last):
            yield item
        last = item


def _is_same(one: Item, other: Item) -> bool:
    """Tell whether two are the same item: their labels may differ where one has a dot in it."""
    return one.key == other.key and one.prefix == other.prefix and _labels(one) == _labels(other)


def _labels(item: Item) -> object:
    return next((problem.raw for problem in item.problems if problem.part == "namespace"), None)
