"""The servers and the writers do what the other tests take for granted."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import struct
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from tests.conftest import DATA, NewDatabase
from tests.databases import KINDS, Database
from tests.servers import EXTERNAL_URL, PASSWORD, Servers, address
from tests.writers import (
    SAMPLE,
    Index,
    async_postgres_store,
    async_sqlite_store,
    awrite_sample,
    embedder,
    postgres_store,
    sqlite_store,
    write_sample,
)

pytest_plugins = ["pytester"]

own_servers = pytest.mark.skipif(
    bool(EXTERNAL_URL), reason="an external server has its own version and passwords"
)
ITEMS = 'SELECT prefix, key FROM store ORDER BY prefix USING ~<~, key COLLATE "C"'
STORED = [(".".join(namespace), key) for namespace, key in SAMPLE]


class TestServers:
    @own_servers
    @pytest.mark.parametrize(("kind", "major"), [("pg16", 16), ("pg18", 18), ("en_US", 18)])
    def test_version(self, new_database: NewDatabase, kind: str, major: int) -> None:
        with new_database(kind).connect() as connection:
            assert connection.info.server_version // 10000 == major

    def test_databases_are_apart_and_have_pgvector(
        self, each_database: Database, new_database: NewDatabase
    ) -> None:
        other = new_database(each_database.kind)
        each_database.execute("CREATE TABLE t (v vector(2)); INSERT INTO t VALUES ('[1,2]')")
        assert each_database.execute("SELECT v <-> '[1,3]' FROM t") == [(1.0,)]
        assert other.execute("SELECT to_regclass('t')") == [(None,)]

    def test_pgvector_can_be_left_out(self, new_database: NewDatabase) -> None:
        assert new_database(vector=False).execute("SELECT FROM pg_extension WHERE extname = 'vector'") == []

    def test_collation(self, each_database: Database) -> None:
        labels = ["B", "a b", "a-b", "a.b", "a_b", "ab"]
        [(ordered,)] = each_database.execute(
            "SELECT array_agg(label ORDER BY label) FROM unnest(%s::text[]) AS t(label)", labels
        )
        by_bytes = sorted(labels)
        assert (ordered == by_bytes) == ("en_US" not in each_database.kind)

    @own_servers
    def test_passwords(self, database: Database) -> None:
        with psycopg.connect(database.tcp_url) as connection:
            assert connection.info.user == "postgres"
        wrong = database.tcp_url.replace(quote(PASSWORD, safe=""), "wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)

    def test_roles(self, postgres_sample: Database) -> None:
        with psycopg.connect(postgres_sample.reader(statement_timeout="7s")) as connection:
            assert connection.execute("SELECT count(*) FROM store").fetchall() == [(len(SAMPLE),)]
            assert connection.execute("SHOW statement_timeout").fetchall() == [("7s",)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("DELETE FROM store")
        with (
            psycopg.connect(postgres_sample.role()) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute("SELECT FROM store")

    def test_database_settings(self, database: Database) -> None:
        database.configure(default_transaction_read_only="on")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            database.execute("CREATE TABLE t ()")

    def test_ports_without_a_server(self, closed_port: int, silent_port: int) -> None:
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(host="127.0.0.1", port=closed_port)
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(host="127.0.0.1", port=silent_port, connect_timeout=2)

    def test_addresses(self) -> None:
        parameters = {
            "host": "::1",
            "port": "5",
            "user": "a b",
            "password": "p@/:",
            "dbname": "d?",
            "sslmode": "allow",
        }
        assert psycopg.conninfo.conninfo_to_dict(address(parameters)) == parameters

    def test_nothing_is_left(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run that was killed is cleared away by the next one; a run that lives is left alone."""
        monkeypatch.setattr("tempfile.tempdir", str(pytester.path))
        (stale := pytester.path / f"memctl-tests-{os.getuid()}-stale").mkdir()
        (stale / "owner").touch()
        with Servers.run() as outer, Servers.run() as inner:
            assert sorted(pytester.path.glob("memctl-*")) == sorted([outer.folder, inner.folder])
        assert list(pytester.path.glob("memctl-*")) == []


