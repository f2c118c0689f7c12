"""Items and vectors as PostgreSQL takes them in bulk. Pure functions; the other side of `decode`.

Items travel as lines of a text COPY: their values are text anyhow, and the server takes a line as fast as a
binary row. Vectors travel in binary, which it takes ten times as fast as text.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from struct import Struct, error, pack, unpack
from sys import byteorder
from typing import NamedTuple

from memctl.blocks import Block
from memctl.model import Instant, Item, Problem, Vector, encode

INT8 = Struct("!q")
BINARY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""What a binary COPY begins with: the signature, no flags, no extension."""
BINARY_END = b"\xff\xff"

_NULL = r"\N"
_EIGHT = b"\0\0\0\x08"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000
_EPOCH_DAY = 730_425
"""The day of the epoch in a calendar that counts from 0000-03-01."""
_INFINITY = {"infinity": 2**63 - 1, "-infinity": -(2**63)}
_FIRST, _END = -211_813_488_000_000_000, 9_223_371_331_200_000_000
"""PostgreSQL's timestamps, in microseconds from 2000: from 4714-11-24 BC to before the year 294277."""
_ODD = re.compile(r"(\d{4,6})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?\+00( BC)?", re.ASCII)
_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# An octet is found by its number several times as fast as by a bytes of length one.
_BACKSLASH, _TAB, _NEWLINE, _RETURN = b"\\"[0], b"\t"[0], b"\n"[0], b"\r"[0]
_BLANKS = bytes.maketrans(b"\t\n\r", b"   ")
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


class Columns(NamedTuple):
    """An item's columns as PostgreSQL reads them from text."""

    prefix: str
    key: str
    value: bytes
    created_at: str | None
    updated_at: str | None
    expires_at: str | None
    ttl_minutes: int | None


VectorCells = tuple[bytes, bytes, bytes, bytes | None, bytes | None, bytes | None]
"""A vector's columns as a binary COPY takes them and a binary SELECT gives them: prefix, key, field_name,
embedding, created_at, updated_at."""


def columns(item: Item) -> Columns:
    """Return an item's columns. It has to be one that the store can hold."""
    ttl = None if item.ttl_minutes is None else int(item.ttl_minutes)
    return Columns(item.prefix, item.key, item.value or b"", *_times(item), ttl)


def line(item: Item, *, expiry: bool) -> bytes:
    """Return an item as a line of a text COPY; without `expiry` the last two columns are left out."""
    value, names = _escaped(item.value or b""), f"{item.prefix}\t{item.key}\t"
    if "\\" in names or "\n" in names or "\r" in names or names.count("\t") > 2:
        names = f"{item.prefix.translate(_ESCAPES)}\t{item.key.translate(_ESCAPES)}\t"
    created, updated, expires = _times(item)
    rest = f"\t{created or _NULL}\t{updated or _NULL}"
    if expiry:
        minutes = _NULL if item.ttl_minutes is None else int(item.ttl_minutes)
        rest = f"{rest}\t{expires or _NULL}\t{minutes}"
    return b"%b%b%b\n" % (encode(names), value, rest.encode())


def lines(block: Block, *, expiry: bool) -> bytes:
    """Return a block as lines of a text COPY."""
    names = "".join((*block.prefixes, *block.keys))
    if any(mark in names for mark in "\\\t\n\r"):
        return b"".join([line(item, expiry=expiry) for item in block.items()])
    heads = [f"{prefix}\t{key}\t" for prefix, key in zip(block.prefixes, block.keys, strict=True)]
    ends = [f"\t{times[0]}\t{times[1]}" for times in zip(block.created_at, block.updated_at, strict=True)]
    if expiry:
        ends = [
            f"{end}\t{expires or _NULL}\t{_NULL if minutes is None else int(minutes)}"
            for end, expires, minutes in zip(ends, block.expires_at, block.ttl_minutes, strict=True)
        ]
    return b"".join(
        [
            b"%b%b%b\n" % (head.encode(), _escaped(value), end.encode())
            for head, value, end in zip(heads, block.values, ends, strict=True)
        ]
    )


def _escaped(value: bytes) -> bytes:
    if _BACKSLASH in value:
        value = value.replace(b"\\", b"\\\\")
    if _TAB in value or _NEWLINE in value or _RETURN in value:  # white space: in strings JSON escapes them
        value = value.translate(_BLANKS)
    return value


def vector_cells(item: Item, vector: Vector, *, half: bool) -> VectorCells:
    """Return a vector's columns; one that has no times of its own gets its item's.

    Raises ValueError where a half would round.
    """
    return (
        encode(item.prefix),
        encode(item.key),
        encode(vector.field),
        None if vector.embedding is None else _embedding(vector.embedding, half=half),
        _vector_time(vector, "created_at", vector.created_at, item.created_at),
        _vector_time(vector, "updated_at", vector.updated_at, item.updated_at),
    )


