"""What memctl is measured against: the shortest programs that do the same work, each in its own process.

    python -m tests.benchmarks.baselines NAME ARGUMENT…

Each function below is one; `NAME` is its name. Those called `api_…` are what people write with LangGraph's
own interface.
"""

import array
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import orjson

_ITEM = "prefix, key, value, created_at, updated_at, expires_at, ttl_minutes"
_VECTOR = "prefix, key, field_name, embedding, created_at, updated_at"
_HELD = (
    "SELECT count(*), count(CASE WHEN created_at < {} THEN 1 END), count(expires_at), count(ttl_minutes), "
    "(SELECT count(*) FROM store_vectors) FROM store"
)
_PAGE = 1_000


def sqlite_rows(path: str) -> None:
    """A bare ordered read of all items into Python."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        for _row in connection.execute(f"SELECT {_ITEM} FROM store ORDER BY prefix, key"):
            pass


def sqlite_tables(path: str) -> None:
    """The same of both tables, embeddings included."""
    sqlite_rows(path)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        order = "ORDER BY prefix, key, field_name"
        for _row in connection.execute(f"SELECT {_VECTOR} FROM store_vectors {order}"):
            pass


def postgres_tables(address: str) -> None:
    """The same of both tables, embeddings included, in the binary form that pgvector sends."""
    import psycopg

    postgres_rows(address)
    with psycopg.connect(address) as connection, connection.cursor("bare", binary=True) as cursor:
        cursor.itersize = 1_000
        cursor.execute(f"SELECT {_VECTOR} FROM store_vectors ORDER BY prefix, key, field_name")
        for _row in cursor:
            pass


def postgres_rows(address: str) -> None:
    """The same through a server-side cursor; values stay text, since nothing asks for objects."""
    import psycopg

    with psycopg.connect(address) as connection, connection.cursor("bare") as cursor:
        cursor.itersize = 5_000
        cursor.execute(f"SELECT {_ITEM.replace('value', 'value::text')} FROM store ORDER BY prefix, key")
        for _row in cursor:
            pass


def copy_out(address: str, *tables: str) -> None:
    """Raw COPY of whole tables, read by psycopg and written out as it comes."""
    import psycopg

    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        for table in tables:
            columns = _VECTOR if table == "store_vectors" else _ITEM
            with cursor.copy(f"COPY {table} ({columns}) TO STDOUT") as copy:
                for block in copy:
                    sys.stdout.buffer.write(block)


def copy_in(path: str, address: str, index: str) -> None:
    """Items by COPY in primary-key order, vectors by binary COPY, then the vector index; tables are there."""
    import psycopg

    source = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    with closing(source), psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'UTC'")
        with cursor.copy(f"COPY store ({_ITEM}) FROM STDIN") as copy:
            items = "prefix, key, CAST(value AS TEXT), created_at || '+00', updated_at || '+00', expires_at"
            for *row, ttl in source.execute(f"SELECT {items}, ttl_minutes FROM store ORDER BY prefix, key"):
                copy.write_row((*row, None if ttl is None else int(ttl)))
        with cursor.copy(f"COPY store_vectors ({_VECTOR}) FROM STDIN (FORMAT BINARY)") as copy:
            # A bytea travels as the bare octets, and times as what they are: microseconds from 2000.
            copy.set_types(["text", "text", "text", "bytea", "int8", "int8"])
            instants = "created_at", "updated_at"
            times = ", ".join(f"(unixepoch({each}) - 946684800) * 1000000" for each in instants)
            order = "ORDER BY prefix, key, field_name"
            for *names, embedding, created, updated in source.execute(
                f"SELECT prefix, key, field_name, embedding, {times} FROM store_vectors {order}"
            ):
                numbers = array.array("f", embedding)
                if sys.byteorder == "little":
                    numbers.byteswap()
                head = len(numbers).to_bytes(2, "big") + bytes(2)
                copy.write_row((*names, head + numbers.tobytes(), created, updated))
        if index != "flat":
            cursor.execute("SET maintenance_work_mem = '1GB'")
            cursor.execute(
                "CREATE INDEX store_vectors_embedding_idx ON store_vectors "
                f"USING {index} (embedding vector_cosine_ops)"
            )


def api_read(address: str) -> None:
    """`search` with limit and offset until the end."""
    with _store(address) as store:
        for item in _pages(store):
            sys.stdout.buffer.write(orjson.dumps(item.dict(), option=orjson.OPT_APPEND_NEWLINE))


def api_move(source_address: str, target_address: str) -> None:
    """Page with `search`, write with `batch`, into a store that is set up and empty; says what was lost."""
    from langgraph.store.base import PutOp

    with _store(source_address) as source, _store(target_address) as target:
        batch: list[Any] = []
        for item in _pages(source):
            batch.append(PutOp(item.namespace, item.key, item.value))
            if len(batch) == _PAGE:
                target.batch(batch)
                batch.clear()
        target.batch(batch)
    before, after = _held(source_address), _held(target_address)
    print(json.dumps({part: count - after[part] for part, count in before.items()}))


def _pages(store: Any) -> Iterator[Any]:
    offset = 0
    while page := store.search((), limit=_PAGE, offset=offset):
        yield from page
        offset += len(page)


@contextmanager
def _store(address: str) -> Iterator[Any]:
    if address.startswith("postgresql:"):
        from langgraph.store.postgres import PostgresStore

        with PostgresStore.from_conn_string(address) as store:
            yield store
    else:
        from langgraph.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(address) as store:
            yield store


def _held(address: str) -> dict[str, int]:
    """What a store holds that a copy may lose; a creation time counts when it is older than an hour."""
    if address.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(address) as connection:
            row = connection.execute(_HELD.format("now() - interval '1 hour'")).fetchone()
    else:
        with closing(sqlite3.connect(f"file:{address}?mode=ro", uri=True)) as connection:
            row = connection.execute(_HELD.format("datetime('now', '-1 hour')")).fetchone()
    assert row is not None
    return dict(zip(("items", "creation times", "expiries", "TTLs", "vectors"), row, strict=True))


def expire(store: str, count: str, carriers: str) -> None:
    """No baseline: makes `count` items expired, `carriers` of them with vectors, and every other one live.

    They lie all over the store, and expired at other times than they were written at.
    """
    with _connected(store) as (execute, is_postgres):
        past = "now() - interval '1 minute' * {}" if is_postgres else "datetime('now', (-{}) || ' minutes')"
        execute("UPDATE store SET expires_at = NULL, ttl_minutes = NULL WHERE expires_at IS NOT NULL")
        _choose(execute, int(count), int(carriers))
        execute(
            f"UPDATE store SET ttl_minutes = 60, expires_at = {past.format('((place * 7919) % 100000 + 60)')} "
            "FROM chosen AS c WHERE c.prefix = store.prefix AND c.key = store.key"
        )
        if is_postgres:
            execute("VACUUM ANALYZE store")


def gather(store: str, prefix: str, count: str, carriers: str) -> None:
    """No baseline: puts `count` items, `carriers` of them with vectors, into namespaces under `prefix`.

    Their rows lie all over the store still, as those do that agents have written over months.
    """
    with _connected(store) as (execute, is_postgres):
        _choose(execute, int(count), int(carriers))
        if is_postgres:
            execute("SET session_replication_role = replica")  # there is no ON UPDATE CASCADE
        for table in ("store_vectors", "store"):
            execute(
                f"UPDATE {table} SET prefix = '{prefix}.' || {table}.prefix "
                f"FROM chosen AS c WHERE c.prefix = {table}.prefix AND c.key = {table}.key"
            )
        if is_postgres:
            for table in ("store", "store_vectors"):
                execute(f"VACUUM ANALYZE {table}")


def _choose(execute: Callable[[str], object], count: int, carriers: int) -> None:
    """Make a table `chosen` of `count` items, `carriers` of them with vectors, spread evenly."""
    execute(
        "CREATE TEMP TABLE candidates AS SELECT prefix, key, row_number() OVER (PARTITION BY carries) AS place, "
        "carries, count(*) OVER (PARTITION BY carries) AS many FROM (SELECT s.prefix, s.key, "
        "EXISTS (SELECT 1 FROM store_vectors v WHERE v.prefix = s.prefix AND v.key = s.key) AS carries "
        "FROM store s) AS s"
    )
    every = "place * {0} / many <> (place - 1) * {0} / many"
    execute(
        "CREATE TEMP TABLE chosen AS SELECT prefix, key, place FROM candidates "
        f"WHERE carries AND {every.format(carriers)} OR NOT carries AND {every.format(count - carriers)}"
    )
    execute("CREATE INDEX chosen_names ON chosen (prefix, key)")


def bare_sweep(store: str, rows: str, pause: str) -> None:
    """Two DELETE statements a batch, of the same rows as memctl's, with the same pauses."""
    with _connected(store) as (execute, is_postgres):
        now = "now()" if is_postgres else "datetime('now')"
        _in_batches(execute, is_postgres, f"expires_at < {now}", int(rows), float(pause), _DELETES)


