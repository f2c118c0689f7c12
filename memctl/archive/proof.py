"""The proof of an archive: every line against its hashes, its order and its counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from operator import lt
from typing import Any

import msgspec

from memctl.archive.control import read_block, read_end
from memctl.archive.format import BLOCK_LINES, Damage, Header, Line, Run
from memctl.archive.parsing import parse, run_of
from memctl.archive.sources import CHUNK_OCTETS, CutOff, Unfinished
from memctl.blocks import Block as Columns
from memctl.model import Item, blob_names, encode, is_clean, order_of, shown

_BLOCK = b'{"block":'
CONTROLS = (_BLOCK, b'{"end":')
"""How the lines of an archive begin that hold no item, but for the first."""
_RUN_LINES = 250
_HASHED_OCTETS = 128 * 1024
"""What is hashed at once: much, and still in the processor's cache for the second hash."""
TOO_LONG = "too long to be an item: no line ends in sight"
_CUT_OFF = "cut off: the file ends within this line"
_OUT_OF_ORDER = "out of order: archives are sorted by namespace and key"
_REPEATED = "the same namespace and key as in the line before"


@dataclass(frozen=True, slots=True)
class Block:
    """A block whose lines are as they were written."""

    number: int
    first: int
    last: int


@dataclass(slots=True)
class Count:
    """What has been read, lines with a fault not included."""

    items: int = 0
    vectors: int = 0
    octets: int = 0

    def add(self, line: Line) -> None:
        """Count a line without a fault."""
        if line.item is not None:
            self.items += not line.vectors_only
            self.vectors += len(line.item.vectors)

    def add_run(self, run: Run) -> None:
        """Count lines."""
        self.items += len(run.block)
        self.vectors += sum(map(len, run.block.vectors.values()))


def runs_of(groups: Iterator[list[bytes] | Unfinished]) -> Iterator[list[bytes] | bytes | Unfinished]:
    """Put lines of items that follow one another together; the others, and the unfinished, come singly."""
    run: list[bytes] = []
    try:
        for group in groups:
            if isinstance(group, Unfinished):
                if run:
                    yield run
                    run = []
                yield group
                continue
            start = 0
            for place in [place for place, line in enumerate(group) if line.startswith(CONTROLS)]:
                yield from _cut(run + group[start:place])
                run = []
                yield group[place]
                start = place + 1
            *whole, run = _cut(run + group[start:]) or [[]]
            yield from whole
            if sum(map(len, run)) >= CHUNK_OCTETS:
                yield run
                run = []
    except CutOff:
        if run:
            yield run
        raise
    if run:
        yield run


def _cut(lines: list[bytes]) -> list[list[bytes]]:
    """Cut lines into as few runs as can be."""
    return [lines[start : start + _RUN_LINES] for start in range(0, len(lines), _RUN_LINES)]


