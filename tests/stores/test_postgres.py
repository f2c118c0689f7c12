"""What is PostgreSQL's own in its store; the contract that all stores share is tested elsewhere."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from memctl.errors import Busy, MemctlError, NoStore, Refused, Unreachable, UsageError
from memctl.model import EVERYTHING, Detail, Item, Position, Scope, encode
from memctl.store import Capability, Described, Ledger, Store
from memctl.stores.postgres import PostgresStore, connect, open_postgres
from memctl.stores.postgres import store as tuning
from tests.databases import Database, Databases
from tests.servers import PASSWORD
from tests.writers import SAMPLE, Index, postgres_store

NewDatabase = Callable[..., Database]
MOMENT = "2026-11-30 07:45:05.240729+00"


@contextmanager
def opened(url: str, schema: str | None = None, table: str | None = None) -> Iterator[PostgresStore]:
    with closing(open_postgres(url, schema=schema, table=table, timeout=5)) as store:
        yield store


def refusal(url: str, schema: str | None = None, table: str | None = None, timeout: float = 5) -> MemctlError:
    """The error with which this address is refused; its password must not show."""
    with pytest.raises(MemctlError) as caught:
        open_postgres(url, schema=schema, table=table, timeout=timeout).close()
    assert PASSWORD not in f"{caught.value.message} {caught.value.hint}"
    return caught.value


def create(database: Database, schema: str = "", *, index: Index | None = None) -> None:
    """LangGraph's own tables, empty."""
    with postgres_store(database.url, schema=schema, index=index):
        pass


def insert(database: Database, *rows: tuple[str, str], value: str = "{}") -> None:
    with database.connect() as connection, connection.cursor() as cursor:
        statement = "INSERT INTO store (prefix, key, value) VALUES (%s, %s, %s)"
        cursor.executemany(statement, [(*row, value) for row in rows])


def places(items: Iterator[Item]) -> list[tuple[str, str]]:
    return [(item.prefix, item.key) for item in items]


# Finding the store


def test_fixtures_of_every_age(postgres_data: Database) -> None:
    with opened(postgres_data.url) as store:
        described = store.describe()
        assert places(store.scan(EVERYTHING)) == [(".".join(namespace), key) for namespace, key in SAMPLE]
        assert sum(len(item.vectors) for item in store.scan(EVERYTHING, vectors=Detail.FULL)) == 9
    columns = next(table.columns for table in described.tables if table.name == "store")
    assert (Capability.EXPIRY in store.capabilities) == ("expires_at" in columns)
    assert {Capability.VECTORS, Capability.CASCADE, Capability.VECTOR_TIMES} <= store.capabilities
    assert all(ledger.agrees for ledger in described.ledgers)


def test_is_a_store_that_describes_itself(postgres_sample: Database) -> None:
    with opened(postgres_sample.url) as store:
        typed: Store = store
        assert isinstance(typed, Described)
        assert store.moved is False


def test_another_schema_is_found_and_shown(database: Database) -> None:
    create(database, "Agents of '26")
    with opened(database.url) as store:
        assert store.address.endswith("schema=Agents%20of%20%2726")
        assert store.describe().schema == "Agents of '26"


def test_several_stores_are_listed(database: Database) -> None:
    create(database)
    create(database, "prod")
    error = refusal(database.url)
    assert type(error) is UsageError
    assert "--schema prod\n" in error.message
    assert error.message.endswith("--schema public")
    insert(database, ("only", "here"))
    with opened(database.url, "public") as store:
        assert places(store.scan(EVERYTHING)) == [("only", "here")]
    with opened(database.url, "prod") as store:
        assert places(store.scan(EVERYTHING)) == []


def test_the_one_store_that_the_role_may_read(database: Database) -> None:
    create(database)
    create(database, "prod")
    with opened(database.reader("prod")) as store:
        assert store.describe().schema == "prod"


