"""Blocks of items out of a COPY: lines in which nothing is odd, a column at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memctl.blocks import Block
from memctl.model import Instant
from memctl.stores.postgres.decode import instant, number

_ROWS = 250
_OCTETS = 4 * 1024 * 1024
"""How many lines make a block, and how many octets they may hold."""


def cut(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Cut a stream of lines into what makes a block each."""
    some: list[bytes] = []
    octets = 0
    for line in lines:
        some.append(line)
        octets += len(line)
        if len(some) == _ROWS or octets >= _OCTETS:
            yield some
            some, octets = [], 0
    if some:
        yield some


class _Odd(Exception):
    """A column holds something that takes a closer look."""


def block_of(lines: Sequence[bytes]) -> Block | None:
    """Make a block of lines as `decode.copied` reads them; None where something in one of them is odd."""
    prefixes, keys, values, created, updated, expires, minutes = zip(
        *[line.split(b"\t") for line in lines], strict=True
    )
    if b"" in values:
        return None
    try:
        times = _instants(created)
        return Block(
            _names(prefixes),
            _names(keys),
            tuple([value.replace(b"\\\\", b"\\") if b"\\" in value else value for value in values]),
            times,
            times if updated == created else _instants(updated),
            tuple([_instant(cell) if cell else None for cell in expires]),
            tuple([None if cell == b"\n" else number(cell.decode()) for cell in minutes]),
            {},
        )
    except (_Odd, UnicodeDecodeError):
        return None


def _names(cells: Sequence[bytes]) -> tuple[str, ...]:
    column = b"\n".join(cells)
    if b"\\" in column:
        raise _Odd
    return tuple(column.decode().split("\n"))


def _instants(cells: Sequence[bytes]) -> tuple[Instant, ...]:
    return tuple(map(_instant, cells))


def _instant(cell: bytes) -> Instant:
    found = instant(cell.decode())
    if found is None:
        raise _Odd
    return found
