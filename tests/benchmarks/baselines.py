"""What memctl is measured against: the shortest programs that do the same work, each in its own process.

    python -m tests.benchmarks.baselines NAME ARGUMENT…

Each function below is one; `NAME` is its name. Those called `api_…` are what people write with LangGraph's
own interface.
"""

import array
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
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


_BASELINES: tuple[Callable[..., None], ...] = (
    sqlite_rows,
    postgres_rows,
    copy_out,
    copy_in,
    api_read,
    api_move,
)


def main() -> None:
    """Runs the baseline that the first argument names."""
    name, *arguments = sys.argv[1:]
    {each.__name__: each for each in _BASELINES}[name](*arguments)


if __name__ == "__main__":
    main()
