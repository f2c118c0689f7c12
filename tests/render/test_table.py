"""Tables, items and reports for people: in a pipe nothing is lost, on a terminal nothing runs over."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from memctl.render import Bars, Column, Facts, Grid, Kind, Report
from memctl.render.text import HIDDEN
from tests.render.samples import (
    INSTANT,
    ITEMS,
    LISTED,
    NAMESPACES,
    item_row,
    listed_row,
    namespace_row,
    shown,
    texts,
)

SHORT = "2026-11-30 07:42"
STYLED = re.compile(r"\x1b\[[0-9;]*m")
REPORT = Report(
    {"items": 12},
    [
        Facts("Items", [("live", "1,204"), ("one tenant in a prompt", "word " * 40)]),
        Grid("Largest", LISTED[:3], [listed_row(["users", "ana"], "k" * 30)]),
        Bars("Created", [("2026-10", 0), ("2026-11", 1), ("2026-12", 1000)], note="items a month"),
    ],
    "12 items",
)


def on_terminal(write: Any, width: int = 80, **target: Any) -> list[str]:
    text = shown("table", write, is_terminal=True, width=width, **target)
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


# in a pipe


def test_a_piped_table_is_plain_and_exact() -> None:
    rows = [namespace_row(["users", "ana"], 1234567), namespace_row([""], 3)]
    assert shown("table", lambda format: format.rows(NAMESPACES, rows)) == (
        "namespace      items    vectors      bytes  newest\n"
        f"users.ana    1234567     411522  756789571  {INSTANT}\n"
        f'""                 3          1       1839  {INSTANT}\n'
    )


def test_a_piped_table_of_nothing_is_its_header() -> None:
    assert shown("table", lambda format: format.rows(NAMESPACES[:2], [])).split() == ["namespace", "items"]


def test_a_piped_table_never_cuts() -> None:
    rows = [listed_row(["n" * 500, "x"], "k" * 300, "p" * 5000), listed_row(["a"], "b", "c")]
    lines = shown("table", lambda format: format.rows(LISTED, rows), width=20).split("\n")
    assert all(part in lines[1] for part in ("n" * 500 + ".x", "k" * 300, "p" * 5000))
    assert len(lines[2]) < 400  # one long cell does not pad every other line


@pytest.mark.parametrize("text", ["plain", "日本語", "e\u0301e", " spaced ", "\ue000", "trailing  "])
def test_rows_after_the_first_thousand_look_like_those_before(text: str) -> None:
    rows = [listed_row([text, "b"], text, preview=text), listed_row(["users", "ana"], "key", preview="")]
    few = shown("table", lambda format: format.rows(LISTED, rows)).split("\n")
    many = shown("table", lambda format: format.rows(LISTED, rows * 502)).split("\n")
    assert many == [few[0], *few[1:3] * 502, ""]


def test_a_longer_cell_further_down_pushes_its_line_out() -> None:
    rows = [namespace_row(["a"])] * 1000 + [namespace_row(["b" * 40])]
    assert (
        shown("table", lambda format: format.rows(NAMESPACES, rows))
        .split("\n")[1001]
        .startswith("b" * 40 + "        3")
    )


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=5), st.booleans())
def test_piped_output_has_no_control_character(content: list[tuple[str, str, str]], whole: bool) -> None:
    rows = [
        {**item_row(label.split("."), key), "preview": preview, "bytes": 3} for label, key, preview in content
    ]
    text = shown("table", lambda format: format.items(ITEMS, rows) if whole else format.rows(LISTED, rows))
    assert not re.search(HIDDEN, text.replace("\n", ""))
    if not whole:
        assert text.count("\n") == len(rows) + 1


def test_piped_items_are_blocks() -> None:
    row = item_row(
        ["users", "ana"],
        "k\n",
        b'{"a":[1,2]}',
        ttl_minutes=60.0,
        expires_at=INSTANT,
        problems=[{"part": "expires_at", "reason": "a number"}],
        vectors=[{"field": "text", "embedding": "AAAAAAAAAAA="}],
    )
    columns = [*ITEMS, Column("vectors", Kind.JSON)]
    assert shown("table", lambda format: format.items(columns, [row, item_row([""], "", b"[]")])) == (
        "users.ana  k\\n\n"
        f"  created_at {INSTANT}  updated_at {INSTANT}  expires_at {INSTANT}  ttl_minutes 60.0\n"
        "  expires_at: a number\n"
        "  vectors text (2 dims)\n"
        '  {"a": [1, 2]}\n'
        "\n"
        '""  ""\n'
        f"  created_at {INSTANT}  updated_at {INSTANT}\n"
        "  []\n"
    )


def test_a_piped_report_is_a_page() -> None:
    lines = shown("table", lambda format: format.report(REPORT), width=60).split("\n")
    assert lines[:4] == ["12 items", "", "Items", "  live                    1,204"]
    assert lines[4].startswith("  one tenant in a prompt  word word")
    assert lines[-6:] == [
        "Created",
        "  items a month",
        "  2026-10  0",
        "  2026-11  ▏ 1",
        "  2026-12  " + "█" * 42 + " 1,000",
        "",
    ]


def test_bars_in_ascii() -> None:
    text = shown("table", lambda format: format.report(REPORT), width=60, is_unicode=False)
    assert text.isascii()
    assert "  2026-11  # 1\n  2026-12  " + "#" * 42 + " 1,000\n" in text


def test_bars_of_nothing() -> None:
    report = Report({}, [Bars("Created", [("a", 0)]), Bars("Expiring", [])])
    assert shown("table", lambda format: format.report(report)) == "Created\n  a  0\n\nExpiring\n"


def test_a_tree_is_indented() -> None:
    rows = [namespace_row(["a"]), namespace_row(["a", "b"]), namespace_row(["a", "b", "*"])]
    for lines in (
        shown("table", lambda format: format.rows(NAMESPACES, rows, tree=True)).split("\n")[1:-1],
        on_terminal(lambda format: format.rows(NAMESPACES, rows, tree=True))[2:],
    ):
        assert [line.split("  3")[0].rstrip() for line in lines] == ["a", "  b", "    \\*"]


# on a terminal


def test_a_terminal_sees_short_times_and_human_sizes() -> None:
    lines = on_terminal(lambda format: format.rows(NAMESPACES, [namespace_row(["users", "ana"], 12345)]))
    assert lines == [
        "namespace   items  vectors   bytes  newest",
        "─" * 52,
        f"users.ana  12,345    4,115  7.6 MB  {SHORT}",
    ]


def test_a_table_of_nothing_on_a_terminal_says_so() -> None:
    assert on_terminal(lambda format: format.rows(NAMESPACES, [])) == ["nothing"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
def test_no_line_runs_over(width: int) -> None:
    rows = [
        listed_row(["org", "acme", "users", "u-8f3b2c1d", "memories"], "0f6f8a64-7a1c-4b8e-9a54", "p" * 300),
        listed_row(["users", "日本語ユーザー" * 6], "k" * 200, "日本" * 100),
        listed_row([""], "", ""),
    ]
    lines = on_terminal(lambda format: format.rows(LISTED, rows), width)
    assert all(cell_len(line) <= width for line in lines)
    assert any("…" in line for line in lines)
    assert "613 B" in lines[2]


def test_a_namespace_is_readable_at_80_columns() -> None:
    labels = ["org", "acme", "users", "u-8f3b2c1d", "memories"]
    rows = [listed_row(labels, "0f6f8a64-7a1c-4b8e-9a54-1c2d3e4f5a6b", "p" * 300)]
    lines = on_terminal(lambda format: format.rows(LISTED, rows))
    start = lines[0].index("key")
    assert "".join(line[:start].strip() for line in lines[2:4]) == ".".join(labels)
    assert "not shown, for want of width: created" in lines[-1]
    assert SHORT[:10] in lines[2]


def test_names_grow_after_the_first_thousand_rows() -> None:
    rows = (namespace_row(["users", f"u{number}"], number) for number in range(2000))
    lines = on_terminal(lambda format: format.rows(NAMESPACES, rows))
    assert len(lines) == 2002
    assert lines[-1].split() == ["users.u1999", "1,999", "666", "1.2", "MB", *SHORT.split()]


def test_numbers_are_never_cut() -> None:
    rows = [namespace_row(["a"], 1)] * 1000 + [namespace_row(["a"], 10**15)]
    assert "1,000,000,000,000,000" in on_terminal(lambda format: format.rows(NAMESPACES, rows), 50)[-1]


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4), st.integers(20, 120), st.booleans())
def test_a_terminal_gets_no_control_character_but_colours(
    content: list[tuple[str, str, str]], width: int, has_color: bool
) -> None:
    rows = [
        {**item_row(label.split("."), key), "preview": preview, "bytes": 3} for label, key, preview in content
    ]
    facts = Facts("\x1b[2J", [(key, preview) for _, key, preview in content])
    for write in (
        lambda format: format.rows(LISTED, rows),
        lambda format: format.rows(LISTED, rows, tree=True),
        lambda format: format.items(ITEMS, rows),
        lambda format: format.report(Report({}, [facts, Grid("", LISTED, rows)], "\x9b")),
    ):
        text = "\n".join(on_terminal(write, width, has_color=has_color))
        assert has_color or "\x1b" not in text
        assert not re.search(HIDDEN, STYLED.sub("", text).replace("\n", ""))


def test_markup_is_text() -> None:
    text = "[red]x[/red] [link=http://x]y[/link] :smile: [/]"
    rows = [listed_row([text], text, text)]
    lines = on_terminal(lambda format: format.rows(LISTED, rows), 300, has_color=True)
    assert Text.from_ansi(lines[2]).plain.count(text) == 3
    facts = Report({}, [Facts("T", [("x", text + " word" * 30)])])
    folded = on_terminal(lambda format: format.report(facts), 70, has_color=True)
    assert text in Text.from_ansi(folded[1]).plain
    assert len(folded) > 2


def test_colour_only_where_it_is_taken() -> None:
    rows = [namespace_row(["users", "ana"])]
    coloured = on_terminal(lambda format: format.rows(NAMESPACES, rows), has_color=True)
    bare = on_terminal(lambda format: format.rows(NAMESPACES, rows))
    assert "\x1b[" in coloured[2]
    assert [STYLED.sub("", line) for line in coloured] == bare


def test_items_on_a_terminal_tell_how_far_an_expiry_is() -> None:
    rows = [
        item_row(["users", "ana"], "k", expires_at="2026-11-30T10:42:43.843759Z", ttl_minutes=90.0),
        item_row(["users", "ana"], "l", expires_at="2026-11-28T07:42:43.843759Z", ttl_minutes=43200),
        item_row(["users", "ana"], "m", expires_at="never"),
    ]
    lines = on_terminal(lambda format: format.items(ITEMS, rows), now=INSTANT)
    assert lines[:4] == [
        "users.ana  k",
        f"  created {SHORT}  updated {SHORT}",
        "  expires 2026-11-30 10:42 (in 3 h)  ttl 1.5 h",
        '  {"a": 1}',
    ]
    assert "  expires 2026-11-28 07:42 (2 d ago)  ttl 30 d" in lines
    assert lines[-2] == f"  created {SHORT}  updated {SHORT}  expires never"


def test_a_report_fits_its_terminal() -> None:
    for width in (60, 80, 140):
        lines = on_terminal(lambda format: format.report(REPORT), width)
        assert all(cell_len(line) <= width for line in lines)
        facts = lines[lines.index("Items") + 2 : lines.index("Largest") - 1]
        assert facts[0].startswith("  one tenant in a prompt  word")
        assert all(line.startswith(" " * 26 + "word") for line in facts[1:])


def test_a_very_long_string_is_left_to_the_terminal() -> None:
    value = b'{"text":"' + b"word " * 200_000 + b'"}'
    lines = on_terminal(lambda format: format.items(ITEMS, [item_row(["a"], "k", value)]))
    assert len(lines) == 5
    assert len(lines[3]) > 1_000_000