def test_another_table(database: Database) -> None:
    create(database, index=Index())
    database.execute("ALTER TABLE store RENAME TO agent; ALTER TABLE store_vectors RENAME TO agent_vectors")
    error = refusal(database.url)
    assert (type(error), error.code) == (NoStore, "no-tables")
    assert error.hint is not None
    assert "--schema public --table agent" in error.hint
    with opened(database.url, table="agent") as store:
        assert Capability.VECTORS in store.capabilities
        assert list(store.scan(EVERYTHING)) == []


def test_an_empty_database(database: Database) -> None:
    assert (type(error := refusal(database.url)), error.code) == (NoStore, "no-tables")
    assert database.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'store%'") == [(0,)]


def test_a_schema_that_is_not_there(database: Database) -> None:
    create(database)
    assert (type(error := refusal(database.url, "nowhere")), error.code) == (NoStore, "no-tables")


def test_a_store_of_langgraph_js(database: Database) -> None:
    database.execute(
        "CREATE TABLE store (namespace_path text, key text, value jsonb, expires_at timestamptz)"
    )
    error = refusal(database.url)
    assert (type(error), error.code) == (NoStore, "foreign-tables")
    assert "LangGraph.js" in error.message


def test_another_product(database: Database) -> None:
    database.execute("CREATE TABLE store (id int, street text)")
    error = refusal(database.url)
    assert (type(error), error.code) == (NoStore, "foreign-tables")
    assert "id, street" in error.message


def test_a_foreign_table_beside_the_store(database: Database) -> None:
    create(database)
    database.execute("CREATE SCHEMA shop; CREATE TABLE shop.store (id int, street text)")
    with opened(database.url) as store:
        assert store.describe().schema == "public"


# Refusals


def test_no_server(closed_port: int) -> None:
    assert type(refusal(f"postgresql://u:{PASSWORD[:6]}@127.0.0.1:{closed_port}/d")) is Unreachable
    assert type(refusal("host=no-such-host.invalid dbname=d")) is Unreachable


def test_silent_server(silent_port: int) -> None:
    assert type(refusal(f"host=127.0.0.1 port={silent_port} dbname=d", timeout=0.5)) is Unreachable


def test_password(database: Database) -> None:
    create(database)
    role = psycopg.conninfo.conninfo_to_dict(database.reader())
    wrong = psycopg.conninfo.make_conninfo(**role | {"password": "wrong" + PASSWORD})
    assert type(refusal(wrong)) is Refused
    missing = psycopg.conninfo.make_conninfo(**role | {"password": None})
    error = refusal(missing)
    assert type(error) is Refused
    assert error.hint is not None
    assert "PGPASSWORD" in error.hint


def test_no_database(database: Database) -> None:
    error = refusal(psycopg.conninfo.make_conninfo(database.tcp_url, dbname="nowhere"))
    assert (type(error), error.code) == (NoStore, "no-database")


def test_no_database_through_pgbouncer(database: Database) -> None:
    error = refusal(psycopg.conninfo.make_conninfo(database.pooled(), dbname="nowhere"))
    assert (type(error), error.code) == (NoStore, "no-database")


def test_options_through_pgbouncer(database: Database) -> None:
    error = refusal(psycopg.conninfo.make_conninfo(database.pooled(), options="-csearch_path=x"))
    assert type(error) is UsageError
    assert error.hint is not None
    assert "--schema" in error.hint


@pytest.mark.parametrize(
    ("grants", "says"),
    [
        ((), "schema kept"),
        (("USAGE ON SCHEMA kept",), "may not read kept.store"),
        (("USAGE ON SCHEMA kept", "SELECT (prefix, key) ON kept.store"), "may not read value of kept.store"),
        (("USAGE ON SCHEMA kept", "SELECT ON kept.store"), "may not read kept.store_vectors"),
    ],
)
def test_missing_permission(database: Database, grants: tuple[str, ...], says: str) -> None:
    create(database, "kept", index=Index())
    error = refusal(database.role(*grants))
    assert type(error) is Refused
    assert says in error.message
    assert error.hint is not None
    assert "GRANT SELECT ON kept.store" in error.hint


def test_a_locked_table(postgres_sample: Database) -> None:
    with postgres_sample.connect() as holder, holder.transaction():
        holder.execute("LOCK TABLE store IN ACCESS EXCLUSIVE MODE")
        store = open_postgres(postgres_sample.url, schema=None, table=None, timeout=0.2)
        with closing(store), pytest.raises(Busy):
            list(store.scan(EVERYTHING))


