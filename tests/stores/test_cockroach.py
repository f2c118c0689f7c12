"""The CockroachDB store where its server shows: conflicts, lost connections, and the SQL it may be sent.

No server of CockroachDB takes part, unless `MEMCTL_TEST_COCKROACH_URL` names one: PostgreSQL plays its part, in
tables of CockroachDB's layout, with triggers that raise its SQLSTATE 40001 and sessions that are cut off.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.errors import MemctlError, UsageError
from memctl.model import EVERYTHING, Detail, Item, Scope
from memctl.store import Batch, Change, Setup, Target
from memctl.stores.cockroach import session
from memctl.stores.cockroach.describe import job_of
from memctl.stores.cockroach.rows import spelled
from memctl.stores.cockroach.store import float32
from tests.archive.samples import item, vector
from tests.databases import Database
from tests.invocation import NOW, Memctl
from tests.writers import SAMPLE, Index, postgres_store, sqlite_store, write_sample

NewDatabase = Callable[..., Database]
LATER = "2026-12-01T00:00:00.000001Z"


@pytest.fixture
def address(database: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store whose vectors have two dims."""
    monkeypatch.setattr(session, "FIRST_WAIT", 0.001)
    url = cockroach(database)
    with writing(url, Setup(dims=2, index="flat")) as target:
        target.finish()
    return url


def cockroach(database: Database) -> str:
    return database.url.replace("postgresql://", "cockroachdb://", 1)


@contextlib.contextmanager
def writing(address: str, setup: Setup | None = None) -> Iterator[Target]:
    store = stores.open_writer(parse(address), timeout=5, clock=lambda: NOW, setup=setup)
    with contextlib.closing(store):
        yield store


def held(address: str) -> dict[str, Item]:
    store = stores.open_store(parse(address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(store):
        return {found.key: found for found in store.scan(EVERYTHING, vectors=Detail.FULL)}


def fail(database: Database, times: int, when: str, action: str) -> None:
    """Make the next `times` statements of a kind fail so."""
    database.execute(
        f"CREATE SEQUENCE failures; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF nextval('failures') <= {times} THEN {action}; END IF; RETURN NULL; END $$;"
        f"CREATE TRIGGER fail AFTER {when} ON store FOR EACH STATEMENT EXECUTE FUNCTION fail()"
    )


CONFLICT = "RAISE EXCEPTION 'restart transaction' USING ERRCODE = '40001'"
CUT = "PERFORM pg_terminate_backend(pg_backend_pid())"

WORK: dict[str, Callable[[Target], Any]] = {
    "insert": lambda target: target.write(Batch(new=[item("new", vectors=(vector("t", 1, 2),))])),
    "update": lambda target: target.write(Batch(changed=[item("there", b'{"n": 2}')])),
    "delete": lambda target: target.apply([Change(next(target.get("users.ana", ["there"])), None)]),
}


@pytest.mark.parametrize("action", [CONFLICT, CUT], ids=["conflict", "cut off"])
@pytest.mark.parametrize("work", WORK)
def test_a_batch_is_done_once_however_often_it_is_tried(
    address: str, database: Database, work: str, action: str
) -> None:
    with writing(address) as target:
        target.write(Batch(new=[item("there", vectors=(vector("t", 1, 2),))]))
    fail(database, 3, work.upper(), action)
    with writing(address) as target:
        assert WORK[work](target) == ()
    assert database.execute("SELECT last_value FROM failures") == [(4,)]
    found = held(address)
    assert set(found) == {"insert": {"there", "new"}, "update": {"there"}, "delete": set()}[work]
    ((vectors,),) = database.execute("SELECT count(*) FROM store_vectors")
    assert vectors == sum(len(each.vectors) for each in found.values())


@pytest.mark.parametrize("action", [CONFLICT, CUT], ids=["conflict", "cut off"])
def test_it_is_not_tried_for_ever(address: str, database: Database, action: str) -> None:
    fail(database, 1_000, "INSERT", action)
    with writing(address) as target, pytest.raises(MemctlError) as caught:
        WORK["insert"](target)
    assert caught.value.exit_code in (1, 11)
    assert database.execute("SELECT last_value FROM failures") == [(session.ATTEMPTS,)]
    assert held(address) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda was: Change(None, msgspec.structs.replace(was, key="new")),
        lambda was: Change(was, None),
        lambda was: Change(was, msgspec.structs.replace(was, key="moved")),
        lambda was: Change(was, msgspec.structs.replace(was, expires_at=LATER, ttl_minutes=0.4)),
    ],
    ids=["insert", "delete", "rename", "set"],
)
def test_a_commit_whose_answer_was_lost_counts(
    address: str, monkeypatch: pytest.MonkeyPatch, change: Callable[[Item], Change]
) -> None:
    """The commit takes place and the connection goes before it says so."""
    with writing(address) as target:
        target.write(Batch(new=[item("there", vectors=(vector("t", 1, 2),))]))
    wanted = change(held(address)["there"])
    with writing(address) as target:
        lose_the_next_answer_to_a_commit(target, monkeypatch)
        assert target.apply([wanted]) == ()
    found = held(address)
    with writing(address) as target:  # the same as without the loss
        assert target.apply([wanted]) == (wanted,)
    assert held(address) == found
    assert all(len(each.vectors) == 1 for each in found.values())


