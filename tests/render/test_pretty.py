"""JSON laid out for people is still the same JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.render.pretty import layout
from memctl.render.text import HIDDEN
from tests.render.samples import values


def laid_out(text: str, width: int = 80) -> list[str]:
    return ["".join(part for _, part in line) for line in layout(text, width)]


@given(values, st.integers(0, 100), st.sampled_from([None, 2]), st.booleans())
def test_it_means_the_same(value: Any, width: int, indent: int | None, ascii_only: bool) -> None:
    lines = laid_out(json.dumps(value, indent=indent, ensure_ascii=ascii_only), width)
    assert json.loads("\n".join(lines)) == value
    assert not re.search(HIDDEN, "".join(lines))


@given(st.text())
def test_what_is_no_json_loses_nothing_but_white_space(text: str) -> None:
    def bare(text: str) -> str:
        return "".join(text.split())

    if not re.search(HIDDEN, text) and "\\" not in text:
        assert bare("".join(laid_out(text))) == bare(text)


def test_numbers_order_and_repeated_keys_are_as_stored() -> None:
    text = '{"b":1.50,"a":123456789012345678901234567890,"a":1e400,"z":-0.0}'
    assert laid_out(text) == ['{"b": 1.50, "a": 123456789012345678901234567890, "a": 1e400, "z": -0.0}']


def test_what_fits_is_one_line_and_the_rest_is_indented() -> None:
    assert laid_out('{"tags":["a","b"],"deep":{"x":{},"y":[]}}', 28) == [
        "{",
        '  "tags": ["a", "b"],',
        '  "deep": {"x": {}, "y": []}',
        "}",
    ]


def test_letters_are_letters() -> None:
    assert laid_out('"\\u00e9\\n\\u202e\\ud800 \\/"') == ['"é\\n\\u202e\\ud800 /"']


@pytest.mark.parametrize(
    ("text", "styles"),
    [
        ('{"a":"b"}', ["mark", "name", "mark", "string", "mark"]),
        ('["a",1,null]', ["mark", "string", "mark", "number", "mark", "literal", "mark"]),
        (
            '{"a":{"b":["c"]}}',
            ["mark", "name", "mark", "mark", "name", "mark", "mark", "string", *["mark"] * 3],
        ),
    ],
)
def test_names_and_values_have_their_styles(text: str, styles: list[str]) -> None:
    assert [style for line in layout(text, 80) for style, _ in line] == styles


def test_deep_nesting_is_no_recursion() -> None:
    text = "[" * 5000 + "]" * 5000
    assert json.dumps("".join(line.strip() for line in laid_out(text, 10))) == json.dumps(text)
