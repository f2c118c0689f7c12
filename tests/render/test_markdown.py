"""Markdown: read by a real parser, stored text comes out as text."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from memctl.render import Bars, Column, Facts, Grid, Kind, Report
from memctl.render.cells import exact
from tests.render.samples import ITEMS, NAMESPACES, item_row, namespace_row, shown, texts, values

COLUMNS = (
    Column("namespace", Kind.NAMESPACE),
    Column("key", Kind.KEY),
    Column("text"),
    Column("n", Kind.COUNT),
)


def parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)


def bare(token: Token) -> str:
    """Return the text of inline content; anything but text is a failure."""
    assert {child.type for child in token.children or ()} <= {"text", "text_special"}
    return "".join(child.content for child in token.children or ()).replace("\xa0", " ")


def cells_of(text: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for token in parsed(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(bare(token))
    return rows


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4))
@example([("\xa0a", "b\u3000", "\xa0"), (" ", "  a  ", "\u2003 x")])
def test_cells_read_back_as_they_are_shown(content: list[tuple[str, str, str]]) -> None:
    rows = [{"namespace": label.split("."), "key": key, "text": text, "n": 3} for label, key, text in content]
    read = cells_of(shown("markdown", lambda format: format.rows(COLUMNS, iter(rows))))
    expected = [[exact(column)(row[column.name]).replace("\xa0", " ") for column in COLUMNS] for row in rows]
    assert read == [["namespace", "key", "text", "n"], *expected]


def test_markup_is_escaped() -> None:
    row = {"text": "a|b `c` <script>alert(1)</script> & **d** http://x.example snake_case_name"}
    assert shown("markdown", lambda format: format.rows([Column("text")], [row])).split("\n")[2] == (
        r"| a\|b \`c\` &lt;script&gt;alert(1)&lt;/script&gt; &amp; \*\*d\*\* "
        r"http\://x.example snake_case_name |"
    )


def test_numbers_are_exact_and_aligned() -> None:
    assert shown("markdown", lambda format: format.rows(NAMESPACES, [namespace_row(["a", "b"], 1234)])) == (
        "| namespace | items | vectors | bytes | newest |\n"
        "| --- | ---: | ---: | ---: | --- |\n"
        "| a.b | 1234 | 411 | 756442 | 2026-11-30T07:42:43.843759Z |\n"
    )


def test_a_tree_is_indented() -> None:
    rows = [{"namespace": ["a"]}, {"namespace": ["a", "b"]}, {"namespace": ["a", "b", ""]}]
    text = shown("markdown", lambda format: format.rows(COLUMNS[:1], rows, tree=True))
    assert [row[0] for row in cells_of(text)] == ["namespace", "a", "  b", '    ""']


@given(texts, texts, values)
def test_an_item_is_a_section_with_its_value_fenced(label: str, key: str, value: Any) -> None:
    document = json.dumps({"value": value, "ticks": "``` ````"}, ensure_ascii=False)
    row = item_row(label.split("."), key, document.encode("utf-8", "replace"))
    tokens = parsed(shown("markdown", lambda format: format.items(ITEMS, [row])))
    assert [token.type for token in tokens if token.level == 0] == [
        *("heading_open", "heading_close"),
        *("bullet_list_open", "bullet_list_close"),
        "fence",
    ]
    for token in tokens:
        if token.type == "inline":
            bare(token)
    fence = next(token for token in tokens if token.type == "fence")
    assert fence.info == "json"
    assert json.loads(fence.content) == json.loads(document)


def test_problems_and_vectors_are_named() -> None:
    row = item_row(
        ["a"],
        "k",
        b"{}",
        problems=[{"part": "expires_at", "reason": "is <b>text</b>\n"}],
        vectors=[{"field": "tags[*]", "embedding": "AAAAAAAAAAA="}, {"field": "x", "embedding": [1.0, 2.0]}],
    )
    text = shown("markdown", lambda format: format.items([*ITEMS, Column("vectors", Kind.JSON)], [row]))
    assert r"- problem: expires_at: is &lt;b&gt;text&lt;/b&gt;\\n" in text
    assert r"- vectors: tags\[\*\] (2 dims), x (2 dims)" in text
    assert text.count("```json") == 1


def test_a_report_has_a_section_for_each_part() -> None:
    report = Report(
        {},
        [
            Facts("Items", [("live", "1,204"), ("note | x", "<b>")]),
            Grid("Largest", COLUMNS[1:2], [{"key": "k|"}]),
            Bars("Created", [("2026-11", 4), ("2026-12", 0)], note="a month"),
        ],
        "12 items",
    )
    text = shown("markdown", lambda format: format.report(report))
    tokens = parsed(text)
    headings = [bare(after) for token, after in pairwise(tokens) if token.type == "heading_open"]
    assert headings == ["Items", "Largest", "Created"]
    assert sum(token.type == "table_open" for token in tokens) == 3
    assert "| 2026-11 | ████████████████████ | 4 |\n| 2026-12 |  | 0 |\n" in text
    assert text.startswith("**12 items**\n\n## Items\n")
