"""Stores written by the real libraries, as an agent writes them.

Each context manager opens a store of langgraph-checkpoint-sqlite or langgraph-checkpoint-postgres, sets it
up, yields the library's own object and closes it. The sync ones:

    with sqlite_store(path, index=Index(), ttl={...}) as store: store.put(...)
    with postgres_store(url, index=Index(dims=8, kind="ivfflat", vector_type="halfvec"), schema="agents") as
    store: ...

`async_sqlite_store` and `async_postgres_store` take the same. `write_sample` and `awrite_sample` put what the
stores in `tests/data/` hold into any of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore, TTLConfig
    from langgraph.store.postgres import AsyncPostgresStore, PostgresStore
    from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore

Embed = Callable[[Sequence[str]], list[list[float]]]


def embedder(dims: int = 8) -> Embed:
    """A deterministic stand-in for a model: equal texts have equal vectors, others are unrelated.

    Component i is byte i of SHA-256 (text, then text with a counter) / 255 - 0.5, which made the vectors in
    `tests/data/`.
    """

    def vector(text: str) -> list[float]:
        blocks = (f"{text}{block or ''}" for block in range((dims + 31) // 32))
        octets = b"".join(hashlib.sha256(block.encode()).digest() for block in blocks)
        return [octet / 255 - 0.5 for octet in octets[:dims]]

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [vector(text) for text in texts]

    return embed


@dataclass(frozen=True, slots=True)
class Index:
    """What a store embeds, and how it keeps the vectors.

    `fields` is the documented setting, which SqliteStore ignores: it reads `text_fields`, and embeds the
    whole value (field `$`) where that is not set. `kind`, `vector_type` and `parameters` are Postgres' alone.
    """

    dims: int = 8
    fields: Sequence[str] | None = ("text", "tags[*]")
    text_fields: Sequence[str] | None = None
    metric: Literal["cosine", "l2", "inner_product"] | None = None
    kind: Literal["hnsw", "ivfflat", "flat"] | None = None
    vector_type: Literal["vector", "halfvec"] | None = None
    parameters: Mapping[str, int] | None = None
    embed: Embed | None = None

    def configuration(self) -> dict[str, Any]:
        """The `index` argument of the library."""
        ann = {"kind": self.kind, "vector_type": self.vector_type, **(self.parameters or {})}
        chosen = {
            "dims": self.dims,
            "embed": self.embed or embedder(self.dims),
            "fields": self.fields and list(self.fields),
            "text_fields": self.text_fields and list(self.text_fields),
            "distance_type": self.metric,
            "ann_index_config": {name: value for name, value in ann.items() if value is not None},
        }
        return {name: value for name, value in chosen.items() if value}


@contextlib.contextmanager
def sqlite_store(
    path: Path | str, *, index: Index | None = None, ttl: TTLConfig | None = None, wal: bool = False
) -> Iterator[SqliteStore]:
    """A SqliteStore in that file; `wal` does what a checkpointer in the same file does."""
    from langgraph.store.sqlite import SqliteStore

    with contextlib.closing(_connect(path, index)) as connection:
        if wal:
            connection.execute("PRAGMA journal_mode = wal")
        store = SqliteStore(connection, index=_configuration(index), ttl=ttl)
        store.setup()
        yield store


@contextlib.asynccontextmanager
async def async_sqlite_store(
    path: Path | str, *, index: Index | None = None, ttl: TTLConfig | None = None, wal: bool = False
) -> AsyncIterator[AsyncSqliteStore]:
    """An AsyncSqliteStore in that file."""
    import aiosqlite
    from langgraph.store.sqlite import AsyncSqliteStore

    async with aiosqlite.Connection(lambda: _connect(path, index), iter_chunk_size=64) as connection:
        if wal:
            await connection.execute("PRAGMA journal_mode = wal")
        async with AsyncSqliteStore(connection, index=_configuration(index), ttl=ttl) as store:
            await store.setup()
            yield store
            await _stop_batching(store)


@contextlib.contextmanager
def postgres_store(
    url: str, *, index: Index | None = None, ttl: TTLConfig | None = None, schema: str = ""
) -> Iterator[PostgresStore]:
    """A PostgresStore in that database; in `schema` (made if need be) by way of `search_path`."""
    from langgraph.store.postgres import PostgresStore

    conninfo, configuration = _in_schema(url, schema), _configuration(index)
    with PostgresStore.from_conn_string(conninfo, index=configuration, ttl=ttl) as store:
        store.setup()
        yield store


@contextlib.asynccontextmanager
async def async_postgres_store(
    url: str, *, index: Index | None = None, ttl: TTLConfig | None = None, schema: str = ""
) -> AsyncIterator[AsyncPostgresStore]:
    """An AsyncPostgresStore in that database. Its `setup` (3.2.0) raises ValueError for a flat index."""
    from langgraph.store.postgres import AsyncPostgresStore

    conninfo, configuration = _in_schema(url, schema), _configuration(index)
    async with AsyncPostgresStore.from_conn_string(conninfo, index=configuration, ttl=ttl) as store:
        await store.setup()
        yield store
        await _stop_batching(store)


def _connect(path: Path | str, index: Index | None) -> Any:
    """The connection that the library opens itself, or for an indexed store one that can load extensions."""
    driver = importlib.import_module("sqlite3" if index is None else "pysqlite3")
    return driver.connect(str(path), check_same_thread=False, isolation_level=None)


def _configuration(index: Index | None) -> Any:
    return None if index is None else index.configuration()


def _in_schema(url: str, schema: str) -> str:
    if not schema:
        return url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    quoted = schema.replace('"', '""')
    return make_conninfo(url, options=f'-csearch_path="{quoted}",public'.replace(" ", "\\ "))


async def _stop_batching(store: Any) -> None:
    """End the task of AsyncBatchedBaseStore, which else waits for its store to be garbage."""
    store._task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await store._task


@dataclass(frozen=True, slots=True)
class Put:
    """One `put`; a value of None deletes."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any] | None
    index: Literal[False] | list[str] | None = None
    ttl: float | None = None

    def arguments(self, store: BaseStore) -> dict[str, Any]:
        """The keyword arguments of `put` that this store understands."""
        return {"index": self.index} | ({"ttl": self.ttl} if self.ttl and store.supports_ttl else {})


