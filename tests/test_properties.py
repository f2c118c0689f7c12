"""Hostile namespaces, keys and values, through each backend that can hold them and every output format.

JSON gives back exactly what was stored, compared as JSON text and as exact decimals; `-o name` is taken back by
`get --from -`; formats for people stay harmless; the other ones stay parsable.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memctl.model import decode, encode
from memctl.namespaces import parse_exact, show
from memctl.render import FORMATS
from memctl.render.name import parse_name
from tests.contract.backends import Backend, PostgresBackend, RawItem, SqliteBackend
from tests.databases import Databases
from tests.invocation import Memctl, exact
from tests.writers import sqlite_store

SETTINGS = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=int(os.environ.get("MEMCTL_TEST_EXAMPLES", "15")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MARKUP = (
    "[bold]", "[/]", "[link=x]", ":smile:", "`", "**", "|", "<b>", "&lt;", "\\", '"', "'", ",", "\t", "\n", "\r\n",
    "\x1b[2J", "\x1b]0;x\x07", "\x00", "\x7f", "\x9b", "\u202e", "\u2028", "\ufeff", "\u200d", "*", "{x}",
    "{{x}}", "\\*", "%s", "%", "_", "--", "$", "'; DROP TABLE store; --", "🙂", "é", "e\u0301", "日本", ".", "..", " ",
)  # fmt: skip
characters = st.characters(exclude_categories=["Cs"])
text = st.lists(
    st.one_of(st.sampled_from(MARKUP), characters, st.text(characters, max_size=6)), max_size=6
).map("".join)
long_text = st.builds(
    lambda part, size: (part or "x") * size, st.text(characters, max_size=3), st.integers(1, 3000)
)
labels = st.one_of(text, st.sampled_from(["", "*", "{user_id}", "None", "a", "langgraph"]))
prefixes = st.lists(labels, min_size=1, max_size=4).map(".".join)
keys = st.one_of(text, long_text)
numbers = st.one_of(
    st.integers(-(10**40), 10**40),
    st.sampled_from([2**63, -(2**63) - 1, 2**64, 2**53 + 1, 10**300]),
    st.decimals(allow_nan=False, allow_infinity=False, places=30, min_value=-(10**6), max_value=10**6),
)


def write(value: Any, ascii_only: bool) -> str:
    """JSON text, every digit kept."""
    if isinstance(value, Decimal):
        return str(value) if "E" not in str(value) else format(value, "f")
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{write(name, ascii_only)}: {write(part, ascii_only)}" for name, part in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(write(part, ascii_only) for part in value) + "]"
    return json.dumps(value, ensure_ascii=ascii_only)


scalars = st.one_of(st.none(), st.booleans(), numbers, text)
values = st.dictionaries(
    text,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
json_texts = st.builds(write, values, st.booleans())
rows = st.lists(st.tuples(prefixes, keys, json_texts), min_size=1, max_size=5, unique_by=lambda row: row[:2])

BARE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def without_nul(rows_: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """What PostgreSQL can hold of it: no NUL anywhere."""
    kept = {
        (prefix.replace("\0", "NUL"), key.replace("\0", "NUL")): value.replace("\\u0000", "NUL")
        for prefix, key, value in rows_
    }
    return [(prefix, key, value) for (prefix, key), value in kept.items()]


def check(memctl: Memctl, address: str, stored: list[tuple[str, str, str]], *, keeps_text: bool) -> None:
    """Hold every format against what was stored."""
    stored = sorted(stored, key=lambda row: (row[0].encode(), row[1].encode()))
    wanted = [(prefix.split("."), key, exact(value)) for prefix, key, value in stored]

    def shown(found: list[dict[str, Any]]) -> list[tuple[list[str], str, Any]]:
        return [(row["namespace"], row["key"], row["value"]) for row in found]

    outcome = memctl("-s", address, "-o", "json", "search", "--order", "name")
    assert outcome.code == 0, outcome.err
    assert shown(outcome.json()) == wanted
    if keeps_text:
        for _, _, value in stored:
            assert f'"value":{value},'.encode() in outcome.stdout
    lines = memctl("-s", address, "-o", "jsonl", "search", "--order", "name").stdout.splitlines()
    assert shown([exact(line) for line in lines]) == wanted

    names = memctl("-s", address, "-o", "name", "search", "--order", "name").stdout
    assert names.count(b"\n") == len(stored)
    assert shown(memctl.json("-s", address, "get", "--from", "-", stdin=names)) == wanted
    assert memctl("-s", address, "-o", "name", "ls", "--items").stdout == names

    for prefix, key, value in stored:
        row = memctl.json("-s", address, "get", "--", show(prefix), key)
        assert (row["namespace"], row["key"], row["value"]) == (prefix.split("."), key, exact(value))
    prefixes_ = list(dict.fromkeys(prefix for prefix, _, _ in stored))
    assert [row["namespace"] for row in memctl.json("-s", address, "ls")] == [
        prefix.split(".") for prefix in prefixes_
    ]

    read = list(
        csv.DictReader(
            io.StringIO(memctl("-s", address, "-o", "csv", "search", "--order", "name").out, newline="")
        )
    )
    if not any("\0" in cell for row in stored for cell in row):  # which Python's own reader may refuse
        assert [(row["namespace"], row["key"], exact(row["value"])) for row in read] == [
            (show(prefix), key, exact(value)) for prefix, key, value in stored
        ]
    tabbed = memctl("-s", address, "-o", "tsv", "search", "--order", "name").lines
    assert len(tabbed) == len(stored) + 1
    assert {line.count("\t") for line in tabbed} == {6}
    commands = [["search"], ["ls"], ["ls", "--tree"], ["ls", "--items"], ["get", "--from", "-"]]
    for output in ("table", "markdown"):
        for terminal in (False, True):
            for command in (
                commands if keeps_text else commands[:1]
            ):  # stores differ in their text, formats do not
                human = memctl(
                    "-s",
                    address,
                    "-o",
                    output,
                    "--no-color",
                    *command,
                    stdin=names,
                    terminal=terminal,
                    width=80,
                )
                assert human.code == 0, human.err
                assert not BARE.search(human.out), command


@pytest.fixture(scope="module")
def shared_memctl(tmp_path_factory: pytest.TempPathFactory) -> Memctl:
    """One folder for all examples."""
    return Memctl(tmp_path_factory.mktemp("properties"))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """One store of each family for all examples."""
    if request.param == "sqlite":
        sqlite_backend = SqliteBackend(tmp_path_factory.mktemp("store"))
        sqlite_backend.create(vectors=False)
        yield sqlite_backend
        return
    databases: Databases = request.getfixturevalue("databases")
    with databases.new() as database, closing(PostgresBackend(database)) as postgres_backend:
        postgres_backend.create(vectors=False)
        yield postgres_backend


@SETTINGS
@given(rows)
@example([("", "", "{}"), (".", "\t", '{"": ""}'), ("a\n", "\\", '{"a": 123456789012345678901234567890.1}')])
@example(
    [
        ("x" * 2000, "k" * 600, '{"text": "' + "[red]" * 3000 + '"}'),
        ("\x1b[31m", "\u202e", '{"\\u001b": "\\u202e"}'),
    ]
)
@pytest.mark.no_cover
def test_every_format(backend: Backend, shared_memctl: Memctl, rows: list[tuple[str, str, str]]) -> None:
    stored = rows if backend.holds_nul else without_nul(rows)
    backend.execute("DELETE FROM store")
    backend.insert(RawItem(*row) for row in stored)
    check(shared_memctl, backend.address, stored, keeps_text=backend.holds_nul)


def test_very_long_names(backend: Backend, shared_memctl: Memctl) -> None:
    """10 KB, which PostgreSQL's index holds as long as it compresses."""
    stored = [("a." + "b" * 10_000, "k" * 10_000, '{"n": 1}'), ("é" * 5_000, "\t" * 5_000, '{"n": 2}')]
    backend.execute("DELETE FROM store")
    backend.insert(RawItem(*row) for row in stored)
    check(shared_memctl, backend.address, stored, keeps_text=backend.holds_nul)


