"""What every store holds, in one form for all of them.

Per-row types are `msgspec.Struct`s, which cost a tenth of a frozen dataclass to make; a million rows pass
through them. Text that is no valid UTF-8 is carried in `str` with surrogate escapes (PEP 383), so it can be
bound, compared and written back to the byte; `rendering` replaces it only when it is shown.
"""

from __future__ import annotations

import enum
from array import array
from dataclasses import dataclass
from sys import byteorder

import msgspec

Instant = str
"""ISO 8601 in UTC with microseconds and `Z`, always 27 characters, so that text order is time order."""


class Problem(msgspec.Struct, frozen=True, gc=False):
    """One part of an item that could not be decoded, or only by guessing.

    `part` is a column (`value`, `key`, `namespace`, `created_at`, `updated_at`, `expires_at`, `ttl_minutes`)
    or `vectors`, of a vector `embedding`, `created_at` or `updated_at`; `raw` is what the database holds there,
    where it is not null: text as `str`, a BLOB as `bytes`.
    """

    part: str
    reason: str
    raw: bytes | str | int | float | None = None


class Vector(msgspec.Struct, frozen=True, gc=False):
    """One embedding of an item, for the text that the index found under the path `field`.

    `embedding` is little-endian float32, None when only the shape was asked for or the column is null.
    Stores without timestamps on vectors (CockroachDB) have None there.
    """

    field: str
    dims: int
    embedding: bytes | None
    created_at: Instant | None
    updated_at: Instant | None
    problems: tuple[Problem, ...] = ()


class Item(msgspec.Struct, frozen=True, gc=False):
    """One memory.

    `prefix` is the namespace as stored, its labels joined with dots. `value` is the JSON text as stored, not
    decoded and not validated; None when the column is null or values were not asked for. `size` is its
    length in octets. `problems` holds what decoding the row met; the value is only judged by
    `values.inspect`, because most commands carry it without looking.
    """

    prefix: str
    key: str
    value: bytes | None
    size: int
    created_at: Instant | None
    updated_at: Instant | None
    expires_at: Instant | None
    ttl_minutes: float | None
    vectors: tuple[Vector, ...] = ()
    problems: tuple[Problem, ...] = ()


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """What one namespace holds, its descendants not included.

    `vectors` counts the rows whose item exists, `octets` the values' JSON text, `newest` is the latest
    `updated_at` that could be read.
    """

    prefix: str
    items: int
    vectors: int
    octets: int
    newest: Instant | None


class Detail(enum.Enum):
    """How much of an item's vectors a scan brings along."""

    NONE = 0
    SHAPE = 1
    """Fields, dims and timestamps; no embedding is read."""
    FULL = 2


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the byte order of (prefix, key); a scan resumes after it."""

    prefix: str
    key: str

    @property
    def order(self) -> tuple[bytes, bytes]:
        """The sort key: the bytes as stored, which no locale and no surrogate escape reorders."""
        return encode(self.prefix), encode(self.key)


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a store that a read covers: all of it, one namespace, or one with its descendants."""

    prefix: str | None = None
    """None is the whole store; the empty text is the namespace with one empty label."""
    descend: bool = True


EVERYTHING = Scope()


def encode(text: str) -> bytes:
    """Return stored text as the bytes that the database holds."""
    return text.encode("utf-8", "surrogateescape")


def decode(octets: bytes) -> str:
    """Return stored bytes as text; invalid UTF-8 becomes surrogate escapes, see `is_clean`."""
    return octets.decode("utf-8", "surrogateescape")


def blob_names(item: Item | Position) -> tuple[bool, bool]:
    """Tell whether prefix and key are BLOBs, as only SQLite can have them: other names than the same octets as text."""
    if isinstance(item, Position) or not item.problems:
        return False, False
    blobs = {problem.part for problem in item.problems if isinstance(problem.raw, bytes)}
    return "namespace" in blobs, "key" in blobs


def order_of(item: Item | Position) -> tuple[bool, bytes, bool, bytes]:
    """An item's place in the order of (prefix, key): by octets, what is a BLOB behind all that is text."""
    if isinstance(item, Position) or not item.problems:
        return False, encode(item.prefix), False, encode(item.key)
    prefix, key = blob_names(item)
    return prefix, encode(item.prefix), key, encode(item.key)


def is_clean(text: str) -> bool:
    """Tell whether stored text was valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """Return stored text for showing: each invalid UTF-8 sequence as U+FFFD."""
    return text if is_clean(text) else encode(text).decode("utf-8", "replace")


def floats(embedding: bytes) -> array[float]:
    """Return little-endian float32 octets as numbers, without what is short of a whole one at the end."""
    numbers = array("f")
    numbers.frombytes(embedding[: len(embedding) // 4 * 4])
    if byteorder == "big":
        numbers.byteswap()
    return numbers
