"""What PostgreSQL can hold: memctl's judgement against the server's."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memctl.errors import MemctlError
from memctl.model import Item, Problem, Vector
from memctl.store import Batch, Setup
from memctl.stores.postgres import holding as reasons
from memctl.stores.postgres.holding import Holding, Judge
from memctl.stores.postgres.writer import PostgresWriter, open_postgres_writer
from tests.databases import Database, Databases

T = "2026-11-30T07:45:05.240729Z"
FLOATS = struct.Struct("<2f")


class Server:
    """A trial that counts how often it was asked."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self._connection = connection
        self.asked = 0

    def accepts(self, value: bytes) -> bool:
        try:
            with self._connection.transaction():
                self._connection.execute("SELECT %s::text::jsonb", [value.decode("utf-8", "surrogateescape")])
        except (psycopg.DataError, psycopg.OperationalError, psycopg.ProgrammingError, UnicodeEncodeError):
            return False
        return True

    def value(self, value: bytes) -> str | None:
        self.asked += 1
        return None if self.accepts(value) else "refused"

    def fits(self, *_names: object) -> bool:
        return True


@pytest.fixture
def writer(database: Database) -> Iterator[PostgresWriter]:
    setup = Setup(dims=2, index="flat")
    with closing(
        open_postgres_writer(database.url, schema=None, table=None, timeout=5, setup=setup)
    ) as writer:
        yield writer


def item(value: bytes | str = b"{}", *, prefix: str = "a", key: str = "k", **rest: object) -> Item:
    octets = value.encode() if isinstance(value, str) else value
    fields = {"created_at": T, "updated_at": T, "expires_at": None, "ttl_minutes": None} | rest
    return Item(prefix, key, octets, len(octets), **fields)  # type: ignore[arg-type]


def found(problems: tuple[Problem, ...]) -> list[tuple[str, str]]:
    return [(problem.part, problem.reason) for problem in problems]


# Values

DEEP = 200_000
VALUES = {
    r'{"a":"\u0000"}': reasons.NUL,
    r'{"a":"\\\u0000"}': reasons.NUL,
    r'{"\u0000":1}': reasons.NUL,
    r'{"a":"\\u0000"}': None,
    r'{"a":"\\\\u0000 \u00001"}': reasons.NUL,
    r'{"a":"\u0001 \u00e9"}': None,
    r'{"a":"\ud800"}': reasons.SURROGATE,
    r'["\udc00x"]': reasons.SURROGATE,
    r'{"a":"\ud83d\ude00"}': None,
    '{"a":NaN}': reasons.CONSTANT,
    '{"a":[-Infinity]}': reasons.CONSTANT,
    '{"a":nan}': reasons.NOT_JSON,
    '{"a":1,}': reasons.NOT_JSON,
    "": reasons.NOT_JSON,
    '{"n":1e131071}': None,
    '{"n":1e131072}': reasons.NUMBER,
    '{"n":1E+131072}': reasons.NUMBER,
    '{"n":1e-16383}': None,
    '{"n":1e-16384}': reasons.NUMBER,
    '{"n":1e400}': None,
    '{"n":0e-99999}': reasons.NUMBER,
    "[1, -2.5e200000 ]": reasons.NUMBER,
    '{"n":"1e200000"}': None,
    '{"id":"3f1e4123-4123","phone":"555-1234-0e99999"}': None,
    '{"n":' + "9" * 131_072 + "}": None,
    '{"n":' + "9" * 131_073 + "}": reasons.NUMBER,
    '{"n":0.' + "1" * 16_383 + "}": None,
    '{"n":0.' + "1" * 16_384 + "}": reasons.NUMBER,
    '{"n":1.' + "1" * 10_000 + "e-9999}": reasons.NUMBER,
    '{"s":"' + "1" * 200_000 + '"}': None,
    "[" * DEEP + "]" * DEEP: reasons.DEPTH,
    "[" * 2_000 + "]" * 2_000: None,
    "[1]": None,
    "null": None,
    '"text"': None,
    ' {\t"a"\n:\r1} ': None,
    '{"a":1,"a":2}': None,
}


@pytest.mark.parametrize(("value", "reason"), VALUES.items(), ids=lambda text: str(text)[:30])
def test_values(writer: PostgresWriter, value: str, reason: str | None) -> None:
    assert found(writer.unholdable(item(value))) == ([("value", reason)] if reason else [])
    if reason is None:
        assert writer.write(Batch([item(value)])) == ()
    else:
        with pytest.raises((MemctlError, ValueError)):
            writer.write(Batch([item(value)]))


def test_values_that_are_no_text(writer: PostgresWriter) -> None:
    assert found(writer.unholdable(item(b'{"a":"\xff"}'))) == [("value", "invalid UTF-8")]
    assert found(writer.unholdable(Item("a", "k", None, 0, T, T, None, None))) == [("value", "null")]


