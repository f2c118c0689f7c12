"""Writing into PostgreSQL: exactness, other writers, and what goes wrong."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memctl.errors import Busy, MemctlError, Refused
from memctl.model import EVERYTHING, Detail, Item, Position, Problem, Scope, Vector
from memctl.store import Batch, Capability, Setup, Target
from memctl.stores.postgres import open_postgres, rows, transactions
from memctl.stores.postgres.writer import PostgresWriter, open_postgres_writer
from memctl.values import decode_exact
from tests.databases import Database
from tests.servers import PASSWORD
from tests.writers import SAMPLE, Index, embedder, postgres_store

NewDatabase = Callable[..., Database]
EARLY, LATE = "2026-11-01T00:00:00.000001Z", "2026-11-30T07:45:05.240729Z"
SETUP = Setup(dims=2, index="flat")
ROWS = """
SELECT prefix, key, value::text, (created_at AT TIME ZONE 'UTC')::text, (updated_at AT TIME ZONE 'UTC')::text,
       (expires_at AT TIME ZONE 'UTC')::text, ttl_minutes
FROM store ORDER BY prefix COLLATE "C", key COLLATE "C"
"""
VECTOR_ROWS = """
SELECT prefix, key, field_name, embedding::text,
       (created_at AT TIME ZONE 'UTC')::text, (updated_at AT TIME ZONE 'UTC')::text
