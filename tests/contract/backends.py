"""One fixture class for each kind of store, so that the suite is written once.

A test asks a backend for a `Capability` or one of its properties, never for its name. Stores are made by the
real library; rows come in by SQL (`insert`, `orphan`), so that a test decides about every column, or through
the library (`agent`).
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.instants import from_datetime
from memctl.model import Instant, Position
from memctl.store import Capability, Setup, Store
from memctl.stores.sqlite import store as sqlite
from tests.databases import Database
from tests.invocation import NOW
from tests.writers import Index, embedder, postgres_store, sqlite_store

DIMS = 8
CREATED = "2026-11-29T10:20:30.000000Z"
UPDATED = "2026-11-30T07:00:01.000000Z"


@dataclass(frozen=True, slots=True)
class RawVector:
    """A vector row as a test wants it."""

    field: str
    numbers: tuple[float, ...]
    created_at: Instant | None = CREATED
    updated_at: Instant | None = UPDATED

    @property
    def octets(self) -> bytes:
        """Little-endian float32."""
        return struct.pack(f"<{len(self.numbers)}f", *self.numbers)


@dataclass(frozen=True, slots=True)
class RawItem:
    """An item row as a test wants it; `value` is its JSON text in the spelling that jsonb has, too."""

    prefix: str
    key: str
    value: str = '{"n": 1}'
    created_at: Instant | None = CREATED
    updated_at: Instant | None = UPDATED
    expires_at: Instant | None = None
    ttl_minutes: float | None = None
    vectors: tuple[RawVector, ...] = ()

    @property
    def place(self) -> Position:
        """Where it is."""
        return Position(self.prefix, self.key)


def vector(field: str, text: str | None = None, dims: int = DIMS) -> RawVector:
    """A vector that depends on a text, its field's name unless told otherwise."""
    return RawVector(field, tuple(embedder(dims)([text or field])[0]))


def in_order(items: Iterable[RawItem]) -> list[RawItem]:
    """The oracle: a plain list, sorted by the bytes of (prefix, key), each item's vectors by field."""
    by_bytes = sorted(items, key=lambda item: (item.prefix.encode(), item.key.encode()))
    return [
        replace(item, vectors=tuple(sorted(item.vectors, key=lambda vector: vector.field.encode())))
        for item in by_bytes
    ]


class Backend(ABC):
    """A database of its own, in which a test makes one store."""

    capabilities: ClassVar[frozenset[Capability]]
    """What a store with expiry and vectors can do."""
    odd_times: ClassVar[dict[str, tuple[Instant | None, bool]]]
    """SQL for timestamps that no library writes: the instant, and whether it is a problem as `updated_at`."""
    holds_nul: ClassVar[bool]
    """Whether text may hold NUL and bytes that are no UTF-8."""
    holds_fractions: ClassVar[bool] = True
    """Whether a TTL may be a fraction of a minute."""

    tables: ClassVar[tuple[str, str]] = ("store", "store_vectors")
    has_expiry: bool = True
    has_vectors: bool = True

    @property
    @abstractmethod
    def address(self) -> str:
        """What stands after `-s`."""

    @abstractmethod
    def create(self, *, expiry: bool = True, vectors: bool = True, dims: int = DIMS) -> None:
        """Make an empty store with the real library's schema, without what older libraries did not have."""

    @abstractmethod
    def agent(self, *, index: bool = False) -> AbstractContextManager[Any]:
        """The real library's own store, as an agent that goes on writing."""

    @abstractmethod
    def insert(self, items: Iterable[RawItem]) -> None:
        """Put rows by SQL."""

    @abstractmethod
    def orphan(self, prefix: str, key: str, *vectors: RawVector) -> None:
        """Put vectors without an item, as deletes leave them."""

    @abstractmethod
    def zeros(self, dims: int) -> str:
        """SQL for an embedding of so many zeros."""

    @abstractmethod
    def set_time(self, column: str, sql: str, key: str) -> None:
        """Set a timestamp of the items with that key to what the SQL says."""

    @abstractmethod
    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run SQL that every backend understands."""

    @abstractmethod
    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make every store that is opened from now on read in very small parts."""

    @abstractmethod
    def bounds_of_now(self) -> tuple[Instant, Instant]:
        """An earliest and a latest answer that `now` may have given a moment ago."""

    def can(self, capability: Capability) -> bool:
        """Whether the store as it was created has the capability."""
        missing = set()
        if not self.has_expiry:
            missing.add(Capability.EXPIRY)
        if not self.has_vectors:
            missing |= {Capability.VECTORS, Capability.VECTOR_TIMES, Capability.CASCADE}
        return capability in self.capabilities - missing

    @contextlib.contextmanager
    def open(self, *, timeout: float = 10.0) -> Iterator[Store]:
        """The store, opened by memctl."""
        store = stores.open_store(parse(self.address), timeout=timeout, clock=lambda: NOW)
        try:
            yield store
        finally:
            store.close()

    def remembered(self, item: RawItem) -> RawItem:
        """What is left of an item in the store as it was created."""
        kept = item
        if not self.has_expiry:
            kept = replace(kept, expires_at=None, ttl_minutes=None)
        return kept if self.has_vectors else replace(kept, vectors=())


