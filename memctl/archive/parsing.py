"""Lines as items: what an archive, bare JSON Lines and a JSON array say, value by value unread.

A line is decoded in one go by `msgspec`, which passes over the value; what it refuses is read again by
`members`.
"""

from __future__ import annotations

import json
import math
import re
import struct
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET

from memctl.archive.format import PARTS, Line, Run
from memctl.archive.members import members_of, read_slowly, shortened
from memctl.archive.rows import Cell, CommonRow, Fault, Row, VectorRow
from memctl.blocks import Block
from memctl.errors import UsageError
from memctl.instants import from_datetime
from memctl.model import Instant, Item, Problem, Vector, decode
from memctl.namespaces import parse_exact

_DECODE = msgspec.json.Decoder(Row).decode
_DECODE_COMMON = msgspec.json.Decoder(CommonRow).decode
_INSTANT = (
    r"(?!0000)\d{4}-"
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z"
)
_SURE = re.compile(_INSTANT, re.ASCII).fullmatch
"""An instant of the model that stands in every year's calendar."""
_ALL_SURE = re.compile(rf"(?:{_INSTANT}\n)*", re.ASCII).fullmatch
_ONCE = (b'"namespace"', b'"key"', b'"value"', b'"expires_at"', b'"vectors"')
_LARGEST_FLOAT32 = 3.4028235677973366e38
"""Anything from here on rounds to infinity."""

_PART_SETS = [
    frozenset(part for place, part in enumerate(PARTS) if mask >> place & 1)
    for mask in range(1 << len(PARTS))
]
_NOTHING: frozenset[str] = frozenset()
_EVERY_PART = frozenset(PARTS)
_ALL_BUT_VECTORS = _EVERY_PART - {"vectors"}


def parse(number: int, line: bytes, *, bare: bool) -> Line:
    """Read one line without its line break. `bare`: it was not written as an archive's."""
    try:
        if not bare and (found := _common(number, line)):
            return found
        try:
            row = _DECODE(line)
            if not line.isascii():
                line.decode()
            if bare and any(line.count(name) > 1 for name in _ONCE):
                members_of(line)  # of a name that stands there twice, the decoder has taken the last
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            row = read_slowly(line)
        item, mask = _item_of(row, bare)
    except Fault as fault:
        return Line(number, None, str(fault), _NOTHING, False, line)
    return Line(number, item, None, _PART_SETS[mask], row.vectors_only, line)


def run_of(number: int, lines: Sequence[bytes]) -> Run | None:
    """Read lines of an archive without their line breaks, the first being line `number`, by column.

    None where one of them takes a closer look, by `parse`, or where they do not all speak of the same parts.
    """
    try:
        rows = list(map(_DECODE_COMMON, lines))
        for line in lines:
            if not line.isascii():
                line.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    vectors = {place: _common_vectors(row) for place, row in enumerate(rows) if row.vectors}
    without = {row.vectors is UNSET for row in rows}
    labels = [row.namespace for row in rows]
    created = tuple([row.created_at for row in rows])
    updated = tuple([row.updated_at for row in rows])
    expires = tuple([row.expires_at for row in rows])
    minutes = tuple([row.ttl_minutes for row in rows])
    if (
        len(without) > 1
        or not all(vectors.values())
        or not all(labels)
        or not _are_sure(created)
        or not (updated == created or _are_sure(updated))
        or not _are_sure([each for each in expires if each is not None])
        or not all(math.isfinite(each) for each in minutes if each is not None)
    ):
        return None
    names = tuple(map(".".join, labels)), tuple([row.key for row in rows])
    values = tuple([bytes(row.value) for row in rows])
    block = Block(*names, values, created, updated, expires, minutes, vectors)
    return Run(number, block, _ALL_BUT_VECTORS if without.pop() else _EVERY_PART, lines)


def _are_sure(instants: Sequence[str]) -> bool:
    column = "\n".join((*instants, ""))
    return column.count("\n") == len(instants) and bool(_ALL_SURE(column))


def _common(number: int, line: bytes) -> Line | None:
    """Read a line as nearly all of an archive are, in half the time; None for any other."""
    try:
        row = _DECODE_COMMON(line)
        if not line.isascii():
            line.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    created, updated, expires, minutes = row.created_at, row.updated_at, row.expires_at, row.ttl_minutes
    is_sure = (
        _SURE(created) and (updated == created or _SURE(updated)) and (expires is None or _SURE(expires))
    )
    if not is_sure or not row.namespace or not (minutes is None or math.isfinite(minutes)):
        return None
    value = bytes(row.value)
    vectors: tuple[Vector, ...] = ()
    parts = _EVERY_PART
    if row.vectors is UNSET:
        parts = _ALL_BUT_VECTORS
    elif row.vectors and not (vectors := _common_vectors(row)):
        return None
    prefix = ".".join(row.namespace)
    item = Item(prefix, row.key, value, len(value), created, updated, expires, minutes, vectors)
    return Line(number, item, None, parts, False, line)