PIECES = st.sampled_from(
    [
        *'{}[]",:\\ue09-+.',
        "\\u0000",
        "\\ud800",
        "\\udc00",
        "\\\\",
        '"a":',
        "1e",
        "99999",
        "1e9999",
        "true",
        " ",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=6).map(json.dumps)))
@example('"\\\\\\u0000"')
@example("[1e1000,0.1e-99999]")
def test_nothing_is_judged_otherwise_than_by_the_server(server: Server, value: str) -> None:
    judge = Judge(Holding(), server)
    for text in (value, f'{{"a":{value}}}', f'{{"a":"{value}"}}'):
        octets = text.encode("utf-8", "surrogatepass")
        assert (judge.faults(item(octets)) == ()) == server.accepts(octets), text


@pytest.fixture
def server(database: Database) -> Iterator[Server]:
    with database.connect() as connection:
        yield Server(connection)


def test_the_server_is_asked_about_next_to_nothing(server: Server) -> None:
    judge = Judge(Holding(), server)
    for value in VALUES:
        if "e" not in value.lower() and len(value) < 2_000:
            judge.faults(item(value))
    for number in range(3_000):
        judge.faults(
            item(json.dumps({"id": random.Random(number).randbytes(16).hex(), "at": T, "n": number}))
        )
    assert server.asked == 0


# Names


@pytest.mark.parametrize("text", ["a\0b", "a\udcff"])
def test_names_that_are_no_text(writer: PostgresWriter, text: str) -> None:
    assert found(writer.unholdable(item(prefix=text))) == [("namespace", reasons.NO_TEXT)]
    assert found(writer.unholdable(item(key=text))) == [("key", reasons.NO_TEXT)]
    vectors = (Vector(text, 2, FLOATS.pack(1, 2), T, T),)
    assert found(writer.unholdable(item(vectors=vectors))) == [("vectors", reasons.NO_TEXT)]


LONG = "".join(chr(random.Random(i).randrange(0x4E00, 0x9F00)) for i in range(1_300))  # 3,900 octets
"""Text that pglz cannot shorten much."""


def test_long_names_are_tried(writer: PostgresWriter, database: Database) -> None:
    short, repeated = LONG[:800], "ab" * 100_000
    assert writer.unholdable(item(key=short)) == ()
    assert writer.unholdable(item(key=repeated)) == ()
    assert writer.unholdable(item(prefix=repeated)) == ()
    assert found(writer.unholdable(item(key=LONG))) == [("key", reasons.TOO_LONG)]
    assert found(writer.unholdable(item(prefix=LONG))) == [("namespace", reasons.TOO_LONG)]
    vector = Vector(LONG, 2, FLOATS.pack(1, 2), T, T)
    assert found(writer.unholdable(item(vectors=(vector,)))) == [("vectors", reasons.TOO_LONG)]
    assert database.execute("SELECT count(*) FROM store") == [(0,)]
    assert writer.write(Batch([item(key=short), item(key=repeated), item(prefix=repeated)])) == ()
    for refused in (item(key=LONG), item(prefix=LONG), item(vectors=(vector,))):
        with pytest.raises(MemctlError, match="index row"):
            writer.write(Batch([refused]))


# Times


@pytest.mark.parametrize(
    ("ttl", "reason"),
    [
        (60, None),
        (60.0, None),
        (0, None),
        (-5, None),
        (2147483647.0, None),
        (2147483648.0, reasons.RANGE),
        (0.4, reasons.FRACTION),
        (1.5, reasons.FRACTION),
        (float("nan"), reasons.FRACTION),
        (float("inf"), reasons.FRACTION),
    ],
)
def test_ttl_is_whole_minutes(writer: PostgresWriter, ttl: float, reason: str | None) -> None:
    assert found(writer.unholdable(item(ttl_minutes=ttl))) == ([("ttl_minutes", reason)] if reason else [])


def test_odd_cells(writer: PostgresWriter) -> None:
    problems = (
        Problem("expires_at", "no time", b"tomorrow"),
        Problem("ttl_minutes", "no number", b"an hour"),
        Problem("created_at", "null"),
        Problem("updated_at", "a number, read as seconds since 1970", 1),
    )
    odd = item(created_at=None, problems=problems)
    assert found(writer.unholdable(odd)) == [
        ("expires_at", reasons.NO_TIME),
        ("ttl_minutes", reasons.NO_NUMBER),
    ]
    assert writer.unholdable(item(problems=(Problem("expires_at", "infinity", "infinity"),))) == ()


# Vectors


