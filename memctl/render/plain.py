"""Tables for pipes and files: aligned by `tabulate`, full width, never cut, without colour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import tabulate

from memctl.render import Column, Row
from memctl.render.cells import NUMBERS, Cell, exact, row_cells
from memctl.render.pretty import Span
from memctl.render.text import width
from memctl.render.writer import Writer

MEASURED_ROWS = 1000
"""Column widths are fixed on so many rows; a longer cell further down pushes its line out, whole."""

WIDEST = 120
"""No column is made wider for the sake of a few long cells; those push their lines out, too."""

_STAND_IN = "\ue000"
_STAND_INS = re.compile(f"{_STAND_IN}+")
_GAP = "  "


class Plain:
    """Draws lines and grids as bare text."""

    def __init__(self, out: Writer) -> None:
        self._out = out

    def line(self, spans: Iterable[Span] = (), *, hang: int = 0) -> None:
        """Write one line."""
        self._out.line(*(text for _, text in spans))

    def label(self, column: Column) -> str:
        """Return a column's heading: its name in JSON."""
        return column.name

    def cell(self, column: Column) -> Cell:
        """Return what turns a column's values into text that loses nothing."""
        return exact(column)

    def grid(
        self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False, indent: int = 0
    ) -> None:
        """Write a header and the rows."""
        cells = row_cells(columns, self.cell, tree=tree)
        waiting = iter(rows)
        measured = [cells(row) for row in islice(waiting, MEASURED_ROWS)]
        margin = " " * indent
        headers = [self.label(column) for column in columns]
        right = [column.kind in NUMBERS for column in columns]
        for text in _tabulated(headers, measured, right):
            self._out.line(margin + text)
        widths = [
            max([len(header) + tabulate.MIN_PADDING, *(min(width(cell), WIDEST) for cell in column)])
            for header, column in zip(headers, _columns(measured, len(columns)), strict=True)
        ]
        measured.clear()
        for text in _aligned(map(cells, waiting), widths, right):
            self._out.line(margin + text)


def _columns(rows: Sequence[Sequence[str]], count: int) -> Iterable[Sequence[str]]:
    return zip(*rows, strict=True) if rows else [()] * count


def _tabulated(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a table.

    `tabulate` measures characters, not columns of a terminal, trims cells, and pads a column to its widest
    one. A cell for which that is wrong goes in as a stand-in, a run of one private character, and is put back
    afterwards.
    """
    odd: list[str] = []

    def safe(cell: str) -> str:
        if cell.isascii() and cell == cell.strip() and len(cell) <= WIDEST:
            return cell
        odd.append(cell)
        return _STAND_IN * min(max(width(cell), 1), WIDEST)

    text = tabulate.tabulate(
        [[safe(cell) for cell in row] for row in rows],
        headers=headers,
        tablefmt="plain",
        disable_numparse=True,
        colalign=["right" if it else "left" for it in right] if rows else None,
    )
    originals = iter(odd)
    yield from _STAND_INS.sub(lambda _: next(originals), text).split("\n")


def _aligned(rows: Iterable[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """Yield lines that look as `tabulate` would have made them."""
    padded = [
        size if it or column < len(widths) - 1 else 0
        for column, (size, it) in enumerate(zip(widths, right, strict=True))
    ]
    template = _GAP.join(f"%{size}s" if it else f"%-{size}s" for size, it in zip(padded, right, strict=True))
    for row in rows:
        line = template % row
        if not line.isascii():
            line = _GAP.join([_pad(*cell) for cell in zip(row, padded, right, strict=True)])
        yield line if row[-1] else line.rstrip(" ")


def _pad(cell: str, size: int, to_right: bool) -> str:
    blank = " " * (size - width(cell))
    return blank + cell if to_right else cell + blank
