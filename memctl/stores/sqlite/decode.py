"""What SQLite columns hold, and what it means: every quirk of its spellings is here.

Rows are read with `text_factory = bytes`, because one row of invalid UTF-8 would otherwise abort a whole
SELECT; text and BLOBs then arrive alike, numbers as numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import Any

from memctl.instants import from_datetime
from memctl.model import Instant, Item, Problem, Vector, decode

Cell = bytes | int | float | None

_PLAIN = re.compile(rb"(\d{4}-\d\d-\d\d) ((?:[01]\d|2[0-3]):\d\d:\d\d)(\.\d{1,6})?(?:\+00:00)?")
"""The spellings that are right: `2026-11-30 07:42:43` (CURRENT_TIMESTAMP, and a refreshed expiry), and
`2026-11-30 07:42:43.843759+00:00` (an expiry as `langgraph-checkpoint-sqlite 3.1.2` puts it)."""
_SURE = re.compile(
    rb"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8]) (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{6}\+00:00)?"
)
"""What is spelled right and stands in every year's calendar: nearly every timestamp, and quick to take."""
_SURE_COLUMN = re.compile(
    rb"(?:(?!0000)\d{4}-"
    rb"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    rb" (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\n)*"
)
"""A column of times in whole seconds, as CURRENT_TIMESTAMP writes them, each with a line feed."""
ROWS_AT_ONCE = 250
_SECONDS_BELOW = 1e11
_NOTHING = (None, None)


def instant_of(cell: Cell) -> tuple[Instant | None, str | None]:
    """Return the instant that a timestamp column means, and what is odd about its spelling, if anything.

    A number below 1e11 is read as seconds since 1970, above as milliseconds, and is always odd: LangGraph
    compares text. Null gives neither.
    """
    if cell is None:
        return None, None
    if isinstance(cell, bytes):
        if not _SURE.fullmatch(cell) or cell[:4] == b"0000":
            return _instant_of_text(cell)
        text = cell.decode()
        return f"{text[:10]}T{text[11:19]}{text[19:26] or '.000000'}Z", None
    return _instant_of_number(cell)


def ttl_of(cell: Cell) -> tuple[float | None, str | None]:
    """Return a TTL in minutes, and what is wrong with it, if anything."""
    if cell is None or (isinstance(cell, int | float) and math.isfinite(cell)):
        return cell, None
    return None, "no number"


def text_of(cell: Cell) -> tuple[str, str | None]:
    """Return a text column as it is carried (`model.decode`), and what is wrong with it, if anything."""
    if not isinstance(cell, bytes):
        return str(cell), f"a {type(cell).__name__}, not text"
    try:
        return cell.decode(), None
    except UnicodeDecodeError:
        return decode(cell), "invalid UTF-8"


prefix_of = lru_cache(maxsize=1 << 12, typed=True)(text_of)


def items_of(
    rows: Sequence[tuple[Any, ...]], vectors: Mapping[tuple[Any, ...], tuple[Vector, ...]]
) -> Iterator[Item]:
    """Make the items of a page of rows as `item_of` does, `vectors` by their `owner_of`.

    Column by column, where nothing in them is odd: that takes a third of the time.
    """
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        try:
            yield from _common_items(some, vectors)
        except (Odd, TypeError, UnicodeDecodeError):
            yield from (item_of(row, vectors.get(owner_of(row), ())) for row in some)


