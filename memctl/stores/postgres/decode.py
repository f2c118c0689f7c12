"""Rows of PostgreSQL as the model's items and vectors. Pure functions; every quirk of the types is here.

Users' text arrives as bytes, timestamps as `timestamptz::varchar` under TimeZone UTC and DateStyle ISO: no
object is made for a date that is only carried.
"""

from __future__ import annotations

import re
from array import array
from typing import Any

from memctl.model import Instant, Item, Namespace, Problem, Vector, decode

# Trailing zeros of the fraction are left out, so that one timestamp in ten is shorter than this.
_COMMON_LENGTH = len("2026-11-30 07:45:05.240729+00")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:\+00)?", re.ASCII)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

ItemRow = tuple[bytes, bytes, bytes | None, int | None, str | None, str | None, str | None, Any]
"""prefix, key, value as text, octets of that text, created_at, updated_at, expires_at, ttl_minutes."""
VectorRow = tuple[bytes, bytes, bytes, int | None, bytes | None, str | None, str | None]
"""prefix, key, field_name, dims (null for a null embedding), embedding in binary or null, created_at,
updated_at."""
NamespaceRow = tuple[bytes, int, int, int, str | None]
"""prefix, items, vectors that have one, octets of the values' text, latest readable updated_at."""


def instant(text: str | None) -> Instant | None:
    """Read a timestamp; None for null and for what no instant can say (infinity, BC, the year 10000)."""
    if text is None:
        return None
    if len(text) == _COMMON_LENGTH and text[4] == "-" and text[19] == ".":
        return f"{text[:10]}T{text[11:26]}Z"
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, time, fraction = match.groups(default="")
    return f"{day}T{time}.{fraction:0<6}Z"


def copied(line: bytes) -> ItemRow:
    """Read a line of `COPY … TO STDOUT (NULL '')`: the columns of an `ItemRow` without the size.

    Null and the empty text are alike in it, which no two columns here can be confused by: prefix and key are
    never null, and the others never empty. In jsonb's text no control character is left to be escaped, so its
    backslashes are all that COPY doubles.
    """
    prefix, key, value, rest = line.split(b"\t", 3)
    created, updated, expires, ttl = rest.decode().split("\t")
    if b"\\" in line:
        value = value.replace(b"\\\\", b"\\")
        prefix, key = _ESCAPE.sub(_unescape, prefix), _ESCAPE.sub(_unescape, key)
    minutes = None if ttl == "\n" else number(ttl)
    return prefix, key, value or None, len(value), created or None, updated or None, expires or None, minutes


def item(row: ItemRow, value: bytes | None, vectors: tuple[Vector, ...] = ()) -> Item:
    """Make an item of a row and its value, which may have been read apart from it."""
    prefix, key, _, size, created, updated, expires, ttl = row
    created_at = instant(created)
    updated_at = created_at if updated == created else instant(updated)
    expires_at = None if expires is None else instant(expires)
    problems: tuple[Problem, ...] = ()
    if created_at is None or updated_at is None or (expires_at is None and expires is not None):
        problems = _odd_times(created_at=created, updated_at=updated)
        if expires is not None:
            problems += _odd_times(expires_at=expires)
    try:
        space, name = prefix.decode(), key.decode()
    except UnicodeDecodeError:
        space, name = decode(prefix), decode(key)
        problems = _bad_text(namespace=prefix, key=key) + problems
    if ttl is not None and type(ttl) is not int:
        ttl = float(ttl)
    return Item(space, name, value, size or 0, created_at, updated_at, expires_at, ttl, vectors, problems)


def vector(row: VectorRow, *, full: bool) -> Vector:
    """Make a vector of a row; not `full`: its embedding was not asked for."""
    _, _, field, dims, embedding, created, updated = row
    created_at = instant(created)
    updated_at = created_at if updated == created else instant(updated)
    problems: tuple[Problem, ...] = ()
    if dims is None:
        problems = (Problem("embedding", "null"),)
    if created is not None and created_at is None:
        problems += _odd_times(created_at=created)
    if updated is not None and updated_at is None:
        problems += _odd_times(updated_at=updated)
    octets = floats(embedding) if full and embedding is not None else None
    return Vector(decode(field), dims or 0, octets, created_at, updated_at, problems)


def namespace(row: NamespaceRow) -> Namespace:
    """Make a namespace of a row."""
    prefix, items, vectors, octets, newest = row
    return Namespace(decode(prefix), items, vectors, octets, instant(newest))


def floats(binary: bytes) -> bytes:
    """Return an embedding as little-endian float32, from what pgvector's `vector_send` sends.

    That is the number of dims and an unused field, two octets each, then the numbers, big-endian. Only the
    order of the octets changes, whatever this machine's own is, so NaNs keep their bits too.
    """
    numbers = array("f", binary[4:])
    numbers.byteswap()
    return numbers.tobytes()


def _unescape(match: re.Match[bytes]) -> bytes:
    return _ESCAPED.get(match[1], match[1])


def number(text: str) -> int | float:
    """Read a TTL from text."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _odd_times(**cells: str | None) -> tuple[Problem, ...]:
    """Name the timestamps, by column, that are no instants."""
    problems = []
    for column, text in cells.items():
        if text is None:
            problems.append(Problem(column, "null"))
        elif instant(text) is None:
            reason = text if "infinity" in text else "outside the years 1 to 9999"
            problems.append(Problem(column, reason, text))
    return tuple(problems)


def _bad_text(**cells: bytes) -> tuple[Problem, ...]:
    problems = []
    for part, octets in cells.items():
        try:
            octets.decode()
        except UnicodeDecodeError:
            problems.append(Problem(part, "invalid UTF-8", decode(octets)))
    return tuple(problems)
