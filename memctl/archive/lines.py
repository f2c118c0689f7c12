"""A block of items as lines of an archive, column by column: what nearly every line is written with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from memctl.blocks import Block
from memctl.model import Instant, Vector

_check = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.Encoder().encode
_ESCAPED = bytes({*range(ord(" ")), *b'"\\'} - {ord("\n")})
"""What JSON escapes in a string, but for the line feed that columns are joined by."""


class VectorRow(msgspec.Struct, frozen=True, gc=False):
    """A vector as it stands in a line; octets become base64."""

    field: str
    embedding: bytes | None
    created_at: Instant | None
    updated_at: Instant | None


class _Unusual(Exception):
    """Something in a block takes a closer look."""


def lines_of(block: Block, *, has_vectors: bool) -> bytes | None:
    """Return the lines of a block; None where something takes a closer look, which `spelling` has."""
    try:
        pieces = (
            _wrapped(_plain(block.prefixes).replace(b".", b'","'), b'{"namespace":["', b'"],"key":"'),
            _wrapped(_plain(block.keys), b"", b'","value":'),
            _sound(block.values),
            _wrapped(_joined(block.created_at), b',"created_at":"', b'","updated_at":"'),
            _wrapped(_joined(block.updated_at), b"", b'","expires_at":'),
            _optional(block.expires_at),
            _ends(block, has_vectors),
        )
    except (_Unusual, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    octets = b"".join(chain.from_iterable(zip(*pieces, strict=True)))
    return octets if octets.count(b"\n") == len(block) and b"\r" not in octets else None


def _sound(values: Sequence[bytes]) -> Sequence[bytes]:
    """Return values that are JSON in UTF-8, with no blanks around them."""
    if sum(map(len, map(_check, values))) != sum(map(len, values)):
        raise _Unusual
    for value in values:
        if not value.isascii():
            value.decode()
    return values


def _joined(cells: Sequence[str]) -> bytes:
    return "\n".join(cells).encode()


def _plain(cells: Sequence[str]) -> bytes:
    """Join names in which JSON escapes nothing."""
    column = _joined(cells)
    if len(column.translate(None, _ESCAPED)) < len(column) or column.count(b"\n") != len(cells) - 1:
        raise _Unusual
    return column


def _wrapped(column: bytes, before: bytes, after: bytes) -> list[bytes]:
    """Return the cells of a column, each between the same octets."""
    return (before + column.replace(b"\n", after + b"\n" + before) + after).split(b"\n")


def _optional(cells: Sequence[str | float | None]) -> list[bytes]:
    if cells.count(None) == len(cells):
        return [b"null"] * len(cells)
    return [b"null" if cell is None else _encode(cell) for cell in cells]


def _ends(block: Block, has_vectors: bool) -> list[bytes]:
    """Return what stands behind `expires_at`."""
    end = b',"vectors":[]}\n' if has_vectors else b"}\n"
    minutes = _optional(block.ttl_minutes)
    ends = [b',"ttl_minutes":' + cell + end for cell in minutes]
    if has_vectors:
        for place, vectors in block.vectors.items():
            ends[place] = b'%b%b,"vectors":%b}\n' % (b',"ttl_minutes":', minutes[place], _vectors(vectors))
    return ends


def _vectors(vectors: Iterable[Vector]) -> bytes:
    rows = []
    for vector in vectors:
        if vector.problems:
            raise _Unusual
        rows.append(VectorRow(vector.field, vector.embedding, vector.created_at, vector.updated_at))
    return _encode(rows)
