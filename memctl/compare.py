"""Two ordered streams of items side by side, and what differs between two items."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec

from memctl.blocks import Block, Piece
from memctl.canonical import canonical
from memctl.filters import equal
from memctl.model import Item, Vector, blob_names, order_of
from memctl.values import decode_exact

PARTS = ("value", "created_at", "updated_at", "expires_at", "ttl_minutes", "vectors")
"""What an item consists of beside its name, in the order in which differences are told."""

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_in_order = msgspec.json.Encoder(order="sorted").encode

Pair = tuple[Item | None, Item | None]


def merge(a: Iterable[Item], b: Iterable[Item]) -> Iterator[Pair]:
    """Pair the items of two streams, both in the order of (prefix, key); what has no partner has None.

    It is byte order, but that a name which is a BLOB comes behind all text, and is another than the same text.
    """
    left, right = iter(a), iter(b)
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        if one is not None and other is not None and _is_named_alike(one, other):
            yield one, other
            one, other = next(left, None), next(right, None)
        elif other is None or (one is not None and order_of(one) < order_of(other)):
            yield one, None
            one = next(left, None)
        else:
            yield None, other
            other = next(right, None)


def pair(a: Iterable[Piece], b: Iterable[Piece]) -> Iterator[Pair | int]:
    """Pair items as `merge` does; a number stands for so many that are the same on both sides, down to the octet.

    Where both come in blocks, those are compared as such, and items are made only of blocks that differ.
    """
    left, right = _runs(a), _runs(b)
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        rows = min(len(one), len(other))
        if isinstance(one, Block) and isinstance(other, Block) and _first(one, rows) == _first(other, rows):
            yield rows
            done = rows, rows
        else:
            done = yield from _paired(_items(one), _items(other))
        one = _after(one, done[0]) or next(left, None)
        other = _after(other, done[1]) or next(right, None)
    for rest in (one, *left) if one is not None else ():
        yield from ((item, None) for item in _items(rest))
    for rest in (other, *right) if other is not None else ():
        yield from ((None, item) for item in _items(rest))


_Run = Block | list[Item]
_RUN_ITEMS = 250


def _runs(pieces: Iterable[Piece]) -> Iterator[_Run]:
    for piece in pieces:
        if isinstance(piece, Block):
            yield piece
            continue
        items = iter(piece)
        while some := list(islice(items, _RUN_ITEMS)):
            yield some


def _items(run: _Run) -> list[Item]:
    return list(run.items()) if isinstance(run, Block) else run


def _first(block: Block, rows: int) -> Block:
    return block if rows == len(block) else block.cut(rows)[0]


def _after(run: _Run, done: int) -> _Run | None:
    """Return what of a run is left, None for nothing."""
    if done == len(run):
        return None
    if not done:
        return run
    return run.cut(done)[1] if isinstance(run, Block) else run[done:]


def _paired(a: list[Item], b: list[Item]) -> Generator[Pair, None, tuple[int, int]]:
    """Pair items until one side is at its end; return how many of each were used."""
    at = beside = 0
    while at < len(a) and beside < len(b):
        one, other = a[at], b[beside]
        if _is_named_alike(one, other):
            yield one, other
            at, beside = at + 1, beside + 1
        elif order_of(one) < order_of(other):
            yield one, None
            at += 1
        else:
            yield None, other
            beside += 1
    return at, beside


def differences(a: Item, b: Item, parts: Iterable[str] = PARTS) -> tuple[str, ...]:
    """Return which of `parts` differ: values as JSON and not as text, times as instants, vectors by the bit."""
    return tuple(part for part in parts if not _SAME[part](a, b))


def same_value(a: Item, b: Item) -> bool:
    """Tell whether two values mean the same; those that are no JSON have to be the same text."""
    if a.value == b.value:
        return True
    if a.value is None or b.value is None:
        return False
    try:
        one, other = _decode(a.value), _decode(b.value)
        if one != other:
            return False
        if _in_order(one) == _in_order(other):  # else a boolean may have passed for a number
            return True
    except (msgspec.MsgspecError, RecursionError, ArithmeticError):
        pass  # some of what JSON allows
    try:
        return equal(decode_exact(a.value), decode_exact(b.value))
    except (ValueError, RecursionError):  # nested too deeply, a number past what Decimal holds, or no JSON
        text = canonical(a.value)
        return text is not None and text == canonical(b.value)


def _is_named_alike(a: Item, b: Item) -> bool:
    if a.key != b.key or a.prefix != b.prefix:
        return False
    return not (a.problems or b.problems) or blob_names(a) == blob_names(b)


def _cell(holder: Item | Vector, part: str) -> Any:
    """A part as it can be compared: what could not be read as what stands in the database."""
    value = getattr(holder, part)
    if value is None and holder.problems:
        return next((problem.raw for problem in holder.problems if problem.part == part), None)
    return value


def _same_vectors(a: Item, b: Item) -> bool:
    if a.vectors == b.vectors:
        return True
    if len(a.vectors) != len(b.vectors):
        return False
    others = {vector.field: vector for vector in b.vectors}
    return all(vector.field in others and _same(vector, others[vector.field]) for vector in a.vectors)


def _same(a: Vector, b: Vector) -> bool:
    """Compare two vectors; times count where both stores keep them."""
    return _cell(a, "embedding") == _cell(b, "embedding") and all(
        _cell(a, part) == _cell(b, part)
        for part in ("created_at", "updated_at")
        if _is_known(a, part) and _is_known(b, part)
    )


def _is_known(vector: Vector, part: str) -> bool:
    """Tell whether a store keeps this time of a vector: a null that it does keep is among the problems."""
    return getattr(vector, part) is not None or any(problem.part == part for problem in vector.problems)


_SAME = {
    "value": same_value,
    "created_at": lambda a, b: (
        a.created_at == b.created_at and _cell(a, "created_at") == _cell(b, "created_at")
    ),
    "updated_at": lambda a, b: (
        a.updated_at == b.updated_at and _cell(a, "updated_at") == _cell(b, "updated_at")
    ),
    "expires_at": lambda a, b: (
        a.expires_at == b.expires_at and _cell(a, "expires_at") == _cell(b, "expires_at")
    ),
    "ttl_minutes": lambda a, b: (
        a.ttl_minutes == b.ttl_minutes and _cell(a, "ttl_minutes") == _cell(b, "ttl_minutes")
    ),
    "vectors": _same_vectors,
}
