"""Tables for a terminal, by Rich: fitted to its width, human units, one colour for what matters.

Rich's `Table` lays out some thousand rows a second and holds them all; here its parts (cell widths, styles,
wrapping) serve rows that stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from operator import le
from typing import Any

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.color import ColorSystem
from rich.style import Style

from memctl.render import Column, Kind, Row, Target
from memctl.render.cells import NAMES, NUMBERS, Cell, exact, row_cells
from memctl.render.fitting import GAP, Fitted, fit
from memctl.render.pretty import Span
from memctl.render.text import escape, utf8
from memctl.render.units import minutes, moment, octets
from memctl.render.writer import Writer

MEASURED_ROWS = 1000
"""Column widths are fixed on so many rows."""

_NUMBER_SLACK, _NAME_SLACK = 3, 8
"""What columns get on top when more rows than those may come: numbers grow, and so do numbered names."""

_MOST_FOLDED = 20_000
"""A longer line is left to the terminal, which folds faster, if not between words."""

_UNPAINTED = ("", "")

_MOST_LINES = 8
"""No cell folds into more."""

_BREAKS = re.compile(r"(?<=[ ./:_-])")

_STYLES = {
    "headline": "bold",
    "title": "bold",
    "label": "dim",
    "header": "dim",
    "key": "bold cyan",
    "namespace": "",
    "problem": "red",
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold blue",
    "bar": "cyan",
    "name": "cyan",
    "number": "green",
    "literal": "green",
    "mark": "dim",
}


class Terminal:
    """Draws lines and grids for a terminal of known width."""

    def __init__(self, out: Writer, target: Target) -> None:
        self._out = out
        self._width = target.width
        self._ellipsis = "…" if target.is_unicode else "..."
        self._rule = "─" if target.is_unicode else "-"
        self._has_color = target.has_color
        self._paints = {name: _ansi(style) for name, style in _STYLES.items()} if target.has_color else {}

    def label(self, column: Column) -> str:
        """Return a column's heading: `created_at` is `created`, and units stand with their numbers."""
        return column.name.removesuffix("_at").removesuffix("_minutes").replace("_", " ")

    def cell(self, column: Column) -> Cell:
        """Return what turns a column's values into short text."""
        human, plain = _HUMAN.get(column.kind), exact(column)
        if human is None:
            return plain
        kind, spell = human
        return lambda value: spell(value) if isinstance(value, kind) else plain(value)

    def line(self, spans: Iterable[Span] = (), *, hang: int = 0) -> None:
        """Write one line, folded between words where `hang` is given and it is too long."""
        spans = list(spans)
        if hang and self._width < sum(cell_len(text) for _, text in spans) < _MOST_FOLDED:
            self._write_folded(spans, hang)
        else:
            self._out.line(*(part for span in spans for part in self._painted(*span)))

    def grid(
        self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False, indent: int = 0
    ) -> None:
        """Write a header, a rule and the rows, and say which columns found no room."""
        cells = row_cells(columns, self.cell, tree=tree)
        waiting = iter(rows)
        measured = [cells(row) for row in islice(waiting, MEASURED_ROWS)]
        margin = " " * indent
        if not measured:
            self.line([("label", margin + "nothing")])
            return
        headings = [self.label(column) for column in columns]
        natural = [max(map(_columns, column)) for column in zip(headings, *measured, strict=True)]
        if len(measured) == MEASURED_ROWS:
            natural = [
                size
                + (_NUMBER_SLACK if column.kind in NUMBERS else _NAME_SLACK if column.kind in NAMES else 0)
                for column, size in zip(columns, natural, strict=True)
            ]
        is_whole = len(measured) < MEASURED_ROWS
        empty = {index for index, cells_of in enumerate(zip(*measured, strict=True)) if not any(cells_of)}
        fitted = fit(columns, natural, self._width - indent, frozenset(empty if is_whole else ()))
        draw = self._row_drawer(columns, fitted, _column_styles(columns))
        cut = list(headings)
        for index, size in zip(fitted.shown, fitted.widths, strict=True):
            if len(cut[index]) > size:
                cut[index] = self._cut(cut[index], size)[0]
        for text in self._row_drawer(columns, fitted, ["header"] * len(columns))(cut):
            self._out.line(margin + text)
        total = sum(fitted.widths) + len(GAP) * (len(fitted.widths) - 1)
        self.line([("header", margin + self._rule * min(total, self._width - indent))])
        for ready in measured:
            for text in draw(ready):
                self._out.line(margin + text)
        measured.clear()
        for row in waiting:
            for text in draw(cells(row)):
                self._out.line(margin + text)
        if fitted.left_out:
            names = ", ".join(headings[index] for index in fitted.left_out)
            self.line([("label", f"{margin}not shown, for want of width: {names}")], hang=indent + 2)

    def _row_drawer(
        self, columns: Sequence[Column], fitted: Fitted, styles: Sequence[str]
    ) -> Callable[[Sequence[str]], Iterator[str]]:
        """Return what draws a row's cells as one line, or as several where a name is folded."""
        chosen = [columns[index] for index in fitted.shown]
        shorteners = [self._shortener(column) for column in chosen]
        paints = [self._paints.get(styles[index], _UNPAINTED) for index in fitted.shown]
        alignments = [column.kind in NUMBERS for column in chosen]
        padded = list(fitted.widths)
        if not alignments[-1]:
            padded[-1] = 0
        template = GAP.join(
            f"{on}%{'' if to_right else '-'}{size}s{off}"
            for size, to_right, (on, off) in zip(padded, alignments, paints, strict=True)
        )

        def drawn(cells: Sequence[str]) -> str:
            if all(map(str.isascii, cells)):
                return template % tuple(cells)
            return GAP.join(
                f"{on}{_pad(cell, size, to_right)}{off}"
                for cell, size, to_right, (on, off) in zip(cells, padded, alignments, paints, strict=True)
            )

        def draw(cells: Sequence[str]) -> Iterator[str]:
            cells = [cells[index] for index in fitted.shown]
            if all(map(le, map(_columns, cells), fitted.widths)):
                yield drawn(cells)
                return
            stacks = [
                [cell] if _columns(cell) <= size else shorten(cell, size)
                for cell, size, shorten in zip(cells, fitted.widths, shorteners, strict=True)
            ]
            for line in zip_longest(*stacks, fillvalue=""):
                yield drawn(line)

        return draw

    def _shortener(self, column: Column) -> Callable[[str, int], list[str]]:
        if column.flexible or column.kind is Kind.JSON:
            return self._cut
        if column.kind in NUMBERS:
            return lambda text, _width: [text]
        if column.kind is Kind.INSTANT:
            return lambda text, width: [text[:width]]
        return self._fold

    def _cut(self, text: str, width: int) -> list[str]:
        return [set_cell_size(text, max(width - len(self._ellipsis), 0)).rstrip() + self._ellipsis]

    def _fold(self, text: str, width: int) -> list[str]:
        """Fold a name, after a separator where there is one."""
        lines = [""]
        for piece in _BREAKS.split(text):
            if cell_len(lines[-1]) + cell_len(piece) <= width:
                lines[-1] += piece
                continue
            lines += chop_cells(piece, width)
            if len(lines) > _MOST_LINES:
                break
        lines = [line for line in lines if line]
        if len(lines) > _MOST_LINES:
            lines = [*lines[: _MOST_LINES - 1], *self._cut(lines[_MOST_LINES - 1] + " " * width, width)]
        return lines

    def _write_folded(self, spans: Sequence[Span], hang: int) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(
            file=_Sink(self._out),  # type: ignore[arg-type]
            width=self._width,
            force_terminal=True,
            color_system="standard" if self._has_color else None,
            no_color=False,
        )
        whole = Text.assemble(*((text, _STYLES.get(style, "")) for style, text in spans))
        head, rest = whole.divide([hang])
        for line in rest.wrap(console, max(self._width - hang, 20)):
            console.print(head + line, soft_wrap=True)
            head = Text(" " * hang)

    def _painted(self, style: str, text: str) -> tuple[str, str, str]:
        on, off = self._paints.get(style, _UNPAINTED)
        return on, text, off


