r"""CSV and TSV for programs: a header line, then one line a row; null is empty.

CSV quotes as RFC 4180 does, with a line feed at the end of each record, and quotes the empty text to tell it
from null. TSV writes tab, line feed, carriage return and backslash as `\t \n \r \\` and quotes nothing, so
that splitting at line feeds and tabs is always right. Other control characters are as stored, but on a
terminal, where they are escaped as in a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memctl.render import Column, Kind, Report, Row, Target
from memctl.render.cells import namespace, stored
from memctl.render.text import escape
from memctl.render.writer import Writer

_needs_quotes = re.compile(r'[",\r\n]').search
_needs_escape = re.compile(r"[\\\t\n\r]").search
_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


class _Delimited:
    delimiter: str
    blank = ""
    """What stands for a record that would be an empty line."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        cells = [
            (column.name, self._namespace if column.kind is Kind.NAMESPACE else self._cell)
            for column in columns
        ]
        records = ([cell(row.get(name)) for name, cell in cells] for row in rows)
        self._write([column.name for column in columns], records)

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        self.rows(columns, rows)

    def report(self, report: Report) -> None:
        self._write(["name", "value"], (map(self._cell, leaf) for leaf in _flatten("", report.data)))

    def _write(self, names: Sequence[str], records: Iterable[Iterable[str]]) -> None:
        with Writer(self._target.stream) as out:
            out.line(self.delimiter.join(names))
            for record in records:
                out.line(self.delimiter.join(record) or self.blank)

    def _cell(self, value: Any) -> str:
        """Return one field; null is bare nothing."""
        if value is None:
            return ""
        return str(value) if type(value) is int else self._field(stored(value))

    def _namespace(self, value: Any) -> str:
        return "" if value is None else self._field(namespace(value))

    def _field(self, text: str) -> str:
        field = self.text(text)
        return "\n".join(map(escape, field.split("\n"))) if self._target.is_terminal else field

    @staticmethod
    def text(text: str) -> str:
        """Return text as a field."""
        raise NotImplementedError


class Csv(_Delimited):
    """Comma-separated values."""

    delimiter = ","
    blank = '""'

    @staticmethod
    def text(text: str) -> str:
        """Return text as a field; the empty text is two quotes."""
        if not text or _needs_quotes(text):
            return '"' + text.replace('"', '""') + '"'
        return text


class Tsv(_Delimited):
    """Tab-separated values."""

    delimiter = "\t"

    @staticmethod
    def text(text: str) -> str:
        """Return text as a field, which holds neither tab nor line feed."""
        return text.translate(_TSV_ESCAPES) if _needs_escape(text) else text


def _flatten(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested data, each under its dotted name."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    named = [(f"{path}.{name}" if path else str(name), part) for name, part in parts]
    if not named:
        yield path, value
    for name, part in named:
        yield from _flatten(name, part)