def bare_rm(store: str, prefix: str, rows: str, pause: str, hold: str | None = None) -> None:
    """The same of a subtree; with `hold` a batch has as many rows as are done in so many seconds, `rows` at most."""
    with _connected(store) as (execute, is_postgres):
        below = _below(prefix, is_postgres)
        _in_batches(execute, is_postgres, below, int(rows), float(pause), _DELETES, hold and float(hold))


def bare_mv(store: str, prefix: str, new: str, rows: str, pause: str, hold: str | None = None) -> None:
    """Two UPDATE statements a batch; three on Postgres, where a row that vectors refer to keeps its name."""
    name = f"'{new}' || substr(prefix, {len(prefix) + 1})"
    names = f"UPDATE {{}} SET prefix = {name} WHERE (prefix, key) IN ({{chosen}})"
    with _connected(store) as (execute, is_postgres):
        if is_postgres:
            others = _ITEM.removeprefix("prefix, ")
            statements = (
                f"INSERT INTO store ({_ITEM}) SELECT {name}, {others} FROM store WHERE (prefix, key) IN ({{chosen}})",
                names.replace("{}", "store_vectors"),
                _DELETES[1],
            )
        else:
            statements = tuple(names.replace("{}", table) for table in ("store_vectors", "store"))
        below = _below(prefix, is_postgres)
        _in_batches(execute, is_postgres, below, int(rows), float(pause), statements, hold and float(hold))


