"""Reading what can be imported: archives, bare JSON Lines and JSON arrays, compressed or not.

Lines come one by one and in bounded memory, bad ones with what is wrong with them. An archive's hashes are
checked as its blocks end; what does not fit is raised there, after the lines that it concerns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

import msgspec
import orjson

from memctl.archive.arrays import elements_of
from memctl.archive.format import (
    BLOCK_LINES,
    VERSION,
    BadLine,
    Damage,
    Damaged,
    Header,
    Line,
    Totals,
    Unreadable,
)
from memctl.archive.parsing import parse
from memctl.archive.sources import CHUNK_OCTETS, CutOff, Read, Text, lines_of, open_source
from memctl.model import Item, encode, is_clean, shown
from memctl.sorting import sort

Kind = Literal["archive", "lines", "array"]


def read(stream: BinaryIO) -> Reader:
    """Tell what a stream holds by how it begins, and return what reads it.

    Raises Unreadable for what is neither an archive nor JSON, and for an archive of a later version.
    """
    start, source = open_source(stream)
    while not start.strip(b" \t\r\n"):
        chunk = source()
        if not chunk:
            raise Unreadable("the input is empty", code="empty")
        start += chunk
    if start.lstrip(b" \t\r\n").startswith(b"["):
        return Reader("array", None, start, source)
    while b"\n" not in start and len(start) < CHUNK_OCTETS and (chunk := source()):
        start += chunk
    header = _header_of(start.split(b"\n", 1)[0])
    return Reader("archive" if header else "lines", header, start, source)


class Reader:
    """An input that is read once, from its beginning to its end."""

    def __init__(self, kind: Kind, header: Header | None, start: bytes, source: Read) -> None:
        self.kind: Kind = kind
        self.header = header
        self._start = start
        self._source = source
        self._progress = _Count()

    @property
    def unit(self) -> str:
        """What `Line.number` counts: `line`, or `element` of a JSON array."""
        return "element" if self.kind == "array" else "line"

    @property
    def totals(self) -> Totals:
        """What has been read so far, lines with a fault not included."""
        return Totals(self._progress.items, self._progress.vectors, self._progress.octets)

    def __iter__(self) -> Iterator[Line]:
        """Yield every line that says something of an item. Raises Damaged where the archive is."""
        for event in self.events():
            if isinstance(event, Damage):
                raise Damaged(event)
            if isinstance(event, Line):
                yield event

    def events(self) -> Iterator[Line | Damage | Block]:
        """Yield the lines, and between them what is wrong with the archive and which blocks are right."""
        count = self._progress
        found = _Archive(self).run() if self.kind == "archive" else self._bare()
        for event in found:
            if isinstance(event, Line) and event.item is not None:
                count.items += not event.vectors_only
                count.vectors += len(event.item.vectors)
            yield event

    def _read(self) -> bytes:
        chunk = self._source()
        self._progress.octets += len(chunk)
        return chunk

    def _lines(self) -> Iterator[Text]:
        self._progress.octets = len(self._start)
        return lines_of(self._start, self._read)

    def _bare(self) -> Iterator[Line | Damage | Block]:
        number = 0
        try:
            if self.kind == "array":
                self._progress.octets = len(self._start)
                for element in elements_of(self._start, self._read):
                    number += 1
                    yield parse(number, element, bare=True)
                return
            for line, whole, _ in self._lines():
                number += 1
                if not whole:
                    yield _faulty(number, line, "too long to be an item: no line ends in sight")
                elif line.startswith((b'{"block":', b'{"end":true,')):
                    yield Damage("a line of an archive whose first line is missing", 1, number)
                elif text := line.strip(b" \t\r"):
                    yield parse(number, text, bare=True)
        except CutOff as error:
            yield Damage(str(error), number + 1, None)
        except Damaged as error:
            yield error.damage


def in_order(reader: Reader) -> Iterator[Item]:
    """Yield items in byte order of (prefix, key); what is no archive is sorted in temporary files.

    Raises BadLine for the first line that holds no item, or one that is there already; Damaged like `Reader`.
    Lines of vectors only are passed over.
    """
    lines: Iterator[Line] = iter(reader)
    if reader.kind != "archive":
        lines = sort(map(_sure(reader), lines), _place, size=lambda line: 2 * len(line.raw))
    last: Line | None = None
    for line in map(_sure(reader), lines):
        if line.vectors_only or line.item is None:
            continue
        if last is not None and last.item is not None and _place(line)[:2] == _place(last)[:2]:
            reason = f"the same namespace and key as in {reader.unit} {last.number:,}"
            raise BadLine(f"{reader.unit} {line.number:,}", reason)
        if reader.kind != "archive":
            last = line
        yield line.item


def _sure(reader: Reader) -> Callable[[Line], Line]:
    def check(line: Line) -> Line:
        if line.fault is not None:
            raise BadLine(f"{reader.unit} {line.number:,}", line.fault)
        return line

    return check


def _place(line: Line) -> tuple[bytes, bytes, int]:
    assert line.item is not None
    return encode(line.item.prefix), encode(line.item.key), line.number


@dataclass(frozen=True, slots=True)
class Block:
    """A block whose lines are as they were written."""

    number: int
    first: int
    last: int


@dataclass(slots=True)
class _Count:
    items: int = 0
    vectors: int = 0
    octets: int = 0


class _Archive:
    """An archive past its header: every line against its hashes, its order and its counts."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._count = reader._progress
        self._total = hashlib.sha256()
        self._block = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_octets = 0
        self._blocks = 0
        self._first = 2
        self._lines = 0
        self._last: Item | None = None
        self._faults = 0

    def run(self) -> Iterator[Line | Damage | Block]:
        """Yield lines, damages and blocks in the order in which they come."""
        number = 0
        try:
            lines = self._reader._lines()
            header = next(lines).octets
            number = 1
            # Where something turned line feeds into CRLF, the octets before that are those to hash.
            is_crlf = header.endswith(b"\r")
            self._take(header[:-1] if is_crlf else header)
            self._hash(self._total)
            for line, whole, ended in lines:
                number += 1
                text = line[:-1] if is_crlf and line.endswith(b"\r") else line
                if text.startswith(b'{"block":'):
                    yield from self._end_block(number, text)
                elif text.startswith(b'{"end":'):
                    yield from self._end(number, text)
                    for _ in lines:
                        yield Damage("something follows the end of the archive", number + 1, None)
                        return
                    return
                else:
                    self._lines += 1
                    self._take(text)
                    if ended:
                        found = self._parsed(number, text, whole)
                    else:
                        found = _faulty(number, text, "cut off: the file ends within this line")
                    self._faults += found.fault is not None
                    yield found
        except CutOff as error:
            yield Damage(str(error), number + 1, None)
            return
        yield Damage("the archive is cut off: it has no end line", number + 1, None)

    def _take(self, text: bytes) -> None:
        """Remember octets for the hashes, which are faster over many of them."""
        self._pending.append(text)
        self._pending_octets += len(text)
        if self._pending_octets > CHUNK_OCTETS:
            self._hash(self._total, self._block)

    def _hash(self, *hashes: Any) -> None:
        if self._pending:
            octets = b"\n".join(self._pending) + b"\n"
            for each in hashes:
                each.update(octets)
            self._pending.clear()
            self._pending_octets = 0

    def _parsed(self, number: int, text: bytes, whole: bool) -> Line:
        if not whole:
            return _faulty(number, text, "too long to be an item: no line ends in sight")
        line = parse(number, text, bare=False)
        if line.item is None:
            return line
        if self._last is not None and not _follows(self._last, line.item):
            same = (line.item.prefix, line.item.key) == (self._last.prefix, self._last.key)
            if not same:
                return _faulty(number, text, "out of order: archives are sorted by namespace and key")
            if not line.vectors_only:
                return _faulty(number, text, "the same namespace and key as in the line before")
        self._last = line.item
        return line

    def _end_block(self, number: int, text: bytes) -> Iterator[Damage | Block]:
        self._hash(self._total, self._block)
        digest, self._block = self._block.hexdigest(), hashlib.sha256()
        first, last, lines = self._first, number - 1, self._lines
        self._first, self._lines = number + 1, 0
        self._blocks += 1
        self._take(text)
        self._hash(self._total)
        try:
            block = _BLOCK(text)
        except msgspec.DecodeError:
            yield Damage("its block line was changed", first, number, self._blocks)
            return
        if block.block != self._blocks:
            missing = block.block - self._blocks
            reason = f"{missing:,} blocks before it are missing" if missing > 0 else "it stands there again"
            yield Damage(reason, first, number, block.block)
            self._blocks = block.block
        if block.lines != lines:
            yield Damage(f"it had {block.lines:,} lines and has {lines:,}", first, last, self._blocks)
        elif block.sha256 != digest:
            yield Damage("its lines were changed: their SHA-256 is another", first, last, self._blocks)
        elif self._last is not None and block.last != (shown(self._last.prefix), shown(self._last.key)):
            yield Damage("its block line was changed", number, number, self._blocks)
        else:
            yield Block(self._blocks, first, last)

    def _end(self, number: int, text: bytes) -> Iterator[Damage | Block]:
        self._hash(self._total, self._block)
        try:
            end = _END(text)
        except msgspec.DecodeError:
            yield Damage("the end line was changed", number, number)
            return
        header = self._reader.header
        counted = self._count.items, self._count.vectors
        if not self._faults and (end.items, end.vectors) != counted:
            reason = f"the end line counts {end.items:,} items and {end.vectors:,} vectors"
            yield Damage(f"{reason}, there are {counted[0]:,} and {counted[1]:,}", 2, number)
        elif self._lines >= BLOCK_LINES:
            yield Damage("a block line is missing", self._first, number)
        elif end.sha256 != self._total.hexdigest():
            yield Damage("the SHA-256 over everything is another", 1, number)
        elif header and header.items is not None and header.items != end.items:
            yield Damage(f"the header counts {header.items:,} items, there are {end.items:,}", 1, number)


