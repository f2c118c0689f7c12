"""The proof of an archive: every line against its hashes, its order and its counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from operator import lt
from typing import Any

import msgspec

from memctl.archive.control import read_block, read_end
from memctl.archive.format import BLOCK_LINES, Damage, Header, Line, Run
from memctl.archive.parsing import parse, run_of
from memctl.archive.sources import CHUNK_OCTETS, CutOff, Unfinished
from memctl.blocks import Block as Columns
from memctl.model import Item, encode, is_clean, shown

_BLOCK = b'{"block":'
CONTROLS = (_BLOCK, b'{"end":')
"""How the lines of an archive begin that hold no item, but for the first."""
_RUN_LINES = 250
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


def runs_of(lines: Iterator[bytes | Unfinished]) -> Iterator[list[bytes] | bytes | Unfinished]:
    """Put lines of items that follow one another together; the others, and the unfinished, come singly."""
    run: list[bytes] = []
    octets = 0
    try:
        for line in lines:
            if isinstance(line, Unfinished) or line.startswith(CONTROLS):
                if run:
                    yield run
                    run, octets = [], 0
                yield line
                continue
            run.append(line)
            octets += len(line)
            if len(run) == _RUN_LINES or octets >= CHUNK_OCTETS:
                yield run
                run, octets = [], 0
    except CutOff:
        if run:
            yield run
        raise
    if run:
        yield run


class Proof:
    """An archive past its header: every line against its hashes, its order and its counts."""

    def __init__(self, header: Header, lines: Iterator[bytes | Unfinished], count: Count) -> None:
        self._header = header
        self._source = lines
        self._count = count
        self._total = hashlib.sha256()
        self._block = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_octets = 0
        self._blocks = 0
        self._first = 2
        self._lines = 0
        self._last: Item | None = None
        self._faults = 0

    def run(self) -> Iterator[Line | Run | Damage | Block]:
        """Yield lines, damages and blocks in the order in which they come."""
        number = 1
        try:
            header = _text(next(self._source))
            # Where something turned line feeds into CRLF, the octets before that are those to hash.
            is_crlf = header.endswith(b"\r")
            self._take(header.removesuffix(b"\r"))
            self._hash(self._total)
            for found in runs_of(self._source):
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
                    for _ in self._source:
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
        for text in texts:
            self._take(text)
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
        self._last = block.item(len(block) - 1)
        return True

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

    def _parsed(self, number: int, text: bytes) -> Line:
        line = parse(number, text, bare=False)
        item, last = line.item, self._last
        if item is None:
            self._faults += 1
            return line
        if last is not None and not _follows(last, item):
            same = (item.prefix, item.key) == (last.prefix, last.key)
            if not same or not line.vectors_only:
                self._faults += 1
                return faulty(number, text, _REPEATED if same else _OUT_OF_ORDER)
        self._last = item
        self._count.add(line)
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
            block = read_block(text)
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
    return is_later or _is_blob(before) or _is_blob(item)


def _is_blob(item: Item) -> bool:
    return any(
        problem.part in ("namespace", "key") and isinstance(problem.raw, bytes) for problem in item.problems
    )


def _text(line: bytes | Unfinished) -> bytes:
    return line if isinstance(line, bytes) else line.octets


def faulty(number: int, raw: bytes, reason: str) -> Line:
    """Return a line that holds no item."""
    return Line(number, None, reason, frozenset(), False, raw)