_PREFS, _MEMORIES, _FACTS = ("users", "ana", "prefs"), ("users", "ana", "memories"), ("org", "acme", "facts")
_CADENCE = {"subject": "reporting cadence"}
_MEAL = {"value": "vegan", "text": "Ana eats vegan meals"}
#: Ten puts; `cadence-1` has expired at once on SQLite, and a TTL that Postgres stores as 0.
FIRST_PUTS = (
    Put(_PREFS, "seat", {"value": "aisle", "text": "Ana prefers an aisle seat"}, ttl=60),
    Put(_PREFS, "meal", _MEAL | {"tags": ["food", "travel", "health"]}, index=["text", "tags[*]"], ttl=60),
    Put(_MEMORIES, "m1", {"kind": "Memory", "content": {"content": "Covers consumer fintech", "p": 0.9}}),
    Put(_MEMORIES, "m2", {"content": "Covers payments infrastructure"}),
    Put(("users", "bo", "prefs"), "seat", {"value": "window", "text": "Bo prefers a window seat"}),
    Put(("users", "bo", "prefs"), "gone", {"text": "deleted in a moment"}),
    Put(("users", "bo_2", "prefs"), "seat", {"text": "a sibling whose label starts like bo"}),
    Put(
        _FACTS,
        "cadence-1",
        _CADENCE | {"fact": "quarterly", "source": "thread-17", "confirmed": False},
        ttl=0.01,
    ),
    Put(_FACTS, "cadence-2", _CADENCE | {"fact": "annual", "source": "thread-31", "confirmed": True}, ttl=90),
    Put(
        _FACTS,
        "unicode",
        {"text": "naïve — 日本語 🙂", "nested": {"a": [1, 2.5, None, True, "x"]}, "big": 9007199254740993},
    ),
)
#: Fewer list elements and no index (the old vectors stay), and a delete (on SQLite the vector stays).
LATER_PUTS = (
    Put(_PREFS, "meal", _MEAL | {"tags": ["food"]}, index=["text", "tags[*]"], ttl=60),
    Put(_PREFS, "seat", {"value": "window", "text": "Ana now prefers a window seat"}, index=False, ttl=60),
    Put(("users", "bo", "prefs"), "gone", None),
)
REFRESHED = (_FACTS, "cadence-2")
#: What is left: (namespace, key) -> value, in the byte order of (prefix, key).
SAMPLE = {
    (put.namespace, put.key): put.value
    for put in sorted(
        {(put.namespace, put.key): put for put in (*FIRST_PUTS, *LATER_PUTS)}.values(),
        key=lambda put: (".".join(put.namespace).encode(), put.key.encode()),
    )
    if put.value is not None
}


def write_sample(store: BaseStore, *, pause: float = 0) -> None:
    """Ten puts, a re-put with fewer list elements, one with `index=False`, a delete, a refreshing read.

    Nine items are left: `SAMPLE`. With `pause` (seconds) the changes come that much later than the first
    puts; SQLite's timestamps tell them apart from 1 second on.
    """
    for put in FIRST_PUTS:
        _put(store, put)
    time.sleep(pause)
    for put in LATER_PUTS:
        _put(store, put)
    store.get(*REFRESHED, refresh_ttl=True)


async def awrite_sample(store: BaseStore, *, pause: float = 0) -> None:
    """The same through the async methods."""
    for put in FIRST_PUTS:
        await _aput(store, put)
    await asyncio.sleep(pause)
    for put in LATER_PUTS:
        await _aput(store, put)
    await store.aget(*REFRESHED, refresh_ttl=True)


def _put(store: BaseStore, put: Put) -> None:
    if put.value is None:
        store.delete(put.namespace, put.key)
    else:
        store.put(put.namespace, put.key, put.value, **put.arguments(store))


async def _aput(store: BaseStore, put: Put) -> None:
    if put.value is None:
        await store.adelete(put.namespace, put.key)
    else:
        await store.aput(put.namespace, put.key, put.value, **put.arguments(store))
