"""How wide each column of a table is on a terminal, and which have to go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memctl.render import Column, Kind
from memctl.render.cells import NAMES

GAP = "  "

_DATE = len("2026-11-30")
_WIDEST_NAME = 60
_ROOMY, _NARROW, _NARROWEST = 24, 12, 4


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns shown, by index, each with its width; and those left out."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    left_out: tuple[int, ...]


def fit(
    columns: Sequence[Column], natural: Sequence[int], room: int, empty: frozenset[int] = frozenset()
) -> Fitted:
    """Fit columns that would like `natural` widths into `room`, numbers always whole.

    In this order: minor columns in which nothing stands (`empty`) go, flexible columns give way, the more
    minor columns go, times become dates, the least minor ones go, and all text gives way, the widest column
    first. When even that is too little, the line is longer than the terminal.
    """
    shown = list(range(len(columns)))
    widths = [
        min(size, _WIDEST_NAME)
        if column.kind in NAMES
        else min(size, max(room, _NARROWEST))
        if _is_text(column)
        else size
        for column, size in zip(columns, natural, strict=True)
    ]

    def excess() -> int:
        return sum(widths[index] for index in shown) + len(GAP) * (len(shown) - 1) - room

    def shrink(chosen: Callable[[Column], bool], least: int) -> None:
        while excess() > 0:
            candidates = [
                index for index in reversed(shown) if chosen(columns[index]) and widths[index] > least
            ]
            if not candidates:
                return
            widths[max(candidates, key=widths.__getitem__)] -= 1

    def leave_out(least: int) -> None:
        for index in sorted(shown, key=lambda index: columns[index].minor, reverse=True):
            if columns[index].minor >= least and excess() > 0:
                shown.remove(index)

    if excess() > 0:
        shown = [index for index in shown if index not in empty or not columns[index].minor]
    shrink(_is_flexible, _ROOMY)
    leave_out(2)
    if excess() > 0:
        for index, column in enumerate(columns):
            if column.kind is Kind.INSTANT:
                widths[index] = min(widths[index], _DATE)
    leave_out(1)
    shrink(_is_text, _NARROW)
    shrink(_is_text, _NARROWEST)
    _grow(columns, natural, shown, widths, -excess())
    return Fitted(
        tuple(shown),
        tuple(widths[index] for index in shown),
        tuple(index for index in range(len(columns)) if index not in shown),
    )


def _grow(
    columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], widths: list[int], spare: int
) -> None:
    """Give room that was won back to times, which need it whole, then to text, the rest to the last."""
    for index in shown:
        wanted = natural[index] - widths[index]
        if columns[index].kind is Kind.INSTANT and 0 < wanted <= spare:
            widths[index] += wanted
            spare -= wanted
    for index in shown:
        if _is_text(columns[index]) and spare > 0:
            wanted = spare if index == shown[-1] else min(natural[index] - widths[index], spare)
            widths[index] += max(wanted, 0)
            spare -= max(wanted, 0)


def _is_flexible(column: Column) -> bool:
    return column.flexible or column.kind is Kind.JSON


def _is_text(column: Column) -> bool:
    return _is_flexible(column) or column.kind in NAMES | {Kind.TEXT}