class TestPgbouncer:
    def test_fresh_mode_keeps_no_session(self, database: Database) -> None:
        with psycopg.connect(database.pooled(), autocommit=True) as connection:
            connection.execute(
                "SET work_mem = '7MB'"
            )  # pgbouncer itself carries application_name and TimeZone over
            assert connection.execute("SHOW work_mem").fetchall() != [("7MB",)]
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                connection.execute("SELECT %s::int", [1], prepare=True)

    def test_fresh_mode_keeps_a_transaction_together(self, database: Database) -> None:
        with psycopg.connect(database.pooled(), prepare_threshold=None) as connection:
            connection.execute("SET work_mem = '7MB'")
            assert connection.execute("SHOW work_mem").fetchall() == [("7MB",)]

    def test_shared_mode_shows_leaks(self, database: Database) -> None:
        pooled = database.pooled(mode="shared")
        with (
            psycopg.connect(pooled, autocommit=True) as first,
            psycopg.connect(pooled, autocommit=True) as second,
        ):
            first.execute("SET default_transaction_read_only = on")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                second.execute("CREATE TABLE t ()")

    def test_startup_options_are_refused(self, database: Database) -> None:
        with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
            psycopg.connect(database.pooled(), options="-csearch_path=public")

    def test_roles_go_through(self, postgres_sample: Database) -> None:
        with psycopg.connect(postgres_sample.pooled(postgres_sample.reader())) as connection:
            assert connection.execute("SELECT count(*) FROM store").fetchall() == [(len(SAMPLE),)]


class TestWriters:
    @pytest.mark.parametrize("wal", [False, True])
    def test_sqlite(self, tmp_path: Path, wal: bool) -> None:
        with sqlite_store(tmp_path / "s.db", wal=wal) as store:
            write_sample(store)
            mode = store.conn.execute("PRAGMA journal_mode").fetchone()
        assert mode == ("wal" if wal else "delete",)
        assert rows(tmp_path / "s.db", "SELECT prefix, key FROM store ORDER BY prefix, key") == STORED

    def test_indexed_sqlite(self, sqlite_sample: Path) -> None:
        found = rows(
            sqlite_sample, "SELECT prefix || ' ' || key || ' ' || field_name, embedding FROM store_vectors"
        )
        vectors = {str(place): embedding for place, embedding in found}
        assert "users.bo.prefs gone text" in vectors  # an orphan
        assert "users.ana.prefs meal tags[*].2" in vectors  # stale
        assert vectors["users.bo.prefs seat text"] == struct.pack(
            "<8f", *embedder(8)(["Bo prefers a window seat"])[0]
        )

    def test_sqlite_ignores_the_documented_fields(self, tmp_path: Path) -> None:
        with sqlite_store(tmp_path / "s.db", index=Index(dims=384, fields=["text"])) as store:
            store.put(("a",), "k", {"text": "t"})
        assert rows(tmp_path / "s.db", "SELECT field_name, length(embedding) FROM store_vectors") == [
            ("$", 4 * 384)
        ]

    @pytest.mark.parametrize("index", [None, Index(text_fields=["text"])])
    def test_async_sqlite(self, tmp_path: Path, index: Index | None) -> None:
        async def write() -> None:
            async with async_sqlite_store(tmp_path / "s.db", index=index) as store:
                await awrite_sample(store)

        asyncio.run(write())
        assert rows(tmp_path / "s.db", "SELECT prefix, key FROM store ORDER BY prefix, key") == STORED

    def test_postgres(self, each_database: Database) -> None:
        with postgres_store(each_database.url, index=Index(), ttl={"refresh_on_read": True}) as store:
            write_sample(store)
            assert store.search(("users",), query="Bo prefers a window seat", limit=1)[0].key == "seat"
        assert each_database.execute(ITEMS) == STORED
        expiries = each_database.execute(
            "SELECT key, ttl_minutes FROM store WHERE ttl_minutes IS NOT NULL ORDER BY key"
        )
        assert expiries == [("cadence-1", 0), ("cadence-2", 90), ("meal", 60), ("seat", 60)]

    @pytest.mark.parametrize("kind", ["hnsw", "ivfflat", "flat"])
    @pytest.mark.parametrize("vector_type", ["vector", "halfvec"])
    def test_postgres_index(self, database: Database, kind: Any, vector_type: Any) -> None:
        with postgres_store(database.url, index=Index(dims=3, kind=kind, vector_type=vector_type)) as store:
            write_sample(store)
        found = database.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'embedding'"
            " AND attrelid = 'store_vectors'::regclass"
        )
        assert found == [(f"{vector_type}(3)",)]
        methods = database.execute(
            "SELECT amname FROM pg_class JOIN pg_am a ON a.oid = relam"
            " WHERE relname = 'store_vectors_embedding_idx'"
        )
        assert methods == ([] if kind == "flat" else [(kind,)])

    def test_postgres_in_schemas(self, database: Database) -> None:
        for schema in ("agents", 'Odd "name", here'):
            with postgres_store(database.url, index=Index(), schema=schema) as store:
                write_sample(store)
        found = database.execute(
            "SELECT schemaname FROM pg_tables WHERE tablename = 'store_vectors' ORDER BY 1 DESC"
        )
        assert sorted(found) == [('Odd "name", here',), ("agents",)]

    def test_async_postgres(self, each_database: Database) -> None:
        async def write() -> None:
            async with async_postgres_store(each_database.url, index=Index()) as store:
                await awrite_sample(store)

        asyncio.run(write())
        assert each_database.execute(ITEMS) == STORED

    def test_pause_shows_in_seconds(self, tmp_path: Path) -> None:
        with sqlite_store(tmp_path / "s.db") as store:
            write_sample(store, pause=1.1)
        changed = "prefix = 'users.ana.prefs'"
        [(first,)] = rows(tmp_path / "s.db", f"SELECT max(updated_at) FROM store WHERE NOT {changed}")
        [(later,)] = rows(tmp_path / "s.db", f"SELECT min(updated_at) FROM store WHERE {changed}")
        assert str(first) < str(later)