def owner_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the name in a row of an item or a vector: the octets, and which of them are BLOBs."""
    return row[0], row[1], are_blobs(row)


def are_blobs(row: tuple[Any, ...]) -> int:
    """Tell whether prefix or key is a BLOB in a row of an item or a vector, and which of them."""
    bits: int = row[-1]
    return bits & _NAME_BITS


class Odd(Exception):
    """A column holds something that takes a closer look."""


def _common_items(
    rows: Sequence[tuple[Any, ...]], vectors: Mapping[tuple[Any, ...], tuple[Vector, ...]]
) -> Iterable[Item]:
    prefixes, keys, values, sizes, created, updated, expires, minutes, blobs = zip(*rows, strict=True)
    if any(blobs):
        raise Odd
    beside: Iterable[tuple[Vector, ...]] = repeat(())
    if vectors:
        beside = [vectors.get(owner, ()) for owner in zip(prefixes, keys, blobs, strict=True)]
    return map(
        Item,
        _texts(prefixes),
        _texts(keys),
        values,
        sizes if values[0] is None else list(map(len, values)),
        _instants(created),
        _instants(updated),
        [None if cell is None else sure(*instant_of(cell)) for cell in expires],
        [None if cell is None else sure(*ttl_of(cell)) for cell in minutes],
        beside,
        repeat(()),
    )


def _texts(cells: tuple[Any, ...]) -> list[str]:
    texts = b"\0".join(cells).decode().split("\0")
    if len(texts) != len(cells):  # a NUL in one of them
        raise Odd
    return texts


def _instants(cells: tuple[Any, ...]) -> list[Instant]:
    instants = instants_of(b"\n".join(cells)).decode().split("\n")
    if len(instants) != len(cells):  # a line feed in one of them
        raise Odd
    return instants


def instants_of(column: bytes) -> bytes:
    """Return a column of instants for one of timestamps, both joined by line feeds; raise Odd as it may be."""
    if _SURE_COLUMN.fullmatch(column + b"\n"):
        return column.replace(b" ", b"T").replace(b"\n", b".000000Z\n") + b".000000Z"
    return b"\n".join([sure(*instant_of(cell)).encode() for cell in column.split(b"\n")])


def sure(meaning: Any, fault: str | None) -> Any:
    """Return what a cell means; raise Odd where something is wrong with it."""
    if fault:
        raise Odd
    return meaning


def item_of(row: tuple[Any, ...], vectors: tuple[Vector, ...]) -> Item:
    """Make an item of a row `(prefix, key, value, size, created_at, updated_at, expires_at, ttl_minutes, blobs)`.

    `blobs` is the sum of `_BLOB_BITS` of the columns that hold a BLOB where text belongs.
    """
    prefix_cell, key_cell, value, size, created, updated, expires, ttl, blobs = row
    prefix, prefix_fault = prefix_of(prefix_cell)
    key, key_fault = text_of(key_cell)
    created_at, created_fault = instant_of(created)
    # equal for all that was written once; a cache would cost more than it saves
    updated_at, updated_fault = (created_at, created_fault) if updated == created else instant_of(updated)
    expires_at, expires_fault = instant_of(expires)
    minutes, ttl_fault = ttl_of(ttl)
    problems: tuple[Problem, ...] = ()
    if (
        blobs
        or prefix_fault
        or key_fault
        or created_fault
        or updated_fault
        or expires_fault
        or ttl_fault
        or created is None
        or updated is None
    ):
        problems = _problems(
            row,
            namespace=prefix_fault,
            key=key_fault,
            created_at=created_fault or ("null" if created is None else None),
            updated_at=updated_fault or ("null" if updated is None else None),
            expires_at=expires_fault,
            ttl_minutes=ttl_fault,
        )
    if value is not None:
        size = len(value)
    return Item(prefix, key, value, size, created_at, updated_at, expires_at, minutes, vectors, problems)


def vector_of(row: tuple[Any, ...]) -> Vector:
    """Make a vector of a row `(prefix, key, field_name, embedding, octets, created_at, updated_at, blobs)`.

    `octets` is -1 where the embedding is something else than a BLOB. `blobs` is the sum of `_BLOB_BITS` of the
    name's columns and the times that hold BLOBs.
    """
    _, _, name, embedding, octets, created, updated, blobs = row
    created_at, created_fault = instant_of(created)
    updated_at, updated_fault = (created_at, created_fault) if updated == created else instant_of(updated)
    problems: tuple[Problem, ...] = ()
    if octets == -1:
        raw = decode(embedding) if isinstance(embedding, bytes) else embedding
        problems = (Problem("embedding", "no BLOB", raw),)
        embedding = octets = None
    elif octets is None or octets % 4:
        reason = "null" if octets is None else f"{octets} octets are no whole number of float32"
        problems = (Problem("embedding", reason, embedding),)
    if blobs & ~_NAME_BITS or created_fault or updated_fault or created is None or updated is None:
        created_fault = created_fault or ("null" if created is None else None)
        updated_fault = updated_fault or ("null" if updated is None else None)
        problems += (
            *_problem("created_at", created_fault, created, blobs),
            *_problem("updated_at", updated_fault, updated, blobs),
        )
    dims = (octets or 0) // 4
    return Vector(text_of(name)[0], dims, embedding, created_at, updated_at, problems)


_COLUMNS = {
    "namespace": 0,
    "key": 1,
    "created_at": 4,
    "updated_at": 5,
    "expires_at": 6,
    "ttl_minutes": 7,
}
_BLOB_BITS = {
    "namespace": 1,
    "key": 2,
    "created_at": 4,
    "updated_at": 8,
    "expires_at": 16,
    "ttl_minutes": 32,
}

_NAME_BITS = _BLOB_BITS["namespace"] | _BLOB_BITS["key"]


def _problems(row: tuple[Any, ...], **faults: str | None) -> tuple[Problem, ...]:
    """Name what is odd of an item."""
    found = (_problem(part, fault, row[_COLUMNS[part]], row[-1]) for part, fault in faults.items())
    return tuple(chain.from_iterable(found))


def _problem(part: str, fault: str | None, raw: Cell, blobs: int) -> tuple[Problem, ...]:
    """Name what is odd of a column, if anything; `raw` is then text as `str`, a BLOB as `bytes`."""
    is_blob = bool(blobs & _BLOB_BITS[part])
    if not fault and not is_blob:
        return ()
    text = decode(raw) if isinstance(raw, bytes) and not is_blob else raw
    return (Problem(part, fault or "stored as a BLOB, not as text", text),)


def _instant_of_text(text: bytes) -> tuple[Instant | None, str | None]:
    try:
        spelled = text.decode("ascii").strip()
        moment = datetime.fromisoformat(spelled)
        if plain := _PLAIN.fullmatch(text):
            # a million rows may have a million times, and these parts need no arithmetic
            fraction = plain[3].decode() if plain[3] else "."
            return f"{spelled[:10]}T{spelled[11:19]}{fraction:0<7}Z", None
        instant = from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None, "no time"
    return instant, "spelled as LangGraph does not spell it"


def _instant_of_number(cell: float) -> tuple[Instant | None, str | None]:
    seconds = cell if abs(cell) < _SECONDS_BELOW else cell / 1000
    unit = "seconds" if abs(cell) < _SECONDS_BELOW else "milliseconds"
    try:
        return from_datetime(datetime.fromtimestamp(seconds, UTC)), f"a number, read as {unit} since 1970"
    except (OverflowError, ValueError, OSError):
        return None, "a number that is no time"
