"""`memctl get`."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ITEMS, NAMES, PREFS, SEAT, MakeStore
from tests.contract.backends import CREATED, RawItem, in_order, vector
from tests.invocation import Memctl


def row_of(item: RawItem) -> dict[str, Any]:
    """An item as JSON shows it."""
    return {
        "namespace": item.prefix.split("."),
        "key": item.key,
        "value": json.loads(item.value, parse_float=Decimal),
        "created_at": CREATED,
        "updated_at": item.updated_at,
        "expires_at": item.expires_at,
        "ttl_minutes": item.ttl_minutes,
    }


def test_one_key_is_one_object(memctl: Memctl, store: Path) -> None:
    for item in ITEMS:
        row = memctl.json("-s", store, "get", item.prefix, item.key)
        assert row == row_of(item)
        assert list(row) == list(row_of(item))


def test_the_same_key_twice_is_one_key(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "get", PREFS, "seat", "seat") == row_of(ITEMS[4])


def test_several_keys_are_an_array_in_the_order_asked(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "get", PREFS, "seat", "meal") == [row_of(ITEMS[4]), row_of(ITEMS[3])]


def test_value_is_as_stored(memctl: Memctl, store: Path) -> None:
    assert memctl("-s", store, "get", PREFS, "seat", "--value").out == SEAT + "\n"
    assert memctl("-s", store, "get", "users.ana.memories", "m2", "--value").out == ITEMS[2].value + "\n"
    assert memctl("-s", store, "get", PREFS, "seat", "meal", "--value").lines == [SEAT, ITEMS[3].value]


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 1}',
        '{ "n" :\t1 ,\n "m": 1e2}',
        '{"a": 123456789012345678901234567890, "b": 0.1000000000000000055511151231257827, "c": -0.0}',
        '{"b": 1, "a": 2, "b": 3}',
        '{"e": "\\u00e9\\/\\ud83d\\ude42"}',
        "[1, 2]",
        '"text"',
        "5",
        "null",
    ],
)
def test_json_passes_through_untouched(memctl: Memctl, make_store: MakeStore, text: str) -> None:
    """Spelling, digits, order and repeated keys; only line breaks between tokens go."""
    store = make_store([RawItem("a", "b", text)])
    assert memctl("-s", store, "get", "a", "b", "--value").out == text + "\n"
    is_object = text.startswith("{")
    outcome = memctl("-s", store, "-o", "json", "get", "a", "b")
    assert outcome.code == (0 if is_object else 3)
    assert f'"value":{text.replace(chr(10), " ")},' in outcome.out
    assert ("problems" in outcome.json()) == (not is_object)


def test_vectors(memctl: Memctl, store: Path) -> None:
    row = memctl.json("-s", store, "get", PREFS, "meal", "--vectors")
    assert list(row) == [*row_of(ITEMS[3]), "vectors"]
    assert row["vectors"] == [
        {
            "field": found.field,
            "embedding": base64.b64encode(found.octets).decode(),
            "created_at": found.created_at,
            "updated_at": found.updated_at,
        }
        for found in ITEMS[3].vectors
    ]
    listed = memctl.json("-s", store, "get", PREFS, "meal", "--vectors", "--vector-format", "list")
    for found, raw in zip(listed["vectors"], ITEMS[3].vectors, strict=True):
        assert [float(number) for number in found["embedding"]] == pytest.approx(raw.numbers, rel=1e-6)
    assert memctl.json("-s", store, "get", "users.bo.prefs", "seat", "--vectors")["vectors"] == []


def test_a_missing_key_names_the_nearest(memctl: Memctl, store: Path) -> None:
    error = memctl.refuse("-s", store, "get", PREFS, "seta", code=5)
    assert error["code"] == "not-found"
    assert "seta" in error["message"]
    assert "seat" in error["hint"]
    assert "users.ana.prefs" in memctl.refuse("-s", store, "get", "users.ana.pref", "seat", code=5)["hint"]


def test_of_several_keys_those_that_are_there_are_shown(memctl: Memctl, store: Path) -> None:
    outcome = memctl("-s", store, "-o", "json", "get", PREFS, "nothing", "seat", "none")
    assert outcome.code == 5
    assert [row["key"] for row in outcome.json()] == ["seat"]
    assert "nothing" in outcome.error["message"]
    assert "none" in outcome.error["message"]


def test_the_namespace_is_exact(memctl: Memctl, store: Path) -> None:
    assert memctl("-s", store, "get", "users.ana", "seat").code == 5
    assert memctl("-s", store, "get", "users.ana.prefs.x", "seat").code == 5
    assert memctl("-s", store, "get", "Users.Ana.Prefs", "seat").code == 5


@pytest.mark.parametrize("namespace", ["*", "users.*.prefs", "*.ana.prefs"])
def test_wildcards_are_refused(memctl: Memctl, store: Path, namespace: str) -> None:
    assert "many" in memctl.refuse("-s", store, "get", namespace, "seat", code=2)["message"]


STRANGE = in_order(
    [
        RawItem("a..b", "k"),
        RawItem("", "k"),
        RawItem("", ""),
        RawItem(".a", "k"),
        RawItem("a.", "k"),
        RawItem("langgraph.x", "k"),
        RawItem("*", "k"),
        RawItem("a.*", "k"),
        RawItem("{user_id}", "k"),
        RawItem("{{x}}", "k"),
        RawItem("{}", "k"),
        RawItem("\\*", "k"),
        RawItem("\\\\*", "k"),
        RawItem("a", "-x"),
        RawItem("a", "--help"),
        RawItem("a", ""),
        RawItem("a", " k "),
        RawItem("-a", "k"),
        RawItem("a\tb", "k\nk"),
        RawItem("[red]a[/red]", "[bold]k"),
        RawItem("a\\tb", "k\\x00"),
        RawItem("\u202ea", "\x1b[31m"),
        RawItem("日本", "🙂"),
    ]
)


@pytest.mark.parametrize(
    ("namespace", "item"),
    [
        ("a..b", RawItem("a..b", "k")),
        ("", RawItem("", "k")),
        ("", RawItem("", "")),
        (".a", RawItem(".a", "k")),
        ("a.", RawItem("a.", "k")),
        ("langgraph.x", RawItem("langgraph.x", "k")),
        (r"\*", RawItem("*", "k")),
        (r"a.\*", RawItem("a.*", "k")),
        ("{{user_id}}", RawItem("{user_id}", "k")),
        ("{user_id}", RawItem("{user_id}", "k")),
        (r"\\*", RawItem("\\*", "k")),
        ("a", RawItem("a", "-x")),
        ("a", RawItem("a", "--help")),
        ("a", RawItem("a", "")),
        ("a", RawItem("a", " k ")),
        ("-a", RawItem("-a", "k")),
    ],
)  # fmt: skip
def test_what_the_api_can_no_longer_reach(
    memctl: Memctl, make_store: MakeStore, namespace: str, item: RawItem
) -> None:
    """And `--` ends options."""
    store = make_store(STRANGE)
    assert memctl.json("-s", store, "get", "--", namespace, item.key) == row_of(item)


def test_names_go_back_in(memctl: Memctl, make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(STRANGE)
    expected = [row_of(item) for item in STRANGE]
    for listing in (["ls", "--items"], ["search", "--order", "name"]):
        names = memctl("-s", store, "-o", "name", *listing)
        assert names.code == 0
        assert len(names.lines) == len(STRANGE)
        assert memctl.json("-s", store, "get", "--from", "-", stdin=names.stdout) == expected
        (tmp_path / "names").write_bytes(names.stdout)
        assert memctl.json("-s", store, "get", "--from", "names") == expected
    assert memctl("-s", store, "-o", "name", "get", "--from", "names").stdout == names.stdout


def test_namespaces_can_be_pasted_back(memctl: Memctl, make_store: MakeStore) -> None:
    """What `ls` prints for people names that namespace again, where it has no control characters."""
    store = make_store(STRANGE)
    printed = [line.split("  ")[0] for line in memctl("-s", store, "ls").lines[1:]]
    prefixes = list(dict.fromkeys(item.prefix for item in STRANGE))
    assert len(printed) == len(prefixes)
    for text, prefix in zip(printed, prefixes, strict=True):
        if prefix.isprintable() and not prefix.startswith("\u202e"):
            given = "" if text == '""' else text
            rows = memctl.json("-s", store, "ls", "--", given)
            assert prefix.split(".") in [row["namespace"] for row in rows], text


def test_from_takes_names_in_any_order(memctl: Memctl, store: Path) -> None:
    asked = [NAMES[4], NAMES[0], NAMES[3], NAMES[1], NAMES[4]]
    lines = "".join(f"{prefix}\t{key}\n" for prefix, key in asked).encode()
    rows = memctl.json("-s", store, "get", "--from", "-", stdin=b"\n" + lines + b"\n")
    assert [(".".join(row["namespace"]), row["key"]) for row in rows] == asked


def test_from_always_gives_an_array(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "get", "--from", "-", stdin=b"users.bo.prefs\tseat\n") == [
        row_of(ITEMS[5])
    ]
    assert memctl.json("-s", store, "get", "--from", "-", stdin=b"") == []


def test_from_names_that_are_gone(memctl: Memctl, store: Path) -> None:
    stdin = b"users.bo.prefs\tnothing\nusers.bo.prefs\tseat\nno.where\tx\n"
    outcome = memctl("-s", store, "-o", "json", "get", "--from", "-", stdin=stdin)
    assert outcome.code == 5
    assert outcome.json() == [row_of(ITEMS[5])]
    assert "nothing" in outcome.error["message"]


@pytest.mark.parametrize(
    "line", [b"no tab", b"a\tb\tc", b"a\\q\tb", b"a\tb\\", b"a\tb\\x1", b"*\tb", b"users.*\tb", b"\\\\tb"]
)
def test_a_broken_name_is_told_with_its_line(memctl: Memctl, store: Path, line: bytes) -> None:
    stdin = b"users.bo.prefs\tseat\n" + line + b"\n"
    outcome = memctl("-s", store, "-o", "json", "get", "--from", "-", stdin=stdin)
    assert outcome.code == 2
    assert "line 2" in outcome.error["message"]


def test_names_are_many(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store(RawItem("a", f"{number:05}") for number in range(2_100))
    names = memctl("-s", store, "-o", "name", "ls", "--items").stdout
    assert memctl("-s", store, "-o", "name", "get", "--from", "-", stdin=names).stdout == names


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["users.ana.prefs"],
        ["--from", "-", "users.ana.prefs", "seat"],
        ["--from", "no such file"],
        ["users.ana.prefs", "seat", "--vector-format", "hex"],
        ["users.ana.prefs", "seat", "--vectors", "--vector-format", "numbers"],
    ],
)
def test_usage(memctl: Memctl, store: Path, arguments: list[str]) -> None:
    assert memctl.refuse("-s", store, "get", *arguments, code=2)["code"] == "usage"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"half', "no valid JSON"),
        (b"", "no valid JSON"),
        (b'{"a": NaN}', "no valid JSON"),
        (b'{"a": "\xff"}', "invalid UTF-8"),
        (b'{"a": "\x01"}', "no valid JSON"),
        (b"{'a': 1}", "no valid JSON"),
        (b"\xef\xbb\xbf{}", "no valid JSON"),
    ],
)
def test_what_is_no_json_is_null_and_says_why(
    memctl: Memctl, make_store: MakeStore, value: bytes, reason: str
) -> None:
    store = make_store([RawItem("a", "b"), RawItem("a", "c")])
    _set(store, "value = ?", value)
    outcome = memctl("-s", store, "-o", "json", "get", "a", "b")
    assert outcome.code == 3
    row = outcome.json()
    assert row["value"] is None
    [problem] = row["problems"]
    assert problem["part"] == "value"
    assert problem["reason"].startswith(reason)
    assert "1 item" in outcome.err
    assert memctl("-s", store, "get", "a", "b", "--value").stdout == value + b"\n"
    assert memctl("-s", store, "get", "a", "b").code == 3
    assert [row["key"] for row in memctl.json("-s", store, "get", "a", "b", "c", code=3)] == ["b", "c"]


def test_names_that_are_no_utf8(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([RawItem("a", "b")])
    _set(store, "prefix = CAST(? AS TEXT)", b"a\xff.b")
    _set(store, "key = CAST(? AS TEXT)", b"k\xfe\x80")
    outcome = memctl("-s", store, "-o", "json", "ls", "--items")
    assert outcome.code == 3
    [row] = outcome.json()
    assert row["namespace"] == ["a\ufffd", "b"]
    assert row["key"].startswith("k\ufffd")
    assert base64.b64decode(row["prefix_base64"]) == b"a\xff.b"
    assert base64.b64decode(row["key_base64"]) == b"k\xfe\x80"
    assert {problem["part"] for problem in row["problems"]} == {"namespace", "key"}
    names = memctl("-s", store, "-o", "name", "ls", "--items")
    assert names.stdout == b"a\\xff.b\tk\\xfe\\x80\n"
    [again] = memctl.json("-s", store, "get", "--from", "-", stdin=names.stdout, code=3)
    assert again["key_base64"] == row["key_base64"]


def test_odd_times(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([RawItem("a", "b", expires_at="2026-11-30T07:42:43.843759Z", ttl_minutes=1)])
    _set(store, "expires_at = ?, created_at = 'yesterday', updated_at = NULL", 1_796_024_563)
    row = memctl.json("-s", store, "get", "a", "b", code=3)
    assert row["expires_at"] == "2026-11-30T07:42:43.000000Z"
    assert (row["created_at"], row["updated_at"]) == (None, None)
    assert [problem["part"] for problem in row["problems"]] == ["created_at", "updated_at", "expires_at"]


def test_a_null_value(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([RawItem("a", "b")])
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.executescript(
            "ALTER TABLE store RENAME TO old; CREATE TABLE store AS SELECT * FROM old; UPDATE store SET value = NULL"
        )
    row = memctl.json("-s", store, "get", "a", "b", code=3)
    assert row["value"] is None
    assert row["problems"] == [{"part": "value", "reason": "null"}]
    assert memctl("-s", store, "get", "a", "b", "--value").code == 1


def test_an_item_on_paper(memctl: Memctl, store: Path) -> None:
    out = memctl("-s", store, "get", PREFS, "meal", "--vectors").out
    for text in (PREFS, "meal", '"vegan"', "2026-11-30T09:13:09.000000Z", "90.5", "tags[*].0", "8 dims"):
        assert text in out


def test_an_item_with_big_vectors_and_none(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([RawItem("a", "b", vectors=(vector("$"),))], vectors=True)
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE store_vectors SET embedding = x'00000000ff'")
    outcome = memctl("-s", store, "-o", "json", "get", "a", "b", "--vectors")
    assert base64.b64decode(outcome.json()["vectors"][0]["embedding"]) == b"\0\0\0\0\xff"
    assert outcome.code == 3, "an embedding that is no whole number of floats is a problem of its item"


def _set(store: Path, assignment: str, cell: object) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(f"UPDATE store SET {assignment} WHERE rowid = 1", [cell])
