"""What PostgreSQL can hold of an item, found without writing.

Most of it is plain to see. Where the server's own limits decide (numbers, depth, the length of an index row)
it is asked, through `Trial`, and only about items that come near them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from memctl.blocks import Block
from memctl.model import Item, Problem, Vector, blob_names, encode, is_clean
from memctl.store import Setup
from memctl.stores.postgres.encode import halves, odd_text
from memctl.stores.postgres.layout import Catalog, Layout
from memctl.values import fault_of

INDEXED_OCTETS = 2_600
"""Names up to this length in total fit into an index row (2,704 octets, compressed) whatever they are."""
WIDEST = 16_000
"""Dims that a column holds at most where it declares none."""

NO_TEXT = "a NUL or invalid UTF-8, which text cannot hold"
NOT_ENCODABLE = "a character that the database's encoding lacks"
BLOB = "a BLOB, and names are text here"
TOO_LONG = "too long for the index"
NUL = r"\u0000, which jsonb cannot hold"
SURROGATE = "an escaped lone surrogate, which jsonb cannot hold"
CONSTANT = "NaN or Infinity, which is no JSON"
NUMBER = "a number past numeric, which jsonb cannot hold"
DEPTH = "nested too deeply for jsonb"
SIZE = "too large for jsonb"
NOT_JSON = "no valid JSON"
NO_COLUMN = "the store has no TTL columns"
FRACTION = "not a whole number of minutes, which the column would round"
RANGE = "minutes past what the column holds"
NO_NUMBER = "no number"
NO_TIME = "no point in time"
NO_VECTORS = "the store has no vector tables"
NO_EMBEDDING = "an embedding that is text or a number, which pgvector cannot hold"
NO_FLOATS = "octets that are no whole number of float32"
NOT_FINITE = "NaN or infinity, which pgvector cannot hold"
ROUNDED = "halfvec would round it"
NO_DIMS = "dims that pgvector cannot hold"
TWICE = "two vectors of one field"

_DIGITS = bytes.maketrans(b"123456789+-Eu\\", b"00000000000ee0")
"""Digits and signs become 0, so that one short search finds exponents of four digits, and NULs (`\\u0000`)."""
_LONG_EXPONENT = b"0e0000"
_SUSPECT = re.compile(rb"\\u0000|[0-9][eE][-+]?[0-9]{4,}(?=[\],}\s]|\Z)")
_LONG_VALUE = 8_000
"""Numbers of fewer digits, with exponents of up to three, are always held: 131,072 digits before the point
and 16,383 after it."""
_NUMBER = re.compile(rb"(?<![^:\[,\s])-?[0-9.]+(?:[eE][-+]?[0-9]+)?(?![^\],}\s])")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_LARGE = 64 * 1024 * 1024
_SHORT = INDEXED_OCTETS // 4
_INT4 = range(-(2**31), 2**31)
_TOPS = (0x7F, 0xFF)
"""The highest octet of every float32 that is not finite, and of some that are."""
_TIMES = ("created_at", "updated_at", "expires_at")


def is_text(text: str) -> bool:
    """Tell whether text is what PostgreSQL takes for it: valid UTF-8 without NUL."""
    return "\0" not in text and is_clean(text)


class Trial(Protocol):
    """The server's own judgement; nothing of it stays there."""

    def value(self, value: bytes) -> str | None:
        """Return why jsonb cannot hold a value, or None."""
        ...

    def fits(self, prefix: str, key: str, fields: Sequence[str]) -> bool:
        """Tell whether the indexes hold these names."""
        ...


@dataclass(frozen=True, slots=True)
class Holding:
    """What the tables offer: their columns, and the type of embeddings (None: no vectors)."""

    expiry: bool = True
    vector_type: str | None = None
    dims: int | None = None
    encoding: str = "UTF8"
    """The database's, as PostgreSQL names it."""
    holds_text: Callable[[str], bool] = is_text
    """Tells whether a text column holds this."""
    whole_minutes: bool = True
    """Whether `ttl_minutes` is an integer."""

    @classmethod
    def of_setup(cls, setup: Setup, *, whole_minutes: bool = True) -> Holding:
        """Return what tables will offer that are yet to be made."""
        kind = setup.vector_type if setup.dims else None
        return cls(vector_type=kind, dims=setup.dims, whole_minutes=whole_minutes)

    @classmethod
    def of_store(cls, session: Catalog, layout: Layout) -> Holding:
        """Return what a store offers."""
        kind = layout.embedding.type if layout.embedding else None
        expiry = {"expires_at", "ttl_minutes"} <= layout.items.columns.keys()
        whole = expiry and layout.items.columns["ttl_minutes"].type != "numeric"
        return cls(expiry, kind, layout.dims, layout.encoding, session.can_hold, whole)


