"""CSV and TSV: what a program reads back is what was stored."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from memctl.namespaces import show
from memctl.render import Column, Kind, Report
from tests.render.samples import INSTANT, ITEMS, NAMESPACES, item_row, namespace_row, shown, texts

COLUMNS = (Column("namespace", Kind.NAMESPACE), Column("key", Kind.KEY), Column("n", Kind.COUNT))


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def read_tsv(text: str) -> list[list[str]]:
    names = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}

    def unescaped(cell: str) -> str:
        pieces = iter(cell)
        return "".join(names[next(pieces)] if piece == "\\" else piece for piece in pieces)

    return [[unescaped(cell) for cell in line.split("\t")] for line in text.removesuffix("\n").split("\n")]


def repaired(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)


@given(st.lists(st.tuples(texts, texts, st.none() | st.integers()), max_size=5))
def test_everything_reads_back(content: list[tuple[str, str, int | None]]) -> None:
    rows = [{"namespace": label.split("."), "key": key, "n": n} for label, key, n in content]
    expected = [["namespace", "key", "n"]] + [
        [repaired(show(label)), repaired(key), "" if n is None else str(n)] for label, key, n in content
    ]
    assert read_csv(shown("csv", lambda format: format.rows(COLUMNS, iter(rows)))) == expected
    assert read_tsv(shown("tsv", lambda format: format.rows(COLUMNS, iter(rows)))) == expected


@given(st.lists(st.none() | texts, min_size=1, max_size=5))
def test_a_single_column_keeps_its_number_of_records(content: list[str | None]) -> None:
    rows = [{"key": key} for key in content]
    text = shown("csv", lambda format: format.rows([Column("key", Kind.KEY)], rows))
    assert read_csv(text)[1:] == [[repaired(key or "")] for key in content]


def test_null_and_the_empty_text_differ_in_csv() -> None:
    rows = [{"key": None, "n": 1}, {"key": "", "n": 1}]
    text = shown("csv", lambda format: format.rows([Column("key", Kind.KEY), Column("n")], rows))
    assert text == 'key,n\n,1\n"",1\n'


def test_values_and_numbers_are_exact() -> None:
    row = item_row(["a", "*"], "k", b'{"n":123456789012345678901234567890,"f":1.50}', ttl_minutes=60.0)
    for name, read in (("csv", read_csv), ("tsv", read_tsv)):
        _, record = read(shown(name, lambda format: format.items(ITEMS, [row], single=True)))
        assert record == [
            "a.\\*",
            "k",
            '{"n":123456789012345678901234567890,"f":1.50}',
            INSTANT,
            INSTANT,
            "",
            "60.0",
        ]


def test_tree_is_ignored() -> None:
    rows = [namespace_row(["a", "b"])]
    for name in ("csv", "tsv", "json", "jsonl", "name"):
        assert shown(name, lambda format: format.rows(NAMESPACES, rows, tree=True)) == shown(
            name, lambda format: format.rows(NAMESPACES, rows)
        )


def test_a_report_is_flattened_under_dotted_names() -> None:
    data: dict[str, Any] = {
        "items": 12,
        "checks": [{"id": "a", "count": None}, {"id": "b,c", "ok": True}],
        "none": [],
        "value": orjson.Fragment(b'{"x":1}'),
    }
    assert read_csv(shown("csv", lambda format: format.report(Report(data)))) == [
        ["name", "value"],
        ["items", "12"],
        ["checks.0.id", "a"],
        ["checks.0.count", ""],
        ["checks.1.id", "b,c"],
        ["checks.1.ok", "true"],
        ["none", "[]"],
        ["value", '{"x":1}'],
    ]


def test_lists_and_objects_are_json() -> None:
    rows = [{"parts": ["value", "vectors"], "more": {"a": 1}}]
    _, record = read_csv(
        shown("csv", lambda format: format.rows([Column("parts"), Column("more", Kind.JSON)], rows))
    )
    assert [json.loads(cell) for cell in record] == [["value", "vectors"], {"a": 1}]


def test_a_terminal_sees_no_control_characters() -> None:
    rows = [{"key": "\x1b[31m\u202e\ta,b", "n": 1}]
    for name in ("csv", "tsv"):
        text = shown(name, lambda format: format.rows([Column("key"), Column("n")], rows), is_terminal=True)
        assert text.replace("\n", "").replace("\t", "").isprintable()
        assert "\\x1b[31m\\u202e" in text