def vector_rows(block: Block, *, half: bool, times: bool) -> Iterator[bytes]:
    """Yield the vectors of a block as rows of a binary COPY, as `binary_row` and `vector_cells` do of one.

    Without `times` the last two columns are left out.
    """
    for place, vectors in block.vectors.items():
        names = b"".join(_sized(encode(name)) for name in (block.prefixes[place], block.keys[place]))
        for vector in vectors:
            if vector.problems or vector.embedding is None:
                cells = vector_cells(block.item(place), vector, half=half)
                yield binary_row(cells if times else cells[:4])
                continue
            moments = (
                (vector.created_at or block.created_at[place], vector.updated_at or block.updated_at[place])
                if times
                else ()
            )
            yield b"".join(
                (
                    b"\0\6" if times else b"\0\4",
                    names,
                    _sized(encode(vector.field)),
                    _sized(_embedding(vector.embedding, half=half)),
                    *[_EIGHT + INT8.pack(microseconds(moment)) for moment in moments],
                )
            )


def _sized(cell: bytes) -> bytes:
    return len(cell).to_bytes(4, "big") + cell


def binary_row(cells: Sequence[bytes | None]) -> bytes:
    """Return a row of a binary COPY."""
    parts = [pack("!h", len(cells))]
    for cell in cells:
        parts += (b"\xff\xff\xff\xff",) if cell is None else (len(cell).to_bytes(4, "big"), cell)
    return b"".join(parts)


def microseconds(instant: Instant) -> int:
    """Return an instant as PostgreSQL counts: in microseconds from the year 2000."""
    passed = datetime.fromisoformat(instant) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def odd_microseconds(text: str) -> int | None:
    """Read a timestamp that PostgreSQL can hold and an instant cannot: infinite, BC, or past the year 9999.

    The spelling is PostgreSQL's own, in UTC. None for whatever else.
    """
    if text in _INFINITY:
        return _INFINITY[text]
    match = _ODD.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if match[8]:
        year = 1 - year
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTHS[month - 1] or (month == 2 and day == 29 and not leap):
        return None
    if hour > 23 or minute > 59 or second > 59 or 0 < year < 10_000:
        return None
    fraction = int(f"{match[7] or '':0<6}")
    time = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
    moment = (_day(year, month, day) - _EPOCH_DAY) * _DAY + time
    return moment if _FIRST <= moment < _END else None


def halves(embedding: bytes) -> bytes | None:
    """Return little-endian float32 as big-endian float16; None where that would round, or is not finite."""
    dims = len(embedding) // 4
    numbers = unpack(f"<{dims}f", embedding)
    try:
        short = pack(f"!{dims}e", *numbers)
    except (OverflowError, error):
        return None
    return short if unpack(f"!{dims}e", short) == numbers and all(map(math.isfinite, numbers)) else None


def odd_text(raw: bytes | str | float | None) -> str | None:
    """Return what was read as a timestamp and is no instant, where PostgreSQL can hold it all the same."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return text if isinstance(text, str) and odd_microseconds(text) is not None else None


def _times(item: Item) -> tuple[str | None, str | None, str | None]:
    created, updated, expires = item.created_at, item.updated_at, item.expires_at
    if item.problems:
        created = created or _odd(item.problems, "created_at")
        updated = updated or _odd(item.problems, "updated_at")
        expires = expires or _odd(item.problems, "expires_at")
    return created, updated, expires


def _odd(problems: Sequence[Problem], part: str) -> str | None:
    return next((odd_text(problem.raw) for problem in problems if problem.part == part), None)


def _vector_time(vector: Vector, part: str, own: Instant | None, item: Instant | None) -> bytes | None:
    for problem in vector.problems if own is None else ():
        if problem.part == part:
            text = odd_text(problem.raw)
            moment = None if text is None else odd_microseconds(text)
            return None if moment is None else INT8.pack(moment)
    instant = own or item
    return None if instant is None else INT8.pack(microseconds(instant))


def _embedding(embedding: bytes, *, half: bool) -> bytes:
    numbers = halves(embedding) if half else _swapped(embedding)
    if numbers is None:
        raise ValueError("a halfvec would round this embedding")
    return pack("!HH", len(embedding) // 4, 0) + numbers


def _swapped(embedding: bytes) -> bytes:
    numbers = array("I", embedding)
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _day(year: int, month: int, day: int) -> int:
    """Count the days from 0000-03-01 in the Gregorian calendar, which `datetime` ends at both sides."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1