def test_a_lost_connection(postgres_sample: Database) -> None:
    insert(postgres_sample, *(("bulk", str(number)) for number in range(3 * tuning.FETCHED_ROWS)))
    with opened(postgres_sample.tcp_url) as store:
        items = store.scan(EVERYTHING)
        next(items)
        postgres_sample.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'memctl'"
            " AND datname = current_database()"
        )
        with pytest.raises(MemctlError, match="was lost") as caught:
            list(items)
    assert (type(caught.value), caught.value.code) == (MemctlError, "connection-lost")
    assert PASSWORD not in caught.value.message


# Order and parts


AWKWARD = [
    "",
    ".",
    "..",
    "a",
    "a b",
    "a-b",
    "a.b",
    "a.",
    "a/b",
    "a_b",
    "A",
    "aa",
    "B",
    "é",
    "z",
    "~",
    "日本",
    "🙂",
    "\x01",
]


def test_order_is_that_of_the_bytes(each_database: Database) -> None:
    create(each_database)
    insert(each_database, *((prefix, key) for prefix in reversed(AWKWARD) for key in AWKWARD))
    expected = sorted(
        ((prefix, key) for prefix in AWKWARD for key in AWKWARD), key=lambda place: tuple(map(encode, place))
    )
    with opened(each_database.url) as store:
        assert places(store.scan(EVERYTHING)) == expected
        assert [space.prefix for space in store.namespaces(EVERYTHING)] == sorted(AWKWARD, key=encode)
        for start in range(0, len(expected), 17):
            assert places(store.scan(EVERYTHING, after=Position(*expected[start]))) == expected[start + 1 :]


def test_a_subtree_is_whole_labels(each_database: Database) -> None:
    create(each_database)
    asked = [*AWKWARD, "a%", "a_", "nothing"]
    below = {f"{prefix}.{label}" for prefix in ("", "a", "a%", "a_", "é") for label in AWKWARD}
    stored = sorted({*AWKWARD, *below, "ax", "a.x.y", "a_x", "a%x", "éx"}, key=encode)
    insert(each_database, *((prefix, "k") for prefix in stored))
    with opened(each_database.url) as store:
        for prefix in asked:
            expected = [text for text in stored if text == prefix or text.startswith(f"{prefix}.")]
            assert [place for place, _ in places(store.scan(Scope(prefix)))] == expected
            assert [space.prefix for space in store.namespaces(Scope(prefix))] == expected
            exactly = [prefix] if prefix in stored else []
            assert [place for place, _ in places(store.scan(Scope(prefix, descend=False)))] == exactly


def test_a_place_that_cannot_be_stored(database: Database) -> None:
    create(database)
    stored = [("a", "j"), ("a", "k"), ("a", "k\x01"), ("a", "l"), ("a\x01", "a"), ("b", "")]
    insert(database, *stored)
    with opened(database.url) as store:
        for after in (
            Position("a", "k\0"),
            Position("a\0b", ""),
            Position("a", "k\udcff"),
            Position("a\udcff", ""),
        ):
            expected = [place for place in stored if Position(*place).order > after.order]
            assert places(store.scan(EVERYTHING, after=after)) == expected
        for hostile in ("a\0", "a\udcff", "\ud800"):
            assert list(store.scan(Scope(hostile))) == []
            assert list(store.namespaces(Scope(hostile))) == []
            assert list(store.get(hostile, ["k"])) == []
        assert places(store.get("a", ["k\0", "l", "\udcff", "k", "l"])) == [
            ("a", "l"),
            ("a", "k"),
            ("a", "l"),
        ]


def plan(store: PostgresStore, query: tuning.Query) -> str:
    statement = sql.SQL("EXPLAIN DECLARE c CURSOR FOR ") + query.statement
    return "\n".join(line for (line,) in store._session.fetch(statement, query.values))


