"""Sorting more rows than memory should hold: runs in temporary files, merged."""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, TypeVar

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
    """Yield `rows` in the order of `key`, stable, the first `limit` of them.

    `size` estimates what a row holds beyond its own fields, in octets. Memory stays near `RUN_OCTETS`; what
    is more waits in temporary files without a name.
    """
    run: list[Row] = []
    files: list[BinaryIO] = []
    held = 0
    try:
        for row in rows:
            run.append(row)
            held += _ROW_OVERHEAD + size(row)
            if held < RUN_OCTETS:
                continue
            run.sort(key=key)
            if limit is not None:
                del run[limit:]
                held = sum(_ROW_OVERHEAD + size(row) for row in run)
            if held > RUN_OCTETS // 2:
                files.append(_spill(run, size))
                run, held = [], 0
            if len(files) >= _WIDEST_MERGE:
                widest = _spill(islice(_merge(files, [], key), limit), size)
                for file in files:
                    file.close()
                files = [widest]
        run.sort(key=key)
        yield from islice(_merge(files, run, key), limit)
    finally:
        for file in files:
            file.close()


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
