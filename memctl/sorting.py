"""Sorting more rows than memory should hold: runs in temporary files, merged."""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, Generic, TypeVar

Row = TypeVar("Row")

RUN_OCTETS = 24 * 1024 * 1024
"""How much one run may hold before it goes to a file."""
_ROW_OVERHEAD = 600
_BLOCK_OCTETS = 64 * 1024
_WIDEST_MERGE = 100


def sort(
    rows: Iterable[Row],
    key: Callable[[Row], Any],
    *,
    size: Callable[[Row], int] = lambda _row: 0,
    limit: int | None = None,
) -> Iterator[Row]:
    """Yield `rows` in the order of `key`, stable, the first `limit` of them; see `Sorter`."""
    with Sorter(key, size=size, limit=limit) as sorter:
        for row in rows:
            sorter.add(row)
        yield from sorter


class Sorter(Generic[Row]):
    """Takes rows in any order and gives them in the order of `key`, stable, the first `limit` of them.

    `size` estimates what a row holds beyond its own fields, in octets. Memory stays near `octets`, or else
    `RUN_OCTETS`; what is more waits in temporary files without a name, until the `with` block is left.
    """

    def __init__(
        self,
        key: Callable[[Row], Any],
        *,
        size: Callable[[Row], int] = lambda _row: 0,
        limit: int | None = None,
        octets: int | None = None,
    ) -> None:
        self._key, self._size, self._limit = key, size, limit
        self._most = RUN_OCTETS if octets is None else octets
        self._run: list[Row] = []
        self._files: list[BinaryIO] = []
        self._held = 0

    def __enter__(self) -> Sorter[Row]:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, row: Row) -> None:
        """Take one row."""
        self._run.append(row)
        self._held += _ROW_OVERHEAD + self._size(row)
        if self._held >= self._most:
            self._lighten()

    def pass_on(self, row: Row) -> Row:
        """Take one row and return it."""
        self.add(row)
        return row

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows taken so far, once."""
        self._run.sort(key=self._key)
        return islice(_merge(self._files, self._run, self._key), self._limit)

    def _lighten(self) -> None:
        """Forget what is beyond the limit, and put away what is left if it is much."""
        self._run.sort(key=self._key)
        if self._limit is not None:
            del self._run[self._limit :]
            self._held = sum(_ROW_OVERHEAD + self._size(row) for row in self._run)
        if self._held > self._most // 2:
            self._files.append(_spill(self._run, self._size))
            self._run, self._held = [], 0
        if len(self._files) >= _WIDEST_MERGE:
            widest = _spill(islice(_merge(self._files, [], self._key), self._limit), self._size)
            for file in self._files:
                file.close()
            self._files = [widest]


def _merge(files: list[BinaryIO], run: list[Row], key: Callable[[Row], Any]) -> Iterator[Row]:
    if not files:
        return iter(run)
    return heapq.merge(*map(_read, files), run, key=key)


def _spill(rows: Iterable[Row], size: Callable[[Row], int]) -> BinaryIO:
    file: Any = tempfile.TemporaryFile(prefix="memctl-sort-")  # noqa: SIM115 closed by the sort
    block: list[Row] = []
    held = 0
    for row in rows:
        block.append(row)
        held += _ROW_OVERHEAD + size(row)
        if held >= _BLOCK_OCTETS:
            pickle.dump(block, file, pickle.HIGHEST_PROTOCOL)
            block, held = [], 0
    pickle.dump(block, file, pickle.HIGHEST_PROTOCOL)
    file.seek(0)
    spilled: BinaryIO = file
    return spilled


def _read(file: BinaryIO) -> Iterator[Any]:
    while True:
        try:
            block = pickle.load(file)  # noqa: S301 our own rows, from a file that has no name
        except EOFError:
            return
        yield from block