def test_an_index_serves_order_and_parts(each_database: Database) -> None:
    create(each_database, index=Index(kind="flat"))
    each_database.execute(
        "INSERT INTO store (prefix, key, value) SELECT 'users.u' || i % 2000, i::text, '{}'"
        " FROM generate_series(1, 20000) AS i;"
        "INSERT INTO store_vectors SELECT prefix, key, '$', '[1,2,3,4,5,6,7,8]' FROM store"
    )
    each_database.execute("VACUUM ANALYZE store, store_vectors")
    part, place = Scope("users.u7"), Position("users.u7", "1")
    with opened(each_database.url) as store:
        queries = store._queries
        served = "Index Scan using store_prefix_idx"
        assert served in plan(store, queries.items(EVERYTHING, None, values=True))
        for values in (True, False):
            resumed = plan(store, queries.items(EVERYTHING, place, values=values))
            assert "Index Cond: (prefix ~>=~ 'users.u7'::text)" in resumed
        in_part = plan(store, queries.items(part, None, values=True))
        assert served in in_part
        assert "Index Cond: ((prefix ~>=~ 'users.u7'::text) AND (prefix ~<~ 'users.u7/'::text))" in in_part
        for detail in (Detail.SHAPE, Detail.FULL):
            beside = plan(store, queries.vectors(part, None, detail=detail))
            assert "Seq Scan" not in beside
            assert "using store_vectors_pkey" in beside
        assert "Seq Scan" not in plan(store, queries.namespaces(part))
        assert "using store_pkey" in plan(store, queries.some_items("users.u7", ["1", "2"]))


# What a row can hold


def test_values_come_as_jsonb_prints_them(database: Database) -> None:
    create(database)
    texts = [
        '{"n": 123456789012345678901234567890, "x": 1.0, "e": 1e2}',
        "[1]",
        "5",
        "null",
        '{"b": 1, "a": "\\u00e9\\n"}',
    ]
    for number, text in enumerate(texts):
        insert(database, ("odd", str(number)), value=text)
    printed = [row for (row,) in database.execute("SELECT value::text FROM store ORDER BY key")]
    with opened(database.url) as store:
        items = list(store.scan(EVERYTHING))
        assert [item.value and item.value.decode() for item in items] == printed
        assert [item.size for item in items] == [len(encode(text)) for text in printed]
        assert [item.size for item in store.scan(EVERYTHING, values=False)] == [item.size for item in items]
        assert sum(space.octets for space in store.namespaces(EVERYTHING)) == sum(item.size for item in items)


def test_long_values_are_read_apart(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "FETCHED_OCTETS", 60_000)
    monkeypatch.setattr(tuning, "FETCHED_ROWS", 7)
    create(database)
    lengths = [1, 20_000, 5, 20_000, 20_001, 20_002, 100_000, 3, 16_384, 16_385, 300_000, 2, 20_000]
    for number, length in enumerate(lengths):
        insert(database, ("long", f"{number:03}"), value=f'"{"é" * (length // 2)}{"x" * (length % 2)}"')
    with opened(database.url) as store:
        items = list(store.scan(EVERYTHING))
        assert [item.size for item in items] == [length + 2 for length in lengths]
        assert all(item.value is not None and len(item.value) == item.size for item in items)
        wanted = [item.key for item in reversed(items)]
        assert list(store.get("long", wanted)) == items[::-1]


def test_the_same_rows_by_every_road(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "FETCHED_ROWS", 10)
    create(database)
    texts = ["", "a\tb", "a\\b", "\\N", "\x01\n", 'q"', "é🙂", "x" * 20_000]
    for number, text in enumerate(texts * 3):
        insert(database, (f"n.{text}", f"{text}{number}"), value=json.dumps({"t": text, "n": number}))
    database.execute(
        "UPDATE store SET expires_at = 'infinity', ttl_minutes = 5 WHERE (value->>'n')::int % 3 = 0;"
        "UPDATE store SET updated_at = NULL WHERE (value->>'n')::int % 5 = 0"
    )
    with opened(database.url) as store:
        copied = list(store.scan(EVERYTHING))
        assert len(copied) == 24
        assert list(store.scan(Scope("n"))) == copied
        assert [item for one in copied for item in store.get(one.prefix, [one.key])] == copied
        for stop in (0, 5, 10, 11, 23):
            items = store.scan(EVERYTHING)
            begun = list(islice(items, stop))
            assert list(store.get("nothing", ["here"])) == []
            assert begun + list(items) == copied