_EMPTY: dict[tuple[bool, bool, bool], bytes] = {}
"""Files as the library makes them, by journal mode, expiry and vectors: making one waits for the disk."""


class SqliteBackend(Backend):
    """A file by SqliteStore in the journal mode that it is left in: rollback."""

    capabilities = frozenset(
        {
            Capability.EXPIRY,
            Capability.VECTORS,
            Capability.VECTOR_TIMES,
            Capability.TIMES,
            Capability.RAW_TEXT,
        }
    )
    holds_nul = True
    odd_times: ClassVar[dict[str, tuple[Instant | None, bool]]] = {
        "NULL": (None, True),
        "'yesterday'": (None, True),
        "x'00ff'": (None, True),
        "''": (None, True),
        "9e99": (None, True),
        "1796024563": ("2026-11-30T07:42:43.000000Z", True),
        "1796024563843": ("2026-11-30T07:42:43.843000Z", True),
        "'1796024563'": ("2026-11-30T07:42:43.000000Z", True),
        "'2026-11-30T07:42:43Z'": ("2026-11-30T07:42:43.000000Z", True),
        "'2026-11-30 07:42:43+02:00'": ("2026-11-30T05:42:43.000000Z", True),
        "'2026-11-30 07:42:43'": ("2026-11-30T07:42:43.000000Z", False),
        "'2026-11-30 07:42:43.843759+00:00'": ("2026-11-30T07:42:43.843759Z", False),
        "'2026-11-30 07:42:43+00:00'": ("2026-11-30T07:42:43.000000Z", False),
    }
    wal: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.db"

    @property
    def address(self) -> str:
        return str(self.path)

    def create(self, *, expiry: bool = True, vectors: bool = True, dims: int = DIMS) -> None:
        self.has_expiry, self.has_vectors = expiry, vectors
        if (self.wal, expiry, vectors) not in _EMPTY:
            self._create(expiry, Index(dims=dims) if vectors else None)
            _EMPTY[self.wal, expiry, vectors] = self.path.read_bytes()
        else:
            self.path.write_bytes(_EMPTY[self.wal, expiry, vectors])

    def _create(self, expiry: bool, index: Index | None) -> None:
        with sqlite_store(self.path, index=index, wal=self.wal):
            pass
        if not expiry:
            with self._connect() as connection:
                connection.executescript(
                    "DROP INDEX idx_store_expires_at; ALTER TABLE store DROP COLUMN expires_at;"
                    "ALTER TABLE store DROP COLUMN ttl_minutes; DELETE FROM store_migrations WHERE v > 1;"
                )

    def agent(self, *, index: bool = False) -> AbstractContextManager[Any]:
        return sqlite_store(self.path, index=Index(dims=DIMS) if index else None, wal=self.wal)

    def insert(self, items: Iterable[RawItem]) -> None:
        with self._connect() as connection, connection:
            for item in map(self.remembered, items):
                cells: list[Any] = [item.prefix, item.key, item.value.encode()]
                cells += [_plain(item.created_at), _plain(item.updated_at)]
                columns = "prefix, key, value, created_at, updated_at"
                if self.has_expiry:
                    columns += ", expires_at, ttl_minutes"
                    cells += [item.expires_at and _put_expiry(item.expires_at), item.ttl_minutes]
                marks = ", ".join("?" * len(cells))
                connection.execute(f"INSERT INTO store ({columns}) VALUES ({marks})", cells)
                if item.vectors:
                    _insert_vectors(connection, item.prefix, item.key, item.vectors)

    def orphan(self, prefix: str, key: str, *vectors: RawVector) -> None:
        with self._connect() as connection, connection:
            _insert_vectors(connection, prefix, key, vectors)

    def zeros(self, dims: int) -> str:
        return f"zeroblob({4 * dims})"

    def set_time(self, column: str, sql: str, key: str) -> None:
        with self._connect() as connection, connection:
            connection.execute(f"UPDATE store SET {column} = {sql} WHERE key = ?", [key])

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connect() as connection, connection:
            return connection.execute(sql).fetchall()

    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {
            "PAGE_OCTETS": 200, "HOLD": 1e-9, "_CLOCK_EVERY": 2, "_FEWEST": 2, "_MOST": 3,
            "_KEYS_AT_ONCE": 2,
        }.items():  # fmt: skip
            monkeypatch.setattr(sqlite, name, value)

    def bounds_of_now(self) -> tuple[Instant, Instant]:
        return from_datetime(NOW), from_datetime(NOW)

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA synchronous = off")
            yield connection


