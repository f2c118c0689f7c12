"""Makes a store of any size, fast, as LangGraph's own library leaves it.

    python -m tests.benchmarks.make_store sqlite memory.db --items 1000000
    python -m tests.benchmarks.make_store postgres postgresql://… --items 300000 --index hnsw

The schema is made by the library itself (langgraph-checkpoint-sqlite 3.1.2, -postgres 3.2.0); the rows go
past it, in the spellings it writes. Agents do not write in key order, so neither does this, unless asked
(`--order key`). A vector index is built by the library's own `setup()` after the load.
"""

import argparse
import gc
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from .corpus import Corpus, Row

Order = Literal["written", "key"]
Index = Literal["flat", "hnsw", "ivfflat"]

_BATCH = 10_000
_FIELD = "$"
_COPY_ITEMS = "COPY store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes) FROM STDIN"
_COPY_VECTORS = (
    "COPY store_vectors (prefix, key, field_name, embedding, created_at, updated_at) "
    "FROM STDIN (FORMAT BINARY)"
)
_INSERT_ITEM = "INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_VECTOR = "INSERT INTO store_vectors VALUES (?, ?, ?, ?, ?, ?)"
_SECONDARY = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql NOTNULL"


def make_sqlite(path: Path, corpus: Corpus, *, order: Order = "written", journal: str = "delete") -> None:
    """Writes the corpus to a new file at `path`, in journal mode `delete` or `wal`."""
    _sqlite_schema(path, corpus.dims)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode=off", "synchronous=off", "cache_size=-400000", "locking_mode=exclusive"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        secondary = connection.execute(_SECONDARY).fetchall()
        for name, _ in secondary:
            connection.execute(f"DROP INDEX {name}")
        for indexes in _batches(corpus, order):
            connection.executemany(_INSERT_ITEM, map(_sqlite_item, corpus.rows(indexes)))
            connection.executemany(_INSERT_VECTOR, _sqlite_vectors(corpus, indexes))
        for _, definition in secondary:
            connection.execute(definition)
        connection.execute("COMMIT")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")


def make_postgres(
    address: str,
    corpus: Corpus,
    *,
    order: Order = "written",
    index: Index = "flat",
    vector_type: str = "vector",
) -> None:
    """Writes the corpus into the database at `address`, which holds no store yet."""
    import psycopg

    postgres_schema(address, corpus.dims, vector_type=vector_type)
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        with cursor.copy(_COPY_ITEMS) as copy:
            for indexes in _batches(corpus, order):
                copy.write(b"".join(map(_copy_line, corpus.rows(indexes))))
        with cursor.copy(_COPY_VECTORS) as copy:
            # A bytea travels as the bare octets, so it carries the binary form of any type.
            copy.set_types(["text", "text", "text", "bytea", "timestamptz", "timestamptz"])
            head = corpus.dims.to_bytes(2, "big") + bytes(2)
            for indexes in _batches(corpus, order):
                for row, vector in _embedded(corpus, indexes, ">f2" if vector_type == "halfvec" else ">f4"):
                    identity = row.prefix, row.key, _FIELD
                    copy.write_row((*identity, head + vector, row.created_at, row.updated_at))
    if index != "flat":
        postgres_schema(address, corpus.dims, index=index, vector_type=vector_type)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE store")
        connection.execute("VACUUM ANALYZE store_vectors")


def postgres_schema(address: str, dims: int, *, index: Index = "flat", vector_type: str = "vector") -> None:
    """Runs the library's `setup()`; on a store it set up flat before, that adds the index."""
    import psycopg
    from langgraph.store.postgres import PostgresStore
    from psycopg.rows import dict_row

    config: Any = {
        "dims": dims,
        "embed": _never,
        "ann_index_config": {"kind": index, "vector_type": vector_type},
        "distance_type": "cosine",
    }
    with psycopg.connect(address, autocommit=True, prepare_threshold=0, row_factory=dict_row) as connection:
        connection.execute("SET maintenance_work_mem = '1GB'")
        PostgresStore(connection, index=config).setup()


