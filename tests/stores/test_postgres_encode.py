"""The bulk formats that PostgreSQL takes, against its own reading of them."""

from __future__ import annotations

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.string import ByteaBinaryLoader

from memctl.model import Item, Problem, Vector
from memctl.stores.postgres import decode
from memctl.stores.postgres.encode import (
    binary_row,
    columns,
    halves,
    line,
    microseconds,
    odd_microseconds,
    vector_cells,
)
from tests.databases import Database

T = "2026-11-30T07:45:05.240729Z"
ITEM = Item("a", "k", b"{}", 2, T, T, None, None)
ODD_TIMES = (
    "infinity",
    "-infinity",
    "4714-11-24 00:00:00+00 BC",
    "4713-01-01 00:00:00+00 BC",
    "0005-02-29 00:00:00.5+00 BC",
    "0001-12-31 23:59:59.999999+00 BC",
    "10000-01-01 00:00:00+00",
    "294276-12-31 23:59:59.999999+00",
)


@pytest.mark.parametrize("instant", [T, "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"])
def test_instants_count_as_the_server_counts(database: Database, instant: str) -> None:
    assert microseconds(instant) == sent(database, instant)


@pytest.mark.parametrize("text", ODD_TIMES)
def test_so_do_times_that_are_no_instants(database: Database, text: str) -> None:
    assert odd_microseconds(text) == sent(database, text)
    assert decode.instant(text) is None


def sent(database: Database, text: str) -> int:
    """A timestamp as the server sends it."""
    with database.connect() as connection, connection.cursor(binary=True) as cursor:
        cursor.adapters.register_loader("timestamptz", ByteaBinaryLoader)
        row = cursor.execute("SELECT %s::timestamptz", [text]).fetchone()
        assert row is not None
        return int.from_bytes(row[0], "big", signed=True)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "",
        "2026-11-30 07:45:05+00",
        "10000-13-01 00:00:00+00",
        "0001-02-29 00:00:00+00 ",
        "0003-02-29 00:00:00+00 BC",
        "4714-11-23 23:59:59+00 BC",
        "294277-01-01 00:00:00+00",
        "10000-01-01 24:00:00+00",
        "10000-01-01 00:00:00+02",
    ],
)
def test_nothing_else_is_a_time(text: str) -> None:
    assert odd_microseconds(text) is None


def test_a_line_has_its_columns_and_escapes() -> None:
    item = Item("a\tb", "k\\\n\r", b'{"t":\t"\\n",\n"u": 1}\r', 20, T, T, T, 60.0)
    assert line(item, expiry=True) == (
        b"a\\tb\tk\\\\\\n\\r\t" + b'{"t": "\\\\n", "u": 1} ' + f"\t{T}\t{T}\t{T}\t60\n".encode()
    )
    assert line(ITEM, expiry=False) == f"a\tk\t{{}}\t{T}\t{T}\n".encode()


def test_what_is_no_instant_goes_back_as_it_was() -> None:
    problems = (Problem("expires_at", "infinity", "infinity"), Problem("created_at", "null"))
    item = Item("a", "k", b"{}", 2, None, T, None, None, problems=problems)
    assert columns(item)[3:6] == (None, T, "infinity")


def test_binary_rows() -> None:
    assert binary_row((b"ab", None)) == b"\0\x02" + b"\0\0\0\x02ab" + b"\xff\xff\xff\xff"


@given(st.lists(st.floats(width=32), min_size=1, max_size=9))
def test_embeddings_keep_their_bits(numbers: list[float]) -> None:
    octets = array("f", numbers).tobytes()
    cells = vector_cells(ITEM, Vector("f", len(numbers), octets, T, None), half=False)
    assert cells[3] is not None
    assert decode.floats(cells[3]) == octets
    assert cells[4] == cells[5]  # without a time of its own it has its item's


@given(st.integers(0, 2**16 - 1))
def test_halves_are_exact(bits: int) -> None:
    (number,) = struct.unpack("<e", bits.to_bytes(2, "little"))
    octets = struct.pack("<f", number)
    is_finite = bits & 0x7C00 != 0x7C00
    assert halves(octets) == (bits.to_bytes(2, "big") if is_finite else None)


@pytest.mark.parametrize("number", [0.1, 65520.0, 1e-8, 2.0**-25, 3.4e38, float("nan"), float("inf")])
def test_or_are_not_made(number: float) -> None:
    assert halves(struct.pack("<f", number)) is None
    with pytest.raises(ValueError, match="round"):
        vector_cells(ITEM, Vector("f", 1, struct.pack("<f", number), T, T), half=True)