class Judge:
    """Finds what of an item cannot be held. Without a `trial` what only the server knows counts as held."""

    def __init__(self, holding: Holding, trial: Trial | None = None) -> None:
        self._holding = holding
        self._trial = trial
        self._prefix: str | None = None
        self._other_dims = f"not of the column's {holding.dims} dims"
        self._is_utf8 = holding.encoding == "UTF8"

    def faults(self, item: Item) -> tuple[Problem, ...]:
        """Return what cannot be held: a part and a reason each, the raw value left out."""
        found: tuple[Problem, ...] = ()
        prefix, key, value = item.prefix, item.key, item.value
        if prefix != self._prefix:
            if reason := self._text_fault(prefix):
                found += (Problem("namespace", reason),)
            else:
                self._prefix = prefix
        if (not key.isascii() or "\0" in key) and (reason := self._text_fault(key)):
            found += (Problem("key", reason),)
        if (
            value is None
            or len(value) >= _LONG_VALUE
            or _is_suspect(value)
            or not self._is_utf8
            or fault_of(value) is not None
        ) and (reason := self._value_fault(value)):
            found += (Problem("value", reason),)
        if item.expires_at is not None and not self._holding.expiry:
            found += (Problem("expires_at", NO_COLUMN),)
        if item.ttl_minutes is not None and (reason := self._ttl_fault(item.ttl_minutes)):
            found += (Problem("ttl_minutes", reason),)
        if item.problems:
            found += tuple(_odd_cells(item))
        if item.vectors:
            found += tuple(Problem("vectors", reason) for reason in self._vector_faults(item.vectors))
        if not found and self._trial is not None:
            fields = [len(vector.field) for vector in item.vectors] if item.vectors else ()
            length = len(prefix) + len(key) + max(fields, default=0)
            if length > _SHORT:
                found = self._too_long(item, self._trial)
        return found

    def holds(self, block: Block) -> bool:
        """Tell whether there is no fault in a block for certain; `faults` looks closer where there may be one."""
        names, holding = "".join((*block.prefixes, *block.keys)), self._holding
        fields = [len(vector.field) for vectors in block.vectors.values() for vector in vectors]
        longest = max(map(len, block.prefixes)) + max(map(len, block.keys)) + max(fields, default=0)
        return (
            self._is_utf8
            and names.isascii()
            and "\0" not in names
            and longest <= _SHORT
            and (holding.expiry or set(block.expires_at) == {None})
            and not any(ttl is not None and self._ttl_fault(ttl) for ttl in block.ttl_minutes)
            and not any(any(self._vector_faults(vectors)) for vectors in block.vectors.values())
            and max(map(len, block.values)) < _LONG_VALUE
            and not any(map(_is_suspect, block.values))
            and not any(map(fault_of, block.values))
        )

    def _text_fault(self, text: str) -> str | None:
        if self._holding.holds_text(text):
            return None
        return NOT_ENCODABLE if is_text(text) else NO_TEXT

    def _value_fault(self, value: bytes | None) -> str | None:
        """Look closely at a value."""
        fault = fault_of(value)
        if value is None:
            return "null"
        reason = fault.reason.partition(":")[0] if fault else ""
        if reason.startswith("nested"):
            return self._trial.value(value) if self._trial else None
        if fault and fault.is_json and "surrogate" in reason:
            return SURROGATE
        if fault and not fault.is_json:
            return CONSTANT if reason == NOT_JSON and _has_constant(value) else reason
        if b"\\u0000" in value and _NUL.search(value):
            return NUL
        is_foreign = not self._is_utf8 and (b"\\u" in value or not value.isascii())
        if is_foreign or len(value) >= _LARGE or any(map(_is_extreme, _NUMBER.finditer(value))):
            return self._trial.value(value) if self._trial else None
        return None

    def _ttl_fault(self, ttl: float) -> str | None:
        if not self._holding.expiry:
            return NO_COLUMN
        if not self._holding.whole_minutes:
            return None if math.isfinite(ttl) else NO_NUMBER
        if ttl % 1:  # true of NaN and infinity too
            return FRACTION
        return None if int(ttl) in _INT4 else RANGE

    def _vector_faults(self, vectors: tuple[Vector, ...]) -> Iterator[str]:
        """Yield each kind of fault once."""
        if self._holding.vector_type is None:
            yield NO_VECTORS
            return
        found = dict.fromkeys(filter(None, map(self._vector_fault, vectors)))
        if len(vectors) > 1 and len({vector.field for vector in vectors}) < len(vectors):
            found[TWICE] = None
        yield from found

    def _vector_fault(self, vector: Vector) -> str | None:
        if reason := self._text_fault(vector.field):
            return reason
        for problem in vector.problems:
            if problem.part in _TIMES and getattr(vector, problem.part) is None and _is_odd(problem):
                return NO_TIME
            if problem.part == "embedding" and vector.embedding is None and problem.raw is not None:
                return NO_EMBEDDING
        embedding = vector.embedding
        if embedding is None:
            return None
        if len(embedding) % 4:
            return NO_FLOATS
        dims = len(embedding) // 4
        if self._holding.dims is not None and dims != self._holding.dims:
            return self._other_dims
        if not 1 <= dims <= WIDEST:
            return NO_DIMS
        tops = embedding[3::4]
        if (_TOPS[0] in tops or _TOPS[1] in tops) and not _is_finite(embedding):
            return NOT_FINITE
        if self._holding.vector_type == "halfvec" and halves(embedding) is None:
            return ROUNDED
        return None

    def _too_long(self, item: Item, trial: Trial) -> tuple[Problem, ...]:
        """Try names on the server that come near the limit of an index row."""
        prefix, key = len(encode(item.prefix)), len(encode(item.key))
        if prefix + key > INDEXED_OCTETS and not trial.fits(item.prefix, item.key, ()):
            return (Problem("namespace" if prefix > key else "key", TOO_LONG),)
        room = INDEXED_OCTETS - prefix - key
        fields = [vector.field for vector in item.vectors if len(encode(vector.field)) > room]
        if fields and not trial.fits(item.prefix, item.key, fields):
            return (Problem("vectors", TOO_LONG),)
        return ()


