"""Items by column are the same items: as they are read, written and compared."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memctl.archive import Header, Writer, line_of, write
from memctl.archive.parsing import parse, run_of
from memctl.blocks import Block, Piece
from memctl.compare import merge, pair
from memctl.model import EVERYTHING, Detail, Item, Problem, Scope, Vector
from memctl.stores.postgres import columns as postgres
from memctl.stores.postgres import decode
from memctl.stores.postgres.encode import binary_row, line, lines, vector_cells, vector_rows
from memctl.stores.postgres.holding import Holding, Judge
from memctl.stores.sqlite import columns
from memctl.stores.sqlite import encode as sqlite
from memctl.stores.sqlite.schema import create
from memctl.stores.sqlite.store import SqliteStore
from tests.archive.samples import item, many, vector

HEADER = Header("sqlite", "2026-11-30T08:00:00.000000Z")
LIMITS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)

_GOOD_TIMES = ("2026-11-30 07:42:43", "2024-02-29 23:59:59", "0001-01-01 00:00:00", "2026-11-30 07:42:43.25")
_ODD_TIMES = (
    "2026-02-29 00:00:00",
    "2026-11-30T07:42:43",
    "2026-11-30 07:42:43\n",
    "",
    1.5e9,
    b"2026",
    "soon",
)
_NAMES = st.sampled_from(
    ("a", "a.b", "a-b", "", ".", "é", 'say "x"', "back\\slash", "l\nf", "\0", "東", "a,b")
)
_ODD_NAMES = st.sampled_from((b"blob", b"\xff"))
_VALUES = st.sampled_from(
    (
        b'{"n":1}',
        '{"t":"é"}'.encode(),
        b' {"n":1}',
        b'{"n":\n1}',
        b'{"n":"\\ud800"}',
        b"[1",
        b'{"r":\r1}',
        b"1",
    )
)
_ODD_VALUES = st.sampled_from(('{"text":"é"}', b'{"\xff":1}', b'1,"key":2', b"", 5))
_EXPIRIES = st.sampled_from(
    (None, None, "2026-11-30 07:42:43.843759+00:00", "2026-11-30 09:13:09", *_ODD_TIMES)
)
_MINUTES = st.sampled_from((None, None, 60, 0.4, 1440.0, 1e16, "soon", b"1", float("inf"), 0.1 + 0.2))


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Rows of a table `store`; in some of these stores nearly all is as it should be."""
    odd = draw(st.sampled_from((0, 1, 9)))

    def either(good: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> Any:
        return draw(other if draw(st.integers(1, 20)) <= odd else good)

    good, other = st.sampled_from(_GOOD_TIMES), st.sampled_from(_ODD_TIMES)
    return [
        (
            either(_NAMES, _ODD_NAMES),
            f"{number:02}" if draw(st.booleans()) else either(_NAMES, _ODD_NAMES),
            either(_VALUES, _ODD_VALUES),
            either(good, other),
            either(good, other),
            draw(_EXPIRIES),
            draw(_MINUTES),
        )
        for number in range(draw(st.integers(1, 25)))
    ]


def make(path: Path, items: Sequence[tuple[Any, ...]]) -> None:
    """Make a store in WAL mode, which is read in one snapshot, with a vector for every third item."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        create(connection, vectors=True)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executemany("INSERT OR IGNORE INTO store VALUES (?, ?, ?, ?, ?, ?, ?)", items)
        # Text that is no UTF-8 is a BLOB to Python, and becomes text here.
        connection.execute("UPDATE store SET key = CAST(key AS TEXT) WHERE key = x'ff'")
        connection.execute(
            "INSERT INTO store_vectors SELECT prefix, key, f, e, created_at, updated_at FROM store, "
            "(SELECT 'text' AS f, x'0000803f' AS e UNION ALL SELECT char(10), x'00' UNION ALL SELECT 'z', NULL) "
            "WHERE (store.rowid + length(f) + length(e)) % 3 = 0"
        )


def opened(path: Path) -> SqliteStore:
    return SqliteStore(path, clock=lambda: datetime(2026, 11, 30, tzinfo=UTC))


def singly(pieces: Iterator[Piece]) -> Iterator[Item]:
    for piece in pieces:
        yield from piece.items() if isinstance(piece, Block) else piece


def written(pieces: Iterator[Piece], header: Header) -> bytes:
    out = io.BytesIO()
    with Writer(out, header) as writer:
        for piece in pieces:
            if isinstance(piece, Block):
                writer.add(piece)
            else:
                writer.extend(piece)
    return out.getvalue()


@LIMITS
@given(rows(), st.sampled_from((1, 3, 250)), st.sampled_from((None, "a", "a.b", "")))
def test_a_file_holds_the_same_by_column(
    tmp_path: Path, items: list[tuple[Any, ...]], size: int, prefix: str | None
) -> None:
    make(tmp_path / "store.db", items)
    scope = EVERYTHING if prefix is None else Scope(prefix)
    rows_before, columns._ROWS = columns._ROWS, size
    try:
        with closing(opened(tmp_path / "store.db")) as store:
            for detail in Detail:
                expected = list(store.scan(scope, vectors=detail))
                assert list(singly(store.blocks(scope, vectors=detail))) == expected
                if detail is Detail.SHAPE:
                    continue
                header = (
                    HEADER
                    if detail is Detail.FULL
                    else Header("sqlite", HEADER.created, missing=("vectors",))
                )
                out = io.BytesIO()
                write(out, header, expected)
                assert written(store.blocks(scope, vectors=detail), header) == out.getvalue()
    finally:
        columns._ROWS = rows_before


def test_plain_rows_come_in_blocks(tmp_path: Path) -> None:
    cells = (b'{"n":1}', "2026-11-30 07:42:43", "2026-11-30 07:42:44", "2026-11-30 07:42:43+00:00", 60)
    make(tmp_path / "store.db", [("a", f"{number:04}", *cells) for number in range(600)])
    with closing(opened(tmp_path / "store.db")) as store:
        pieces = list(store.blocks(EVERYTHING, vectors=Detail.NONE))
    assert all(isinstance(piece, Block) for piece in pieces)
    assert sum(len(piece) for piece in pieces if isinstance(piece, Block)) == 600


def block(items: Sequence[Item]) -> Block:
    """Put items side by side."""
    columns = zip(
        *[(i.prefix, i.key, i.value, i.created_at, i.updated_at, i.expires_at, i.ttl_minutes) for i in items],
        strict=True,
    )
    return Block(*columns, {place: each.vectors for place, each in enumerate(items) if each.vectors})


@st.composite
def pieces(draw: st.DrawFn, items: Sequence[Item]) -> list[Piece]:
    """Cut items into pieces, and some of these into blocks."""
    cuts = sorted(draw(st.sets(st.integers(1, len(items)), max_size=4)) | {0, len(items)})
    parts = [items[start:end] for start, end in pairwise(cuts)]
    return [block(part) if draw(st.booleans()) else part for part in parts]


def test_a_block_can_be_cut() -> None:
    items = many(10)
    first, rest = block(items).cut(4)
    assert (list(first.items()), list(rest.items())) == (items[:4], items[4:])
    assert len(rest) == 6


@LIMITS
@given(st.data(), st.sets(st.integers(0, 11), max_size=3), st.sets(st.integers(0, 11), max_size=3))
def test_pieces_are_compared_as_their_items_are(
    data: st.DataObject, missing: set[int], changed: set[int]
) -> None:
    items = many(12)
    others = [
        item(each.key, b'{"n":9}', vectors=(vector("text", 2.0),)) if place in changed else each
        for place, each in enumerate(items)
        if place not in missing
    ]
    expected = [found for found in merge(items, others) if found[0] != found[1]]
    equal = len(items) - len(expected)
    found = list(pair(data.draw(pieces(items)), data.draw(pieces(others))))
    pairs = [each for each in found if not isinstance(each, int)]
    assert [each for each in pairs if each[0] != each[1]] == expected
    same = sum(each for each in found if isinstance(each, int)) + sum(one == other for one, other in pairs)
    assert same == equal


def test_an_archive_of_blocks_is_cut_where_one_of_items_is() -> None:
    items = many(2_300)
    out = io.BytesIO()
    write(out, HEADER, items)
    assert written(iter((block(items[:700]), items[700:800], block(items[800:]))), HEADER) == out.getvalue()


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
SOME_VALUES = (b'{"n":1}', b'{"t":"\\u0000"}', b'{"n":1e99999}', b'{"a":"\\\\b"}', b'{"a":\t1}', b"[1]", b"{")
MOMENTS = ("2026-11-30T07:42:43.000000Z", "2026-11-30T07:42:43.843759Z")


@st.composite
def several(draw: st.DrawFn) -> list[Item]:
    """Items that make a block, most of which any database holds."""
    fields = st.sampled_from(("text", "tags[*].0", "é"))
    vectors = st.lists(st.tuples(fields, st.floats(width=32)), max_size=2, unique_by=lambda pair: pair[0])
    return [
        item(
            draw(TEXTS | st.just("plain")),
            draw(st.sampled_from(SOME_VALUES) if draw(st.integers(0, 9)) == 0 else st.just(b'{"n":1}')),
            draw(TEXTS | st.just("users.ana")),
            created_at=draw(st.sampled_from(MOMENTS)),
            updated_at=draw(st.sampled_from(MOMENTS)),
            expires_at=draw(st.sampled_from((None, *MOMENTS))),
            ttl_minutes=draw(st.sampled_from((None, 60, 60.0, 0.5, 1e12))),
            vectors=tuple(vector(field, number) for field, number in sorted(draw(vectors))),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]


@LIMITS
@given(several())
def test_what_is_judged_by_column_has_no_fault(items: list[Item]) -> None:
    for judge in (Judge(Holding(vector_type="vector", dims=1)), Judge(Holding(expiry=False))):
        faults = [judge.faults(each) for each in items]
        if judge.holds(block(items)):
            assert not any(faults)
    plain = [item(f"{number:02}", vectors=(vector("text", 1.0),)) for number in range(3)]
    assert Judge(Holding(vector_type="vector", dims=1)).holds(block(plain))


@LIMITS
@given(several())
def test_columns_are_spelled_as_their_items_are(items: list[Item]) -> None:
    for expiry in (True, False):
        assert lines(block(items), expiry=expiry) == b"".join(line(each, expiry=expiry) for each in items)
    cells = [tuple(sqlite.item_cells(each).values()) for each in items]
    assert _named(zip(*sqlite.block_columns(block(items)), strict=True)) == cells
    expected = [sqlite.vector_cells(each, found) for each in items for found in each.vectors]
    assert _named(sqlite.block_vector_cells(block(items))) == expected


def _named(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Encode the names at the beginning of rows."""
    return [(prefix.encode(), key.encode(), *rest) for prefix, key, *rest in rows]


@LIMITS
@given(items=several(), half=st.booleans(), times=st.booleans())
def test_vectors_make_the_same_rows_by_column(items: list[Item], *, half: bool, times: bool) -> None:
    def rows(each: Item) -> Iterator[bytes]:
        for found in each.vectors:
            yield binary_row(vector_cells(each, found, half=half)[: 6 if times else 4])

    try:
        expected = [row for each in items for row in rows(each)]
    except ValueError:  # a half would round
        with pytest.raises(ValueError, match="round"):
            list(vector_rows(block(items), half=half, times=times))
    else:
        assert list(vector_rows(block(items), half=half, times=times)) == expected


def test_odd_vectors_make_the_same_rows_by_column() -> None:
    infinite = Vector("a", 1, b"\0\0\x80\x3f", None, None, (Problem("created_at", "odd", "infinity"),))
    null = Vector("b", 0, None, None, None, (Problem("embedding", "null"),))
    each = item("k", vectors=(infinite, null))
    expected = [binary_row(vector_cells(each, found, half=False)) for found in each.vectors]
    assert list(vector_rows(block([each]), half=False, times=True)) == expected


@LIMITS
@given(several())
def test_lines_are_read_together_as_they_are_one_by_one(items: list[Item]) -> None:
    for each in (items, [item(f"{number:02}", b'{"n":1}') for number in range(3)]):
        texts = [line_of(one).removesuffix(b"\n") for one in each]
        singly = [parse(number, text, bare=False) for number, text in enumerate(texts, 7)]
        run = run_of(7, texts)
        assert run is None or list(run.lines()) == singly
    assert run is not None


def test_copied_lines_are_the_same_by_column() -> None:
    times = b"2026-11-30 07:45:05.240729+00", b"2026-11-30 07:45:05.24+00", b"2026-11-30 07:45:05+00"
    good = [
        b"\t".join((b"a", b"k", b'{"t": "\\\\u00e9 \\\\"}', one, other, expires, minutes))
        for one in times
        for other in times
        for expires, minutes in ((b"", b"\n"), (b"2026-12-30 07:45:05.1+00", b"60\n"), (b"", b"0.5\n"))
    ]
    odd = [
        b"a\tk\t\t%b\t%b\t\t\n" % times[:2],
        b"a\\tb\tk\t{}\t%b\t%b\t\t\n" % times[:2],
        b"a\tk\\\\\t{}\t%b\t%b\t\t\n" % times[:2],
        b"\xff\tk\t{}\t%b\t%b\t\t\n" % times[:2],
        b"a\tk\t{}\tinfinity\t%b\t\t\n" % times[0],
        b"a\tk\t{}\t%b\t\t\t\n" % times[0],
        b"a\tk\t{}\t%b\t%b\t10000-01-01 00:00:00+00\t\n" % times[:2],
    ]
    found = postgres.block_of(good)
    assert found is not None
    assert list(found.items()) == [decode.item(row, row[2]) for row in map(decode.copied, good)]
    assert [postgres.block_of([*good, each]) for each in odd] == [None] * len(odd)
