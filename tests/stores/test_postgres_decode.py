"""Rows to items, without a database."""

from __future__ import annotations

import struct

import pytest

from memctl.model import Item, Namespace, Problem, Vector
from memctl.stores.postgres import decode

CREATED, UPDATED = "2026-11-30 07:45:05.240729+00", "2026-11-30 07:46:00+00"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        (None, None),
        ("2026-11-30 07:45:05.240729+00", "2026-11-30T07:45:05.240729Z"),
        ("2026-11-30 07:45:05.24+00", "2026-11-30T07:45:05.240000Z"),
        ("2026-11-30 07:45:05+00", "2026-11-30T07:45:05.000000Z"),
        ("2026-11-30 07:45:05.240729", "2026-11-30T07:45:05.240729Z"),
        ("0001-01-01 00:00:00+00", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31 23:59:59.999999+00", "9999-12-31T23:59:59.999999Z"),
        ("infinity", None),
        ("-infinity", None),
        ("10000-01-01 00:00:00+00", None),
        ("0044-03-15 12:00:00+00 BC", None),
        ("0044-03-15 12:00:00.123456+00 BC", None),
        ("12026-11-30 07:45:05.24072+00", None),
    ],
)
def test_instant(text: str | None, instant: str | None) -> None:
    assert decode.instant(text) == instant


def test_item_is_carried_as_it_stands() -> None:
    row = (b"users.ana", "naïve".encode(), None, 7, CREATED, UPDATED, None, 60)
    assert decode.item(row, b'{"a":1}') == Item(
        "users.ana", "naïve", b'{"a":1}', 7, "2026-11-30T07:45:05.240729Z", "2026-11-30T07:46:00.000000Z",
        None, 60, (), (),
    )  # fmt: skip


def test_odd_timestamps_are_problems() -> None:
    row = (b"a", b"k", None, 2, None, "infinity", "0044-03-15 12:00:00+00 BC", None)
    item = decode.item(row, b"{}")
    assert (item.created_at, item.updated_at, item.expires_at) == (None, None, None)
    assert item.problems == (
        Problem("created_at", "null"),
        Problem("updated_at", "infinity", "infinity"),
        Problem("expires_at", "outside the years 1 to 9999", "0044-03-15 12:00:00+00 BC"),
    )


def test_one_odd_timestamp_leaves_the_others() -> None:
    item = decode.item((b"a", b"k", None, 2, CREATED, CREATED, "-infinity", 1), b"{}")
    assert item.created_at == item.updated_at == "2026-11-30T07:45:05.240729Z"
    assert item.problems == (Problem("expires_at", "-infinity", "-infinity"),)


def test_invalid_utf8_is_kept_to_the_byte() -> None:
    item = decode.item((b"a\xff", b"k", None, 2, CREATED, CREATED, None, None), b"{}")
    assert item.prefix.encode("utf-8", "surrogateescape") == b"a\xff"
    assert item.problems == (Problem("namespace", "invalid UTF-8", "a\udcff"),)
    both = decode.item((b"\xe9", b"\x80", None, 2, CREATED, CREATED, None, None), b"{}")
    assert [problem.part for problem in both.problems] == ["namespace", "key"]


def test_null_value_has_no_size() -> None:
    assert decode.item((b"a", b"k", None, None, CREATED, CREATED, None, None), None).size == 0


def test_decimal_ttl() -> None:
    from decimal import Decimal

    item = decode.item((b"a", b"k", None, 2, CREATED, CREATED, None, Decimal("0.4")), b"{}")
    assert item.ttl_minutes == 0.4
    assert type(item.ttl_minutes) is float


def test_embedding_turns_little_endian_bit_by_bit() -> None:
    signalling_nan = 0x7FA00001
    words = [0x3F800000, 0x80000000, 0x7F800000, signalling_nan, 0x00000001]
    sent = struct.pack(">HH5I", 5, 0, *words)
    assert decode.floats(sent) == struct.pack("<5I", *words)


def test_vector() -> None:
    row = (b"a", b"k", b"tags[*].0", 2, struct.pack(">HH2f", 2, 0, 0.5, -1), CREATED, CREATED)
    moment = "2026-11-30T07:45:05.240729Z"
    assert decode.vector(row, full=True) == Vector(
        "tags[*].0", 2, struct.pack("<2f", 0.5, -1), moment, moment
    )
    assert decode.vector(row, full=False).embedding is None


def test_null_embedding_and_odd_times() -> None:
    row = (b"a", b"k", b"$", None, None, None, "infinity")
    assert decode.vector(row, full=True) == Vector(
        "$", 0, None, None, None,
        (Problem("embedding", "null"), Problem("updated_at", "infinity", "infinity")),
    )  # fmt: skip


def test_copied_line() -> None:
    line = rb'a\\b	k\ty	{"x": "\\"\\\\n"}	' + f"{CREATED}\t\t{UPDATED}\t\n".encode()
    assert decode.copied(line) == (
        b"a\\b", b"k\ty", b'{"x": "\\"\\\\n"}', 14, CREATED, None, UPDATED, None,
    )  # fmt: skip


def test_copied_line_of_an_empty_key_and_no_value() -> None:
    assert decode.copied(b"\t\t\t\t\t\t60\n") == (b"", b"", None, 0, None, None, None, 60)
    assert decode.copied(b"a\tk\t{}\t\t\t\t0.4\n")[-1] == 0.4


def test_copied_control_characters() -> None:
    assert decode.copied(rb"\b\f\n\r\t\v	\\n	{}				" + b"\n")[:2] == (
        b"\b\f\n\r\t\v",
        rb"\n",
    )


def test_namespace() -> None:
    assert decode.namespace((b"a.b", 3, 2, 99, UPDATED)) == Namespace(
        "a.b", 3, 2, 99, "2026-11-30T07:46:00.000000Z"
    )
