"""`--rejects FILE`: what could not be brought in, as it came, each with the reason why."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

from memctl.errors import UsageError

if TYPE_CHECKING:
    from memctl.cli.context import Context
    from memctl.transfer import Rejected

Originals = Callable[[], Iterator[tuple[int, bytes]]]
"""Reads a source once more: the number of each of its lines, and the line as it stands there."""

_REASON = b',"rejected":{"line":'
_Record = tuple[int | None, str | None, str, bytes | None]
"""Line, part, reason, and the text where it cannot be looked up by the line."""


class Rejects:
    """Takes what is rejected, and gives it to a file when all is done; there is none for nothing.

    With --verbose each is told at once. Raises UsageError for a file that exists.
    """

    def __init__(self, context: Context, named: str | None, unit: str, originals: Originals | None) -> None:
        self._context, self._named, self._unit, self._originals = context, named, unit, originals
        self._path = None if named is None else context.file(named)
        if self._path is not None and os.path.lexists(self._path):
            raise UsageError(f"--rejects {named}: that file exists already")
        if self._path is not None and not os.access(self._path.parent, os.W_OK):
            raise UsageError(f"--rejects {named}: the folder {self._path.parent} cannot be written")
        self._spool: IO[bytes] = BytesIO()
        if self._path is not None:
            self._spool = context.until_the_end(tempfile.TemporaryFile(prefix="memctl-"))  # noqa: SIM115
        self._count = 0

    def __call__(self, rejected: Rejected) -> None:
        """Take what cannot be brought in."""
        from memctl.archive import line_of

        if self._context.is_verbose:
            self._context.warn(told(rejected, self._unit))
        if self._path is None:
            return
        text = rejected.raw
        if text is None and rejected.item is not None and (rejected.line is None or self._originals is None):
            text = line_of(rejected.item)
        record: _Record = rejected.line, rejected.part, rejected.reason, text
        pickle.dump(record, self._spool)
        self._count += 1

    def restart(self) -> None:
        """Forget what was taken: it comes again."""
        self._spool.seek(0)
        self._spool.truncate()
        self._count = 0

    def publish(self) -> None:
        """Write the file, if there is anything for it."""
        from memctl.archive import new_file

        if self._path is None or not self._count:
            return
        with new_file(self._path) as stream:
            for record in self._completed():
                stream.write(_line(record))

    def _completed(self) -> Iterator[_Record]:
        """Yield what was taken in the order of the source, each with its text."""
        from memctl.sorting import sort

        self._spool.seek(0)
        records = (pickle.load(self._spool) for _ in range(self._count))  # noqa: S301 its own
        originals = self._originals() if self._originals is not None else iter(())
        found = (0, b"")
        for line, part, reason, text in sort(records, key=lambda record: record[0] or 0, size=_octets):
            while text is None and found[0] != line:
                found = next(originals)
            yield line, part, reason, found[1] if text is None else text


def told(rejected: Rejected, unit: str) -> str:
    """Say what was rejected, and why."""
    from memctl.model import shown
    from memctl.namespaces import show

    where = f"{unit} {rejected.line:,}: " if rejected.line is not None else ""
    item = rejected.item
    name = f"{show(shown(item.prefix))} {shown(item.key)!r}: " if item else ""
    return f"{where}{name}{rejected.part + ': ' if rejected.part else ''}{rejected.reason}"


def _octets(record: _Record) -> int:
    return len(record[3] or b"")


def _line(record: _Record) -> bytes:
    """Return a line that `import` takes back, with a member that it does not look at."""
    import orjson

    from memctl.values import one_line

    line, part, reason, text = record
    text = (text or b"").strip()
    if not _is_object(text):
        return text + b"\n"
    text = one_line(text)
    if (start := text.rfind(_REASON)) >= 0 and _is_object(text[:start] + b"}"):  # it was rejected before
        text = text[:start] + b"}"
    why: dict[str, Any] = {"line": line, "part": part, "reason": reason}
    between = b"," if text[1:-1].strip() else b""
    return b"%b%b%b}\n" % (text[:-1], between, b'"rejected":' + orjson.dumps(why))


def _is_object(text: bytes) -> bool:
    import msgspec

    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