class WalBackend(SqliteBackend):
    """The same beside a checkpointer, which switches the file to WAL."""

    capabilities = SqliteBackend.capabilities | {Capability.SNAPSHOT}
    wal = True


class PostgresBackend(Backend):
    """A database by PostgresStore."""

    capabilities = frozenset(
        {
            Capability.EXPIRY,
            Capability.VECTORS,
            Capability.VECTOR_TIMES,
            Capability.CASCADE,
            Capability.KEEPS_CREATED,
            Capability.TIMES,
            Capability.SNAPSHOT,
        }
    )
    holds_nul = False
    holds_fractions = False
    odd_times: ClassVar[dict[str, tuple[Instant | None, bool]]] = {
        "NULL": (None, True),
        "'infinity'": (None, True),
        "'-infinity'": (None, True),
        "'0044-03-15 12:00:00+00 BC'": (None, True),
        "'10000-01-01 00:00:00+00'": (None, True),
        "'0001-01-01 00:00:00+00'": ("0001-01-01T00:00:00.000000Z", False),
        "'9999-12-31 23:59:59.999999+00'": ("9999-12-31T23:59:59.999999Z", False),
        "'2026-11-30 07:42:43+02'": ("2026-11-30T05:42:43.000000Z", False),
        "'2026-11-30 07:42:43.84+00'": ("2026-11-30T07:42:43.840000Z", False),
    }

    def __init__(self, database: Database) -> None:
        self.database = database
        self._connection = database.connect()

    def close(self) -> None:
        self._connection.close()

    @property
    def address(self) -> str:
        return self.database.url

    def create(self, *, expiry: bool = True, vectors: bool = True, dims: int = DIMS) -> None:
        self.has_expiry, self.has_vectors = expiry, vectors
        with postgres_store(self.database.url, index=Index(dims=dims, kind="flat") if vectors else None):
            pass
        if not expiry:
            self._connection.execute(
                "ALTER TABLE store DROP COLUMN expires_at, DROP COLUMN ttl_minutes;"
                "DELETE FROM store_migrations WHERE v > 1"
            )

    def agent(self, *, index: bool = False) -> AbstractContextManager[Any]:
        return postgres_store(self.database.url, index=Index(dims=DIMS) if index else None)

    def insert(self, items: Iterable[RawItem]) -> None:
        columns = "prefix, key, value, created_at, updated_at"
        columns += ", expires_at, ttl_minutes" if self.has_expiry else ""
        kept = [self.remembered(item) for item in items]
        rows = [[item.prefix, item.key, item.value, item.created_at, item.updated_at] for item in kept]
        if self.has_expiry:
            rows = [[*row, item.expires_at, item.ttl_minutes] for row, item in zip(rows, kept, strict=True)]
        marks = ", ".join(["%s"] * len(columns.split(",")))
        with self._connection.cursor() as cursor, self._connection.transaction():
            cursor.executemany(f"INSERT INTO store ({columns}) VALUES ({marks})", rows)
            self._insert_vectors(
                cursor, ((item.prefix, item.key, found) for item in kept for found in item.vectors)
            )

    def orphan(self, prefix: str, key: str, *vectors: RawVector) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE store_vectors DROP CONSTRAINT IF EXISTS store_vectors_prefix_key_fkey"
            )
            self._insert_vectors(cursor, ((prefix, key, found) for found in vectors))

    def _insert_vectors(
        self, cursor: psycopg.Cursor[Any], vectors: Iterable[tuple[str, str, RawVector]]
    ) -> None:
        cursor.executemany(
            "INSERT INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at)"
            " VALUES (%s, %s, %s, %s::vector, %s, %s)",
            [
                [prefix, key, found.field, json.dumps(found.numbers), found.created_at, found.updated_at]
                for prefix, key, found in vectors
            ],
        )

    def zeros(self, dims: int) -> str:
        return f"array_fill(0::real, ARRAY[{dims}])::vector"

    def set_time(self, column: str, sql: str, key: str) -> None:
        self._connection.execute(f"UPDATE store SET {column} = {sql} WHERE key = %s", [key])

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql)
        return cursor.fetchall() if cursor.description else []

    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from memctl.stores.postgres import connect, store

        for name, value in {
            "FETCHED_ROWS": 3, "INLINE_OCTETS": 60, "FETCHED_OCTETS": 200, "FETCHED_KEYS": 2,
        }.items():  # fmt: skip
            monkeypatch.setattr(store, name, value)
        monkeypatch.setattr(connect, "_CHUNK", 2)

    def bounds_of_now(self) -> tuple[Instant, Instant]:
        [(latest,)] = self.execute("SELECT clock_timestamp()")
        return from_datetime(latest.replace(year=latest.year - 1)), from_datetime(latest)