def _sqlite_schema(path: Path, dims: int) -> None:
    """An indexed store loads an SQLite extension, which many builds of Python's own module refuse to."""
    import pysqlite3
    from langgraph.store.sqlite import SqliteStore

    if path.exists():
        raise FileExistsError(path)
    config: Any = {"dims": dims, "embed": _never}
    with closing(pysqlite3.connect(str(path), isolation_level=None, check_same_thread=False)) as connection:
        SqliteStore(connection, index=config).setup()


def _never(texts: Sequence[str]) -> list[list[float]]:
    raise AssertionError("nothing is embedded here")


def _batches(corpus: Corpus, order: Order) -> Iterator[Sequence[int]]:
    indexes = corpus.sorted() if order == "key" else corpus.written()
    for start in range(0, corpus.items, _BATCH):
        yield indexes[start : start + _BATCH]


def _embedded(corpus: Corpus, indexes: Sequence[int], dtype: str) -> Iterator[tuple[Row, bytes]]:
    """Those of the items at `indexes` that carry a vector, each with its octets."""
    carriers = [each for each in indexes if corpus.carries_vector(each)]
    vectors = corpus.embeddings(carriers).astype(dtype)
    return ((row, vector.tobytes()) for row, vector in zip(corpus.rows(carriers), vectors, strict=True))


def _whole_second(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")[:19]


def _sqlite_item(row: Row) -> tuple[object, ...]:
    """A put replaces the row: both times are of the last. A refresh writes expiries without a fraction."""
    written = _whole_second(row.updated_at)
    expires = row.expires_at
    spelled = None
    if expires is not None:
        spelled = _whole_second(expires) if row.number % 3 == 0 else expires.isoformat(" ")
    ttl = None if row.ttl_minutes is None else float(row.ttl_minutes)
    return row.prefix, row.key, row.value, written, written, spelled, ttl


def _sqlite_vectors(corpus: Corpus, indexes: Sequence[int]) -> Iterator[tuple[object, ...]]:
    for row, vector in _embedded(corpus, indexes, "<f4"):
        written = _whole_second(row.updated_at)
        yield row.prefix, row.key, _FIELD, vector, written, written


def _copy_line(row: Row) -> bytes:
    """One line of COPY's text format. In JSON text and in these keys only the backslash needs an escape."""
    expires = r"\N" if row.expires_at is None else row.expires_at.isoformat(" ")
    ttl = r"\N" if row.ttl_minutes is None else row.ttl_minutes
    head = f"{row.prefix}\t{row.key}\t".encode()
    tail = f"\t{row.created_at.isoformat(' ')}\t{row.updated_at.isoformat(' ')}\t{expires}\t{ttl}\n".encode()
    return head + row.value.replace(b"\\", b"\\\\") + tail


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.make_store", description=__doc__)
    parser.add_argument("backend", choices=("sqlite", "postgres"))
    parser.add_argument("target", help="a file that is not there yet, or the address of an empty database")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--namespaces", type=int, help="default: one for every fifty items")
    parser.add_argument("--order", choices=("written", "key"), default="written")
    parser.add_argument("--journal", choices=("delete", "wal"), default="delete", help="SQLite only")
    parser.add_argument("--index", choices=("flat", "hnsw", "ivfflat"), default="flat", help="Postgres only")
    parser.add_argument("--vector-type", choices=("vector", "halfvec"), default="vector", help="the same")
    chosen = parser.parse_args(arguments)
    corpus = Corpus.of(chosen.items, chosen.namespaces)
    gc.disable()  # rows make no cycles, and looking for some takes as long as making the rows
    start = time.perf_counter()
    if chosen.backend == "sqlite":
        make_sqlite(Path(chosen.target), corpus, order=chosen.order, journal=chosen.journal)
    else:
        make_postgres(
            chosen.target, corpus, order=chosen.order, index=chosen.index, vector_type=chosen.vector_type
        )
    taken = time.perf_counter() - start
    what = f"{corpus.items:,} items in {corpus.namespaces:,} namespaces, {corpus.vectors:,} vectors"
    print(f"{what}: {taken:.1f} s")


if __name__ == "__main__":
    main()
