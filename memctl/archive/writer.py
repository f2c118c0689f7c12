"""Writing an archive, as fast as a store can be read.

Lines are pieces of octets, put together a chunk at a time; a thread of its own hashes and writes the chunks,
both of which leave the interpreter to the thread that spells the next ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, BinaryIO

import msgspec
import orjson

from memctl.archive.background import Background
from memctl.archive.format import BLOCK_LINES, VERSION, Header, Totals
from memctl.archive.spelling import Spelling, is_odd
from memctl.model import Instant, Item, shown

CHUNK_OCTETS = 1024 * 1024
WAITED_OCTETS = 8 * CHUNK_OCTETS

Progress = Callable[[int], None]
"""Told now and then how many more lines are done."""

_check = msgspec.json.Decoder(msgspec.Raw).decode


def write(
    stream: BinaryIO, header: Header, items: Iterable[Item], *, progress: Progress | None = None
) -> Totals:
    """Write an archive of `items`, which come in byte order of (prefix, key). The stream stays open."""
    with Writer(stream, header, progress=progress) as writer:
        writer.extend(items)
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
        while chunk := _take(left, BLOCK_LINES - self._lines % BLOCK_LINES):
            octets = b"" if vectors_only or not self._is_common else self._spelled(chunk)
            if not octets:
                octets = b"".join([self._line(item, vectors_only) for item in chunk])
            self._output.write_lines(octets)
            self._lines += len(chunk)
            if not vectors_only:
                self._items += len(chunk)
            if self._has_vectors or vectors_only:
                self._vectors += sum([len(item.vectors) for item in chunk])
            if not self._lines % BLOCK_LINES:
                self._output.end_block(self._lines // BLOCK_LINES, chunk[-1])
            if self._progress:
                self._progress(len(chunk))

    def _line(self, item: Item, vectors_only: bool = False) -> bytes:
        line, is_raw = self._spelling.line(item, vectors_only=vectors_only)
        self._raw += is_raw
        return line

    def _spelled(self, chunk: list[Item]) -> bytes:
        """Return the lines of a chunk, or nothing where a value has a line break between its tokens.

        This is `Spelling.line` for what nearly every item is, at a tenth of the time.
        """
        raw = self._raw
        has_vectors = self._has_vectors
        end = ',"vectors":[]}\n' if has_vectors else "}\n"
        check, quote = _check, orjson.dumps
        pieces: list[bytes] = []
        last, head = None, b""
        for item in chunk:
            value, created, updated = item.value, item.created_at, item.updated_at
            if item.problems or value is None or created is None or updated is None:
                pieces.append(self._line(item))
                continue
            try:
                check(value)
                if not value.isascii():
                    value.decode()
                if item.prefix != last:
                    last = item.prefix
                    head = b'{"namespace":%b,"key":' % quote(last.split("."))
                key = quote(item.key)
            except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError):
                pieces.append(self._line(item))
                last = None
                continue
            expires, minutes = item.expires_at, item.ttl_minutes
            rest = f',"created_at":"{created}","updated_at":"{updated}","expires_at":'
            if expires is None and minutes is None:
                rest += 'null,"ttl_minutes":null'
            else:
                rest += f'{_text(expires)},"ttl_minutes":{_number(minutes)}'
            if not item.vectors or not has_vectors:
                pieces += (head, key, b',"value":', value, (rest + end).encode())
            else:
                vectors = [self._spelling.vector(vector) for vector in item.vectors]
                self._raw += any(map(is_odd, vectors))
                rest += ',"vectors":'
                pieces += (head, key, b',"value":', value, rest.encode(), quote(vectors), b"}\n")
        octets = b"".join(pieces)
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


def _text(instant: Instant | None) -> str:
    return "null" if instant is None else f'"{instant}"'


def _number(minutes: float | None) -> str:
    return "null" if minutes is None else repr(minutes)


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

    def end_block(self, number: int, last: Item) -> None:
        self._thread.run(self._put_block, number, last)

    def end(self, items: int, vectors: int) -> None:
        """Write the end line, and wait until everything is written."""
        self._thread.run(self._put_end, items, vectors)
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

    def _put_block(self, number: int, last: Item) -> None:
        line = {
            "block": number,
            "lines": BLOCK_LINES,
            "sha256": self._block.hexdigest(),
            "last": [shown(last.prefix), shown(last.key)],
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