def test_odd_timestamps(database: Database) -> None:
    create(database)
    insert(database, ("odd", "bc"), ("odd", "fine"), ("odd", "inf"), ("odd", "late"), ("odd", "null"))
    odd = {"bc": "0044-03-15 12:00:00+00 BC", "inf": "infinity", "late": "12026-01-01+00", "null": None}
    for key, moment in (odd | {"fine": MOMENT}).items():
        database.execute(
            "UPDATE store SET updated_at = %s, expires_at = %s WHERE key = %s", moment, moment, key
        )
    with opened(database.url) as store:
        found = {item.key: item for item in store.scan(EVERYTHING)}
        (space,) = store.namespaces(EVERYTHING)
    assert (
        space.newest == found["fine"].updated_at == found["fine"].expires_at == "2026-11-30T07:45:05.240729Z"
    )
    parts = {key: [(problem.part, problem.raw) for problem in item.problems] for key, item in found.items()}
    assert parts == {
        "bc": [(part, "0044-03-15 12:00:00+00 BC") for part in ("updated_at", "expires_at")],
        "fine": [],
        "inf": [(part, "infinity") for part in ("updated_at", "expires_at")],
        "late": [(part, "12026-01-01 00:00:00+00") for part in ("updated_at", "expires_at")],
        "null": [("updated_at", None)],
    }


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_other_encodings(encoding: str, databases: Databases, database: Database) -> None:
    name = sql.Identifier(f"{database.name}_{encoding.lower()}")
    with database.connect() as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING {} LOCALE 'C'").format(
                name, sql.Literal(encoding)
            )
        )
    try:
        _read_other_encoding(encoding, database.server.url(f"{database.name}_{encoding.lower()}"))
    finally:
        with database.connect() as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _read_other_encoding(encoding: str, url: str) -> None:
    words = {"SQL_ASCII": ["a", "é", "日本"], "LATIN1": ["a", "ÿ", "é"], "EUC_JP": ["a", "日本", "ｱ", "亜"]}[
        encoding
    ]
    with postgres_store(url):
        pass
    raw = b"\xff\xfe" if encoding == "SQL_ASCII" else None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_encoding = 'UTF8'")
        insertion = "INSERT INTO store (prefix, key, value) VALUES (%s, %s, %s)"
        for word in words:
            connection.execute(insertion, [word, word, f'{{"w": "{word}"}}'])
        if raw:
            connection.execute(insertion.replace("%s", "convert_from(%s, 'SQL_ASCII')", 1), [raw, "k", "{}"])
    with opened(url) as store:
        expected = sorted(words, key=encode) + (["\udcff\udcfe"] if raw else [])
        items = list(store.scan(EVERYTHING))
        assert [item.prefix for item in items] == expected
        assert [space.prefix for space in store.namespaces(EVERYTHING)] == expected
        assert [space.octets for space in store.namespaces(EVERYTHING)] == [
            len(item.value or b"") for item in items
        ]
        assert [item.size for item in items] == [len(item.value or b"") for item in items]
        assert [item.problems[0].reason for item in items if item.problems] == (
            ["invalid UTF-8"] if raw else []
        )
        for item in items:
            assert list(store.get(item.prefix, ["☃", item.key])) == [item]
            assert list(store.scan(Scope(item.prefix))) == [item]
            rest = [
                other
                for other in items
                if Position(other.prefix, other.key).order > (encode(item.prefix), encode(item.key))
            ]
            assert list(store.scan(EVERYTHING, after=Position(item.prefix, item.key))) == rest
        assert list(store.scan(Scope("☃"))) == []


