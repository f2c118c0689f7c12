"""Reading what can be imported: archives, bare JSON Lines and JSON arrays, compressed or not.

Lines come one by one and in bounded memory, bad ones with what is wrong with them. An archive's hashes are
checked as its blocks end; what does not fit is raised there, after the lines that it concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import BinaryIO, Literal

from memctl.archive.arrays import elements_of
from memctl.archive.control import header_of
from memctl.archive.format import BadLine, Damage, Damaged, Header, Line, Run, Totals, Unreadable
from memctl.archive.parsing import parse, run_of
from memctl.archive.proof import TOO_LONG, Block, Count, Proof, faulty, runs_of
from memctl.archive.sources import CHUNK_OCTETS, CutOff, Read, Unfinished, groups_of, lines_of, open_source
from memctl.model import Item, order_of
from memctl.sorting import sort

Kind = Literal["archive", "lines", "array"]

_BLANKS = b" \t\r\n"


def read(stream: BinaryIO, *, proved: bool = False) -> Reader:
    """Tell what a stream holds by how it begins, and return what reads it.

    `proved`: the same octets were read to their end before, so an archive is not checked once more, which
    takes a third of the time off.

    Raises Unreadable for what is neither an archive nor JSON, and for an archive of a later version.
    """
    start, source = open_source(stream)
    with suppress(CutOff):  # which comes again when all is read that comes before it
        while not start.strip(_BLANKS) and (chunk := source()):
            start += chunk
        is_array = start.lstrip(_BLANKS).startswith(b"[")
        while not is_array and b"\n" not in start and len(start) < CHUNK_OCTETS and (chunk := source()):
            start += chunk
    if not start.strip(_BLANKS):
        raise Unreadable("the input is empty", code="empty")
    if start.lstrip(_BLANKS).startswith(b"["):
        return Reader("array", None, start, source)
    header = header_of(start.split(b"\n", 1)[0])
    return Reader("archive" if header else "lines", header, start, source, proved=proved)


class Reader:
    """An input that is read once, from its beginning to its end."""

    def __init__(
        self, kind: Kind, header: Header | None, start: bytes, source: Read, *, proved: bool = False
    ) -> None:
        self.kind: Kind = kind
        self.header = header
        self._start = start
        self._source = source
        self._proved = proved
        self._progress = Count()

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
        for found in self.runs():
            if isinstance(found, Run):
                yield from found.lines()
            else:
                yield found

    def runs(self) -> Iterator[Line | Run]:
        """Yield what iterating yields, but lines of an archive together where there is nothing odd about them."""
        for event in self._events():
            if isinstance(event, Damage):
                raise Damaged(event)
            if not isinstance(event, Block):
                yield event

    def events(self) -> Iterator[Line | Damage | Block]:
        """Yield the lines, and between them what is wrong with the archive and which blocks are right."""
        for event in self._events():
            if isinstance(event, Run):
                yield from event.lines()
            else:
                yield event

    def _events(self) -> Iterator[Line | Run | Damage | Block]:
        if self.header is None:
            return self._bare()
        if self._proved:
            return self._once_more()
        return Proof(self.header, self._groups(), self._progress).run()

    def _read(self) -> bytes:
        chunk = self._source()
        self._progress.octets += len(chunk)
        return chunk

    def _lines(self) -> Iterator[bytes | Unfinished]:
        self._progress.octets = len(self._start)
        return lines_of(self._start, self._read)

    def _groups(self) -> Iterator[list[bytes] | Unfinished]:
        self._progress.octets = len(self._start)
        return groups_of(self._start, self._read)

    def _bare(self) -> Iterator[Line | Damage | Block]:
        number = 0
        try:
            for text in self._elements() if self.kind == "array" else self._lines():
                number += 1
                if isinstance(text, Unfinished):
                    if text.too_long:
                        yield faulty(number, text.octets, TOO_LONG)
                        continue
                    text = text.octets  # noqa: PLW2901 the last line needs no line feed
                if text.startswith((b'{"block":', b'{"end":true,')):
                    yield Damage("a line of an archive whose first line is missing", 1, number)
                elif text := text.strip(b" \t\r"):
                    line = parse(number, text, bare=True)
                    self._progress.add(line)
                    yield line
        except CutOff as error:
            yield Damage(str(error), number + 1, None, unit=self.unit)
        except Damaged as error:
            yield error.damage

    def _once_more(self) -> Iterator[Line | Run]:
        groups = self._groups()
        first = next(groups)
        number = 1
        for found in runs_of(groups if isinstance(first, Unfinished) else chain([first[1:]], groups)):
            if not isinstance(found, list):
                number += 1
                continue
            texts = [text.removesuffix(b"\r") for text in found]
            if run := run_of(number + 1, texts):
                self._progress.add_run(run)
                yield run
            else:
                for place, text in enumerate(texts, number + 1):
                    line = parse(place, text, bare=False)
                    self._progress.add(line)
                    yield line
            number += len(texts)

    def _elements(self) -> Iterator[bytes]:
        self._progress.octets = len(self._start)
        return elements_of(self._start, self._read)


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
        if last is not None and last.item is not None and order_of(line.item) == order_of(last.item):
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


def _place(line: Line) -> tuple[tuple[bool, bytes, bool, bytes], int]:
    assert line.item is not None
    return order_of(line.item), line.number
