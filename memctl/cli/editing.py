"""A text in the user's own editor; what was typed is never lost."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memctl.errors import MemctlError, UsageError

if TYPE_CHECKING:
    from memctl.cli.context import Context
    from memctl.model import Item

_FALLBACK = "vi"


def pretty(item: Item | None) -> bytes:
    """Return a value for reading, every digit as it is; what is no JSON as it stands there."""
    value = b"{}" if item is None or item.value is None else item.value
    formatted = _formatted(value, indent=2)
    return value if formatted is None else formatted + b"\n"


def compact(item: Item) -> bytes | None:
    """Return a value in its shortest spelling; None for what is no JSON."""
    return _formatted(item.value or b"", indent=-1)


@contextmanager
def edited(context: Context, text: bytes, check: Callable[[bytes], bytes]) -> Iterator[bytes | None]:
    """Have `text` edited and give what `check` makes of it; None where it was left as it is.

    What `check` refuses is offered again on a terminal. If the block, or the editor, ends in an error, the
    text stays in a file, which is named.
    """
    handle, name = tempfile.mkstemp(prefix="memctl-", suffix=".json")
    path = Path(name)
    with os.fdopen(handle, "wb") as file:
        file.write(text)
    try:
        yield _edit(context, path, text, check)
    except BaseException:
        if path.exists() and path.read_bytes() != text:
            context.warn(f"what you wrote is kept in {path}")
        else:
            path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


def _formatted(value: bytes, indent: int) -> bytes | None:
    try:
        return bytes(msgspec.json.format(value, indent=indent))
    except (msgspec.DecodeError, RecursionError):
        return None


def _edit(context: Context, path: Path, text: bytes, check: Callable[[bytes], bytes]) -> bytes | None:
    while True:
        _run(context, path)
        written = path.read_bytes()
        if written == text:
            return None
        try:
            return check(written)
        except UsageError as error:
            if not context.environment.is_terminal(context.environment.stdin):
                raise
            context.say(f"{error.message}. Enter edits it again, q gives up.")
            answer = context.environment.stdin.readline()
            if not answer or answer.strip().lower() == b"q":  # nobody there any more, or enough of it
                raise


def _run(context: Context, path: Path) -> None:
    variables = context.environment.variables
    editor = variables.get("VISUAL") or variables.get("EDITOR") or _FALLBACK
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False)  # noqa: S603 the user's own
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the editor {editor!r} cannot be run: {error}", hint="set VISUAL or EDITOR"
        ) from None
    if done.returncode:
        raise MemctlError(
            f"the editor ended with {done.returncode}: nothing was changed", code="editor-failed"
        )
