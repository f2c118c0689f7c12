"""Octets of an input: decompressed, told apart by how they begin, and cut into lines of any length."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

from memctl.archive.format import Unreadable

CHUNK_OCTETS = 1024 * 1024
LONGEST_OCTETS = 1 << 30
"""A line longer than this is not read; no store holds a value of that size."""
DOUBTED_OCTETS = 1024 * 1024
"""A line longer than this has to begin as an object does, or it is passed over without being held."""
KEPT_OCTETS = 64 * 1024
"""What is kept of a line that is passed over."""

_PIECE_OCTETS = 8 * 1024
"""What is decompressed at a time: deflate expands it to 8 MB at most."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_STRANGERS = {
    b"SQLite format 3\0": "a SQLite database, not an archive",
    b"\xff\xfe": "text in UTF-16, and UTF-8 is expected",
    b"\xfe\xff": "text in UTF-16, and UTF-8 is expected",
    b"\0\0\xfe\xff": "text in UTF-32, and UTF-8 is expected",
    b"PGDMP": "a dump by pg_dump, not an archive",
    b"PK\x03\x04": "a ZIP file, not an archive",
    b"BZh": "compressed by bzip2; only gzip and zstd are read",
    b"\xfd7zXZ": "compressed by xz; only gzip and zstd are read",
    b"\x7fELF": "a program, not an archive",
}
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))

Read = Callable[[], bytes]
"""Returns the next octets, as many as come; none at the end."""


class CutOff(Exception):
    """Compressed data end in the middle, or do not fit their own checksum; the message says which."""


def open_source(stream: BinaryIO) -> tuple[bytes, Read]:
    """Return the first octets, decompressed and without a byte order mark, and what reads the rest.

    Raises Unreadable for what is no text in UTF-8, and for zstd where no library reads it.
    """
    head = _gather(lambda: stream.read(CHUNK_OCTETS), 4)
    read: Read = _Chain(head, lambda: stream.read(CHUNK_OCTETS))
    if head.startswith(_GZIP):
        read = _Inflated(read, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))
    elif head.startswith(_ZSTD):
        read = _Inflated(read, _zstd())
    try:
        start = _gather(read, 512)
    except CutOff as error:
        raise Unreadable(f"the input is damaged: {error}") from None
    if not start:
        raise Unreadable("the input is empty", code="empty")
    _check(start)
    return start.removeprefix(_BOM), read


class Unfinished(NamedTuple):
    """The beginning of a line that is too long to be kept, or a last line without its line feed."""

    octets: bytes
    too_long: bool


def lines_of(start: bytes, read: Read) -> Iterator[bytes | Unfinished]:
    """Yield each line without its line feed, one by one; see `groups_of`."""
    for group in groups_of(start, read):
        if isinstance(group, Unfinished):
            yield group
        else:
            yield from group


def groups_of(start: bytes, read: Read) -> Iterator[list[bytes] | Unfinished]:
    """Yield lines without their line feeds, those together that end in the same octets that `read` returned.

    Of a line past `LONGEST_OCTETS`, and of one past `DOUBTED_OCTETS` that cannot be an object, only the beginning is
    kept. The empty rest after the last line feed is no line.
    """
    held: list[bytes] = []
    octets = 0
    whole = True
    chunk = start
    while chunk:
        lines = chunk.split(b"\n")
        if whole:
            held.append(lines[0])
            octets += len(lines[0])
        if len(lines) > 1:
            last = lines.pop()
            if whole:
                lines[0] = b"".join(held)
            else:
                yield Unfinished(b"".join(held), too_long=True)
                del lines[0]
            if lines:
                yield lines
            held, octets, whole = [last], len(last), True
        if whole and octets > DOUBTED_OCTETS and (octets > LONGEST_OCTETS or not _is_object(held)):
            held, whole = [b"".join(held)[:KEPT_OCTETS]], False
        chunk = read()
    if line := b"".join(held):
        yield Unfinished(line, too_long=not whole)


