"""The tables that memctl makes, against those that the library makes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from memctl.errors import MemctlError, NoStore, Refused, UsageError
from memctl.model import EVERYTHING
from memctl.store import Setup
from memctl.stores.postgres import schema as tables
from memctl.stores.postgres.transactions import Cursor, Transactions
from memctl.stores.postgres.writer import PostgresWriter, open_postgres_writer
from tests.databases import Database
from tests.writers import Index, async_postgres_store, postgres_store

NewDatabase = Callable[..., Database]
SETUPS = (
    Setup(),
    Setup(dims=8),
    Setup(dims=8, index="flat"),
    Setup(dims=8, index="ivfflat", metric="l2"),
    Setup(dims=3000, vector_type="halfvec", metric="inner_product"),
    Setup(dims=9000, vector_type="vector", index="flat"),
    Setup(dims=8, vector_type="halfvec", index="ivfflat", metric="cosine"),
)

CATALOG = {
    "columns": "SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, "
    "pg_get_expr(d.adbin, d.adrelid) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
    "LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum "
    "WHERE c.relnamespace = quote_ident('{schema}')::regnamespace AND c.relkind = 'r' AND a.attnum > 0 ORDER BY 1, 2",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY 1",
    "valid": "SELECT indexrelid::regclass::text FROM pg_index WHERE indisvalid AND indisready AND indrelid IN "
    "(SELECT oid FROM pg_class WHERE relnamespace = quote_ident('{schema}')::regnamespace) ORDER BY 1",
    "constraints": "SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = quote_ident('{schema}')::regnamespace ORDER BY 1",
    "options": "SELECT relname, relkind, relpersistence, reloptions FROM pg_class "
    "WHERE relnamespace = quote_ident('{schema}')::regnamespace AND relkind IN ('r', 'i') ORDER BY 1",
    "extension": "SELECT extname, extnamespace::regnamespace::text FROM pg_extension ORDER BY 1",
}


def index_of(setup: Setup) -> Index | None:
    if setup.dims is None:
        return None
    kind: Any = setup.index
    metric: Any = setup.metric
    vector_type: Any = setup.vector_type
    return Index(dims=setup.dims, kind=kind, metric=metric, vector_type=vector_type)


def catalog(database: Database, schema: str = "public") -> dict[str, object]:
    found: dict[str, object] = {
        name: database.execute(query.format(schema=schema)) for name, query in CATALOG.items()
    }
    for ledger in ("store_migrations", "vector_migrations"):
        name = f'"{schema}".{ledger}'
        there = database.execute("SELECT to_regclass(%s)", name)[0][0]
        found[ledger] = there and database.execute(f"SELECT v FROM {name} ORDER BY v")
    return found


def state(database: Database) -> list[Any]:
    """Every row version that a migration would touch: the catalog's, and the ledgers'."""
    rows = database.execute(
        "SELECT oid, xmin::text, relfilenode FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    )
    for ledger in ("store_migrations", "vector_migrations"):
        if database.execute("SELECT to_regclass(%s)", ledger)[0][0]:
            rows += database.execute(f"SELECT v, xmin::text, ctid::text FROM {ledger} ORDER BY v")
    return rows


@contextmanager
def opened(
    url: str, setup: Setup | None = None, *, schema: str | None = None, table: str | None = None
) -> Iterator[PostgresWriter]:
    with closing(open_postgres_writer(url, schema=schema, table=table, timeout=5, setup=setup)) as writer:
        yield writer


def make(url: str, setup: Setup, schema: str | None = None) -> None:
    with opened(url, setup, schema=schema) as writer:
        writer.finish()


def refusal(url: str, setup: Setup | None, **where: str) -> MemctlError:
    with pytest.raises(MemctlError) as caught, opened(url, setup, **where):
        pass
    return caught.value


@pytest.mark.parametrize(
    ("kind", "vector"), [("pg16", True), ("pg18", False)], ids=["extension-there", "extension-missing"]
)
@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_tables_are_the_librarys(setup: Setup, kind: str, vector: bool, new_database: NewDatabase) -> None:
    theirs, ours = new_database(kind, vector=vector), new_database(kind, vector=vector)
    with postgres_store(theirs.url, index=index_of(setup)):
        pass
    make(ours.url, setup)
    assert catalog(ours) == catalog(theirs)
    before = state(ours)
    with postgres_store(ours.url, index=index_of(setup)) as store:
        store.setup()
        assert state(ours) == before
        store.put(("a",), "k", {"text": "hello"})
        assert store.search(("a",), query="hello" if setup.dims else None)[0].key == "k"


def test_so_the_async_store_finds(database: Database) -> None:
    make(database.url, Setup(dims=8))
    before = state(database)

    async def set_up() -> None:
        async with async_postgres_store(database.url, index=index_of(Setup(dims=8))):
            pass

    asyncio.run(set_up())
    assert state(database) == before


def test_a_schema_of_its_own_is_made(new_database: NewDatabase) -> None:
    theirs, ours = new_database(vector=False), new_database(vector=False)
    with postgres_store(theirs.url, index=Index(), schema="Agents"):
        pass
    make(ours.url, Setup(dims=8), "Agents")
    assert catalog(ours, "Agents") == catalog(theirs, "Agents")
    before = state(ours)
    with postgres_store(ours.url, index=Index(), schema="Agents") as store:
        store.put(("a",), "k", {"text": "hello"})
    assert state(ours) == before


def test_where_the_tables_go(database: Database) -> None:
    database.execute("CREATE SCHEMA first")
    database.execute(f"ALTER DATABASE {database.name} SET search_path = missing, first, public")
    with opened(database.url, Setup()) as writer:
        assert writer.describe().schema == "first"  # as the library would
    with opened(database.url, Setup()) as writer:
        assert writer.describe().schema == "first"  # as that is where it is
    make(database.url, Setup(), "second")
    assert isinstance(refusal(database.url, Setup()), UsageError)  # which one?


def test_there_must_be_a_schema(database: Database) -> None:
    database.configure(search_path="missing")
    assert isinstance(refusal(database.url, Setup()), UsageError)


def test_other_peoples_tables_are_left_alone(database: Database) -> None:
    database.execute("CREATE TABLE store (id int)")
    error = refusal(database.url, Setup())
    assert isinstance(error, NoStore)
    assert error.code == "foreign-tables"
    assert refusal(database.url, Setup(), schema="public").code == "foreign-tables"
    make(database.url, Setup(), "agents")
    database.execute("CREATE SCHEMA other; CREATE TABLE other.store (id int)")
    with opened(database.url, Setup()) as writer:
        assert writer.describe().schema == "agents"


def test_without_setup_nothing_is_made(database: Database) -> None:
    assert isinstance(refusal(database.url, None), NoStore)
    assert isinstance(refusal(database.url, None, schema="agents"), NoStore)
    assert isinstance(refusal(database.url, Setup(), table="memories"), UsageError)
    assert database.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (Setup(dims=2001), "2,000 dims of a vector"),
        (Setup(dims=4001, vector_type="halfvec"), "4,000 dims of a halfvec"),
        (Setup(dims=2001, index="ivfflat"), "2,000"),
        (Setup(dims=16_001, index="flat"), "16,000"),
        (Setup(dims=0), "1 to"),
        (Setup(dims=8, vector_type="bit"), "--vector-type bit"),
        (Setup(dims=8, index="btree"), "--index btree"),
        (Setup(dims=8, metric="l1"), "--metric l1"),
    ],
)
def test_what_pgvector_cannot_make(setup: Setup, said: str, database: Database) -> None:
    error = refusal(database.url, setup)
    assert isinstance(error, UsageError)
    assert said in error.message
    assert database.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_other_vectors_than_those_there(postgres_sample: Database) -> None:
    assert "vector(8), not vector(9)" in refusal(postgres_sample.url, Setup(dims=9)).message
    assert isinstance(refusal(postgres_sample.url, Setup(dims=8, vector_type="halfvec")), UsageError)
    before = state(postgres_sample)
    make(postgres_sample.url, Setup(dims=8))
    make(postgres_sample.url, Setup())
    assert state(postgres_sample) == before


def test_older_stores_are_brought_up_to_date(postgres_data: Database, new_database: NewDatabase) -> None:
    kept = postgres_data.execute("SELECT prefix, key, value FROM store ORDER BY 1, 2")
    make(postgres_data.url, Setup(dims=8))
    fresh = new_database()
    with postgres_store(fresh.url, index=Index()):
        pass
    assert catalog(postgres_data) == catalog(fresh)
    assert postgres_data.execute("SELECT prefix, key, value FROM store ORDER BY 1, 2") == kept


def test_a_lost_ledger_is_written_again(postgres_sample: Database) -> None:
    before = catalog(postgres_sample)
    postgres_sample.execute("DROP TABLE store_migrations, vector_migrations")
    make(postgres_sample.url, Setup(dims=8))
    assert catalog(postgres_sample) == before


# Privileges


def test_a_complete_store_needs_no_privilege_to_create(postgres_sample: Database) -> None:
    url = postgres_sample.role("USAGE ON SCHEMA public", "SELECT, INSERT ON ALL TABLES IN SCHEMA public")
    make(url, Setup(dims=8))
    assert isinstance(refusal(url, Setup(dims=8), schema="another"), Refused)


def test_an_extension_that_is_there_needs_no_privilege(new_database: NewDatabase) -> None:
    grants = ("USAGE, CREATE ON SCHEMA public",)
    there, missing = new_database(), new_database(vector=False)
    make(there.role(*grants), Setup(dims=8))
    error = refusal(missing.role(*grants), Setup(dims=8))
    assert isinstance(error, Refused)
    assert "CREATE EXTENSION vector" in str(error.hint)
    assert missing.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_a_server_without_pgvector(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "HOME", "SELECT 1 WHERE FALSE")
    monkeypatch.setattr(tables, "EXTENSION", "CREATE EXTENSION no_such_vector WITH SCHEMA {schema}")
    assert refusal(database.url, Setup(dims=8)).code == "no-pgvector"


# The vector index

LEFT = "SELECT v FROM vector_migrations ORDER BY v"
VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'store_vectors_embedding_idx'::regclass"


def test_the_index_of_a_killed_load_is_built_by_the_next(database: Database) -> None:
    with opened(database.url, Setup(dims=8)):
        pass
    assert database.execute(LEFT) == [(0,), (1,)]
    with opened(database.url) as writer:
        writer.finish()
    assert database.execute(LEFT) == [(0,), (1,)]
    with opened(database.url, Setup(dims=8)) as writer:
        writer.finish()
        before = state(database)
        writer.finish()
    assert database.execute(LEFT) == [(0,), (1,), (2,)]
    make(database.url, Setup(dims=8))
    assert state(database) == before


def test_an_index_that_the_agent_built_meanwhile(database: Database) -> None:
    setup = Setup(dims=8)
    with closing(Transactions(database.url, timeout=5)) as transactions:
        transactions.run(lambda cursor: tables.prepare(cursor, "public", setup))
        with postgres_store(database.url, index=Index()):
            before = state(database)
        transactions.run(lambda cursor: tables.build_index(cursor, "public", setup))
    assert state(database) == before


def test_an_index_that_the_agent_is_building(database: Database) -> None:
    def start_agent() -> None:
        with postgres_store(database.url, index=Index()) as store:
            store.put(("a",), "agents", {"text": "hello"})

    waiting = (
        "SELECT pid FROM pg_stat_activity "
        "WHERE query LIKE '%%CONCURRENTLY%%' AND wait_event_type = 'Lock' AND pid <> %s"
    )
    with opened(database.url, Setup(dims=8)) as writer, database.connect() as watch:
        assert list(writer.scan(EVERYTHING)) == []
        agent = threading.Thread(target=start_agent)
        agent.start()
        while not watch.execute(waiting, [watch.info.backend_pid]).fetchall():
            time.sleep(0.02)
        writer.finish()
        agent.join(10)
        assert not agent.is_alive()
        assert database.execute(LEFT) == [(0,), (1,), (2,)]
        assert database.execute(VALID) == [(True,)]


def test_an_invalid_index_is_built_anew(database: Database) -> None:
    make(database.url, Setup(dims=8))
    database.execute("DELETE FROM vector_migrations WHERE v = 2")
    database.execute(
        "UPDATE pg_index SET indisvalid = FALSE WHERE indexrelid = 'store_vectors_embedding_idx'::regclass"
    )
    make(database.url, Setup(dims=8))
    assert database.execute(LEFT)[-1] == (2,)
    assert database.execute(VALID) == [(True,)]


def test_a_build_that_fails_records_nothing(database: Database) -> None:
    database.execute(_REFUSING.format(when="TRUE"))
    with opened(database.url, Setup(dims=8)) as writer, pytest.raises(MemctlError) as caught:
        writer.finish()
    assert caught.value.code == "disk-full"
    assert database.execute(LEFT) == [(0,), (1,)]


def test_workers_that_lack_shared_memory_are_done_without(database: Database) -> None:
    database.execute(_REFUSING.format(when="current_setting('max_parallel_maintenance_workers') <> '0'"))
    make(database.url, Setup(dims=8))
    assert database.execute(VALID) == [(True,)]


_REFUSING = """
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_query() LIKE '%store_vectors_embedding_idx%' AND {when} THEN
        RAISE EXCEPTION 'could not resize shared memory segment' USING ERRCODE = '53100';
    END IF;
END $$;
CREATE EVENT TRIGGER refusing ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION refuse();
"""


def test_memory_is_raised_for_the_build_alone(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_LEAST_KILOBYTES", 100 * 1024)
    setting = "SELECT current_setting('maintenance_work_mem')"

    def build(cursor: Cursor) -> list[tuple[Any, ...]]:
        tables.build_index(cursor, "public", Setup(dims=8))
        return cursor.execute(setting)

    with closing(Transactions(database.url, timeout=5)) as transactions:
        transactions.run(lambda cursor: tables.prepare(cursor, "public", Setup(dims=8)))
        usual = transactions.run(lambda cursor: cursor.execute(setting))
        assert transactions.run(build) == [("100MB",)] != usual
        assert transactions.run(lambda cursor: cursor.execute(setting)) == usual