class CockroachAgent:
    """Puts and deletes as `StoreSQL` of `langchain-cockroachdb` 0.5.0 spells them, but for CAST AS STRING."""

    def __init__(self, connection: psycopg.Connection[Any], *, index: bool) -> None:
        self._connection, self._index = connection, index

    def put(
        self, namespace: tuple[str, ...], key: str, value: dict[str, Any], ttl: float | None = None
    ) -> None:
        """Write an item, and with an index replace its vectors."""
        prefix = ".".join(namespace)
        with self._connection.transaction():
            self._connection.execute(
                "INSERT INTO memories (prefix, key, value, expires_at, ttl_minutes)"
                " SELECT %s, %s, %s, now() + %s::decimal * INTERVAL '1 minute', %s::decimal"
                " ON CONFLICT (prefix, key) DO UPDATE SET value = EXCLUDED.value, updated_at = now(),"
                " expires_at = EXCLUDED.expires_at, ttl_minutes = EXCLUDED.ttl_minutes",
                [prefix, key, json.dumps(value), ttl, ttl],
            )
            if self._index:
                self._connection.execute(
                    "DELETE FROM memories_vectors WHERE prefix = %s AND key = %s", [prefix, key]
                )
                numbers = embedder(DIMS)([json.dumps(value)])[0]
                self._connection.execute(
                    "INSERT INTO memories_vectors SELECT %s, %s, '$', %s::vector, now() + %s::decimal *"
                    " INTERVAL '1 minute', %s::decimal",
                    [prefix, key, json.dumps(list(numbers)), ttl, ttl],
                )

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Delete an item; its vectors only with an index."""
        for table in ("memories", "memories_vectors") if self._index else ("memories",):
            self._connection.execute(
                f"DELETE FROM {table} WHERE prefix = %s AND key = %s", [".".join(namespace), key]
            )


class CockroachBackend(PostgresBackend):
    """Tables in CockroachDB's layout on a server that compares text bytewise, as `langchain-cockroachdb` makes them.

    Another schema, another name, no foreign key, a decimal TTL, vectors without times and with an expiry. Which
    server that is, `MEMCTL_TEST_COCKROACH_URL` decides; else it is PostgreSQL.
    """

    holds_fractions = True
    capabilities = frozenset(
        {
            Capability.EXPIRY,
            Capability.VECTORS,
            Capability.KEEPS_CREATED,
            Capability.TIMES,
            Capability.SNAPSHOT,
        }
    )
    odd_times: ClassVar[dict[str, tuple[Instant | None, bool]]] = {
        sql: found for sql, found in PostgresBackend.odd_times.items() if sql != "NULL"
    }
    tables = ("memories", "memories_vectors")
    SCHEMA, TABLE = "Agents", "memories"

    @property
    def address(self) -> str:
        url = self.database.url.replace("postgresql://", "cockroachdb://", 1)
        mark = "&" if "?" in url else "?"
        return f"{url}{mark}schema={self.SCHEMA}&table={self.TABLE}"

    def create(self, *, expiry: bool = True, vectors: bool = True, dims: int = DIMS) -> None:
        self.has_vectors = vectors  # expiry there always is
        setup = Setup(dims if vectors else None, index="flat")
        with contextlib.closing(
            stores.open_writer(parse(self.address), timeout=5, clock=lambda: NOW, setup=setup)
        ) as store:
            store.finish()
        self._connection.execute(f'SET search_path = "{self.SCHEMA}", public')
        # The names that tests write SQL for; views of one table that PostgreSQL updates through.
        self._connection.execute("CREATE VIEW store AS SELECT * FROM memories")
        if vectors:
            self._connection.execute("CREATE VIEW store_vectors AS SELECT * FROM memories_vectors")

    @contextlib.contextmanager
    def agent(self, *, index: bool = False) -> Iterator[Any]:
        """What an agent sends; the library's own store needs CockroachDB's SQL for it."""
        with self.database.connect() as connection:
            connection.execute(f'SET search_path = "{self.SCHEMA}", public')
            yield CockroachAgent(connection, index=index)

    def orphan(self, prefix: str, key: str, *vectors: RawVector) -> None:
        with self._connection.cursor() as cursor:
            self._insert_vectors(cursor, ((prefix, key, found) for found in vectors))

    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from memctl.stores.cockroach import store

        for name, value in {
            "PAGE_ROWS": 3, "INLINE_OCTETS": 60, "PAGE_OCTETS": 200, "_KEYS_AT_ONCE": 2,
        }.items():  # fmt: skip
            monkeypatch.setattr(store, name, value)

    def remembered(self, item: RawItem) -> RawItem:
        kept = super().remembered(item)
        timeless = tuple(replace(found, created_at=None, updated_at=None) for found in kept.vectors)
        return replace(kept, vectors=timeless)

    def _insert_vectors(
        self, cursor: psycopg.Cursor[Any], vectors: Iterable[tuple[str, str, RawVector]]
    ) -> None:
        cursor.executemany(
            "INSERT INTO store_vectors (prefix, key, field_name, embedding) VALUES (%s, %s, %s, %s::vector)",
            [[prefix, key, found.field, json.dumps(found.numbers)] for prefix, key, found in vectors],
        )


def _plain(instant: Instant | None) -> str | None:
    """As CURRENT_TIMESTAMP spells it."""
    return instant and f"{instant[:10]} {instant[11:19]}"


def _put_expiry(instant: Instant) -> str:
    """As `put` spells an expiry."""
    moment = datetime.fromisoformat(instant).astimezone(UTC)
    return str(moment)


def _insert_vectors(
    connection: sqlite3.Connection, prefix: str, key: str, vectors: Sequence[RawVector]
) -> None:
    connection.executemany(
        "INSERT INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (prefix, key, found.field, found.octets, _plain(found.created_at), _plain(found.updated_at))
            for found in vectors
        ],
    )
