"""What a store holds after a history of puts, deletes and reads.

It follows `langgraph-checkpoint-sqlite` 3.1.2, so that the faults which the library itself brings about come
about here in the same way: a put sets both timestamps anew, a delete leaves the vectors, a put without
index leaves the old ones. Time is told in ages (`210d`, `20h`): how long before the moment at which the demo
is made.
"""

from __future__ import annotations

import copy
import zlib
from dataclasses import dataclass, field
from typing import Any

from langgraph.store.base import get_text_at_path

INDEXED_FIELDS = ("text", "fact", "content", "tags[*]")
"""The `text_fields` of the index with which the demo's agent opens its store."""

_UNITS = {"m": 60, "h": 3600, "d": 86400}
_SPREAD = {"m": 50, "h": 1500, "d": 30000}

Stamp = int | None | dict[str, Any]
"""Seconds from now (the past is negative), or one spelling: `{"put": 3600.25}`, `{"raw": "yesterday"}`."""


def ago(age: str, salt: str = "") -> int:
    """Return an age as seconds from now, made a little uneven, always in the same way for the same `salt`."""
    number, unit = int(age[:-1]), age[-1]
    return -number * _UNITS[unit] - zlib.crc32(f"{salt}/{age}".encode()) % _SPREAD[unit]


def dated(age: str, salt: str) -> dict[str, int]:
    """Return what stands in a value for an ISO 8601 instant of that age."""
    return {"$at": ago(age, salt)}


@dataclass
class Item:
    """One row of `store`. `value` is an object, or the bytes of what no put would write."""

    prefix: str
    key: str | bytes
    value: dict[str, Any] | bytes
    created_at: Stamp
    updated_at: Stamp
    expires_at: Stamp = None
    ttl_minutes: float | None = None


@dataclass
class Vector:
    """One row of `store_vectors`: the text to embed, or the bytes of what no model would make."""

    prefix: str
    key: str
    field: str
    source: str | bytes
    created_at: int
    updated_at: int


@dataclass
class History:
    """The rows so far, by primary key."""

    items: dict[tuple[str, str | bytes], Item] = field(default_factory=dict)
    vectors: dict[tuple[str, str, str], Vector] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)

    def put(
        self,
        age: str,
        prefix: str,
        key: str,
        value: dict[str, Any],
        *,
        ttl: float | None = None,
        index: bool | list[str] = True,
    ) -> None:
        """Write an item as `SqliteStore.put` does; `ttl` in minutes."""
        at = ago(age, f"{prefix}/{key}")
        # A put takes the expiry from Python's clock, in microseconds, the rest from SQLite's, in seconds.
        fraction = zlib.crc32(key.encode()) % 1_000_000 / 1_000_000
        expires = None if ttl is None else {"put": at + ttl * 60 + fraction}
        self.items[prefix, key] = Item(prefix, key, copy.deepcopy(value), at, at, expires, ttl)
        for path in () if index is False else INDEXED_FIELDS if index is True else index:
            texts = get_text_at_path(value, path)
            for place, text in enumerate(texts):
                name = path if len(texts) == 1 else f"{path}.{place}"
                self.vectors[prefix, key, name] = Vector(prefix, key, name, text, at, at)

    def delete(self, prefix: str, key: str) -> None:
        """Delete an item as the library does, or its sweep: the vectors stay."""
        del self.items[prefix, key]

    def refresh(self, age: str, prefix: str, key: str) -> None:
        """Read an item at that age with `refresh_on_read`, which writes the expiry to the second."""
        item = self.items[prefix, key]
        item.expires_at = ago(age, f"{prefix}/{key}") + int(item.ttl_minutes * 60)

    def edit(self, prefix: str, key: str, **columns: Any) -> None:
        """Change columns of an item in SQL, behind the library's back."""
        for name, value in columns.items():
            assert hasattr(self.items[prefix, key], name)
            setattr(self.items[prefix, key], name, value)

    def insert(self, age: str, prefix: str, key: str | bytes, value: dict[str, Any] | bytes) -> None:
        """Write an item in SQL, without vectors."""
        at = ago(age, f"{prefix}/{key!r}")
        self.items[prefix, key] = Item(prefix, key, value, at, at)

    def insert_vector(self, prefix: str, key: str, name: str, embedding: bytes) -> None:
        """Write a vector in SQL, with the times of its item."""
        at = self.items[prefix, key].updated_at
        self.vectors[prefix, key, name] = Vector(prefix, key, name, embedding, at, at)

    def thread(self, age: str, name: str) -> None:
        """Keep a conversation of that name in the checkpointer's tables."""
        self.threads[name] = ago(age, name)