no_text = st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b".", b"a", b"\t", b"\0"])
octets = st.lists(st.one_of(st.binary(max_size=4), no_text), max_size=5).map(b"".join)


@SETTINGS
@given(st.lists(st.tuples(octets, octets, octets), min_size=1, max_size=5, unique_by=lambda row: row[:2]))
@example([(b"\xff", b"\xff\t\n\\", b"\xff"), (b"a", b"b", b"")])
def test_octets_that_are_no_text(
    shared_memctl: Memctl, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[bytes, bytes, bytes]]
) -> None:
    """SQLite holds any octets as text: each item is listed, named to the octet, and taken back."""
    path = tmp_path_factory.getbasetemp() / "octets.db"
    if not path.exists():
        with sqlite_store(path):
            pass
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM store")
        connection.executemany(
            "INSERT INTO store (prefix, key, value) VALUES (CAST(? AS TEXT), CAST(? AS TEXT), ?)", rows
        )
    stored = sorted(rows)
    listed = shared_memctl("-s", path, "-o", "json", "search", "--order", "name")
    assert listed.code == (3 if any("problems" in row for row in listed.json()) else 0)
    assert [place(row) for row in listed.json()] == [row[:2] for row in stored]
    for row, (_, _, value) in zip(listed.json(), stored, strict=True):
        assert row["value"] is None or row["value"] == exact(value)
        assert (row["value"] is None) == any(
            problem["part"] == "value" and problem["reason"] != "not an object"
            for problem in row.get("problems", ())
        ) or value == b"null"
    names = shared_memctl("-s", path, "-o", "name", "ls", "--items").stdout
    assert [tuple(map(encode, parse_name(line + b"\n"))) for line in names.split(b"\n")[:-1]] == [
        row[:2] for row in stored
    ]
    again = shared_memctl("-s", path, "-o", "json", "get", "--from", "-", stdin=names)
    assert again.json() == listed.json()
    for output in FORMATS:
        outcome = shared_memctl("-s", path, "-o", output, "search")
        assert outcome.code == listed.code
        outcome.stdout.decode()  # valid UTF-8, whatever was stored
    values_ = shared_memctl("-s", path, "get", "--value", "--from", "-", stdin=names)
    assert values_.stdout == b"".join(value + b"\n" for _, _, value in stored)