@pytest.mark.parametrize(
    ("embedding", "reason"),
    [
        (FLOATS.pack(1.5, -0.0), None),
        (None, None),
        (FLOATS.pack(1.5, 3.4e38), None),
        (b"\xff\xff\x7f\xff" * 2, None),
        (FLOATS.pack(1.5, float("nan")), reasons.NOT_FINITE),
        (FLOATS.pack(float("-inf"), 0), reasons.NOT_FINITE),
        (FLOATS.pack(1, 2)[:7], reasons.NO_FLOATS),
        (FLOATS.pack(1, 2)[:4], "not of the column's 2 dims"),
        (b"", "not of the column's 2 dims"),
    ],
)
def test_vectors(writer: PostgresWriter, embedding: bytes | None, reason: str | None) -> None:
    odd = item(vectors=(Vector("f", len(embedding or b"") // 4, embedding, T, T),))
    assert found(writer.unholdable(odd)) == ([("vectors", reason)] if reason else [])
    if reason is None:
        assert writer.write(Batch([odd])) == ()
    else:
        with pytest.raises((MemctlError, ValueError)):
            writer.write(Batch([odd]))


def test_more_about_vectors(writer: PostgresWriter) -> None:
    good = Vector("f", 2, FLOATS.pack(1, 2), T, T)
    assert found(writer.unholdable(item(vectors=(good, good)))) == [("vectors", reasons.TWICE)]
    timeless = Vector("f", 2, FLOATS.pack(1, 2), None, T, (Problem("created_at", "no time", b"x"),))
    assert found(writer.unholdable(item(vectors=(timeless,)))) == [("vectors", reasons.NO_TIME)]
    bad = [Vector(name, 1, FLOATS.pack(1, 2)[:4], T, T) for name in "abc"]
    assert len(writer.unholdable(item(vectors=tuple(bad)))) == 1  # the same fault is named once


def test_tables_that_are_yet_to_be_made() -> None:
    good = item(vectors=(Vector("f", 2, FLOATS.pack(0.1, 2), T, T),))
    for setup, reasons_found in (
        (Setup(dims=2), []),
        (Setup(), [("vectors", reasons.NO_VECTORS)]),
        (Setup(dims=2, vector_type="halfvec"), [("vectors", reasons.ROUNDED)]),
    ):
        assert found(Judge(Holding.of_setup(setup)).faults(good)) == reasons_found
    nul = item(r'{"a":"\u0000"}', key=LONG)
    assert found(Judge(Holding.of_setup(Setup())).faults(nul)) == [("value", reasons.NUL)]
    wide = item(vectors=(Vector("f", 16_001, bytes(4 * 16_001), T, T),))
    assert found(Judge(Holding(vector_type="vector")).faults(wide)) == [("vectors", reasons.NO_DIMS)]
    old = Judge(Holding(expiry=False))
    assert found(old.faults(item(expires_at=T, ttl_minutes=1))) == [
        ("expires_at", reasons.NO_COLUMN),
        ("ttl_minutes", reasons.NO_COLUMN),
    ]


# Other encodings

WORDS: dict[str, Callable[[str], bool]] = {
    "LATIN1": lambda word: word in ("a", "é"),
    "SQL_ASCII": lambda word: True,
}


@pytest.mark.parametrize("encoding", WORDS)
def test_other_encodings(encoding: str, databases: Databases, database: Database) -> None:
    name = f"{database.name}_{encoding.lower()}"
    database.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    try:
        address = database.server.url(name)
        with closing(
            open_postgres_writer(address, schema=None, table=None, timeout=5, setup=Setup())
        ) as writer:
            _judge_words(writer, encoding)
    finally:
        database.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _judge_words(writer: PostgresWriter, encoding: str) -> None:
    for word in ("a", "é", "日本"):
        holds = WORDS[encoding](word)
        named = [item(prefix=word), item(key=word), item(f'{{"a":"{word}"}}', key=f"k{ord(word[0])}")]
        escaped = item(json.dumps({"a": word}), key=f"e{ord(word[0])}")
        for candidate in named:
            assert (writer.unholdable(candidate) == ()) == holds, (word, candidate)
        can_escape = word == "a" or (encoding == "LATIN1" and holds)
        assert (writer.unholdable(escaped) == ()) == can_escape
        if holds:
            assert writer.write(Batch(named)) == ()
        if can_escape:
            assert writer.write(Batch([escaped])) == ()
    raw = item(key="\udcff")
    assert (writer.unholdable(raw) == ()) == (encoding == "SQL_ASCII")
    if encoding == "SQL_ASCII":
        assert writer.write(Batch([raw])) == ()
        assert writer.write(Batch([raw])) != ()  # found again under its own bytes
        assert writer.write(Batch(changed=[raw])) == ()
