"""JSON and JSON Lines: exact, one row a line."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.render import Report
from tests.render.samples import ITEMS, NAMESPACES, item_row, namespace_row, shown, values, written

ROWS = [namespace_row(["users", "ana"]), namespace_row(["a", "", "b"])]


def test_an_array_has_one_row_a_line() -> None:
    text = shown("json", lambda format: format.rows(NAMESPACES, iter(ROWS)))
    lines = text.split("\n")
    assert (lines[0], lines[-2], lines[-1]) == ("[", "]", "")
    assert [json.loads(line.rstrip(",")) for line in lines[1:-2]] == ROWS
    assert json.loads(text) == ROWS


def test_nothing_is_an_empty_array_or_no_line() -> None:
    assert written("json", lambda format: format.rows(NAMESPACES, [])) == b"[]\n"
    assert written("json", lambda format: format.items(ITEMS, [])) == b"[]\n"
    assert written("jsonl", lambda format: format.rows(NAMESPACES, [])) == b""


def test_a_single_item_is_the_object_itself() -> None:
    row = item_row(["a"], "k")
    assert json.loads(written("json", lambda format: format.items(ITEMS, [row], single=True)))["key"] == "k"
    assert json.loads(written("json", lambda format: format.items(ITEMS, [row])))[0]["key"] == "k"
    assert json.loads(written("jsonl", lambda format: format.items(ITEMS, [row], single=True)))["key"] == "k"


def test_a_report_is_its_data() -> None:
    data = {"items": 12, "deep": {"list": [1, None, 2.5]}}
    for name in ("json", "jsonl"):
        octets = written(name, lambda format: format.report(Report(data)))
        assert octets.count(b"\n") == 1
        assert json.loads(octets) == data


def test_keys_beyond_the_columns_are_there_and_order_is_kept() -> None:
    row = item_row(["a"], "k", problems=[{"part": "value", "reason": "null"}], key_base64="aw==")
    assert list(json.loads(shown("jsonl", lambda format: format.items(ITEMS, [row])))) == list(row)


@pytest.mark.parametrize(
    "value",
    [
        b'{"n":123456789012345678901234567890,"f":1.50,"e":1e400,"z":-0.0}',
        b'{"a":1,"a":2}',
        b'{"s":"\\ud800\\u00e9\\u0000"}',
        '{"s":"é\u2028\x85"}'.encode(),
    ],
)
@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_a_value_passes_through_to_the_byte(name: str, value: bytes) -> None:
    assert b'"value":' + value + b"," in written(
        name, lambda format: format.items(ITEMS, [item_row(["a"], "k", value)])
    )


def test_line_breaks_between_tokens_do_not_break_a_line() -> None:
    row = item_row(["a"], "k", b'{\n  "a":\r\n 1}')
    octets = written("jsonl", lambda format: format.items(ITEMS, [row, row]))
    assert octets.count(b"\n") == 2
    assert [json.loads(line)["value"] for line in octets.splitlines()] == [{"a": 1}, {"a": 1}]


def test_what_orjson_refuses_is_written_all_the_same() -> None:
    data = {"big": 2**70, "negative": -(2**64), "lone \ud800": ["\udc80", ("t",)], "flag": True}
    assert json.loads(written("json", lambda format: format.report(Report(data)))) == {
        "big": 2**70,
        "negative": -(2**64),
        "lone \ufffd": ["\ufffd", ["t"]],
        "flag": True,
    }


@given(st.lists(st.tuples(st.lists(st.text(st.characters(codec="utf-8")), min_size=1), values), max_size=4))
def test_everything_parses_back(content: list[tuple[list[str], Any]]) -> None:
    rows = [item_row(labels, "".join(labels), orjson.dumps(value)) for labels, value in content]
    expected = [{**row, "value": value} for row, (_, value) in zip(rows, content, strict=True)]
    for is_terminal in (False, True):
        array = written("json", lambda format: format.items(ITEMS, iter(rows)), is_terminal=is_terminal)
        assert json.loads(array) == expected
        lines = written("jsonl", lambda format: format.items(ITEMS, iter(rows)), is_terminal=is_terminal)
        assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == expected


def test_json_on_a_terminal_means_the_same_and_moves_no_cursor() -> None:
    data = {"text": "\x9b31m \x7f \u202e \x1b[0m é", "list": [1]}
    text = shown("json", lambda format: format.report(Report(data)), is_terminal=True)
    assert json.loads(text) == data
    assert text.replace("\n", "").isprintable()
    assert text.count("\n") > 1