FROM store_vectors ORDER BY prefix COLLATE "C", key COLLATE "C", field_name COLLATE "C"
"""


def item(key: str = "k", value: str = "{}", *, prefix: str = "a", **rest: Any) -> Item:
    octets = value.encode()
    fields: dict[str, Any] = {
        "created_at": EARLY,
        "updated_at": LATE,
        "expires_at": None,
        "ttl_minutes": None,
    }
    return Item(prefix, key, octets, len(octets), **fields | rest)


def vector(field: str = "$", *numbers: float, created: str = EARLY, updated: str = LATE) -> Vector:
    numbers = numbers or (1.5, -0.1)
    return Vector(field, len(numbers), struct.pack(f"<{len(numbers)}f", *numbers), created, updated)


def place(written: Item) -> Position:
    return Position(written.prefix, written.key)


@contextmanager
def opened(
    url: str, setup: Setup | None = None, *, schema: str | None = None, timeout: float = 5
) -> Iterator[PostgresWriter]:
    with closing(open_postgres_writer(url, schema=schema, table=None, timeout=timeout, setup=setup)) as store:
        yield store


def held(url: str) -> list[Item]:
    with closing(open_postgres(url, schema=None, table=None, timeout=5)) as store:
        return list(store.scan(EVERYTHING, vectors=Detail.FULL))


def keys(database: Database) -> list[str]:
    return [key for (key,) in database.execute("SELECT key FROM store ORDER BY key")]


@pytest.fixture
def store(database: Database) -> Iterator[PostgresWriter]:
    with opened(database.url, SETUP) as store:
        yield store


# Exactness


def test_a_store_is_copied_to_the_bit(postgres_sample: Database, each_database: Database) -> None:
    copied = held(postgres_sample.url)
    with opened(each_database.url, Setup(dims=8)) as target:
        typed: Target = target
        assert typed.unholdable(copied[0]) == ()
        assert typed.write(Batch(copied)) == ()
        assert list(typed.scan(EVERYTHING)) == []  # the snapshot is from before
        typed.finish()
        assert list(typed.scan(EVERYTHING, vectors=Detail.FULL)) == copied
    for query in (ROWS, VECTOR_ROWS):
        assert each_database.execute(query) == postgres_sample.execute(query)
    with postgres_store(each_database.url, index=Index(), ttl={"refresh_on_read": False}) as store:
        for (namespace, key), value in SAMPLE.items():
            found = store.get(namespace, key)
            assert found is not None
            assert found.value == value
        best = store.search(("users", "ana"), query="Ana prefers an aisle seat")[0]
        assert best.key == "seat"
        store.put(("users", "ana"), "new", {"text": "still writable"})
        assert store.search(("users", "ana"), query="still writable", limit=1)[0].key == "new"


ODD = (
    item("tab\tnewline\nbackslash\\n\r", '{"t": "\\t\\\\n",\n\t"n":\r1}'),
    item("\\.", r'{"u":"\u00e9\ud83d\ude00"}', prefix="\\N"),
    item("", "{}", prefix=""),
    item("日本", '{"日本":"🙂"}', prefix="naïve.é"),
    item("expires", expires_at=LATE, ttl_minutes=60.0),
    item("first", created_at="0001-01-01T00:00:00.000000Z", updated_at="9999-12-31T23:59:59.999999Z"),
    item("infinite", expires_at=None, problems=(Problem("expires_at", "infinity", "infinity"),)),
    item(
        "bc",
        created_at=None,
        problems=(Problem("created_at", "outside the years 1 to 9999", "0044-03-15 12:00:00+00 BC"),),
    ),
    item("timeless", created_at=None, updated_at=None, problems=(Problem("created_at", "null"),)),
    item("number", '{"n":12345678901234567890123.40,"m":[1.0,-0.0,1e2]}'),
    item("list", "[1,2]"),
    item("null", "null"),
)


@pytest.mark.parametrize("is_change", [False, True], ids=["inserted", "updated"])
def test_odd_items_arrive_as_they_are(store: PostgresWriter, database: Database, is_change: bool) -> None:
    """Compared with rows that were bound and cast one by one."""
    database.execute("CREATE TABLE expected (LIKE store)")
    with database.connect() as connection:
        for odd in ODD:
            raw = {problem.part: problem.raw for problem in odd.problems}
            times = [odd.created_at, odd.updated_at, odd.expires_at]
            names = ("created_at", "updated_at", "expires_at")
            cells = [time or raw.get(name) for name, time in zip(names, times, strict=True)]
            ttl = odd.ttl_minutes and int(odd.ttl_minutes)
            row = [odd.prefix, odd.key, (odd.value or b"").decode(), *cells, ttl]
            connection.execute("INSERT INTO expected VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
    assert not any(map(store.unholdable, ODD))
    if is_change:
        database.execute("INSERT INTO store SELECT prefix, key, '{}' FROM expected")
        assert store.write(Batch(changed=ODD)) == ()
    else:
        assert store.write(Batch(ODD)) == ()
    assert database.execute(ROWS) == database.execute(ROWS.replace("FROM store", "FROM expected"))


def test_values_are_not_decoded_on_the_way(store: PostgresWriter, database: Database) -> None:
    digits = "1234567890" * 30
    store.write(Batch([item(value=f'{{"n":{digits},"x":1e400,"d":1.0}}')]))
    ((text,),) = database.execute("SELECT value::text FROM store")
    assert text == f'{{"d": 1.0, "n": {digits}, "x": 1{"0" * 400}}}'


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
INSTANTS = st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='microseconds')}Z")
VECTORS = st.builds(
    lambda field, numbers, created, updated: Vector(field, 2, struct.pack("<2f", *numbers), created, updated),
    TEXT,
    st.tuples(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 2),
    INSTANTS,
    INSTANTS,
)
ITEMS = st.builds(
    lambda prefix, key, value, created, updated, expires, ttl, vectors: Item(
        prefix, key, text := json.dumps(value).encode(), len(text), created, updated, expires, ttl,
        tuple(sorted(vectors, key=lambda vector: vector.field.encode())),
    ),
    TEXT, TEXT, JSON, INSTANTS, INSTANTS, st.none() | INSTANTS, st.none() | st.integers(0, 2**31 - 1),
    st.lists(VECTORS, max_size=3, unique_by=lambda vector: vector.field),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(ITEMS, max_size=4, unique_by=lambda item: (item.prefix, item.key)), st.booleans())
def test_any_item_comes_back(
    database: Database, store: PostgresWriter, items: list[Item], is_change: bool
) -> None:
    database.execute("TRUNCATE store CASCADE")
    if is_change:
        store.write(Batch([msgspec.structs.replace(item, value=b"{}", vectors=()) for item in items]))
    assert store.write(Batch(changed=items) if is_change else Batch(items)) == ()
    expected = sorted(items, key=lambda item: place(item).order)
    found = held(database.url)
    assert [decode_exact(item.value or b"") for item in found] == [
        decode_exact(item.value or b"") for item in expected
    ]
    without_value = [msgspec.structs.replace(item, value=None, size=0) for item in found]
    assert without_value == [msgspec.structs.replace(item, value=None, size=0) for item in expected]


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_embeddings_keep_their_bits(database: Database, kind: str) -> None:
    vectors = (vector("a", 0.5, -0.0), vector("b", 65504.0, 2.0**-24), Vector("c", 0, None, EARLY, LATE))
    with opened(database.url, Setup(dims=2, vector_type=kind)) as store:
        written = item(vectors=vectors)
        assert store.unholdable(written) == ()
        store.write(Batch([written]))
        store.finish()
    (found,) = held(database.url)
    assert [each.embedding for each in found.vectors] == [each.embedding for each in vectors]


def test_vectors_without_times_get_their_items(store: PostgresWriter, database: Database) -> None:
    timeless = msgspec.structs.replace(vector(), created_at=None, updated_at=None)
    infinite = msgspec.structs.replace(
        vector("odd"), created_at=None, updated_at=None,
        problems=(Problem("updated_at", "infinity", "infinity"),),
    )  # fmt: skip
    store.write(Batch([item(vectors=(timeless, infinite))]))
    (found,) = held(database.url)
    assert (found.vectors[0].created_at, found.vectors[0].updated_at) == (EARLY, LATE)
    assert found.vectors[1] == msgspec.structs.replace(infinite, created_at=EARLY)


# Changing what is there


def test_changed_items_become_what_is_given(store: PostgresWriter, database: Database) -> None:
    store.write(Batch([item(str(n), expires_at=LATE, ttl_minutes=5, vectors=(vector(),)) for n in range(4)]))
    changed = [
        item("0", '{"n":1}', vectors=(vector("x", 1, 2), vector("y", 3, 4))),
        item("1", created_at=LATE),
        item("2", vectors=(vector(),)),
    ]
    assert store.write(Batch([item("9")], changed)) == ()
    found = {each.key: each for each in held(database.url)}
    assert list(found) == ["0", "1", "2", "3", "9"]
    for each in changed:
        assert msgspec.structs.replace(found[each.key], value=each.value, size=each.size) == each
    assert found["3"].ttl_minutes == 5


def test_equal_vectors_are_not_written_again(store: PostgresWriter, database: Database) -> None:
    rows = "SELECT key, ctid::text, xmin::text FROM store_vectors ORDER BY key"
    store.write(Batch([item(str(n), vectors=(vector("a"), vector("b"))) for n in range(3)]))
    before = database.execute(rows)
    changed = [item(str(n), '{"n":2}', vectors=(vector("b"), vector("a"))) for n in range(3)]
    changed[1] = item("1", vectors=(vector("a"), vector("b", updated=EARLY)))
    store.write(Batch(changed=changed))
    after = database.execute(rows)
    assert (after[:2], after[4:]) == (before[:2], before[4:])
    assert after[2:4] != before[2:4]


def test_large_values_go_in_parts(store: PostgresWriter, database: Database) -> None:
    values = [json.dumps({"text": str(n) * 3_000_000}) for n in range(4)]
    store.write(Batch([item(str(n), value) for n, value in enumerate(values)]))
    store.write(Batch(changed=[item(str(3 - n), value) for n, value in enumerate(values)]))
    assert database.execute("SELECT key, left(value->>'text', 1) FROM store ORDER BY key") == [
        (str(n), str(3 - n)) for n in range(4)
    ]


def test_only_older_ones(store: PostgresWriter, database: Database) -> None:
    store.write(Batch([item(key, updated_at=EARLY) for key in "abc"]))
    database.execute("UPDATE store SET updated_at = %s WHERE key = 'b'", LATE)
    database.execute("UPDATE store SET updated_at = NULL WHERE key = 'c'")
    changed = [item(key, '{"new":1}', vectors=(vector(),)) for key in "abc"]
    assert store.write(Batch(changed=changed, only_older=True)) == (Position("a", "b"),)
    assert database.execute("SELECT key FROM store WHERE value = '{}'") == [("b",)]
    assert database.execute("SELECT key FROM store_vectors ORDER BY key") == [("a",), ("c",)]
    assert store.write(Batch(changed=changed)) == ()


# Other writers


def test_what_came_meanwhile_is_left_alone(store: PostgresWriter, database: Database) -> None:
    database.execute("INSERT INTO store (prefix, key, value) VALUES ('a', '2', '{\"mine\":1}')")
    new = [item(str(n), vectors=(vector(),)) for n in range(4)]
    gone = item("gone", vectors=(vector(),))
    assert store.write(Batch(new, [gone])) == (Position("a", "2"), Position("a", "gone"))
    assert keys(database) == ["0", "1", "2", "3"]
    assert database.execute("SELECT value::text FROM store WHERE key = '2'") == [('{"mine": 1}',)]
    assert database.execute("SELECT key FROM store_vectors ORDER BY key") == [("0",), ("1",), ("3",)]
    assert store.write(Batch(new)) == tuple(map(place, new))


def test_a_row_that_is_being_written_is_waited_for(store: PostgresWriter, database: Database) -> None:
    with database.connect() as agent:
        agent.execute("BEGIN")
        agent.execute("INSERT INTO store (prefix, key, value) VALUES ('a', '1', '{}')")
        with running(lambda: store.write(Batch([item(str(n)) for n in range(3)]))) as result:
            until_waiting(database)
            agent.execute("COMMIT")
        assert result() == (Position("a", "1"),)
    assert keys(database) == ["0", "1", "2"]


def test_but_not_for_ever(database: Database) -> None:
    with opened(database.url, SETUP, timeout=0.2) as store, database.connect() as agent:
        agent.execute("BEGIN")
        agent.execute("INSERT INTO store (prefix, key, value) VALUES ('a', '1', '{}')")
        with pytest.raises(Busy):
            store.write(Batch([item(str(n)) for n in range(3)]))
        agent.execute("ROLLBACK")
        assert keys(database) == []
        assert store.write(Batch([item("0")])) == ()


def test_a_deadlock_is_tried_again(
    store: PostgresWriter, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(Batch([item("1"), item("2")]))
    changed = [item("1", '{"n":1}'), item("2", '{"n":1}')]
    deadlock(store, database, changed)
    assert database.execute("SELECT DISTINCT value::text FROM store") == [('{"n": 1}',)]
    monkeypatch.setattr(transactions, "ATTEMPTS", 1)
    with pytest.raises(Busy, match="deadlock"):
        deadlock(store, database, [item("1"), item("2")])


def deadlock(store: PostgresWriter, database: Database, changed: Sequence[Item]) -> None:
    with database.connect() as agent:
        agent.execute("SET deadlock_timeout = '1min'")  # the server ends whoever looks first
        agent.execute("BEGIN")
        agent.execute("UPDATE store SET key = key WHERE key = '2'")
        with running(lambda: store.write(Batch(changed=changed))) as result:
            until_waiting(database)
            agent.execute("UPDATE store SET key = key WHERE key = '1'")
            agent.execute("COMMIT")
        result()


def test_a_constraint_of_somebody_elses_is_an_error(store: PostgresWriter, database: Database) -> None:
    database.execute("CREATE UNIQUE INDEX theirs ON store ((value->>'id'))")
    same = [item(key, '{"id":1}') for key in "ab"]
    with pytest.raises(MemctlError, match="theirs") as caught:
        store.write(Batch([item("c"), *same]))
    assert caught.value.exit_code == 1
    assert keys(database) == []


def test_triggers_find_what_they_find_for_an_agent(store: PostgresWriter, database: Database) -> None:
    database.execute(
        "CREATE TABLE audit (key text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO audit VALUES (NEW.key); RETURN NEW; END $$; "
        "CREATE TRIGGER note BEFORE INSERT OR UPDATE ON store FOR EACH ROW EXECUTE FUNCTION note()"
    )
    store.write(Batch([item("1")]))
    store.write(Batch([item("2")], [item("1")]))
    assert database.execute("SELECT key FROM audit ORDER BY key") == [("1",), ("1",), ("2",)]


def test_a_store_without_a_foreign_key(database: Database) -> None:
    with opened(database.url, SETUP):
        database.execute("ALTER TABLE store_vectors DROP CONSTRAINT store_vectors_prefix_key_fkey")
    with opened(database.url) as store:
        store.write(Batch([item("1", vectors=(vector("old"),)), item("2", vectors=(vector(),))]))
        database.execute("DELETE FROM store")
        assert Capability.CASCADE not in store.capabilities
        store.write(Batch([item("1", vectors=(vector("new"),)), item("2")]))
    assert [[each.field for each in found.vectors] for found in held(database.url)] == [["new"], []]


def test_older_stores(postgres_data: Database) -> None:
    with opened(postgres_data.url) as store:
        has_expiry = Capability.EXPIRY in store.capabilities
        expiring = item("expiring", expires_at=LATE, ttl_minutes=5)
        assert (store.unholdable(expiring) == ()) == has_expiry
        new = expiring if has_expiry else item("expiring")
        eight = vector("f", *range(8))
        assert store.write(Batch([msgspec.structs.replace(new, vectors=(eight,))])) == ()
        assert store.write(Batch(changed=[new])) == ()
    assert new in held(postgres_data.url)


# What goes wrong


def test_a_batch_is_written_whole_or_not_at_all(store: PostgresWriter, database: Database) -> None:
    wrong = item("2", vectors=(vector("f", 1, 2, 3),))
    with pytest.raises(MemctlError, match="expected 2 dimensions"):
        store.write(Batch([item("1"), wrong]))
    assert keys(database) == []
    assert store.write(Batch([item("1")])) == ()
    with pytest.raises(MemctlError, match="json"):
        store.write(Batch([item("2")], [item("1", "{]")]))
    assert keys(database) == ["1"]


def test_a_lost_connection(database: Database) -> None:
    with opened(database.tcp_url, SETUP) as store, database.connect() as agent:
        store.write(Batch([item("0")]))
        agent.execute("BEGIN")
        agent.execute("INSERT INTO store (prefix, key, value) VALUES ('a', '2', '{}')")
        with running(lambda: store.write(Batch([item(str(n)) for n in range(1, 4)]))) as result:
            (pid,) = until_waiting(database)
            agent.execute("SELECT pg_terminate_backend(%s)", [pid])
        with pytest.raises(MemctlError) as caught:
            result()
        agent.execute("ROLLBACK")
        assert (caught.value.exit_code, caught.value.code) == (1, "connection-lost")
        assert PASSWORD not in caught.value.message
        with pytest.raises(MemctlError):
            store.write(Batch([item("1")]))
    assert keys(database) == ["0"]


def test_an_interrupted_batch(
    store: PostgresWriter, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = rows.line

    def interrupted(written: Item, *, expiry: bool) -> bytes:
        if written.key == "500":
            raise KeyboardInterrupt
        return real(written, expiry=expiry)

    monkeypatch.setattr(rows, "BLOCK_OCTETS", 1_000)
    monkeypatch.setattr(rows, "line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write(Batch([item(str(n)) for n in range(1_000)]))
    monkeypatch.undo()
    assert keys(database) == []
    assert store.write(Batch([item("500")])) == ()


def test_a_full_disk(store: PostgresWriter, database: Database) -> None:
    database.execute(
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; "
        "CREATE TRIGGER fill BEFORE INSERT ON store_vectors FOR EACH ROW EXECUTE FUNCTION fill()"
    )
    with pytest.raises(MemctlError) as caught:
        store.write(Batch([item("1"), item("2", vectors=(vector(),))]))
    assert (caught.value.exit_code, caught.value.code) == (1, "disk-full")
    assert keys(database) == []


def test_vectors_are_not_dropped_in_silence(database: Database) -> None:
    with opened(database.url, Setup()) as store, pytest.raises(MemctlError) as caught:
        store.write(Batch([item(vectors=(vector(),))]))
    assert caught.value.code == "no-vectors"
    assert keys(database) == []


def test_who_may_not_write(postgres_sample: Database) -> None:
    with opened(postgres_sample.reader()) as store, pytest.raises(Refused) as caught:
        store.write(Batch([item()]))
    assert "INSERT" in str(caught.value.hint)
    reader = postgres_sample.reader(default_transaction_read_only="on")
    with pytest.raises(Refused) as caught, opened(reader):
        pass
    assert caught.value.code == "read-only"
    inserting = postgres_sample.role(
        "USAGE ON SCHEMA public", "SELECT, INSERT ON ALL TABLES IN SCHEMA public"
    )
    with opened(inserting) as store:
        assert store.write(Batch([item()])) == ()
        with pytest.raises(Refused):
            store.write(Batch([item("2")], [item()]))
    assert "2" not in keys(postgres_sample)


def test_through_a_pooler(database: Database) -> None:
    items = [item(str(n), vectors=(vector(),)) for n in range(50)]
    with opened(database.pooled(mode="fresh"), Setup(dims=2)) as store:
        assert store.write(Batch(items[:30])) == ()
        assert store.write(Batch(items[25:], items[:25])) == tuple(map(place, items[25:30]))
        store.finish()
    assert held(database.url) == sorted(items, key=lambda each: each.key)


def test_the_session_is_left_as_it_was(database: Database) -> None:
    """All clients of this pooler share one session, which nobody may hold or change."""
    url = database.pooled(mode="shared")
    settings = "SELECT name, setting FROM pg_settings ORDER BY name"
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as agent:
        before = agent.execute(settings).fetchall()
        with closing(transactions.Transactions(url, timeout=1)) as writing:
            assert ("lock_timeout", "1000") in writing.run(lambda cursor: cursor.execute(settings))
            after = agent.execute(settings).fetchall()
    unlike = {"application_name", "client_encoding"}  # which pgbouncer keeps for each client
    assert [row for row in after if row[0] not in unlike] == [row for row in before if row[0] not in unlike]


def test_hostile_names(database: Database) -> None:
    schema = 'Agents" %s {x}; --'
    with opened(database.url, SETUP, schema=schema) as store:
        store.write(Batch([item(vectors=(vector(),))]))
        store.write(Batch([item("%s {}")], [item(vectors=(vector("x"),))]))
        store.finish()
    with closing(open_postgres(database.url, schema=schema, table=None, timeout=5)) as reader:
        assert [each.key for each in reader.scan(EVERYTHING)] == ["%s {}", "k"]
        assert [each.key for each in reader.get("a", ["k"])] == ["k"]
        assert [each.items for each in reader.namespaces(Scope("a"))] == [2]


def test_an_agents_search_sees_what_was_loaded(database: Database) -> None:
    embed = embedder(8)
    texts = [f"text {n}" for n in range(300)]
    numbers = [struct.pack("<8f", *row) for row in embed(texts)]
    items = [
        item(f"{n:03}", json.dumps({"text": text}), vectors=(Vector("text", 8, octets, EARLY, LATE),))
        for n, (text, octets) in enumerate(zip(texts, numbers, strict=True))
    ]
    with opened(database.url, Setup(dims=8)) as store:
        for start in range(0, 300, 100):
            store.write(Batch(items[start : start + 100]))
        store.finish()
    with postgres_store(database.url, index=Index()) as agent:
        assert agent.search(("a",), query="text 123", limit=1)[0].key == "123"


@contextmanager
def running(work: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Run something in a thread; at the end wait for it. What is given returns its result, or raises it."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append((work(), None))
        except BaseException as error:
            results.append((None, error))

    def result() -> Any:
        value, error = results[0]
        if error is not None:
            raise error
        return value

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield result
    finally:
        thread.join(30)
    assert not thread.is_alive()


def until_waiting(database: Database) -> list[int]:
    """Wait until memctl waits for a lock; return the server processes that do."""
    query = (
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'memctl' AND wait_event_type = 'Lock'"
    )
    for _ in range(500):
        if found := database.execute(query):
            return [pid for (pid,) in found]
        time.sleep(0.02)
    raise AssertionError("nobody waits")
