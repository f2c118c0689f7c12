"""What a store remembers of what the real library does to it, and the way back."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, PutOp

from memctl import stores
from memctl.addresses import parse
from memctl.history import Operation, Recording, Remembering
from memctl.model import EVERYTHING, Item, Scope
from memctl.past import difference, undoing
from memctl.store import Target
from tests.databases import Database
from tests.interop.conftest import Library, library_of
from tests.invocation import NOW, Memctl
from tests.writers import postgres_store, sqlite_store


@pytest.fixture(params=("SqliteStore", "AsyncSqliteStore", "PostgresStore", "AsyncPostgresStore"))
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    """Each of the four classes, on a store of its own that is there."""
    with library_of(request.param, tmp_path, lambda: request.getfixturevalue("databases")) as found:
        found.batch(PutOp(("a",), "k", None))
        yield found


@contextlib.contextmanager
def writing(address: str) -> Iterator[Target]:
    store = stores.open_writer(parse(address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(store):
        yield store


def record(address: str, scope: str | None = None) -> None:
    with writing(address) as target:
        assert isinstance(target, Recording)
        target.record(scope, None)


def entries(address: str, scope: Scope = EVERYTHING) -> list[tuple[str, str, Any]]:
    """What happened, the oldest first: operation, key, and the former value."""
    with writing(address) as target:
        assert isinstance(target, Remembering)
        return [
            (
                entry.operation.value,
                entry.key,
                msgspec.json.decode(entry.former.value) if entry.former and entry.former.value else None,
            )
            for entry in target.entries(scope, oldest_first=True)
        ]


def held(address: str) -> list[Item]:
    with writing(address) as target:
        return [msgspec.structs.replace(found, vectors=()) for found in target.scan(EVERYTHING)]


def put(key: str, number: int | None, ttl: float | None = None) -> PutOp:
    return PutOp(("a",), key, None if number is None else {"n": number}, ttl=ttl)


@pytest.mark.parametrize("guarded", [False, True], ids=["bare", "guarded"])
def test_what_the_library_does_is_written_down(library: Library, guarded: bool) -> None:
    library.batch(put("old", 0))
    record(library.address)
    if guarded:
        with writing(library.address) as target:
            target.install_guards(["keep-created-at", "cascade-vectors", "fresh-vectors", "whole-ttl"])  # type: ignore[attr-defined]
    library.batch(put("new", 1), put("old", 2))
    library.batch(put("old", 3, ttl=5), put("new", None), ttl={"default_ttl": 5, "refresh_on_read": True})
    library.batch(GetOp(("a",), "old", refresh_ttl=True), ttl={"default_ttl": 5, "refresh_on_read": True})
    library.batch(put("new", None))  # is not there
    found = entries(library.address)
    assert sorted(found[:2]) == [("changed", "old", {"n": 0}), ("created", "new", None)]
    assert sorted(found[2:], key=str) == sorted(
        [("changed", "old", {"n": 2}), ("deleted", "new", {"n": 1})], key=str
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.just(60.0))
    ),
    min_size=1,
    max_size=8,
)


class TestTheWayBack:
    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(STEPS, st.booleans())
    def test_every_step_in_a_file(self, tmp_path: Path, steps: list[Any], recursive: bool) -> None:
        path = tmp_path / "store.db"
        for suffix in ("", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        with sqlite_store(path, ttl={"default_ttl": 60}) as store:
            record(str(path))
            store.conn.execute(f"PRAGMA recursive_triggers = {int(recursive)}")
            self.walk(str(path), store, steps)

    @settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(STEPS)
    def test_every_step_on_a_server(self, database: Database, steps: list[Any]) -> None:
        with postgres_store(database.url, ttl={"default_ttl": 60}) as store:
            database.execute("DELETE FROM store")
            record(database.url)
            self.walk(database.url, store, steps)

    @staticmethod
    def walk(address: str, store: Any, steps: list[Any]) -> None:
        """Do the steps, and see that from each of them the one before is found again."""

        def next_entry() -> int:
            with writing(address) as target:
                return 1 + max((entry.seq for entry in target.entries(EVERYTHING)), default=0)  # type: ignore[attr-defined]

        states = [(next_entry(), held(address))]
        for key, number, ttl in steps:
            store.batch([put(key, number, ttl)])
            states.append((next_entry(), held(address)))
        for seq, state in states:
            with writing(address) as target:
                now = {(item.prefix, item.key): item for item in held(address)}
                for change in undoing(target, EVERYTHING, key=None, seq=seq, at=None):
                    place = change.was or change.becomes
                    assert place is not None
                    now.pop((place.prefix, place.key), None)
                    if change.becomes is not None:
                        now[place.prefix, place.key] = msgspec.structs.replace(change.becomes, vectors=())
                assert [now[name] for name in sorted(now)] == state


class TestScope:
    def test_only_what_is_below(self, library: Library) -> None:
        record(library.address, "a.b")
        library.batch(
            *(PutOp(space, "k", {"n": 1}) for space in (("a",), ("a", "b"), ("a", "b", "c"), ("a", "bc"))),
        )
        with writing(library.address) as target:
            found = [entry.prefix for entry in target.entries(EVERYTHING)]  # type: ignore[attr-defined]
        assert sorted(found) == ["a.b", "a.b.c"]

    def test_on_and_off_without_a_trace(self, library: Library) -> None:
        def schema() -> list[Any]:
            if library.address.startswith("postgresql:"):
                with psycopg.connect(library.address) as server:
                    return server.execute(
                        "SELECT relname FROM pg_class WHERE relname LIKE 'memctl%'"
                        " UNION SELECT proname FROM pg_proc WHERE proname LIKE 'memctl%'"
                        " UNION SELECT tgname FROM pg_trigger WHERE tgname LIKE 'memctl%' ORDER BY 1"
                    ).fetchall()
            with contextlib.closing(sqlite3.connect(library.address)) as file:
                return file.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()

        bare = schema()
        record(library.address)
        whole = schema()
        record(library.address)
        assert schema() == whole != bare
        library.batch(put("k", 1))
        with writing(library.address) as target:
            target.stop_recording(drop=False)  # type: ignore[attr-defined]
        library.batch(put("k", 2))
        assert entries(library.address) == [("created", "k", None)]
        with writing(library.address) as target:
            target.stop_recording(drop=True)  # type: ignore[attr-defined]
        assert schema() == bare
        with writing(library.address) as target:
            assert target.history() is None  # type: ignore[attr-defined]


class TestTheCommands:
    @pytest.fixture
    def store(self, memctl: Memctl, tmp_path: Path) -> Path:
        path = tmp_path / "agent.db"
        with sqlite_store(path) as agent:
            agent.put(("a",), "k", {"n": 0})
        assert memctl("-s", path, "history", "on").code == 0
        for number in (1, 2):
            time.sleep(0.01)
            with sqlite_store(path) as agent:
                agent.put(("a",), "k", {"n": number, "t": "x"})
        return path

    def test_log(self, memctl: Memctl, store: Path) -> None:
        rows = memctl.json("-s", store, "log", "a", "-p")
        assert [row["operation"] for row in rows] == ["changed", "changed"]
        assert rows[0]["change"] == "-n: 1; +n: 2"
        assert memctl.json("-s", store, "log", "--op", "deleted") == []
        assert memctl("-s", store, "log", "--op", "lost").code == 2
        memctl("-s", store, "rm", "a", "k", "--yes")
        (row,) = memctl.json("-s", store, "log", "--deleted")
        assert (row["key"], row["operation"]) == ("k", "deleted")

    def test_undo_and_undo_that(self, memctl: Memctl, store: Path) -> None:
        assert memctl("-s", store, "undo", "a", "k").code == 2  # nobody to ask
        for value in (b'{"n":1,"t":"x"}\n', b'{"n":2,"t":"x"}\n'):
            assert memctl("-s", store, "undo", "a", "k", "--yes").code == 0
            assert memctl("-s", store, "get", "a", "k", "--value").stdout == value
        first = memctl.json("-s", store, "log")[-1]["seq"]
        assert memctl.json("-s", store, "undo", "a", "--to", str(first), "--dry-run")["items"] == 1
        assert memctl("-s", store, "undo", "a", "--to", str(first), "--yes").code == 0
        assert memctl("-s", store, "get", "a", "k", "--value").stdout == b'{"n":0}\n'
        assert memctl("-s", store, "undo", "a").code == 2
        assert memctl("-s", store, "undo", "a", "nothing", "--yes").code == 5

    def test_the_store_as_it_was(self, memctl: Memctl, store: Path, tmp_path: Path) -> None:
        at = memctl.json("-s", store, "log")[-1]["at"]  # of the first change: after it, n is 1
        assert memctl("-s", store, "get", "a", "k", "--value", "--at", at).stdout == b'{"n":1,"t":"x"}\n'
        assert memctl("-s", store, "export", "--at", at, "-f", "then.jsonl").code == 0
        assert memctl("verify", "then.jsonl").code == 0
        assert b'"value":{"n":1,"t":"x"}' in (tmp_path / "then.jsonl").read_bytes()
        assert "k comes without vectors" in memctl("-s", store, "get", "a", "k", "--vectors", "--at", at).err
        early = memctl("-s", store, "get", "a", "k", "--at", "2020-01-01")
        assert early.code == 1
        assert "reaches back to" in early.err

    def test_prune_and_off(self, memctl: Memctl, store: Path) -> None:
        assert memctl("-s", store, "history", "prune", "--yes").code == 2
        assert memctl("-s", store, "history", "prune", "--retain", "30d", "--yes").code == 0
        assert memctl.json("-s", store, "history")["entries"] == 2
        assert memctl("-s", store, "history", "off", "--drop").code == 2
        assert memctl.json("-s", store, "history", "off")["on"] is False
        assert memctl("-s", store, "history", "off", "--drop", "--yes").code == 0
        assert memctl("-s", store, "log").code == 1

    def test_no_history(self, memctl: Memctl) -> None:
        memctl("demo", "x.db")
        for words in (("log",), ("undo", "a", "k"), ("export", "--at", "1h"), ("history", "off")):
            outcome = memctl("-s", "x.db", *words)
            assert outcome.code == 1
            assert "history" in outcome.err


class TestRoles:
    def test_who_it_was(self, memctl: Memctl, database: Database) -> None:
        with postgres_store(database.url) as store:
            store.put(("a",), "k", {"n": 0})
        record(database.url)
        role = database.role("USAGE ON SCHEMA public", "SELECT, INSERT, UPDATE, DELETE ON store")
        with psycopg.connect(role, autocommit=True, application_name="an agent") as agent:
            agent.execute("UPDATE store SET value = '{}', updated_at = now()")
        (row,) = memctl.json("-s", database.url, "log")
        assert row["application"] == "an agent"
        assert row["role"] == psycopg.conninfo.conninfo_to_dict(role)["user"]


def test_differences_are_told_by_member() -> None:
    assert list(difference(b'{"a": 1, "b": 1.0}', b'{"a": 2, "b": 1, "c": "x"}')) == [
        "-a: 1",
        "+a: 2",
        '+c: "x"',
    ]
    assert list(difference(None, b'{"a": 1}')) == ['+{"a": 1}']
    assert list(difference(b"[1]", b"{}")) == ["-[1]", "+{}"]
    assert list(difference(b"{", b"{}")) == ["-{", "+{}"]
    assert Operation("expired") is Operation.EXPIRED


class TestWhatDeletes:
    def test_rm_and_sweep_say_that_a_copy_is_kept(self, memctl: Memctl, tmp_path: Path) -> None:
        path = tmp_path / "agent.db"
        with sqlite_store(path) as store:
            for key in "ab":
                store.put(("a",), key, {"n": 1}, ttl=0.001)
        assert memctl("-s", path, "history", "on", "--retain", "900d").code == 0
        assert "history keeps what was deleted" in memctl("-s", path, "rm", "a", "a", "--yes").err
        swept = Memctl(tmp_path, now=NOW.replace(year=NOW.year + 1))("-s", path, "sweep")
        assert "history keeps what was deleted" in swept.err
        assert memctl.json("-s", path, "stats")["history"]["entries"] == 2
        later = Memctl(tmp_path, now=NOW.replace(year=NOW.year + 4))("-s", path, "sweep")
        assert "2 entries of the store's history pruned" in later.err

    def test_forget_forgets_the_past(self, memctl: Memctl, tmp_path: Path) -> None:
        path = tmp_path / "agent.db"
        with sqlite_store(path) as store:
            store.put(("users", "bo"), "k", {"secret": "kingfisher"})
            store.put(("users", "ana"), "k", {"n": 1})
        assert memctl("-s", path, "history", "on").code == 0
        with sqlite_store(path) as store:
            store.put(("users", "bo"), "k", {"secret": "nightjar"})
            store.put(("users", "ana"), "k", {"n": 2})
        assert b"kingfisher" in path.read_bytes()
        receipt = memctl.json("-s", path, "forget", "users.bo", "--yes")
        assert receipt["stores"][0]["history"] == 2
        assert not {b"kingfisher", b"nightjar"} & {
            word for word in (b"kingfisher", b"nightjar") if word in path.read_bytes()
        }
        assert [row["namespace"] for row in memctl.json("-s", path, "log")] == [["users", "ana"]]