def place(row: dict[str, Any]) -> tuple[bytes, bytes]:
    """An item's name to the octet, as JSON tells it."""
    prefix = (
        base64.b64decode(row["prefix_base64"])
        if "prefix_base64" in row
        else ".".join(row["namespace"]).encode()
    )
    key = base64.b64decode(row["key_base64"]) if "key_base64" in row else row["key"].encode()
    return prefix, key


@settings(SETTINGS, max_examples=300)
@given(prefixes)
@example("*")
@example("\\*")
@example("{a}.{{b}}.*")
@example("{}")
@example("{{}}")
def test_a_namespace_has_one_spelling(prefix: str) -> None:
    assert parse_exact(show(prefix)) == prefix


@settings(SETTINGS, max_examples=300)
@given(st.binary(max_size=40))
def test_stored_octets_are_carried_as_text(stored: bytes) -> None:
    assert encode(decode(stored)) == stored


@SETTINGS
@given(st.lists(st.tuples(prefixes, keys), max_size=4, unique=True), st.sampled_from(sorted(FORMATS)))
def test_a_missing_name_is_an_error_and_no_accident(
    shared_memctl: Memctl, tmp_path_factory: pytest.TempPathFactory, names: list[tuple[str, str]], output: str
) -> None:
    """Whatever is asked for, in whatever format: exit 5, and a harmless word on stderr."""
    path: Path = tmp_path_factory.getbasetemp() / "empty.db"
    if not path.exists():
        with sqlite_store(path):
            pass
    for prefix, key in names:
        outcome = shared_memctl("-s", path, "-o", output, "get", "--", show(prefix), key)
        assert outcome.code == 5
        if output not in ("json", "jsonl"):
            assert not BARE.search(outcome.err)