def _item_of(row: Row, bare: bool) -> tuple[Item, int]:
    """Make the item of a line, and the bits of the parts that it speaks of."""
    mask = 0
    value: bytes | None = None
    if row.value is not UNSET:
        value = bytes(row.value)
        mask = 1
    elif row.value_base64 is not UNSET:
        value = None if row.value_base64 is None else _octets(row.value_base64, "value_base64")
        mask = 1
    elif not row.vectors_only:
        raise Fault("`value` is missing")
    if row.problems and (unlike := _unlike(row.problems, value)):
        raise Fault(
            f"it was shown by another command, which could not decode its {unlike}: export an archive instead"
        )
    created = row.created_at
    if created is UNSET or (bare and created is None and not row.created_at_raw):  # null says nothing there
        created = None
    else:
        mask |= 2
        if created is not None and not _SURE(created):
            created = _instant(created, "created_at")
    updated = row.updated_at
    if updated is UNSET or (bare and updated is None and not row.updated_at_raw):
        updated = None
    else:
        mask |= 4
        if updated is not None and updated != created and not _SURE(updated):
            updated = _instant(updated, "updated_at")
    expires = row.expires_at
    if expires is UNSET:
        expires = None
    else:
        mask |= 8
        if expires is not None and not _SURE(expires):
            expires = _instant(expires, "expires_at")
    minutes = row.ttl_minutes
    if minutes is UNSET:
        minutes = None
    else:
        mask |= 16
        if minutes is not None and not math.isfinite(minutes):
            raise Fault("`ttl_minutes` is past what a float can hold")
    vectors: tuple[Vector, ...] = ()
    if row.vectors is not UNSET:
        mask |= 32
        if row.vectors:
            vectors = _vectors_of(row.vectors, bare=bare)
    prefix, key, problems = _names_of(row)
    problems += _problems_of(row)
    size = 0 if value is None else len(value)
    return Item(prefix, key, value, size, created, updated, expires, minutes, vectors, problems), mask


def _unlike(problems: list[Any], value: bytes | None) -> str:
    """Name the parts of a row, as other commands show one, that are stored otherwise than they stand there.

    A value is shown as it is stored, or else as null.
    """
    parts = dict.fromkeys(str(each.get("part", "row")) for each in problems if isinstance(each, dict))
    if value != b"null":
        parts.pop("value", None)
    return ", ".join(parts)


def _names_of(row: Row) -> tuple[str, str, tuple[Problem, ...]]:
    """Return prefix and key as they are stored."""
    key = row.key
    if isinstance(row.namespace, str):
        try:
            prefix = parse_exact(row.namespace)
        except UsageError as error:
            raise Fault(f"`namespace`: {error.message}") from None
    elif row.namespace:
        prefix = ".".join(row.namespace)
        if prefix.count(".") >= len(row.namespace):
            raise Fault("`namespace`: a label holds a dot, which would make two of it")
    else:
        raise Fault("`namespace` is empty: it has to have one label at least")
    if not (row.key_base64 or row.prefix_base64 or row.key_raw or row.prefix_raw):
        return prefix, key, ()
    problems: list[Problem] = []
    if row.prefix_base64:
        prefix = decode(_octets(row.prefix_base64, "prefix_base64"))
        problems.append(Problem("namespace", "invalid UTF-8", prefix))
    if row.prefix_raw:
        prefix = _stored_name(row.prefix_raw, "namespace", problems)
    if row.key_base64:
        key = decode(_octets(row.key_base64, "key_base64"))
        problems.append(Problem("key", "invalid UTF-8", key))
    if row.key_raw:
        key = _stored_name(row.key_raw, "key", problems)
    return prefix, key, tuple(problems)


def _stored_name(cell: Cell, part: str, problems: list[Problem]) -> str:
    raw = _raw_of(cell, part)
    if not isinstance(raw, bytes):
        raise Fault(f"`{part}` can be stored as text or as a blob, not as {cell.type}")
    problems.append(Problem(part, cell.reason, raw))
    return decode(raw)