_DELETES = tuple(
    f"DELETE FROM {table} WHERE (prefix, key) IN ({{chosen}})" for table in ("store_vectors", "store")
)


def _below(prefix: str, is_postgres: bool) -> str:
    if is_postgres:
        return f"(prefix = '{prefix}' OR prefix ~>=~ '{prefix}.' AND prefix ~<~ '{prefix}/')"
    return f"(prefix = '{prefix}' OR prefix >= '{prefix}.' AND prefix < '{prefix}/')"


def _in_batches(
    execute: Callable[[str], list[tuple[Any, ...]]],
    is_postgres: bool,
    condition: str,
    rows: int,
    pause: float,
    statements: Sequence[str],
    hold: float | None = None,
) -> None:
    """Run statements on the rows that fit a condition, in byte order, a transaction for every `rows` of them."""
    most = rows
    rows = most if hold is None else min(most, 50)
    number = "bigserial" if is_postgres else "INTEGER PRIMARY KEY"
    execute(f"CREATE TEMP TABLE meant (place {number}, prefix TEXT, key TEXT)")
    order = 'prefix USING ~<~, key COLLATE "C"' if is_postgres else "prefix, key"
    execute(
        f"INSERT INTO meant (prefix, key) SELECT prefix, key FROM store WHERE {condition} ORDER BY {order}"
    )
    ((count,),) = execute("SELECT count(*) FROM meant")
    start, least = 1, float("inf")
    while start <= count:
        chosen = f"SELECT prefix, key FROM meant WHERE place BETWEEN {start} AND {start + rows - 1}"
        execute("BEGIN" if is_postgres else "BEGIN IMMEDIATE")
        began = time.perf_counter()
        for statement in statements:
            execute(statement.format(chosen=chosen))
        done = time.perf_counter()
        execute("COMMIT")
        committed = time.perf_counter()
        least = min(least, committed - done)  # what any commit takes on this disk
        worked = committed - began - least
        time.sleep(pause)
        start += rows
        if hold is not None:
            rows = max(20, min(most, int(rows * min(hold / worked, 2))))


@contextmanager
def _connected(store: str) -> Iterator[tuple[Callable[[str], list[tuple[Any, ...]]], bool]]:
    """A function that runs SQL in autocommit mode, and whether it is PostgreSQL."""
    if store.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(store, autocommit=True) as connection:

            def execute(sql: str) -> list[tuple[Any, ...]]:
                cursor = connection.execute(sql)
                return cursor.fetchall() if cursor.description else []

            yield execute, True
    else:
        with closing(sqlite3.connect(store, isolation_level=None)) as lite:
            yield lambda sql: lite.execute(sql).fetchall(), False


_BASELINES: tuple[Callable[..., None], ...] = (
    sqlite_rows,
    postgres_rows,
    sqlite_tables,
    postgres_tables,
    copy_out,
    copy_in,
    api_read,
    api_move,
    expire,
    gather,
    bare_sweep,
    bare_rm,
    bare_mv,
)


def main() -> None:
    """Runs the baseline that the first argument names."""
    name, *arguments = sys.argv[1:]
    {each.__name__: each for each in _BASELINES}[name](*arguments)


if __name__ == "__main__":
    main()
