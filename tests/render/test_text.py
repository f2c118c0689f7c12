"""Escaping: what a reader cannot see is spelled out, everything else stays."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.render.text import HIDDEN, escape, escape_json, utf8, width
from tests.render.samples import texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x00\x1b[31m\x7f\x9b\x85\xad", r"\x00\x1b[31m\x7f\x9b\x85\xad"),
        ("\u202a\u202e\u2066\u2069\u2028\u2029\ufeff\u200b\u200e", None),
        ("\U000e0041\U000e0100", r"\U000e0041\U000e0100"),
        ("a\u200db", r"a\u200db"),
        ("\u200c", r"\u200c"),
        ("é\u200d\u200dé", r"é\u200d\u200dé"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
        ("❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"),
        ("[red]x[/] \\n é 日本", "[red]x[/] \\n é 日本"),
        ("\ud800", "\ufffd"),
        ("\u3164\u115f", r"\u3164\u115f"),
    ],
)
def test_hidden_characters_are_spelled_out(text: str, shown: str | None) -> None:
    assert escape(text) == (shown or "".join(f"\\u{ord(character):04x}" for character in text))


def test_every_control_and_every_bidirectional_mark_is_hidden() -> None:
    hidden = re.compile(HIDDEN)
    shown = {
        character
        for character in map(chr, range(0x110000))
        if unicodedata.category(character) in {"Cc", "Zl", "Zp"}
        or unicodedata.bidirectional(character)
        in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        if not hidden.search(character)
    }
    assert shown == set()


@given(texts)
def test_escaped_text_is_free_of_them_and_idempotent(text: str) -> None:
    shown = escape(text)
    assert not re.search(HIDDEN, shown)
    assert escape(shown) == shown
    shown.encode()


@given(st.text(st.characters(codec="utf-8")) | texts)
def test_escaped_json_means_the_same(text: str) -> None:
    document = json.dumps([text], ensure_ascii=False)
    shown = escape_json(document)
    assert json.loads(shown) == [text]
    assert not re.search(HIDDEN, shown)
    shown.encode()


@given(texts)
def test_utf8_never_fails(text: str) -> None:
    assert len(utf8(text).decode()) == len(text)


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("abc", 3), ("é", 1), ("e\u0301", 1), ("日本", 4), ("ｱ", 1), ("a日b", 4)]
)
def test_width_counts_columns(text: str, columns: int) -> None:
    assert width(text) == columns