class TestData:
    def test_sqlite(self, sqlite_data: Path) -> None:
        assert rows(sqlite_data, "SELECT prefix, key FROM store ORDER BY prefix, key") == STORED
        assert sqlite_data.parent != DATA

    def test_postgres(self, postgres_data: Database) -> None:
        assert postgres_data.execute(ITEMS) == STORED

    @pytest.mark.parametrize("kind", KINDS)
    def test_dumps_load_everywhere(self, new_database: NewDatabase, kind: str) -> None:
        for dump in DATA.glob("postgres-*.sql"):
            (database := new_database(kind)).load(dump)
            assert database.execute(ITEMS) == STORED


class TestFailOnSkip:
    SOURCE = """
        import pytest
        def test_skipped(): pytest.skip("no tool")
        @pytest.mark.skip(reason="marked")
        def test_marked(): pass
        @pytest.mark.xfail(run=False, reason="not tried")
        def test_not_run(): pass
        @pytest.mark.xfail
        def test_expected(): assert False
        def test_passes(): pass
    """
    MODULE = 'import pytest; pytest.importorskip("no_such_module")'

    @pytest.fixture(autouse=True)
    def few_plugins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What else is installed only makes the inner runs slow."""
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def test_without(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile(self.SOURCE)
        pytester.makepyfile(test_module=self.MODULE)
        result = pytester.runpytest_inprocess("-p", "tests.skips")
        result.assert_outcomes(passed=1, skipped=3, xfailed=2)
        assert result.ret == pytest.ExitCode.OK

    @pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n", "1")], ids=["alone", "xdist"])
    def test_with(self, pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
        pytester.makepyfile(self.SOURCE)
        result = pytester.runpytest_inprocess("-p", "tests.skips", "--fail-on-skip", *workers)
        result.assert_outcomes(passed=1, failed=1, errors=2, xfailed=1)
        result.stdout.fnmatch_lines_random(
            [f"*allows none: {why}" for why in ("no tool", "marked", "*not tried")]
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED

    def test_with_a_module(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile(self.MODULE)
        result = pytester.runpytest_inprocess("-p", "tests.skips", "--fail-on-skip")
        result.stdout.fnmatch_lines(["*allows none: could not import 'no_such_module'*"])
        assert result.ret == pytest.ExitCode.INTERRUPTED


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()
