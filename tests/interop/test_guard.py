"""The library's own behaviour, bare and guarded: each fault shown first, and then gone."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, PutOp, SearchOp

from memctl import stores
from memctl.addresses import parse
from memctl.guard import RULES, Guardable, State
from memctl.model import EVERYTHING, Detail, Item
from memctl.store import Batch, Change, Target
from tests.archive.samples import item, vector
from tests.databases import Database
from tests.interop.conftest import Library, library_of
from tests.invocation import NOW, Memctl
from tests.writers import Index, postgres_store, sqlite_store

LISTS = Index(dims=8, fields=["tags[*]"], text_fields=["tags[*]"])
WORDS = ("red", "green", "blue")


@contextlib.contextmanager
def writing(address: str) -> Iterator[Target]:
    store = stores.open_writer(parse(address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(store):
        yield store


def install(address: str, *rules: str) -> None:
    with writing(address) as target:
        assert isinstance(target, Guardable)
        target.install_guards(rules or list(RULES))


def states(address: str) -> dict[str, State]:
    with writing(address) as target:
        assert isinstance(target, Guardable)
        return {guard.rule: guard.state for guard in target.guards()}


def held(address: str) -> dict[str, Item]:
    store = stores.open_store(parse(address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(store):
        return {found.key: found for found in store.scan(EVERYTHING, vectors=Detail.FULL)}


def rows(address: str) -> list[tuple[str, str]]:
    """The vectors that are there, those without an item among them."""
    return run(address, "SELECT key, field_name FROM store_vectors ORDER BY 1, 2")


def run(address: str, statement: str) -> list[Any]:
    """Run SQL beside everybody."""
    if address.startswith("postgresql:"):
        with psycopg.connect(address, autocommit=True) as server:
            cursor = server.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with contextlib.closing(sqlite3.connect(address)) as file, file:
        return file.execute(statement).fetchall()


def put(*words: str, key: str = "k", index: Any = None, ttl: float | None = None) -> PutOp:
    return PutOp(("a",), key, {"tags": list(words)}, index=index, ttl=ttl)


@pytest.fixture(params=("SqliteStore", "AsyncSqliteStore", "PostgresStore", "AsyncPostgresStore"))
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    """Each of the four classes, on a store of its own."""
    with library_of(request.param, tmp_path, lambda: request.getfixturevalue("databases")) as found:
        yield found


@pytest.fixture(params=[False, True], ids=["bare", "guarded"])
def is_guarded(request: pytest.FixtureRequest, library: Library) -> bool:
    """Whether the guard stands in the store, which is empty."""
    library.batch(put(*WORDS, key="first"), index=LISTS)
    library.batch(PutOp(("a",), "first", None), index=LISTS)
    run(library.address, "DELETE FROM store_vectors")
    if request.param:
        install(library.address)
    return bool(request.param)


@pytest.fixture
def is_file(library: Library) -> bool:
    """Whether the library forgets what PostgreSQL remembers by itself."""
    return not library.address.startswith("postgresql:")


def test_every_fault(library: Library, is_guarded: bool, is_file: bool) -> None:
    """Each on a key of its own, in as few batches as the library lets it be."""
    ttl = {"default_ttl": 5, "refresh_on_read": True}
    library.batch(
        *(put(*WORDS, key=key) for key in ("overwritten", "deleted", "shrunk", "beside")),
        *(put("red", key=key) for key in ("unindexed", "used again")),
        put(*WORDS, key="read", ttl=5),
        put("red", key="brief", ttl=0.4),
        index=LISTS,
    )
    run(library.address, "UPDATE store SET created_at = '2026-11-01 12:00:00+00:00'")
    library.batch(
        put("red", key="overwritten"),
        PutOp(("a",), "deleted", None),
        put("red", key="shrunk"),
        put("green", key="unindexed", index=False),
        PutOp(("a",), "used again", None),
        put("new", key="new"),
        index=LISTS,
    )
    library.batch(put("green", key="used again", index=False), index=LISTS)
    answer = library.batch(
        GetOp(("a",), "read", refresh_ttl=True),
        SearchOp(("a",), query="red", refresh_ttl=True),
        index=LISTS,
        ttl=ttl,
    )
    assert answer[0].value == {"tags": list(WORDS)}
    assert answer[1]

    found = held(library.address)
    old = {key for key, each in found.items() if (each.created_at or "").startswith("2026-11-01")}
    kept = {"overwritten", "shrunk", "unindexed"} if is_guarded or not is_file else set()
    assert old == kept | {"beside", "read", "brief"}
    fields: dict[str, list[str]] = {}
    for key, field in rows(library.address):
        fields.setdefault(key, []).append(field)
    three = [f"tags[*].{number}" for number in range(3)]
    assert fields.pop("read") == fields.pop("beside") == three
    assert fields.pop("new") == fields.pop("brief") == ["tags[*]"]
    fresh = {"overwritten": ["tags[*]"], "shrunk": ["tags[*]"]}
    stale = {
        "overwritten": ["tags[*]", *three],
        "shrunk": ["tags[*]", *three],
        "unindexed": ["tags[*]"],
        **({"deleted": three, "used again": ["tags[*]"]} if is_file else {}),
    }
    assert fields == (fresh if is_guarded else stale)
    assert found["brief"].ttl_minutes == (0.4 if is_file else 1 if is_guarded else 0)
    assert set(found) == {
        "overwritten",
        "shrunk",
        "beside",
        "unindexed",
        "used again",
        "read",
        "brief",
        "new",
    }


def test_the_library_sets_up_as_before(library: Library, is_guarded: bool) -> None:
    before = states(library.address)
    library.batch(put("red"), index=LISTS)  # opening the store runs setup()
    assert states(library.address) == before
    installed = [rule for rule, state in before.items() if state is State.INSTALLED]
    assert bool(installed) is is_guarded


def test_memctl_writes_as_into_a_bare_store(library: Library, is_guarded: bool) -> None:
    assert is_guarded in (True, False)
    mine = item(
        "m",
        created_at="2026-01-01T00:00:00.000000Z",
        vectors=(vector("a", *range(8)), vector("b", *range(8))),
    )
    with writing(library.address) as target:
        target.write(Batch(new=[mine]))
    with writing(library.address) as target:
        changed = msgspec.structs.replace(mine, value=b'{"n": 2}', updated_at="2026-12-01T00:00:00.000000Z")
        target.write(Batch(changed=[changed]))
    with writing(library.address) as target:
        was = next(target.get("users.ana", ["m"], vectors=Detail.SHAPE))
        becomes = msgspec.structs.replace(was, value=b'{"n": 3}', vectors=was.vectors[:1], ttl_minutes=None)
        assert target.apply([Change(was, becomes)]) == ()
    found = held(library.address)["m"]
    assert (found.created_at, found.updated_at) == (mine.created_at, changed.updated_at)
    assert [each.field for each in found.vectors] == ["a"]
    assert found.vectors[0].embedding == mine.vectors[0].embedding


class TestTheDatabase:
    def test_it_comes_and_goes_without_a_trace(self, library: Library, is_guarded: bool) -> None:
        def schema() -> list[Any]:
            if library.address.startswith("postgresql:"):
                return run(library.address, "SELECT proname FROM pg_proc WHERE proname LIKE 'memctl%'") + run(
                    library.address, "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'memctl%'"
                )
            return run(library.address, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")

        assert is_guarded in (True, False)
        with writing(library.address) as target:
            assert isinstance(target, Guardable)
            target.remove_guards(list(RULES))
            bare = schema()
            assert not any("memctl" in str(row) for row in bare)
            target.install_guards(list(RULES))
            whole = schema()
            target.install_guards(list(RULES))
            assert schema() == whole != bare
            target.remove_guards(["fresh-vectors"])
            assert bare != schema() != whole
            target.remove_guards(list(RULES))
            assert schema() == bare

    def test_what_another_version_made_is_made_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        with sqlite_store(path, index=LISTS):
            pass
        install(str(path))
        file = sqlite3.connect(path)
        file.execute("DROP TRIGGER memctl_guard_store_cascade_vectors_after_delete_1")
        file.execute(
            "CREATE TRIGGER memctl_guard_store_cascade_vectors_after_delete_0 AFTER DELETE ON store BEGIN SELECT 1; END"
        )
        file.close()
        assert states(str(path))["cascade-vectors"] is State.OUTDATED
        install(str(path))
        assert states(str(path))["cascade-vectors"] is State.INSTALLED
        assert "after_delete_0" not in str(run(str(path), "SELECT name FROM sqlite_master"))


class TestRecursiveTriggers:
    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "delete", "upsert", "ignore"])),
            max_size=9,
        ),
        st.booleans(),
    )
    def test_either_way_the_age_stays(
        self, tmp_path: Path, steps: list[tuple[str, str]], recursive: bool
    ) -> None:
        """Against a dictionary: an item is as old as the first put since it was last deleted."""
        path = tmp_path / "store.db"
        path.unlink(missing_ok=True)
        with sqlite_store(path, index=LISTS):
            pass
        install(str(path))
        expected: dict[str, str] = {}
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(f"PRAGMA recursive_triggers = {int(recursive)}")
            file.execute("PRAGMA synchronous = off")
            for number, (key, step) in enumerate(steps):
                now = f"2026-11-30 00:00:{number:02}"
                values = "INTO store (prefix, key, value, created_at, updated_at)"
                values += f" VALUES ('a', '{key}', '{{}}', '{now}', '{now}')"
                match step:
                    case "put":
                        file.execute(f"INSERT OR REPLACE {values}")
                        vector_row = f"('a', '{key}', '$', x'00000000', '{now}', '{now}')"
                        file.execute(f"INSERT OR REPLACE INTO store_vectors VALUES {vector_row}")
                    case "upsert":
                        file.execute(f"INSERT {values} ON CONFLICT DO UPDATE SET value = excluded.value")
                    case "ignore":
                        file.execute(f"INSERT {values} ON CONFLICT DO NOTHING")
                    case "delete":
                        file.execute(f"DELETE FROM store WHERE key = '{key}'")
                if step == "delete":
                    expected.pop(key, None)
                else:
                    expected.setdefault(key, now)
                assert dict(file.execute("SELECT key, created_at FROM store")) == expected
                assert {key for (key,) in file.execute("SELECT key FROM store_vectors")} <= set(expected)


class TestRoles:
    def test_a_role_that_knows_the_librarys_tables_only(self, database: Database) -> None:
        with postgres_store(database.url, index=LISTS) as store:
            store.put(("a",), "k", {"tags": list(WORDS)})
        install(database.url)
        role = database.role(
            "USAGE ON SCHEMA public",
            "SELECT, INSERT, UPDATE, DELETE ON store, store_migrations, vector_migrations",
            "SELECT, INSERT, UPDATE ON store_vectors",
        )
        with psycopg.connect(role, autocommit=True) as agent:
            agent.execute("UPDATE store SET value = '{}', updated_at = now() WHERE key = 'k'")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                agent.execute("SELECT memctl_guard_store_fresh_vectors_1()")
        assert rows(database.url) == []

    def test_one_that_may_not_install_it(self, memctl: Memctl, database: Database) -> None:
        with postgres_store(database.url, index=LISTS):
            pass
        role = database.role("SELECT ON ALL TABLES IN SCHEMA public")
        found = {each["rule"]: each for each in memctl.json("-s", role, "guard", "status")["rules"]}
        assert found["fresh-vectors"]["state"] == "off"
        assert "CREATE on the schema public" in found["fresh-vectors"]["reason"]
        assert memctl("-s", role, "guard", "install", "--only", "fresh-vectors", "--yes").code == 1

    def test_writers_side_by_side(self, database: Database) -> None:
        """Upserts of the same items in any order neither deadlock over the guard nor lose a row."""
        with postgres_store(database.url, index=LISTS) as store:
            store.put(("a",), "0", {"tags": ["x"]})
        install(database.url)
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                with postgres_store(database.url, index=LISTS) as store:
                    for turn in range(15):
                        store.put(("a",), str((number + turn) % 4), {"tags": [f"{number}", f"{turn}"]})
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert set(held(database.url)) == {"0", "1", "2", "3"}


class TestTheCommand:
    def test_it_says_what_it_does(self, memctl: Memctl, tmp_path: Path) -> None:
        path = tmp_path / "agent.db"
        with sqlite_store(path, index=LISTS) as store:
            store.put(("a",), "k", {"tags": ["red"]})
            time.sleep(1.1)  # times are whole seconds
            store.put(("a",), "k", {"tags": ["green"]}, index=False)
        before = path.read_bytes()
        refused = memctl("-s", path, "guard", "install")
        assert refused.code == 2
        rehearsed = memctl("-s", path, "guard", "install", "--dry-run")
        assert rehearsed.code == 0
        assert "1 items have vectors older than themselves" in rehearsed.err
        assert path.read_bytes() == before
        done = memctl.json("-s", path, "guard", "install", "--yes")
        assert [each["rule"] for each in done["rules"] if each["state"] == "installed"] == list(RULES)[:3]
        assert memctl("-s", path, "guard", "remove", "--yes").code == 0
        assert {each["state"] for each in memctl.json("-s", path, "guard")["rules"]} == {"absent", "needless"}

    @pytest.mark.parametrize("words", [("guard", "polish"), ("guard", "status", "--only", "all")])
    def test_words_it_does_not_know(self, memctl: Memctl, words: tuple[str, ...]) -> None:
        memctl("demo", "x.db")
        assert memctl("-s", "x.db", *words).code == 2