def test_halfvec(database: Database) -> None:
    create(database, index=Index(dims=4, kind="hnsw", vector_type="halfvec"))
    insert(database, ("a", "k"))
    database.execute("INSERT INTO store_vectors VALUES ('a', 'k', '$', '[0.1,-2,65504,6e-8]')")
    halves = struct.unpack("<4e", struct.pack("<4e", 0.1, -2, 65504, 6e-8))
    with opened(database.url) as store:
        (item,) = store.scan(EVERYTHING, vectors=Detail.FULL)
        setup = store.describe().vectors
    assert item.vectors[0].embedding == struct.pack("<4f", *halves)
    assert setup is not None
    assert (setup.type, setup.dims, setup.index, setup.metric) == ("halfvec", (4,), "hnsw", "cosine")


def test_vectors_without_a_declared_width(database: Database) -> None:
    create(database, index=Index(kind="flat"))
    database.execute("ALTER TABLE store_vectors ALTER embedding TYPE vector")
    insert(database, ("a", "k"))
    database.execute(
        "INSERT INTO store_vectors VALUES"
        " ('a', 'k', 'two', '[1,2]'), ('a', 'k', 'three', '[1,2,3]'), ('a', 'k', 'none', NULL)"
    )
    with opened(database.url) as store:
        (shape,) = store.scan(EVERYTHING, vectors=Detail.SHAPE)
        (full,) = store.get("a", ["k"], vectors=Detail.FULL)
        setup = store.describe().vectors
    assert [(vector.field, vector.dims, vector.embedding) for vector in shape.vectors] == [
        ("none", 0, None), ("three", 3, None), ("two", 2, None),
    ]  # fmt: skip
    assert [vector.embedding for vector in full.vectors] == [
        None,
        struct.pack("<3f", 1, 2, 3),
        struct.pack("<2f", 1, 2),
    ]
    assert [len(vector.problems) for vector in full.vectors] == [1, 0, 0]
    assert setup is not None
    assert (setup.type, setup.dims, setup.index, setup.metric) == ("vector", (2, 3), None, None)


def test_pgvector_in_a_schema_of_its_own(new_database: NewDatabase) -> None:
    database = new_database(vector=False)
    database.execute('CREATE SCHEMA "ext.s"; CREATE EXTENSION vector SCHEMA "ext.s"')
    database.execute(f'ALTER DATABASE {database.name} SET search_path = public, "ext.s"')
    create(database, index=Index(dims=2, vector_type="halfvec", kind="hnsw"))
    insert(database, ("a", "k"))
    database.execute("INSERT INTO store_vectors VALUES ('a', 'k', '$', '[1,2]')")
    with opened(database.url) as store:
        (item,) = store.scan(Scope("a"), vectors=Detail.FULL)
        (table,) = (table for table in store.describe().tables if table.name == "store_vectors")
    assert item.vectors[0].embedding == struct.pack("<2f", 1, 2)
    assert table.columns["embedding"] == "halfvec(2)"


def test_orphans_belong_to_nobody(database: Database) -> None:
    create(database, index=Index(dims=2))
    insert(database, *((prefix, key) for prefix in ("a", "c") for key in ("1", "3")))
    database.execute("ALTER TABLE store_vectors DROP CONSTRAINT store_vectors_prefix_key_fkey")
    database.execute(
        "INSERT INTO store_vectors SELECT p, k, f, '[1,2]' FROM unnest('{a,b,c}'::text[]) AS p,"
        " unnest('{0,1,2,3,4}'::text[]) AS k, unnest('{x,y}'::text[]) AS f"
    )
    with opened(database.url) as store:
        assert Capability.CASCADE not in store.capabilities
        for items in (
            store.scan(EVERYTHING, vectors=Detail.FULL),
            store.get("a", ["3", "1"], vectors=Detail.SHAPE),
        ):
            assert {tuple(vector.field for vector in item.vectors) for item in items} == {("x", "y")}
        assert [(space.prefix, space.vectors) for space in store.namespaces(EVERYTHING)] == [
            ("a", 4),
            ("c", 4),
        ]


# Reading changes nothing, and meets nobody's changes


def everything(store: PostgresStore) -> list[object]:
    """The answer to every question that the store can be asked."""
    items = list(store.scan(EVERYTHING, vectors=Detail.FULL))
    return [
        items,
        list(store.scan(EVERYTHING)),
        list(store.scan(EVERYTHING, values=False, vectors=Detail.SHAPE)),
        list(store.namespaces(EVERYTHING)),
        [list(store.get(item.prefix, [item.key], vectors=Detail.FULL)) for item in items],
        store.describe().ledgers,
    ]


