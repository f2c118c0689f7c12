"""Fixture classes for stores that are reached through an interface: nobody puts rows into them by SQL.

They run the tests that are marked `needs(…)` and need nothing that a backend does not offer: `any name` (names
that put refuses), `times` (an item's times are as the test wants them), `many items`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

import pytest
from langgraph.store.base import Item
from langgraph.store.memory import InMemoryStore

from memctl.instants import from_datetime, to_datetime
from memctl.model import Instant
from memctl.stores.api import gathered, paging, store
from tests.contract.backends import Backend, RawItem, RawVector
from tests.invocation import NOW
from tests.langgraph_server import LanggraphServer


class ApiBackend(Backend):
    """A store that shows neither expiry nor vectors, and sets times itself."""

    capabilities = frozenset()
    odd_times: ClassVar[dict[str, tuple[Instant | None, bool]]] = {}
    holds_nul = False
    offers: ClassVar[frozenset[str]] = frozenset()
    has_expiry = has_vectors = False

    def __init__(self) -> None:
        self._put: dict[tuple[str, str], RawItem] = {}

    @abstractmethod
    def put(self, item: RawItem) -> RawItem:
        """Put an item; return it with the times that it has now."""

    def insert(self, items: Iterable[RawItem]) -> None:
        for item in items:
            self._put[item.prefix, item.key] = self.put(item)

    def insert_unseen(self, item: RawItem) -> None:
        """Put an item whose times nobody asks for."""
        self.put(item)

    def remembered(self, item: RawItem) -> RawItem:
        put = self._put.get((item.prefix, item.key), item)
        value = json.dumps(json.loads(item.value), ensure_ascii=False, separators=(",", ":"))
        return replace(
            super().remembered(item), value=value, created_at=put.created_at, updated_at=put.updated_at
        )

    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name, value in (
            (paging, "PAGE_ROWS", 3), (paging, "FIRST_ROWS", 2), (paging, "PAGE_OCTETS", 200),
            (gathered, "BLOCK_OCTETS", 700), (store, "KEYS_AT_ONCE", 2),
        ):  # fmt: skip
            monkeypatch.setattr(module, name, value)

    def bounds_of_now(self) -> tuple[Instant, Instant]:
        return from_datetime(NOW), from_datetime(NOW)

    def orphan(self, prefix: str, key: str, *vectors: RawVector) -> None:
        raise NotImplementedError

    def zeros(self, dims: int) -> str:
        raise NotImplementedError

    def set_time(self, column: str, sql: str, key: str) -> None:
        raise NotImplementedError

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError


class InMemoryBackend(ApiBackend):
    """The library's `InMemoryStore`, in a module of its own; items are laid where it keeps them."""

    offers = frozenset({"any name", "times", "many items"})

    def __init__(self) -> None:
        super().__init__()
        self.store = InMemoryStore()
        self.module = ModuleType(f"memory_{id(self)}")
        self.module.store = self.store  # type: ignore[attr-defined]
        sys.modules[self.module.__name__] = self.module

    def close(self) -> None:
        del sys.modules[self.module.__name__]

    @property
    def address(self) -> str:
        return f"python:{self.module.__name__}:store"

    def create(self, *, expiry: bool = True, vectors: bool = True, dims: int = 0) -> None:
        pass

    @contextlib.contextmanager
    def agent(self, *, index: bool = False) -> Iterator[InMemoryStore]:
        yield self.store

    def put(self, item: RawItem) -> RawItem:
        labels = tuple(item.prefix.split("."))
        assert item.created_at is not None
        assert item.updated_at is not None
        self.store._data[labels][item.key] = Item(
            value=json.loads(item.value),
            key=item.key,
            namespace=labels,
            created_at=to_datetime(item.created_at),
            updated_at=to_datetime(item.updated_at),
        )
        return item


class ServerBackend(ApiBackend):
    """A LangGraph server."""

    def __init__(self, server: LanggraphServer) -> None:
        super().__init__()
        self.server = server

    @property
    def address(self) -> str:
        return self.server.url

    def create(self, *, expiry: bool = True, vectors: bool = True, dims: int = 0) -> None:
        pass  # it was emptied for the test

    def agent(self, *, index: bool = False) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def insert_unseen(self, item: RawItem) -> None:
        self.server.put_text(item.prefix.split("."), item.key, item.value)

    def put(self, item: RawItem) -> RawItem:
        labels = item.prefix.split(".")
        self.server.put_text(labels, item.key, item.value)
        asked = {"namespace": item.prefix, "key": item.key, "refresh_ttl": "false"}
        found = self.server.client.get("store/items", params=asked).json()
        times = {name: from_datetime(to_datetime(found[name])) for name in ("created_at", "updated_at")}
        return replace(item, **times)
