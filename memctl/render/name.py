r"""Names, one a line, to be read back by `--from`: namespace, tab, key.

A backslash is `\\`, a tab `\t`, a line feed `\n`; every other hidden character, and every byte that is no
UTF-8, is its bytes as `\xNN`. What stands in a namespace or key never breaks a line, and comes back whole.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence

from memctl.errors import UsageError
from memctl.model import decode
from memctl.namespaces import parse_exact, show
from memctl.render import Column, Kind, Report, Row, Target
from memctl.render.text import HIDDEN, LONE_SURROGATE
from memctl.render.writer import Writer

_ESCAPED = re.compile(rf"\\|{HIDDEN}|{LONE_SURROGATE}")
_ESCAPE = re.compile(rb"\\(?:([\\tn])|x([0-9a-fA-F]{2}))?")
_SHORT = {"\\": r"\\", "\t": r"\t", "\n": r"\n"}
_LONG = {b"\\": b"\\", b"t": b"\t", b"n": b"\n"}


def parse_name(line: bytes) -> tuple[str, str]:
    """Read one line as `Name` writes it: the namespace as stored, and the key.

    The line feed at its end may be there or not. Raises UsageError that says what is wrong with the line.
    """
    fields = line.removesuffix(b"\n").split(b"\t")
    if len(fields) != 2:
        fault = "has no tab between namespace and key" if len(fields) < 2 else "has more than one tab"
        raise UsageError(f"{_quote(line)} {fault}", hint=r"NAMESPACE, TAB, KEY; a tab inside is written \t")
    prefix, key = (decode(_ESCAPE.sub(lambda match: _unescape(match, line), part)) for part in fields)
    return parse_exact(prefix), key


class Name:
    """Namespace, tab, key; only the namespace where rows are namespaces."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        name_of = _namer(columns)
        with Writer(self._target.stream) as out:
            for row in rows:
                out.line(name_of(row))

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        self.rows(columns, rows)

    def report(self, report: Report) -> None:
        raise UsageError("this answer has no names", hint="choose another --output")


def _namer(columns: Sequence[Column]) -> Callable[[Row], str]:
    space = next((column.name for column in columns if column.kind is Kind.NAMESPACE), None)
    key = next((column.name for column in columns if column.kind is Kind.KEY), None)
    if space is None:
        raise UsageError("these rows have no names", hint="choose another --output")

    def name_of(row: Row) -> str:
        prefix = decode(b64decode(row["prefix_base64"])) if "prefix_base64" in row else ".".join(row[space])
        spelled = _escape(show(prefix))
        if key is None:
            return spelled
        return (
            f"{spelled}\t{_escape(decode(b64decode(row['key_base64'])) if 'key_base64' in row else row[key])}"
        )

    return name_of


def _original(row: Row, name: str) -> str:
    return decode(b64decode(row[name]))


def _escape(text: str) -> str:
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return _ESCAPED.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    try:
        octets = character.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "\ufffd"
    return "".join(f"\\x{octet:02x}" for octet in octets)


def _unescape(match: re.Match[bytes], line: bytes) -> bytes:
    short, digits = match.groups()
    if digits is not None:
        return bytes.fromhex(digits.decode())
    if short is None:
        raise UsageError(
            f"{_quote(line)} has a backslash that begins no escape",
            hint=r"the escapes are \\ \t \n \xNN",
        )
    return _LONG[short]


def _quote(line: bytes) -> str:
    shown = line.removesuffix(b"\n").decode("utf-8", "replace")
    return f"the name {shown if len(shown) <= 80 else shown[:80] + '…'!r}"