@pytest.mark.parametrize("fetched", [3, 1000])
def test_every_way_in_shows_the_same(
    postgres_sample: Database, fetched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "FETCHED_ROWS", fetched)  # with 3, COPY has its part
    marks = "SELECT prefix, key, xmin::text, ctid::text, expires_at FROM store ORDER BY 1, 2"
    before = postgres_sample.execute(marks)
    reader = postgres_sample.reader(default_transaction_read_only="on")
    ways = [postgres_sample.url, postgres_sample.tcp_url, reader, postgres_sample.pooled(),
            postgres_sample.pooled(reader), postgres_sample.pooled(reader, mode="shared")]  # fmt: skip
    answers = []
    for url in ways:
        with opened(url) as store:
            answers.append(everything(store))
            assert store.describe().facts["read_only"] is (url == reader or "_r0" in url)
    assert len(answers[0][0]) == len(SAMPLE)  # type: ignore[arg-type]
    assert all(answer == answers[0] for answer in answers)
    assert postgres_sample.execute(marks) == before


def test_nothing_is_left_in_the_session(postgres_sample: Database) -> None:
    url = postgres_sample.pooled(mode="shared")
    settings = "SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY name"

    def left() -> list[tuple[object, ...]]:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
            return connection.execute(settings).fetchall()

    before = left()
    with opened(url) as store:
        everything(store)
    assert [name for name, _ in left()] == [name for name, _ in before]


def test_a_command_reads_one_snapshot(postgres_sample: Database) -> None:
    with opened(postgres_sample.url) as store:
        before = everything(store)
        with postgres_store(postgres_sample.url) as library:
            library.put(("users", "ana", "prefs"), "new", {"a": 1})
            library.delete(("users", "ana", "prefs"), "seat")
        assert everything(store) == before
        assert store.now() == store.now()


def test_reads_can_be_interleaved(database: Database) -> None:
    create(database)
    database.execute(  # more than the sockets between the two can hold
        "INSERT INTO store (prefix, key, value) SELECT 'n' || lpad(n::text, 99, '0'), k, '{}'"
        " FROM generate_series(0, 9999) AS n, unnest('{0,1}'::text[]) AS k"
    )
    with opened(database.url) as store:
        expected = list(store.namespaces(EVERYTHING))
        assert len(expected) == 10_000
        spaces, items = store.namespaces(EVERYTHING), store.scan(EVERYTHING)
        first = [next(spaces) for _ in range(3)]
        assert places(store.get(first[2].prefix, ["1"])) == [(first[2].prefix, "1")]
        assert [next(items).prefix for _ in range(3 * tuning.FETCHED_ROWS)][:2] == [first[0].prefix] * 2
        other = list(store.namespaces(EVERYTHING))
        assert first + list(spaces) == other == expected
        assert len(list(items)) == 20_000 - 3 * tuning.FETCHED_ROWS


@pytest.mark.parametrize("read", [1, 2000])
def test_reads_can_be_abandoned(database: Database, read: int) -> None:
    create(database)
    database.execute(
        "INSERT INTO store (prefix, key, value) SELECT 'n' || lpad(n::text, 99, '0'), '', '{}'"
        " FROM generate_series(0, 19999) AS n"
    )
    with opened(database.url) as store:
        for begun in (store.namespaces(EVERYTHING), store.scan(EVERYTHING), store.scan(Scope("n"))):
            deque(islice(begun, read), maxlen=0)
            begun.close()  # type: ignore[attr-defined]
            assert len(list(store.get("n" + "7".zfill(99), [""]))) == 1
        for begun in (store.namespaces(EVERYTHING), store.scan(EVERYTHING)):
            next(begun)


# The schema


