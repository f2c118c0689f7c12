"""Names: a line that `--from` reads back to the byte."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import example, given

from memctl.errors import UsageError
from memctl.model import encode, is_clean
from memctl.render import Column, Kind, Report
from memctl.render.name import parse_name
from memctl.render.text import HIDDEN
from tests.render.samples import ITEMS, NAMESPACES, item_row, namespace_row, shown, stored_texts, written


def row_of(prefix: str, key: str) -> dict[str, Any]:
    """Return a row as commands build it: what is no UTF-8 is replaced, and beside it as base64."""
    more = {
        f"{name}_base64": b64encode(encode(text)).decode()
        for name, text in (("prefix", prefix), ("key", key))
        if not is_clean(text)
    }
    prefix, key = (encode(text).decode("utf-8", "replace") for text in (prefix, key))
    return item_row(prefix.split("."), key, **more)


@given(stored_texts, stored_texts)
@example("a.*.{b}.\\*", "tab\t and \\t and \\")
@example("\udcff.\udc80", "\udcfe\n\r\x00")
@example("", "")
@example("\x85", "\xe9\u202e\u2028")
def test_a_name_comes_back_to_the_byte(prefix: str, key: str) -> None:
    octets = written("name", lambda format: format.rows(ITEMS, [row_of(prefix, key)]))
    assert octets.count(b"\n") == 1
    assert octets.count(b"\t") == 1
    assert not re.search(HIDDEN, octets.decode().removesuffix("\n").replace("\t", ""))
    assert parse_name(octets) == (prefix, key)
    assert parse_name(octets.removesuffix(b"\n")) == (prefix, key)


def test_the_escapes_are_as_documented() -> None:
    rows = [row_of("users.ana", "a\\b\tc\nd\re\x00f\x1bg\udcff"), row_of("*.x", "é")]
    assert shown("name", lambda format: format.items(ITEMS, rows)) == (
        "users.ana\ta\\\\b\\tc\\nd\\x0de\\x00f\\x1bg\\xff\n\\\\*.x\té\n"
    )


def test_a_namespace_alone_where_rows_have_no_key() -> None:
    rows = [namespace_row(["users", "ana"]), namespace_row(["a", "", "b"])]
    assert shown("name", lambda format: format.rows(NAMESPACES, rows)) == "users.ana\na..b\n"


def test_what_has_no_names_says_so() -> None:
    with pytest.raises(UsageError, match="has no names"):
        shown("name", lambda format: format.report(Report({})))
    with pytest.raises(UsageError, match="have no names"):
        shown("name", lambda format: format.rows([Column("id"), Column("count", Kind.COUNT)], []))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"users.ana", "no tab"),
        (b"", "no tab"),
        (b"a\tb\tc", "more than one tab"),
        (b"a\tb\\q", "begins no escape"),
        (b"a\tb\\", "begins no escape"),
        (b"a\tb\\xg0", "begins no escape"),
        (b"a.*\tb", "many namespaces"),
    ],
)
def test_a_faulty_line_says_what_is_wrong(line: bytes, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        parse_name(line)


def test_raw_bytes_that_are_no_utf8_are_taken_too() -> None:
    assert parse_name(b"a\xff\tk\xfe\n") == ("a\udcff", "k\udcfe")