def test_so_does_one_of_an_import(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(address) as target:
        lose_the_next_answer_to_a_commit(target, monkeypatch)
        assert target.write(Batch(new=[item("a"), item("b", ttl_minutes=0.4, expires_at=LATER)])) == ()
        assert len(target.write(Batch(new=[item("a", b'{"other": 1}')]))) == 1
    assert set(held(address)) == {"a", "b"}


def lose_the_next_answer_to_a_commit(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    real = psycopg.Connection.execute
    lost = []

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        answer = real(self, query, *arguments, **options)
        if query == "COMMIT" and not lost:
            lost.append(query)
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return answer

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    assert target.kind == "cockroach"


def test_a_read_goes_on_where_it_was_cut_off(
    address: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.cockroach import store as module

    monkeypatch.setattr(module, "PAGE_ROWS", 10)
    with writing(address) as target:
        target.write(Batch(new=[item(f"{number:03}") for number in range(95)]))
    reader = stores.open_store(parse(address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(reader):
        seen = []
        for found in reader.scan(EVERYTHING):
            seen.append(found.key)
            if len(seen) in (15, 50):
                database.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'memctl' AND datname = current_database()"
                )
        assert seen == [f"{number:03}" for number in range(95)]
        assert reader.moved  # this server cannot be asked for the same moment again


class TestExpiry:
    def test_vectors_have_their_items(self, address: str, database: Database) -> None:
        with writing(address) as target:
            target.write(
                Batch(new=[item("a", expires_at=LATER, ttl_minutes=0.4, vectors=(vector("t", 1, 2),))])
            )
        same = (
            "SELECT item.ttl_minutes = vector.ttl_minutes, item.expires_at = vector.expires_at"
            " FROM store item, store_vectors vector"
        )
        assert database.execute(same) == [(True, True)]
        with writing(address) as target:
            was = next(target.get("users.ana", ["a"], vectors=Detail.SHAPE))
            assert was.ttl_minutes == 0.4
            later = msgspec.structs.replace(was, expires_at="2027-01-01T00:00:00.000000Z", ttl_minutes=60.5)
            assert target.apply([Change(was, later)]) == ()
        assert database.execute(same) == [(True, True)]


class TestTheDoctorsView:
    def test_orphans_and_expiries(self, address: str, database: Database) -> None:
        with writing(address) as target:
            ones = [item(key, expires_at=LATER, ttl_minutes=5, vectors=(vector("t", 1, 2),)) for key in "abc"]
            target.write(Batch(new=[*ones, item("d", expires_at="2026-11-30T00:00:00.000000Z")]))
        database.execute("DELETE FROM store WHERE key = 'a'")
        database.execute("UPDATE store_vectors SET ttl_minutes = 7 WHERE key = 'b'")
        database.execute("UPDATE store SET expires_at = 'infinity' WHERE key = 'c'")
        with writing(address) as target:
            assert [each.key for each in target.orphans(EVERYTHING)] == ["a"]  # type: ignore[attr-defined]
            assert list(target.prefixes(EVERYTHING)) == ["users.ana"]  # type: ignore[attr-defined]
            unequal = list(target.unequal_expiries(Scope("users")))  # type: ignore[attr-defined]
            assert [place.key for place in unequal] == ["b", "c"]
            due = list(target.expiring(EVERYTHING, LATER, vectors=Detail.SHAPE))  # type: ignore[attr-defined]
            assert [(each.key, len(each.vectors), bool(each.problems)) for each in due] == [
                ("b", 1, False),
                ("c", 1, True),
                ("d", 0, False),
            ]
            target.follow_expiry(unequal)  # type: ignore[attr-defined]
            orphans = list(target.orphans(EVERYTHING))  # type: ignore[attr-defined]
            assert target.purge(orphans) == 1  # type: ignore[attr-defined]
            assert target.purge(orphans) == 0  # type: ignore[attr-defined]
        with writing(address) as target:
            assert list(target.unequal_expiries(EVERYTHING)) == []  # type: ignore[attr-defined]
            assert list(target.orphans(EVERYTHING)) == []  # type: ignore[attr-defined]

    def test_a_lost_ledger(self, address: str, database: Database) -> None:
        database.execute("DELETE FROM store_migrations WHERE v = 1")
        with writing(address) as target:
            (fault,) = target.schema_faults()  # type: ignore[attr-defined]
            assert target.cure(fault) is None  # type: ignore[attr-defined]
        with writing(address) as target:
            assert list(target.schema_faults()) == []  # type: ignore[attr-defined]


def test_the_guard_takes_vectors_along(address: str, memctl: Memctl, database: Database) -> None:
    with writing(address) as target:
        target.write(
            Batch(new=[item("a", vectors=(vector("t", 1, 2),)), item("b", vectors=(vector("t", 1, 2),))])
        )
    assert memctl("-s", address, "guard", "install", "--only", "cascade-vectors", "--yes").code == 0
    database.execute("DELETE FROM store WHERE key = 'a'")
    assert database.execute("SELECT key FROM store_vectors") == [("b",)]
    assert memctl("-s", address, "guard", "remove", "--yes").code == 0
    database.execute("DELETE FROM store WHERE key = 'b'")
    assert database.execute("SELECT key FROM store_vectors") == [("b",)]


class TestMoving:
    def test_fractions_of_minutes_and_all_the_rest(
        self, memctl: Memctl, sqlite_data: Path, database: Database
    ) -> None:
        there, back = cockroach(database) + "&schema=Other&table=memories", memctl.folder / "back.db"
        if "?" not in database.url:
            there = cockroach(database) + "?schema=Other&table=memories"
        moved = memctl(
            "migrate", sqlite_data, there, "--init", "--index", "flat", "--dims", dims_of(memctl, sqlite_data)
        )
        assert moved.code == 0, moved.err
        assert memctl.json("diff", sqlite_data, there) == []
        assert memctl("migrate", there, back, "--init", "--verify").code == 0
        assert memctl.json("diff", sqlite_data, back, "--ignore", "vectors") == []

    def test_a_store_of_today_and_the_commands(self, memctl: Memctl, database: Database) -> None:
        path = memctl.folder / "store.db"
        with sqlite_store(path, index=Index()) as store:
            write_sample(store)
        there = cockroach(database)
        assert memctl("migrate", path, there, "--init", "--index", "flat").code == 0
        assert len(memctl.json("-s", there, "search")) == len(SAMPLE)
        assert memctl.json("-s", there, "info")["kind"] == "cockroach"
        assert memctl.json("-s", there, "stats")["items"] == len(SAMPLE)
        assert memctl("-s", there, "export", "-f", "out.jsonl").code == 0
        assert memctl("diff", there, "out.jsonl").code == 0
        assert memctl("verify", "out.jsonl").code == 0

    def test_from_postgres_and_back(
        self, memctl: Memctl, database: Database, new_database: NewDatabase
    ) -> None:
        with postgres_store(database.url, index=Index(kind="flat")) as store:
            write_sample(store)
        there, back = cockroach(new_database()), new_database().url
        assert memctl("migrate", database.url, there, "--init", "--index", "flat", "--verify").code == 0
        assert memctl.json("diff", database.url, there) == []
        assert memctl("migrate", there, back, "--init", "--index", "flat").code == 0
        assert memctl.json("diff", database.url, back, "--ignore", "vectors") == []


def dims_of(memctl: Memctl, path: Path) -> str:
    found = memctl.json("-s", path, "info")["vectors"]
    return str(found["dims"][0]) if found and found["dims"] else "8"


class TestThePast:
    def test_only_cockroach_has_one(self, address: str) -> None:
        for url in (address, address.replace("cockroachdb", "postgresql")):
            with pytest.raises(UsageError, match="only CockroachDB"):
                stores.open_store(parse(url), timeout=5, clock=lambda: NOW, as_of="-10s")

    def test_a_read_that_may_lag_is_allowed_to(self, address: str) -> None:
        store = stores.open_store(parse(address), timeout=5, clock=lambda: NOW, as_of="follower")
        with contextlib.closing(store):
            assert list(store.scan(EVERYTHING)) == []


def test_vectors_keep_every_bit() -> None:
    numbers = (0.1, -0.0, 1.401298464324817e-45, 3.4028234663852886e38, 1 / 3)
    given = vector("t", *numbers)
    text = spelled(given)
    assert text is not None
    assert float32(text) == given.embedding


@pytest.mark.parametrize(
    ("statement", "job"),
    [
        ("CREATE TABLE s (a INT8) LOCALITY REGIONAL", None),
        (
            "… WITH (ttl = 'on', ttl_expiration_expression = 'expires_at', ttl_job_cron = '*/5 * * * *')",
            "*/5 * * * *",
        ),
        ("… WITH (ttl = 'on', ttl_expiration_expression = 'expires_at')", "@daily"),
        ("… WITH (ttl = 'on', ttl_expiration_expression = 'expires_at', ttl_pause = true)", "paused"),
    ],
)
def test_the_job_that_deletes_what_has_expired(statement: str, job: str | None) -> None:
    assert job_of(statement) == job


KNOWN = {
    name: source
    for source, names in {
        "functions.md": "cluster_logical_timestamp follower_read_timestamp format_type has_column_privilege"
        " has_schema_privilege json_build_array now octet_length quote_ident replace unnest vector_dims version",
        "aggregates.md": "count json_agg max sum",
        "bnf/stmt_block.bnf": "any coalesce exists filter in values vector",
    }.items()
    for name in names.split()
}
"""What CockroachDB has, by where its repository documents it under docs/generated/sql/. The last are grammar: ANY
of `sub_type`, COALESCE of `func_expr_common_subexpr`, EXISTS of `c_expr`, FILTER of `filter_clause`, IN of `in_expr`,
VALUES of `values_clause`, VECTOR(N) of `const_vector`."""
FOREIGN = re.compile(
    r"\b(ctid|xmin|xmax|pg_\w*size\w*|WITH\s+HOLD|OFFSET|DECLARE|COPY|LISTEN"
    r"|NOTIFY|advisory\w*|USING\s+~|text_pattern_ops|COLLATE|reltuples|relpages)\b",
    re.IGNORECASE,
)
"""What is not to be sent: what it lacks or only pretends to have (row addresses and versions, sizes of tables,
advisory locks, LISTEN and NOTIFY, ORDER BY … USING, statistics in pg_class), and what it has and means otherwise, or
makes dear: COLLATE, COPY, cursors, OFFSET."""
CALL = re.compile(r"(?<![\w\".])(?:pg_catalog\.)?([a-z_]+)\s*\(", re.IGNORECASE)
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """as and or on by from set values where key not then case else end select join in into index with using table
    recursive over of unique primary is only transaction to returning conflict store store_vectors named was new
    item vector memories memories_vectors store_migrations isolation""",
    )
)


def test_every_statement_is_one_that_cockroach_knows(
    memctl: Memctl, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """All that a round of work sends, read against what CockroachDB documents."""
    caplog.set_level(logging.DEBUG, logger="memctl.stores")
    url = cockroach(database)
    with writing(url, Setup(dims=2, index="flat")) as target:
        target.finish()
        items = [
            item(str(n), vectors=(vector("t", 1, n),), ttl_minutes=0.5, expires_at=LATER) for n in range(5)
        ]
        target.write(Batch(new=items))
        target.write(Batch(changed=items[:2], only_older=True))
    with writing(url) as target:
        found = list(target.get("users.ana", ["1", "2", "3", "4"], vectors=Detail.FULL))
        target.unholdable(item("k" * 3_000, b'{"n": 1e2000}'))
        target.apply(
            [
                Change(found[0], None),
                Change(found[1], msgspec.structs.replace(found[1], key="new")),
                Change(found[2], msgspec.structs.replace(found[2], ttl_minutes=7.5, vectors=())),
                Change(None, msgspec.structs.replace(found[3], key="other")),
            ]
        )
    reader = stores.open_store(parse(url), timeout=5, clock=lambda: NOW)
    with contextlib.closing(reader):
        list(reader.scan(EVERYTHING, vectors=Detail.FULL))
        list(reader.scan(Scope("users.ana"), values=False, vectors=Detail.SHAPE))
        list(reader.namespaces(EVERYTHING))
        reader.count(Scope("users.ana", descend=False))  # type: ignore[attr-defined]
        reader.describe()  # type: ignore[attr-defined]
    statements = [record.getMessage() for record in caplog.records]
    assert len(statements) > 25
    for statement in statements:
        bare = re.sub(r"'(?:[^']|'')*'", "''", statement)
        assert not FOREIGN.search(bare), statement
        for name in CALL.findall(re.sub(r'"[^"]*"', " ", bare)):
            assert name.lower() in KNOWN.keys() | KEYWORDS, (name, statement)