def test_ledgers_against_the_schema(database: Database) -> None:
    create(database, index=Index())
    database.execute(
        "DROP INDEX store_prefix_idx; ALTER TABLE store DROP ttl_minutes;"
        "DELETE FROM store_migrations WHERE v = 0;"
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'store_vectors_embedding_idx'::regclass"
    )
    with opened(database.url) as store:
        described = store.describe()
        assert Capability.EXPIRY not in store.capabilities
    assert described.ledgers == (
        Ledger("store_migrations", (1, 2, 3), (0, 1, 2, 3), (0, 3)),
        Ledger("vector_migrations", (0, 1, 2), (0, 1, 2), (0, 1)),
    )
    assert not any(ledger.agrees for ledger in described.ledgers)
    assert [index.name for index in described.indexes if not index.valid] == ["store_vectors_embedding_idx"]


def test_a_lost_ledger(database: Database) -> None:
    create(database)
    database.execute("DROP TABLE store_migrations")
    with opened(database.url) as store:
        (ledger,) = store.describe().ledgers
    assert ledger.recorded == ()
    assert not ledger.agrees


@pytest.mark.parametrize(("kind", "metric"), [("flat", None), ("ivfflat", "l2"), ("hnsw", "inner_product")])
def test_vector_setup(database: Database, kind: str, metric: str | None) -> None:
    create(database, index=Index(dims=3, kind=kind, metric=metric or "cosine"))  # type: ignore[arg-type]
    with opened(database.url) as store:
        described = store.describe()
    assert described.vectors is not None
    assert (described.vectors.type, described.vectors.dims) == ("vector", (3,))
    assert (described.vectors.index, described.vectors.metric) == (None if kind == "flat" else kind, metric)
    assert all(ledger.agrees for ledger in described.ledgers)


def test_description(each_database: Database) -> None:
    create(each_database, index=Index())
    with opened(each_database.url) as store:
        described = store.describe()
    columns = {table.name: list(table.columns.items()) for table in described.tables}
    assert columns["store"][:3] == [("prefix", "text"), ("key", "text"), ("value", "jsonb")]
    assert dict(columns["store_vectors"])["embedding"] == "vector(8)"
    assert described.octets
    assert described.facts["encoding"] == "UTF8"
    assert described.facts["collation"] == {"en_US": "en_US.UTF-8"}.get(each_database.kind, "C.UTF-8")
    assert described.facts["in_recovery"] is False
    assert described.version.split(".")[0] == {"pg16": "16"}.get(each_database.kind, "18")
    assert {index.name for index in described.indexes} >= {"store_pkey", "store_prefix_idx"}


def test_ledgers_that_may_not_be_read(database: Database) -> None:
    create(database)
    with opened(database.role("USAGE ON SCHEMA public", "SELECT ON store")) as store:
        described = store.describe()
    assert described.ledgers == ()
    assert described.facts["unreadable"] == ["store_migrations"]


def test_old_store_without_vectors(database: Database) -> None:
    create(database)
    insert(database, ("a", "k"))
    database.execute("DROP INDEX idx_store_expires_at; ALTER TABLE store DROP expires_at, DROP ttl_minutes")
    with opened(database.url) as store:
        assert store.capabilities == {Capability.SNAPSHOT, Capability.KEEPS_CREATED, Capability.TIMES}
        (item,) = store.scan(EVERYTHING, vectors=Detail.FULL)
        assert list(store.get("a", ["k"], vectors=Detail.FULL)) == [item]
        assert (item.expires_at, item.ttl_minutes, item.vectors, item.problems) == (None, None, (), ())
        assert [space.vectors for space in store.namespaces(EVERYTHING)] == [0]
        assert store.describe().vectors is None


def test_the_address_of_a_pooled_service(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(database, "agents")
    parameters = psycopg.conninfo.conninfo_to_dict(database.tcp_url)
    services = tmp_path / "services"
    services.write_text("[prod]\n" + "".join(f"{name}={value}\n" for name, value in parameters.items()))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    with opened("service=prod") as store:
        port = parameters["port"]
        expected = f"postgresql://postgres@127.0.0.1:{port}/{database.name}?service=prod&schema=agents"
        assert store.address == expected
    assert connect.parse(expected.partition("?")[0])["host"] == "127.0.0.1"
    assert type(refusal("service=nowhere")) is UsageError
