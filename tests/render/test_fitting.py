"""Which columns a narrow terminal keeps, and how wide."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memctl.render import Column, Kind
from memctl.render.fitting import GAP, Fitted, fit

COLUMNS = (
    Column("namespace", Kind.NAMESPACE),
    Column("key", Kind.KEY),
    Column("bytes", Kind.OCTETS),
    Column("created_at", Kind.INSTANT, minor=3),
    Column("updated_at", Kind.INSTANT),
    Column("expires_at", Kind.INSTANT, minor=1),
    Column("vectors", Kind.COUNT, minor=4),
    Column("preview", flexible=True),
)
NATURAL = (20, 36, 6, 16, 16, 16, 7, 200)


def total(fitted: Fitted) -> int:
    return sum(fitted.widths) + len(GAP) * (len(fitted.widths) - 1)


@pytest.mark.parametrize(
    ("room", "left_out", "widths"),
    [
        (400, (), (20, 36, 6, 16, 16, 16, 7, 269)),
        (200, (), (20, 36, 6, 16, 16, 16, 7, 69)),
        (160, (), (20, 36, 6, 16, 16, 16, 7, 29)),
        (150, (6,), (20, 36, 6, 16, 16, 16, 28)),
        (145, (3, 6), (20, 36, 6, 16, 16, 41)),
        (120, (3, 6), (20, 36, 6, 10, 10, 28)),
        (80, (3, 5, 6), (19, 19, 6, 10, 18)),
    ],
)
def test_what_gives_way_and_when(room: int, left_out: tuple[int, ...], widths: tuple[int, ...]) -> None:
    fitted = fit(COLUMNS, NATURAL, room)
    assert (fitted.left_out, fitted.widths) == (left_out, widths)


@given(st.lists(st.integers(1, 300), min_size=len(COLUMNS), max_size=len(COLUMNS)), st.integers(1, 300))
@example([1, 1, 1, 16, 16, 16, 1, 2], 1)
def test_times_and_numbers_stay_whole(natural: list[int], room: int) -> None:
    natural = [
        16 if column.kind is Kind.INSTANT else size for column, size in zip(COLUMNS, natural, strict=True)
    ]
    fitted = fit(COLUMNS, natural, room)
    assert sorted(fitted.shown + fitted.left_out) == list(range(len(COLUMNS)))
    for index, width in zip(fitted.shown, fitted.widths, strict=True):
        kind = COLUMNS[index].kind
        assert kind is not Kind.INSTANT or width in {10, 16}
        assert kind is not Kind.OCTETS or width == natural[index]
        assert width >= min(natural[index], 4)
    rigid = sum(
        width
        for index, width in zip(fitted.shown, fitted.widths, strict=True)
        if COLUMNS[index].kind in {Kind.OCTETS, Kind.INSTANT}
    )
    if rigid + 3 * 4 + len(GAP) * len(COLUMNS) <= room:
        assert total(fitted) <= room