def _problems_of(row: Row) -> tuple[Problem, ...]:
    """Return the odd cells; nearly every line has none."""
    if not (row.created_at_raw or row.updated_at_raw or row.expires_at_raw or row.ttl_minutes_raw):
        return ()
    cells = (
        ("created_at", row.created_at_raw),
        ("updated_at", row.updated_at_raw),
        ("expires_at", row.expires_at_raw),
        ("ttl_minutes", row.ttl_minutes_raw),
    )
    return tuple([Problem(part, cell.reason, _raw_of(cell, part)) for part, cell in cells if cell])


def _raw_of(cell: Cell, part: str) -> bytes | str | int | float:
    """Return what the database held: text as str, a BLOB as bytes."""
    match cell:
        case Cell(type="text" | "timestamptz", base64=str(coded)):
            return decode(_octets(coded, f"{part}_raw"))
        case Cell(type="text" | "timestamptz", value=str(text)):
            return text
        case Cell(type="blob", value=str(coded)):
            return _octets(coded, f"{part}_raw")
        case Cell(type="integer", value=int(whole)):
            return whole
        case Cell(type="real", value="inf" | "-inf" as text):
            return float(text)
        case Cell(type="real", value=int() | float() as real):
            return float(real)
    raise Fault(f"`{part}_raw` has a value that is no {cell.type}")


def _common_vectors(item: CommonRow) -> tuple[Vector, ...]:
    """Make a line's vectors; none where one of them takes a closer look."""
    vectors = []
    fields = set()
    sure = {item.created_at, item.updated_at}  # the item's own are looked at elsewhere
    for row in item.vectors or ():
        octets = row.embedding
        created = None if row.created_at is UNSET else row.created_at
        updated = None if row.updated_at is UNSET else row.updated_at
        if len(octets) % 4 or not all(
            each is None or each in sure or _SURE(each) for each in (created, updated)
        ):
            return ()
        fields.add(row.field)
        vectors.append(Vector(row.field, len(octets) // 4, octets, created, updated))
    return tuple(vectors) if len(fields) == len(vectors) else ()


def _vectors_of(rows: list[VectorRow], *, bare: bool) -> tuple[Vector, ...]:
    vectors = tuple([_vector_of(row, bare) for row in rows])
    if len(vectors) > 1 and len({vector.field for vector in vectors}) < len(vectors):
        raise Fault("two of `vectors` have the same `field`")
    return vectors


def _vector_of(row: VectorRow, bare: bool) -> Vector:
    embedding: bytes | None = None
    problems: tuple[Problem, ...] = ()
    if isinstance(row.embedding, str):
        embedding = _octets(row.embedding, "embedding")
        if len(embedding) % 4:
            reason = f"{len(embedding)} octets are no whole number of float32"
            if bare:
                raise Fault(f"`embedding`: {reason}")
            problems = (Problem("embedding", reason, embedding),)
    elif row.embedding is not None:
        for number in row.embedding:
            if not abs(number) < _LARGEST_FLOAT32:
                raise Fault(f"`embedding`: {number} is past what a float32 can hold")
        embedding = struct.pack(f"<{len(row.embedding)}f", *row.embedding)
    elif row.embedding_raw is None:
        problems = (Problem("embedding", "null"),)
    else:
        problems = (Problem("embedding", row.embedding_raw.reason, _raw_of(row.embedding_raw, "embedding")),)
    field = decode(_octets(row.field_base64, "field_base64")) if row.field_base64 else row.field
    times: dict[str, Instant | None] = {}
    for part, text, cell in (
        ("created_at", row.created_at, row.created_at_raw),
        ("updated_at", row.updated_at, row.updated_at_raw),
    ):
        if cell is not None:
            problems += (Problem(part, cell.reason, _raw_of(cell, part)),)
        elif text is None and not bare:  # where other commands show null, it may be for want of a column
            problems += (Problem(part, "null"),)
        times[part] = None
        if isinstance(text, str):
            times[part] = text if _SURE(text) else _instant(text, part)
    return Vector(
        field, len(embedding or b"") // 4, embedding, times["created_at"], times["updated_at"], problems
    )


def _instant(text: str, member: str) -> Instant:
    """Read an instant in any spelling of ISO 8601; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise Fault(f"`{member}` is no time: {shortened(json.dumps(text, ensure_ascii=False))}") from None


def _octets(coded: str, member: str) -> bytes:
    try:
        return b64decode(coded, validate=True)
    except ValueError:
        raise Fault(f"`{member}` is no base64: {shortened(json.dumps(coded, ensure_ascii=False))}") from None
