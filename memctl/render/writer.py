"""Buffered output: few writes for a million rows, none held back while rows come slowly."""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import BinaryIO

from memctl.render.text import utf8

_BLOCK_OCTETS = 64 * 1024
_PATIENCE_SECONDS = 0.2


class Writer:
    """Collects what a format writes and passes it on in blocks, or sooner when little comes.

    Leaving the `with` block passes on the rest, after an error too, but not when nobody waits for it any more:
    after BrokenPipeError or Ctrl-C.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held: list[bytes] = []
        self._octets = 0
        self._last = monotonic()

    def write(self, *pieces: bytes) -> None:
        """Append bytes; a large piece goes straight through and is not copied."""
        for piece in pieces:
            if len(piece) >= _BLOCK_OCTETS:
                self.flush()
                self._stream.write(piece)
            else:
                self._held.append(piece)
                self._octets += len(piece)
        if self._octets >= _BLOCK_OCTETS or monotonic() - self._last > _PATIENCE_SECONDS:
            self.flush()

    def line(self, *parts: str) -> None:
        """Append text and a line feed, in UTF-8."""
        if len(parts) == 1 and len(parts[0]) < _BLOCK_OCTETS:
            self.write(utf8(parts[0] + "\n"))
        else:
            self.write(*map(utf8, parts), b"\n")

    def flush(self) -> None:
        """Pass on everything held, to the other side of the stream."""
        held, self._held, self._octets = self._held, [], 0
        self._stream.write(b"".join(held))
        self._stream.flush()
        self._last = monotonic()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or (issubclass(kind, Exception) and not issubclass(kind, BrokenPipeError)):
            self.flush()
