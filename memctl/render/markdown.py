"""Markdown in GitHub's flavour: stored text stands in it as text and is never markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from memctl.render import Bars, Column, Commands, Facts, Grid, Kind, Marks, Report, Row, Section, Target
from memctl.render.cells import NAMES, NUMBERS, exact, json_text, row_cells, vector_shapes
from memctl.render.pretty import layout
from memctl.render.text import escape
from memctl.render.writer import Writer

_MARKUP = re.compile(r"[\\`*\[\]|~$#{}]|(?<![^\W_])_|_(?![^\W_])|(?<=\w):(?=//)|(?<=www)\.")
_suspicious = re.compile(r"[\\`*\[\]|~$#{}_&<>]").search
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_WIDEST_BAR = 20
_FENCED_WIDTH = 100


def escape_markup(text: str) -> str:
    """Return text, already without line feeds, that Markdown shows as it stands, in a table too."""
    if not _suspicious(text) and "://" not in text and "www." not in text:
        return text
    for character, entity in _ENTITIES.items():
        text = text.replace(character, entity)
    return _MARKUP.sub(r"\\\g<0>", text)


class Markdown:
    """A table, a section for each item, or a section for each part of a report."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        with Writer(self._target.stream) as out:
            _write_table(out, columns, rows, tree=tree)

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        with Writer(self._target.stream) as out:
            for number, row in enumerate(rows):
                if number:
                    out.line("")
                _write_item(out, columns, row)

    def report(self, report: Report) -> None:
        with Writer(self._target.stream) as out:
            if report.headline:
                out.line(f"**{escape_markup(escape(report.headline))}**")
            for number, section in enumerate(report.sections):
                if number or report.headline:
                    out.line("")
                _write_section(out, section)


def _write_table(out: Writer, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
    out.line(_joined(escape_markup(column.name) for column in columns))
    out.line(_joined("---:" if column.kind in NUMBERS else "---" for column in columns))
    cells = row_cells(columns, exact, tree=tree)
    for row in rows:
        out.line(_joined(map(_cell, cells(row))))


def _joined(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Escape a cell; white space at its ends, which parsers drop, may be part of a name or show depth."""
    text = escape_markup(text)
    bare = text.strip()
    if bare == text:
        return text
    before = len(text) - len(text.lstrip())
    after = text[before + len(bare) :]
    return "".join(map(_kept, text[:before])) + bare + "".join(map(_kept, after))


def _kept(space: str) -> str:
    return "&nbsp;" if space == " " else f"&#{ord(space)};"


def _write_item(out: Writer, columns: Sequence[Column], row: Row) -> None:
    names = [column for column in columns if column.kind in NAMES]
    values = [column for column in columns if column.kind is Kind.JSON and column.name != "vectors"]
    heading = " / ".join(_cell(exact(column)(row.get(column.name))) for column in names)
    out.line(f"## {heading}")
    out.line("")
    for column in columns:
        if column in names or column in values or column.name == "vectors":
            continue
        if row.get(column.name) is not None:
            out.line(f"- {escape_markup(column.name)}: {_cell(exact(column)(row[column.name]))}")
    if row.get("vectors"):
        out.line(f"- vectors: {escape_markup(vector_shapes(row['vectors']))}")
    for problem in row.get("problems") or ():
        out.line(f"- problem: {_cell(escape(problem['part'] + ': ' + problem['reason']))}")
    for column in values:
        if row.get(column.name) is not None:
            out.line("")
            _write_fenced(out, json_text(row[column.name]))


def _write_fenced(out: Writer, text: str) -> None:
    """Write JSON in a code block whose fence is longer than any run of backticks inside."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    out.line(f"{fence}json")
    for line in layout(text, _FENCED_WIDTH):
        out.line(*(part for _, part in line))
    out.line(fence)


def _write_section(out: Writer, section: Section) -> None:
    if section.title:
        out.line(f"## {escape_markup(escape(section.title))}")
        out.line("")
    match section:
        case Facts(pairs=pairs):
            out.line("| | |")
            out.line("| --- | --- |")
            for name, text in pairs:
                out.line(_joined((_cell(escape(name)), _cell(escape(text)))))
        case Grid(columns=columns, rows=rows):
            _write_table(out, columns, rows)
        case Marks(lines=lines):
            out.line("| | | | |")
            out.line("| --- | --- | ---: | --- |")
            for _, mark, name, number, words in lines:
                out.line(_joined(_cell(escape(text)) for text in (mark, name, number, words)))
        case Commands(lines=commands):
            out.line("```sh")
            for command in commands:
                out.line(escape(command))
            out.line("```")
        case Bars(bars=bars, note=note):
            if note:
                out.line(escape_markup(escape(note)))
                out.line("")
            out.line("| | | count |")
            out.line("| --- | --- | ---: |")
            peak = max((count for _, count in bars), default=0)
            for name, count in bars:
                drawn = "█" * -(-count * _WIDEST_BAR // peak) if count > 0 else ""
                out.line(_joined((_cell(escape(name)), drawn, str(count))))
