"""Stores on their way from backend to backend, through archives, and the real libraries on what arrives.

The way: SQLite → archive → PostgreSQL → archive → SQLite, all by the command line. `diff` has to find nothing
but what the types cannot hold, which the check before the first write had named.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memctl.model import Item, Vector
from memctl.stores.sqlite.encode import item_cells, vector_cells
from tests.databases import Database, Databases
from tests.invocation import Memctl
from tests.writers import SAMPLE, Index, postgres_store, sqlite_store, write_sample

NewDatabase = Callable[..., Database]


def run(memctl: Memctl, *arguments: str | Path, code: int = 0) -> str:
    """Run a command that has to end so; return what it said."""
    outcome = memctl(*arguments)
    assert outcome.code == code, (arguments, outcome.out, outcome.err)
    return outcome.err


def bring(memctl: Memctl, archive: Path, target: str | Path, *options: str) -> dict[str, Any]:
    """Import into a store that is not there yet."""
    found: dict[str, Any] = memctl.json("-s", target, "import", archive, "--init", *options)
    assert found["rejected"] == found["skipped"] == 0
    return found


def differing(memctl: Memctl, a: str | Path, b: str | Path) -> dict[str, list[str]]:
    """Which keys differ, and in what."""
    rows = memctl.json("diff", a, b, code=4)
    assert {row["in"] for row in rows} == {"both"}
    return {row["key"]: row["parts"] for row in rows}


def assert_equal(memctl: Memctl, a: str | Path, b: str | Path) -> None:
    """Nothing differs."""
    assert memctl.json("diff", a, b) == []


def the_whole_way(memctl: Memctl, start: Path, database: Database, *options: str) -> tuple[Path, list[Path]]:
    """Move a SQLite store all the way; return the SQLite file at the end, and the two archives."""
    first, second, end = (
        memctl.folder / "first.jsonl.gz",
        memctl.folder / "second.jsonl.zst",
        start.with_suffix(".end"),
    )
    run(memctl, "-s", start, "export", "-f", first)
    bring(memctl, first, database.url, *options)
    run(memctl, "-s", database.url, "export", "-f", second)
    bring(memctl, second, end)
    for archive in (first, second):
        assert memctl("verify", archive).code == 0
    return end, [first, second]


class TestFixtures:
    def test_what_the_types_cannot_hold_is_named_first(
        self, memctl: Memctl, sqlite_data: Path, database: Database
    ) -> None:
        archive = memctl.folder / "out.jsonl"
        run(memctl, "-s", sqlite_data, "export", "-f", archive)
        refused = memctl("-s", database.url, "import", archive, "--init")
        with closing(sqlite3.connect(sqlite_data)) as connection:
            fractions = connection.execute(
                "SELECT key FROM store WHERE ttl_minutes % 1 != 0 OR ttl_minutes = 0.01"
            )
            held = [key for (key,) in fractions]
        assert held == ["cadence-1"]
        assert refused.code == 1
        assert "1 × ttl_minutes: not a whole number of minutes" in refused.err
        assert database.execute("SELECT to_regclass('store')") == [(None,)]

    def test_there_and_back(self, memctl: Memctl, sqlite_data: Path, database: Database) -> None:
        end, archives = the_whole_way(memctl, sqlite_data, database, "--round-ttl", "up")
        for side in (database.url, archives[1], end):
            assert differing(memctl, sqlite_data, side) == {"cadence-1": ["ttl_minutes"]}
        assert_equal(memctl, sqlite_data, archives[0])
        assert_equal(memctl, database.url, end)
        assert_equal(memctl, archives[1], end)
        check_sqlite(end)
        check_postgres(database.url)

    def test_without_what_cannot_be_held(self, memctl: Memctl, sqlite_data: Path, database: Database) -> None:
        rejects = memctl.folder / "rejects.jsonl"
        outcome = memctl(
            "migrate", sqlite_data, database.url, "--init", "--on-error", "skip", "--rejects", rejects
        )
        assert outcome.code == 3
        assert "cadence-1" in outcome.err
        assert [json.loads(line)["key"] for line in rejects.read_bytes().splitlines()] == ["cadence-1"]
        assert memctl.json("diff", sqlite_data, database.url, code=4) == [
            {"namespace": ["org", "acme", "facts"], "key": "cadence-1", "in": "a", "parts": []}
        ]

    def test_postgres_to_sqlite_and_back(
        self, memctl: Memctl, postgres_data: Database, new_database: NewDatabase
    ) -> None:
        first, second = memctl.folder / "first.jsonl", memctl.folder / "second.jsonl"
        middle, end = memctl.folder / "middle.db", new_database()
        run(memctl, "-s", postgres_data.url, "export", "-f", first)
        bring(memctl, first, middle)
        run(memctl, "-s", middle, "export", "-f", second)
        bring(memctl, second, end.url)
        for side in (first, middle, second, end.url):
            assert_equal(memctl, postgres_data.url, side)
        check_sqlite(middle)
        check_postgres(end.url)


class TestRealStores:
    @pytest.mark.parametrize("wal", [False, True], ids=["journal", "wal"])
    def test_sqlite_there_and_back(self, memctl: Memctl, database: Database, wal: bool) -> None:
        start = memctl.folder / "start.db"
        with sqlite_store(start, index=Index(), ttl={"refresh_on_read": True}, wal=wal) as store:
            write_sample(store)
            end, _ = the_whole_way(memctl, start, database, "--round-ttl", "up")
        assert differing(memctl, start, end) == {"cadence-1": ["ttl_minutes"]}
        check_sqlite(end)
        check_postgres(database.url)

    @pytest.mark.parametrize("kind", ["hnsw", "ivfflat", "flat"])
    def test_postgres_straight(
        self, memctl: Memctl, postgres_sample: Database, new_database: NewDatabase, kind: str
    ) -> None:
        other, file = new_database(), memctl.folder / "file.db"
        assert (
            memctl("migrate", postgres_sample.url, other.url, "--init", "--index", kind, "--verify").code == 0
        )
        assert memctl("migrate", other.url, file, "--init", "--verify").code == 0
        assert_equal(memctl, postgres_sample.url, file)
        check_postgres(other.url, kind=kind)
        check_sqlite(file)

    def test_in_a_database_that_sorts_by_a_locale(self, memctl: Memctl, each_database: Database) -> None:
        start = memctl.folder / "start.db"
        with sqlite_store(start, index=Index()) as store:
            for label in ("a", "B", "_", "-", "a b", "ä", "Z.z", "😀"):
                store.put(tuple(label.split(".")), label, {"text": label})
        assert memctl("migrate", start, each_database.url, "--init", "--verify").code == 0
        assert_equal(memctl, start, each_database.url)
        again = memctl.json("migrate", start, each_database.url)
        assert (again["items"], again["unchanged"]) == (0, 8)

    def test_the_same_schema_as_the_library_makes(
        self, memctl: Memctl, postgres_sample: Database, new_database: NewDatabase
    ) -> None:
        other = new_database()
        run(memctl, "migrate", postgres_sample.url, other.url, "--init")
        columns = (
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        )
        indexes = "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef"
        for query in (
            columns,
            indexes,
            "SELECT v FROM store_migrations ORDER BY v",
            "SELECT v FROM vector_migrations ORDER BY v",
        ):
            assert other.execute(query) == postgres_sample.execute(query)


def check_sqlite(path: Path) -> None:
    """The real library opens a moved store, finds what was put into the first one, and goes on writing."""
    before = path.read_bytes()
    with sqlite_store(path, index=Index()):
        pass
    assert path.read_bytes() == before, "setup() changed the file"
    with sqlite_store(path, index=Index(), ttl={"refresh_on_read": False}) as store:
        check_library(store)


def check_postgres(url: str, kind: Any = "hnsw") -> None:
    """The same of a database."""
    with postgres_store(url, index=Index(kind=kind), ttl={"refresh_on_read": False}) as store:
        check_library(store)


def check_library(store: Any) -> None:
    """`get`, `search` by value and by meaning, and `put`, on the sample."""
    for (namespace, key), value in SAMPLE.items():
        if key != "cadence-1":  # has expired long since
            found = store.get(namespace, key)
            assert found is not None, key
            assert value.items() <= found.value.items()  # some fixtures say more
    assert {item.key for item in store.search(("users", "ana", "prefs"))} == {"seat", "meal"}
    assert [item.key for item in store.search(("users",), filter={"value": "vegan"})] == ["meal"]
    whole = json.dumps(SAMPLE[("users", "ana", "prefs"), "meal"], sort_keys=True)  # what the field `$` embeds
    for text in ("Ana eats vegan meals", whole):
        ((nearest, score),) = [
            (item.key, item.score) for item in store.search(("users", "ana"), query=text, limit=1)
        ]
        if score == pytest.approx(1, abs=1e-3):  # embedded as it stands
            assert nearest == "meal"
            break
    else:
        raise AssertionError("no text is found by its own embedding")
    store.put(("new",), "k", {"text": "put afterwards"})
    store.put(("users", "ana", "prefs"), "meal", {"text": "pescetarian now"})
    assert store.search(("new",), query="put afterwards")[0].key == "k"
    assert store.get(("users", "ana", "prefs"), "meal").value == {"text": "pescetarian now"}
    store.delete(("new",), "k")
    assert store.get(("new",), "k") is None


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
LABELS = TEXT.map(lambda text: text.replace(".", "-"))
NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.sampled_from(["1.0", "-0", "1e400", "0.10", "12345678901234567890.123456789", "1E-300", "1.50e+3"]),
)
INSTANTS = st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0"))
VALUES = st.builds(
    lambda members: "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in members.items()) + "}",
    st.dictionaries(
        TEXT, st.one_of(NUMBERS, TEXT.map(json.dumps), st.sampled_from(["null", "true", "[]", "[{}, 1.00]"]))
    ),
)
VECTORS = st.builds(
    lambda fields, numbers: tuple(
        Vector(
            field,
            3,
            struct.pack("<3f", *numbers),
            "2026-01-01T00:00:00.000001Z",
            "2026-01-02T00:00:00.100000Z",
        )
        for field in sorted(fields, key=str.encode)
    ),
    st.sets(TEXT, max_size=2),
    st.tuples(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 3),
)
ITEMS = st.lists(
    st.builds(
        lambda labels, key, value, created, updated, expires, ttl, vectors: Item(
            ".".join(labels), key, value.encode(), len(value.encode()), created, updated, expires, ttl, vectors
        ),
        st.lists(LABELS, min_size=1, max_size=3),
        TEXT,
        VALUES,
        INSTANTS,
        INSTANTS,
        st.none() | INSTANTS,
        st.none() | st.integers(0, 2**31 - 1).map(float),
        VECTORS,
    ),
    unique_by=lambda item: (item.prefix, item.key),
    min_size=1,
    max_size=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite store by the real library."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    with sqlite_store(path, index=Index(dims=3)):
        pass
    return path


@pytest.fixture(scope="module")
def emptied(databases: Databases) -> Any:
    """One database for many examples; each begins by dropping the tables."""
    with databases.new() as database:
        yield database


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(items=ITEMS)
def test_arbitrary_items(memctl: Memctl, template: Path, emptied: Database, items: list[Item]) -> None:
    """Whatever both can hold comes back the same from both backends and both archives."""
    for left in memctl.folder.iterdir():
        left.unlink()
    emptied.execute("DROP TABLE IF EXISTS store_vectors, store, store_migrations, vector_migrations")
    start = Path(shutil.copy(template, memctl.folder / "start.db"))
    with closing(sqlite3.connect(start)) as connection, connection:
        for item in items:
            cells = item_cells(item)
            names = ", ".join(cells)
            marks = ", ".join(
                f"CAST(:{name} AS TEXT)" if name in ("prefix", "key") else f":{name}" for name in cells
            )
            connection.execute(f"INSERT INTO store ({names}) VALUES ({marks})", cells)
            connection.executemany(
                "INSERT INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at)"
                " VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?)",
                [vector_cells(item, vector) for vector in item.vectors],
            )
    end, archives = the_whole_way(memctl, start, emptied)
    sides: list[str | Path] = [*archives, emptied.url, end]
    for side in sides:
        assert_equal(memctl, start, side)
