"""Writing an archive, as fast as a store can be read.

`msgspec` encodes a chunk of lines at a time; a thread of its own hashes and writes the chunks, both of which
leave the interpreter to the thread that spells the next ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, BinaryIO

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from memctl.archive.background import Background
from memctl.archive.format import BLOCK_LINES, VERSION, Header, Totals
from memctl.archive.lines import VectorRow, lines_of
from memctl.archive.spelling import Spelling
from memctl.blocks import Block, Piece
from memctl.model import Instant, Item, shown

CHUNK_OCTETS = 1024 * 1024
WAITED_OCTETS = 8 * CHUNK_OCTETS

Progress = Callable[[int], None]
"""Told now and then how many more lines are done."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """A line of an item that has nothing odd about it."""

    namespace: msgspec.Raw
    key: str
    value: msgspec.Raw
    created_at: Instant | None
    updated_at: Instant | None
    expires_at: Instant | None
    ttl_minutes: float | None
    vectors: list[VectorRow] | UnsetType


_check = msgspec.json.Decoder(msgspec.Raw).decode
_encode_lines = msgspec.json.Encoder().encode_lines


def write(
    stream: BinaryIO, header: Header, items: Iterable[Item], *, progress: Progress | None = None
) -> Totals:
    """Write an archive of `items`, which come in byte order of (prefix, key). The stream stays open."""
    return write_pieces(stream, header, (items,), progress=progress)


def write_pieces(
    stream: BinaryIO, header: Header, pieces: Iterable[Piece], *, progress: Progress | None = None
) -> Totals:
    """Write an archive of items that come in blocks or one by one; it is the same either way."""
    with Writer(stream, header, progress=progress) as writer:
        for piece in pieces:
            if isinstance(piece, Block):
                writer.add(piece)
            else:
                writer.extend(piece)
    return writer.totals


class Writer:
    """An archive in the making: items in byte order, with the end line when the `with` block is left.

    After an error there is no end line, and the archive counts as cut off.
    """

    def __init__(self, stream: BinaryIO, header: Header, *, progress: Progress | None = None) -> None:
        missing = frozenset(header.missing)
        self._spelling = Spelling(header.source, missing)
        self._is_common = not missing & {"timestamps", "expiry", "vector-times"}
        self._has_vectors = "vectors" not in missing
        self._output = _Output(stream)
        self._progress = progress
        self._items = self._vectors = self._raw = 0
        self._lines = 0
        self._output.write(_header_line(header))

    @property
    def totals(self) -> Totals:
        """What was written so far; complete once the `with` block is left."""
        return Totals(self._items, self._vectors, self._output.octets, self._raw)

    def extend(self, items: Iterable[Item], *, vectors_only: bool = False) -> None:
        """Write items; with `vectors_only`, nothing but their vectors."""
        left = iter(items)
        while chunk := _take(left, self._room):
            octets = b"" if vectors_only or not self._is_common else self._spelled(chunk)
            if not octets:
                octets = b"".join([self._line(item, vectors_only) for item in chunk])
            if not vectors_only:
                self._items += len(chunk)
            if self._has_vectors or vectors_only:
                self._vectors += sum([len(item.vectors) for item in chunk])
            self._write(octets, len(chunk), chunk[-1].prefix, chunk[-1].key)

    def add(self, block: Block) -> None:
        """Write the items of a block."""
        rest: Block | None = block
        while rest is not None:
            part, rest = rest.cut(self._room) if len(rest) > self._room else (rest, None)
            octets = lines_of(part, has_vectors=self._has_vectors) if self._is_common else None
            if octets is None:
                self.extend(part.items())
                continue
            self._items += len(part)
            if self._has_vectors:
                self._vectors += sum(map(len, part.vectors.values()))
            self._write(octets, len(part), part.prefixes[-1], part.keys[-1])

    @property
    def _room(self) -> int:
        """How many lines there are to the end of the archive's block."""
        return BLOCK_LINES - self._lines % BLOCK_LINES

    def _write(self, octets: bytes, lines: int, *last: str) -> None:
        """Hand on some lines, and the line of the block that they end."""
        self._output.write_lines(octets)
        self._lines += lines
        if not self._lines % BLOCK_LINES:
            self._output.end_block(self._lines // BLOCK_LINES, last)
        if self._progress:
            self._progress(lines)

    def sync(self) -> None:
        """Return when everything so far has gone through the stream."""
        self._output.sync()

    def _line(self, item: Item, vectors_only: bool = False) -> bytes:
        line, is_raw = self._spelling.line(item, vectors_only=vectors_only)
        self._raw += is_raw
        return line

    def _spelled(self, chunk: list[Item]) -> bytes:
        """Return the lines of a chunk, those of items with nothing odd about them in the quick way.

        Nothing is returned where that cannot be: a name is no UTF-8, or a value has a line break.
        """
        raw = self._raw
        rows: list[Row | msgspec.Raw] = []
        last, labels = None, msgspec.Raw()
        vectors: list[VectorRow] | UnsetType = [] if self._has_vectors else UNSET
        for item in chunk:
            text = None if item.problems else _checked(item.value)
            if text is None:
                rows.append(msgspec.Raw(self._line(item)[:-1]))
                continue
            if item.prefix != last:
                last = item.prefix
                labels = msgspec.Raw(orjson.dumps(shown(last).split(".")))
            if item.vectors and self._has_vectors:
                if any(vector.problems for vector in item.vectors):
                    rows.append(msgspec.Raw(self._line(item)[:-1]))
                    continue
                vectors = [
                    VectorRow(vector.field, vector.embedding, vector.created_at, vector.updated_at)
                    for vector in item.vectors
                ]
            elif vectors:
                vectors = []
            rows.append(
                Row(
                    labels,
                    item.key,
                    text,
                    item.created_at,
                    item.updated_at,
                    item.expires_at,
                    item.ttl_minutes,
                    vectors,
                )
            )
        try:
            octets = _encode_lines(rows)
        except UnicodeEncodeError:
            octets = b""
        if octets.count(b"\n") == len(chunk) and b"\r" not in octets:
            return octets
        self._raw = raw
        return b""

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._output.end(self._items, self._vectors)
        finally:
            self._output.close()


def _take(items: Iterator[Item], most: int) -> list[Item]:
    """Take items, `most` or a chunk's worth of octets."""
    chunk: list[Item] = []
    octets = 0
    for item in items:
        chunk.append(item)
        octets += item.size
        if octets >= CHUNK_OCTETS or len(chunk) == most:
            break
    return chunk


def _checked(value: bytes | None) -> msgspec.Raw | None:
    """Return a value's text if it is JSON in UTF-8 for certain."""
    if value is None:
        return None
    try:
        text = _check(value)
        if not value.isascii():
            value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return text


class _Output:
    """The stream and both hashes, behind a thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self.octets = 0
        self._stream = stream
        self._total = hashlib.sha256()
        self._block = hashlib.sha256()
        self._thread = Background()

    def write(self, octets: bytes) -> None:
        self._thread.run(self._put, octets)

    def write_lines(self, octets: bytes) -> None:
        self._thread.run(self._put_lines, octets)
        if len(octets) > WAITED_OCTETS:  # else several of them would wait in memory
            self._thread.wait()

    def end_block(self, number: int, last: Sequence[str]) -> None:
        self._thread.run(self._put_block, number, last)

    def end(self, items: int, vectors: int) -> None:
        """Write the end line, and wait until everything is written."""
        self._thread.run(self._put_end, items, vectors)
        self._thread.wait()

    def sync(self) -> None:
        self._thread.run(self._stream.flush)
        self._thread.wait()

    def close(self) -> None:
        self._thread.close()

    def _put(self, octets: bytes) -> None:
        self._total.update(octets)
        self._stream.write(octets)
        self.octets += len(octets)

    def _put_lines(self, octets: bytes) -> None:
        self._block.update(octets)
        self._put(octets)

    def _put_block(self, number: int, last: Sequence[str]) -> None:
        line = {
            "block": number,
            "lines": BLOCK_LINES,
            "sha256": self._block.hexdigest(),
            "last": list(map(shown, last)),
        }
        self._block = hashlib.sha256()
        self._put(orjson.dumps(line) + b"\n")

    def _put_end(self, items: int, vectors: int) -> None:
        line = {"end": True, "items": items, "vectors": vectors, "sha256": self._total.hexdigest()}
        self._put(orjson.dumps(line) + b"\n")
        self._stream.flush()


def _header_line(header: Header) -> bytes:
    line: dict[str, Any] = {"memctl_archive": VERSION, **msgspec.structs.asdict(header)}
    if not header.filtered:
        del line["filtered"]
    return orjson.dumps(line) + b"\n"