class Proof:
    """An archive past its header: every line against its hashes, its order and its counts."""

    def __init__(self, header: Header, groups: Iterator[list[bytes] | Unfinished], count: Count) -> None:
        """`groups` are of all lines, that of the header included."""
        self._header = header
        self._source = groups
        self._count = count
        self._total = hashlib.sha256()
        self._block = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_octets = 0
        self._blocks = 0
        self._first = 2
        self._lines = 0
        self._last: Item | None = None
        self._before: Item | None = None
        """The item before the last, where those two are in order."""
        self._faults = 0

    def run(self) -> Iterator[Line | Run | Damage | Block]:
        """Yield lines, damages and blocks in the order in which they come."""
        number = 1
        try:
            first = next(self._source)
            header = first.octets if isinstance(first, Unfinished) else first.pop(0)
            # Where something turned line feeds into CRLF, the octets before that are those to hash.
            is_crlf = header.endswith(b"\r")
            self._take(header.removesuffix(b"\r"))
            self._hash(self._total)
            runs = runs_of(self._source if isinstance(first, Unfinished) else chain([first], self._source))
            for found in runs:
                if isinstance(found, list):
                    texts = [text.removesuffix(b"\r") for text in found] if is_crlf else found
                    yield from self._items(number + 1, texts)
                    number += len(texts)
                    continue
                number += 1
                text = _text(found)
                if isinstance(found, Unfinished) and not text.startswith(CONTROLS):
                    self._lines += 1
                    self._take(text)
                    self._faults += 1
                    yield faulty(number, text, TOO_LONG if found.too_long else _CUT_OFF)
                    continue
                if is_crlf and isinstance(found, bytes):
                    text = text.removesuffix(b"\r")
                if text.startswith(_BLOCK):
                    yield from self._end_block(number, text)
                else:
                    yield from self._end(number, text)
                    for _ in runs:
                        yield Damage("something follows the end of the archive", number + 1, None)
                        break
                    return
        except CutOff as error:
            yield Damage(str(error), number + 1, None)
            return
        yield Damage("the archive is cut off: it has no end line", number + 1, None)

    def _items(self, number: int, texts: list[bytes]) -> Iterator[Line | Run]:
        """Yield lines, all together where nothing about them takes a closer look."""
        self._lines += len(texts)
        self._take(*texts)
        run = run_of(number, texts)
        if run is not None and self._continues(run.block):
            self._count.add_run(run)
            yield run
            return
        for place, text in enumerate(texts, number):
            yield self._parsed(place, text)

    def _continues(self, block: Columns) -> bool:
        """Tell whether items are in order, and come after the last one."""
        places = list(zip(block.prefixes, block.keys, strict=True))
        if not all(map(lt, places, places[1:])):  # code points of text that is UTF-8 sort as its octets do
            return False
        if self._last is not None and not _follows(self._last, block.item(0)):
            return False
        self._before = block.item(len(block) - 2) if len(block) > 1 else self._last
        self._last = block.item(len(block) - 1)
        return True

    def _take(self, *texts: bytes) -> None:
        """Remember lines for the hashes, which are faster over many octets."""
        self._pending += texts
        self._pending_octets += sum(map(len, texts))
        if self._pending_octets > _HASHED_OCTETS:
            self._hash(self._total, self._block)

    def _hash(self, *hashes: Any) -> None:
        if self._pending:
            octets = b"\n".join([*self._pending, b""])
            for each in hashes:
                each.update(octets)
            self._pending.clear()
            self._pending_octets = 0

    def _parsed(self, number: int, text: bytes) -> Line:
        line = parse(number, text, bare=False)
        item, last = line.item, self._last
        if item is None:
            self._faults += 1
            return line
        if last is not None and not _follows(last, item):
            if order_of(item) != order_of(last):
                return self._misplaced(line, item)
            if not line.vectors_only:
                self._faults += 1
                return faulty(number, text, _REPEATED)
        self._before, self._last = last, item
        self._count.add(line)
        return line

    def _misplaced(self, line: Line, item: Item) -> Line:
        """Tell a line that does not follow the one before; those behind it are then measured by it alone."""
        reason = _OUT_OF_ORDER
        if self._before is not None and _follows(self._before, item):
            reason = f"this line or the one before is {reason}"
        self._before, self._last = None, item
        self._faults += 1
        self._count.add(line)  # it is there, after all
        return faulty(line.number, line.raw, reason)

    def _end_block(self, number: int, text: bytes) -> Iterator[Damage | Block]:
        self._hash(self._total, self._block)
        digest, self._block = self._block.hexdigest(), hashlib.sha256()
        first, last, lines = self._first, number - 1, self._lines
        self._first, self._lines = number + 1, 0
        self._blocks += 1
        self._take(text)
        self._hash(self._total)
        try:
            block = read_block(text)
        except msgspec.DecodeError:
            yield Damage("its block line was changed", first, number, self._blocks)
            return
        if block.block != self._blocks:
            missing = block.block - self._blocks
            are = "block before it is" if missing == 1 else "blocks before it are"
            reason = f"{missing:,} {are} missing" if missing > 0 else "it stands there again"
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
            end = read_end(text)
        except msgspec.DecodeError:
            yield Damage("the end line was changed", number, number)
            return
        counted = self._count.items, self._count.vectors
        if not self._faults and (end.items, end.vectors) != counted:
            reason = f"the end line counts {end.items:,} items and {end.vectors:,} vectors"
            yield Damage(f"{reason}, there are {counted[0]:,} and {counted[1]:,}", 2, number)
        elif self._lines >= BLOCK_LINES:
            yield Damage("a block line is missing", self._first, number)
        elif end.sha256 != self._total.hexdigest():
            yield Damage("the SHA-256 over everything is another", 1, number)
        elif self._header.items is not None and self._header.items != end.items:
            yield Damage(
                f"the header counts {self._header.items:,} items, there are {end.items:,}", 1, number
            )


def _follows(before: Item, item: Item) -> bool:
    """Tell whether an item comes after another in byte order; BLOBs, which SQLite sorts last, may stand anywhere."""
    if before.prefix == item.prefix:
        low, high = before.key, item.key
    else:
        low, high = before.prefix, item.prefix
    if low < high and low.isascii() and high.isascii():
        return True
    is_later = low < high if is_clean(low) and is_clean(high) else encode(low) < encode(high)
    return is_later or any(blob_names(before)) or any(blob_names(item))


def _text(line: bytes | Unfinished) -> bytes:
    return line if isinstance(line, bytes) else line.octets


def faulty(number: int, raw: bytes, reason: str) -> Line:
    """Return a line that holds no item."""
    return Line(number, None, reason, frozenset(), False, raw)