class _BlockLine(msgspec.Struct, frozen=True):
    block: int
    lines: int
    sha256: str
    last: tuple[str, str]


class _EndLine(msgspec.Struct, frozen=True):
    end: Literal[True] | bool
    items: int
    vectors: int
    sha256: str


class _HeaderLine(Header, frozen=True):
    memctl_archive: int = 0


_BLOCK = msgspec.json.Decoder(_BlockLine).decode
_END = msgspec.json.Decoder(_EndLine).decode
_HEADER = msgspec.json.Decoder(_HeaderLine).decode


def _header_of(line: bytes) -> Header | None:
    """Return the header that a first line is, None where it is none."""
    if b'"memctl_archive"' not in line[:CHUNK_OCTETS]:
        return None
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError:
        if line.startswith(b'{"memctl_archive":'):
            raise Unreadable(
                "the first line of the archive was changed: it is no JSON", code="damaged"
            ) from None
        return None
    version = members.get("memctl_archive") if isinstance(members, dict) else None
    if version is None:
        return None
    if version != VERSION:
        raise Unreadable(
            f"the archive is of version {version}, and this memctl reads version {VERSION}",
            hint="a newer memctl reads it",
            code="version",
        )
    try:
        read = _HEADER(line)
    except msgspec.DecodeError as error:
        raise Unreadable(f"the first line of the archive was changed: {error}", code="damaged") from None
    return Header(**{name: getattr(read, name) for name in Header.__struct_fields__})


def _follows(before: Item, item: Item) -> bool:
    """Tell whether an item comes after another in byte order; BLOBs, which SQLite sorts last, may stand anywhere."""
    if before.prefix == item.prefix:
        low, high = before.key, item.key
    else:
        low, high = before.prefix, item.prefix
    is_later = low < high if is_clean(low) and is_clean(high) else encode(low) < encode(high)
    return is_later or _is_blob(before) or _is_blob(item)


def _is_blob(item: Item) -> bool:
    return any(
        problem.part in ("namespace", "key") and isinstance(problem.raw, bytes) for problem in item.problems
    )


def _faulty(number: int, raw: bytes, reason: str) -> Line:
    return Line(number, None, reason, frozenset(), False, raw)