def _is_object(pieces: list[bytes]) -> bool:
    first = next(filter(None, (piece.lstrip(b" \t\r") for piece in pieces)), b"")
    return first.startswith(b"{")


def _gather(read: Read, least: int) -> bytes:
    """Read so much, or to the end; raise CutOff where there is nothing before that, else the next one to read will."""
    chunk = read()
    with suppress(CutOff):
        while chunk and len(chunk) < least and (more := read()):
            chunk += more
    return chunk


class _Chain:
    """Gives back what was looked at, then goes on reading."""

    def __init__(self, head: bytes, read: Read) -> None:
        self._head = head
        self._read = read

    def __call__(self) -> bytes:
        head, self._head = self._head, b""
        return head or self._read()


class _Inflated:
    """Decompresses members or frames one after the other, in pieces that are small whatever they expand to."""

    def __init__(self, read: Read, new: Callable[[], Any]) -> None:
        self._read = read
        self._new = new
        self._state = new()
        self._is_new = True
        self._pending = b""
        self._error: CutOff | None = None

    def __call__(self) -> bytes:
        found: list[bytes] = []
        octets = 0
        while octets < CHUNK_OCTETS and self._error is None:
            try:
                piece = self._next()
            except CutOff as error:
                self._error = error
                break
            if piece is None:
                break
            found.append(piece)
            octets += len(piece)
        if not octets and self._error:
            raise self._error
        return b"".join(found)

    def _next(self) -> bytes | None:
        """Return the next piece, which may be empty; None at the end."""
        if self._state.eof:
            self._pending = (self._state.unused_data + self._pending).lstrip(b"\0")
            if not self._pending:
                self._pending = self._read()
            if not self._pending:
                return None
            self._state, self._is_new = self._new(), True
        if not self._pending:
            self._pending = self._read()
            if not self._pending:
                raise CutOff("the compressed data end in the middle")
        piece, self._pending = self._pending[:_PIECE_OCTETS], self._pending[_PIECE_OCTETS:]
        spare = self._spare()
        try:
            found: bytes = self._state.decompress(piece)
        except Exception as error:  # each library has its own
            self._error = CutOff(f"the compressed data are broken: {error}")
            return _salvaged(spare, piece)
        self._is_new = False
        return found

    def _spare(self) -> Any:
        """Return a decompressor in the same state, None where there is no way to have one."""
        if self._is_new:
            return self._new()
        return self._state.copy() if hasattr(self._state, "copy") else None


def _salvaged(state: Any, piece: bytes) -> bytes:
    """Decompress what comes before an error, which is lost with it: that of a checksum comes behind everything."""
    found: list[bytes] = []
    if state is not None:
        with suppress(Exception):  # each library has its own
            for place in range(len(piece)):
                found.append(state.decompress(piece[place : place + 1]))
    return b"".join(found)


def _zstd() -> Callable[[], Any]:
    """Return what makes a decompressor of zstd's frames."""
    with suppress(ImportError):
        from compression import zstd  # type: ignore[import-not-found,unused-ignore] # from Python 3.14 on

        makes: Callable[[], Any] = zstd.ZstdDecompressor
        return makes
    try:
        import zstandard
    except ImportError:
        raise Unreadable(
            "the input is compressed by zstd, which takes a package to read",
            hint="pip install 'langgraph-memctl[zstd]', or decompress it first: zstd -dc FILE | memctl … -",
            code="no-zstd",
        ) from None
    return lambda: zstandard.ZstdDecompressor().decompressobj()


def _check(start: bytes) -> None:
    for magic, what in _STRANGERS.items():
        if start.startswith(magic):
            raise Unreadable(f"the input is {what}")
    sample = start[:512]
    if sample[1::2].count(0) * 4 > len(sample) or sample[::2].count(0) * 4 > len(sample):
        raise Unreadable("the input is text in UTF-16, and UTF-8 is expected")
    if sample.translate(None, _CONTROLS) != sample:
        raise Unreadable("the input is binary data, neither an archive nor JSON")
