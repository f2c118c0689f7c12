"""What people read: tables, whole items and reports, coloured by Rich on a terminal, plain in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from memctl.render import Bars, Column, Commands, Facts, Grid, Kind, Marks, Report, Row, Section, Target
from memctl.render.cells import NAMES, Cell, json_text, vector_shapes
from memctl.render.pretty import Span, layout
from memctl.render.text import escape, width
from memctl.render.units import distance
from memctl.render.writer import Writer

_WIDEST_BAR = 60
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Pen(Protocol):
    """Draws on one kind of target; the styles of spans are names that it knows or ignores."""

    def line(self, spans: Iterable[Span] = (), *, hang: int = 0) -> None:
        """Write one line. If it is folded, what follows is indented by `hang`."""
        ...

    def grid(
        self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False, indent: int = 0
    ) -> None:
        """Write a table."""
        ...

    def label(self, column: Column) -> str:
        """Return what stands over a column, or before its value."""
        ...

    def cell(self, column: Column) -> Cell:
        """Return what turns a column's values into the text that is shown."""
        ...


class Table:
    """Rows as a table, an item as a block, a report as a page."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        with self._pen() as pen:
            pen.grid(columns, rows, tree=tree)

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        with self._pen() as pen:
            for number, row in enumerate(rows):
                if number:
                    pen.line()
                _draw_item(pen, columns, row, self._target)

    def report(self, report: Report) -> None:
        with self._pen() as pen:
            if report.headline:
                pen.line([("headline", escape(report.headline))])
            for number, section in enumerate(report.sections):
                if number or report.headline:
                    pen.line()
                self._section(pen, section)

    def _section(self, pen: Pen, section: Section) -> None:
        if section.title:
            pen.line([("title", escape(section.title))])
        match section:
            case Facts(pairs=pairs):
                _draw_facts(pen, pairs)
            case Grid(columns=columns, rows=rows):
                pen.grid(columns, rows, indent=2)
            case Marks(lines=lines):
                _draw_marks(pen, lines)
            case Commands(lines=commands):
                for command in commands:
                    pen.line([("label", "  $ "), ("", escape(command))])
            case Bars(bars=bars, note=note):
                if note:
                    pen.line([("label", "  " + escape(note))], hang=2)
                _draw_bars(pen, bars, self._target)

    @contextmanager
    def _pen(self) -> Iterator[Pen]:
        with Writer(self._target.stream) as out:
            if self._target.is_terminal:
                from memctl.render.terminal import Terminal

                yield Terminal(out, self._target)
            else:
                from memctl.render.plain import Plain

                yield Plain(out)


def _draw_item(pen: Pen, columns: Sequence[Column], row: Row, target: Target) -> None:
    """Draw the name, the times and other small columns, the problems, the vectors, the value."""
    names = [column for column in columns if column.kind in NAMES]
    values = [column for column in columns if column.kind is Kind.JSON and column.name != "vectors"]
    header: list[Span] = []
    for column in names:
        text = pen.cell(column)(row.get(column.name))
        header += [("", "  ")] if header else []
        header.append(("key" if column.kind is Kind.KEY else "namespace", text))
    pen.line(header)
    facts: list[list[Span]] = []
    for column in columns:
        if column in names or column in values or column.name == "vectors" or row.get(column.name) is None:
            continue
        fact: list[Span] = [("label", pen.label(column) + " "), ("", pen.cell(column)(row[column.name]))]
        if column.name == "expires_at" and target.is_terminal and target.now:
            fact.append(("label", distance(row[column.name], target.now)))
        facts.append(fact)
    for line in _packed(facts, target.width if target.is_terminal else None):
        pen.line(line)
    for problem in row.get("problems") or ():
        pen.line([("", "  "), ("problem", escape(f"{problem['part']}: {problem['reason']}"))], hang=4)
    if row.get("vectors"):
        pen.line([("", "  "), ("label", "vectors "), ("", vector_shapes(row["vectors"]))], hang=10)
    for column in values:
        if row.get(column.name) is not None:
            for line in layout(json_text(row[column.name]), target.width - 2):
                margin = len(line[0][1]) if line[0][0] == "mark" and line[0][1].isspace() else 0
                pen.line([("", "  "), *line], hang=margin + 4)


def _packed(facts: Iterable[Sequence[Span]], room: int | None) -> Iterator[list[Span]]:
    """Yield indented lines of as many facts as fit, none of them broken; without `room` it is one line."""
    line: list[Span] = []
    filled = 0
    for fact in facts:
        size = 2 + sum(width(text) for _, text in fact)
        if line and room is not None and filled + size > room:
            yield line
            line, filled = [], 0
        line += [("", "  "), *fact]
        filled += size
    if line:
        yield line


def _draw_facts(pen: Pen, pairs: Sequence[tuple[str, str]]) -> None:
    shown = [(escape(name), escape(text)) for name, text in pairs]
    widest = max((width(name) for name, _ in shown), default=0)
    for name, text in shown:
        pen.line([("label", "  " + _pad(name, widest) + "  "), ("", text)], hang=widest + 4)


def _draw_marks(pen: Pen, lines: Sequence[tuple[str, str, str, str, str]]) -> None:
    shown = [(level, *map(escape, (mark, name, number, words))) for level, mark, name, number, words in lines]
    marks, names, numbers = (max((width(line[part]) for line in shown), default=0) for part in (1, 2, 3))
    for level, mark, name, number, words in shown:
        figure = " " * (numbers - width(number)) + number
        head = [(level, _pad(mark, marks)), ("", "  "), ("key", _pad(name, names)), ("", f"  {figure}  ")]
        pen.line([*head, ("", words)], hang=marks + names + numbers + 6)


def _draw_bars(pen: Pen, bars: Sequence[tuple[str, int]], target: Target) -> None:
    shown = [(escape(name), count, f"{count:,}") for name, count in bars]
    peak = max((count for _, count, _ in shown), default=0)
    widest = max((width(name) for name, _, _ in shown), default=0)
    digits = max((len(figure) for _, _, figure in shown), default=0)
    room = max(min(target.width - widest - digits - 6, _WIDEST_BAR), 8)
    for name, count, figure in shown:
        drawn = _bar(count, peak, room, target.is_unicode)
        pen.line(
            [
                ("label", f"  {_pad(name, widest)}  "),
                ("bar", drawn),
                ("" if count else "label", f"{' ' if drawn else ''}{figure}"),
            ]
        )


def _bar(count: int, peak: int, room: int, is_unicode: bool) -> str:
    """Return a bar that fills `room` at the peak; what is more than nothing can be seen."""
    if count <= 0:
        return ""
    if not is_unicode:
        return "#" * max(round(count * room / peak), 1)
    full, eighths = divmod(max(round(count * room * 8 / peak), 1), 8)
    return "█" * full + _EIGHTHS[eighths].strip()


def _pad(text: str, size: int) -> str:
    return text + " " * (size - width(text))