class _Sink:
    """The little of a text file that a Rich console needs."""

    def __init__(self, out: Writer) -> None:
        self._out = out

    def write(self, text: str) -> None:
        self._out.write(utf8(text))

    def flush(self) -> None:
        """Leave that to the writer."""


def _columns(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _pad(cell: str, size: int, to_right: bool) -> str:
    blank = " " * (size - _columns(cell))
    return blank + cell if to_right else cell + blank


def _ansi(style: str) -> tuple[str, str]:
    """Return what switches a style on and off again."""
    on, off = Style.parse(style).render("\0", color_system=ColorSystem.STANDARD).split("\0")
    return on, off


def _column_styles(columns: Sequence[Column]) -> list[str]:
    """Return each column's style: the last part of the name stands out."""
    kinds = [column.kind for column in columns]
    named = next((kind for kind in (Kind.KEY, Kind.NAMESPACE) if kind in kinds), None)
    return ["key" if kind is named else "" for kind in kinds]


_HUMAN: dict[Kind, tuple[type | tuple[type, ...], Callable[[Any], str]]] = {
    Kind.COUNT: (int, "{:,}".format),
    Kind.OCTETS: ((int, float), octets),
    Kind.MINUTES: ((int, float), minutes),
    Kind.SCORE: ((int, float), "{:.4f}".format),
    Kind.INSTANT: (str, lambda instant: escape(moment(instant))),
}
