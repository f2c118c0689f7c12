"""Stores for the command line: a small one that everybody knows, and `make_store` for any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.contract.backends import RawItem, SqliteBackend, vector

MakeStore = Callable[..., Path]

PREFS, SEAT = "users.ana.prefs", '{"value": "aisle", "text": "Ana prefers an aisle seat", "n": 9}'
#: In byte order of (prefix, key). At `tests.invocation.NOW` one has expired and one will.
ITEMS = (
    RawItem("org.acme.facts", "cadence", '{"subject": "reporting", "confirmed": true, "n": 10}',
            updated_at="2026-11-30T07:00:05.000000Z", expires_at="2026-11-30T07:42:43.843759Z", ttl_minutes=60),
    RawItem("users.ana.memories", "m1", '{"kind": "Memory", "content": {"content": "Covers fintech", "p": 0.9}}',
            updated_at="2026-11-30T07:00:04.000000Z", vectors=(vector("$", "m1"),)),
    RawItem("users.ana.memories", "m2", '{"content": "Covers na\\u00efve payments"}',
            updated_at="2026-11-30T07:00:03.000000Z"),
    RawItem(PREFS, "meal", '{"value": "vegan", "tags": ["food", "travel"], "n": "9"}',
            updated_at="2026-11-30T07:00:02.000000Z", expires_at="2026-11-30T09:13:09.000000Z", ttl_minutes=90.5,
            vectors=(vector("tags[*].0", "food"), vector("text", "meal"))),
    RawItem(PREFS, "seat", SEAT, updated_at="2026-11-30T07:00:06.000000Z", vectors=(vector("text", "seat"),)),
    RawItem("users.bo.prefs", "seat", '{"value": "window", "n": null}', updated_at="2026-11-30T07:00:01.000000Z"),
)  # fmt: skip
NAMES = [(item.prefix, item.key) for item in ITEMS]
NEWEST_FIRST = [
    (item.prefix, item.key) for item in sorted(ITEMS, key=lambda item: item.updated_at or "", reverse=True)
]


@pytest.fixture
def make_store(tmp_path: Path) -> MakeStore:
    """Makes a SQLite store of items by the real library's schema: `make_store(items, **options) -> path`."""

    def make(items: Iterable[RawItem], *, expiry: bool = True, vectors: bool = True) -> Path:
        backend = SqliteBackend(tmp_path)
        backend.create(expiry=expiry, vectors=vectors)
        backend.insert(items)
        return backend.path

    return make


@pytest.fixture
def store(make_store: MakeStore) -> Path:
    """A SQLite store that holds `ITEMS`."""
    return make_store(ITEMS)