def _odd_cells(item: Item) -> Iterator[Problem]:
    for part, is_blob in zip(("namespace", "key"), blob_names(item), strict=True):
        if is_blob:
            yield Problem(part, BLOB)
    for problem in item.problems:
        if problem.part in _TIMES and getattr(item, problem.part) is None and _is_odd(problem):
            yield Problem(problem.part, NO_TIME)
        elif problem.part == "ttl_minutes" and item.ttl_minutes is None and problem.raw is not None:
            yield Problem(problem.part, NO_NUMBER)


def _is_odd(problem: Problem) -> bool:
    return problem.raw is not None and odd_text(problem.raw) is None


def _is_suspect(value: bytes) -> bool:
    """Tell whether there may be an escaped NUL or a number that is past numeric, for all its few digits."""
    digits = value.translate(_DIGITS)
    place = digits.find(_LONG_EXPONENT)
    while place >= 0:
        if _SUSPECT.match(value, place):
            return True
        place = digits.find(_LONG_EXPONENT, place + 1)
    return False


def _is_extreme(number: re.Match[bytes]) -> bool:
    mantissa, _, exponent = number[0].lower().partition(b"e")
    return len(exponent.lstrip(b"+-0")) > 3 or len(mantissa) >= _LONG_VALUE


def _has_constant(value: bytes) -> bool:
    """Tell whether a text is JSON but for NaN and infinities, as Python's encoder writes them."""
    constants: list[str] = []
    try:
        json.loads(value, parse_constant=constants.append)
    except (ValueError, RecursionError):
        return False
    return bool(constants)


def _is_finite(embedding: bytes) -> bool:
    """Tell whether no exponent is all ones, whatever the sign."""
    return all(
        top & 0x7F != 0x7F or next_to_top < 0x80
        for top, next_to_top in zip(embedding[3::4], embedding[2::4], strict=True)
    )
