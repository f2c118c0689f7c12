"""Blocks of items out of a SQLite file: rows in which nothing is odd, a column at a time.

SQLite's text arrives as `str` here and its BLOBs as `bytes`. So what is a BLOB or a number where text belongs
is told by its type, which costs next to nothing where there is none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memctl.blocks import Block
from memctl.model import Instant, Vector, encode
from memctl.stores.sqlite.decode import Odd, are_blobs, instant_of, instants_of, sure, ttl_of, vector_of

ITEMS = """SELECT prefix, key, value, created_at, updated_at, {expires_at}, {ttl_minutes}
FROM "{table}" WHERE {where} ORDER BY prefix, key"""
_LONGEST_OCTETS = 64 * 1024
_STEP = 25
"""So many rows are fetched at once, none of them longer: a longer one is left to those who read row by row."""
_ROWS = 250
_OCTETS = 4 * 1024 * 1024
"""How many items make a block, and how many octets their values or their vectors may hold."""


def blocks_of(
    connection: sqlite3.Connection, items: sqlite3.Cursor, vectors: Iterator[tuple[Any, ...]]
) -> Iterator[Block]:
    """Make blocks of rows of `ITEMS` and of their vectors' rows (`decode.vector_of`), both in byte order.

    Raises Odd instead of a block in which there is something odd; its rows are lost then.
    """
    beside = _Beside(vectors)
    while rows := _next(connection, items):
        prefixes, keys, values, created, updated, expires, minutes = zip(*rows, strict=True)
        for column in (prefixes, keys, created, updated):
            if set(map(type, column)) != {str}:
                raise Odd
        instants = _instants(created)
        yield Block(
            prefixes,
            keys,
            _octets(values),
            instants,
            instants if updated == created else _instants(updated),
            _each(expires, _expiry),
            _each(minutes, ttl_of),
            beside.take(prefixes, keys),
        )


def _next(connection: sqlite3.Connection, items: sqlite3.Cursor) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    held = 0
    connection.text_factory = str
    longest = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_OCTETS)
    try:
        while held < _OCTETS and len(rows) < _ROWS and (some := items.fetchmany(min(_STEP, _ROWS))):
            rows += some
            held += sum([len(row[2]) for row in some])
    except (TypeError, sqlite3.DataError):  # a value is null, or too long
        raise Odd from None
    except sqlite3.OperationalError as error:
        if hasattr(error, "sqlite_errorcode"):
            raise
        raise Odd from None  # text that is no UTF-8
    finally:
        connection.text_factory = bytes
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
    return rows


def _octets(values: tuple[Any, ...]) -> tuple[bytes, ...]:
    kinds = set(map(type, values))
    if kinds == {bytes}:
        return values
    if kinds <= {bytes, str}:
        return tuple([value.encode() if isinstance(value, str) else value for value in values])
    raise Odd


def _instants(cells: tuple[str, ...]) -> tuple[Instant, ...]:
    instants = tuple(instants_of("\n".join(cells).encode()).decode().split("\n"))
    if len(instants) != len(cells):  # a line feed in one of them
        raise Odd
    return instants


def _each(cells: tuple[Any, ...], read: Callable[[Any], tuple[Any, str | None]]) -> tuple[Any, ...]:
    """Read the cells that are not null."""
    if cells.count(None) == len(cells):
        return cells
    return tuple([None if cell is None else sure(*read(cell)) for cell in cells])


def _expiry(cell: Any) -> tuple[Instant | None, str | None]:
    return instant_of(cell.encode()) if isinstance(cell, str) else (None, "no text")


class _Beside:
    """Vectors in the order of their items, taken along with these."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self._head = next(rows, None)

    def take(self, prefixes: Sequence[str], keys: Sequence[str]) -> dict[int, tuple[Vector, ...]]:
        """Return the vectors of the next items, by the place of the item."""
        found: dict[int, tuple[Vector, ...]] = {}
        last = encode(prefixes[-1]), encode(keys[-1])
        place = held = 0
        while self._head is not None and self._head[:2] <= last and not are_blobs(self._head):
            place = self._owner(prefixes, keys, place)
            vector = vector_of(self._head)
            found[place] = (*found.get(place, ()), vector)
            held += 4 * vector.dims
            if held > _OCTETS:
                raise Odd
            self._head = next(self._rows, None)
        return found

    def _owner(self, prefixes: Sequence[str], keys: Sequence[str], place: int) -> int:
        """Return the place of the item that the next vector belongs to, at `place` or behind it."""
        assert self._head is not None
        try:
            prefix, key = self._head[0].decode(), self._head[1].decode()
            while keys[place] != key or prefixes[place] != prefix:
                place = keys.index(key, place + 1)
        except ValueError:  # a name that is no text in UTF-8, or a BLOB, which sorts elsewhere
            raise Odd from None
        return place
