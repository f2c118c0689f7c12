"""Any `BaseStore` of LangGraph's, in this process: `python:package.module:store`.

What it can do is found by looking at its methods, since packages of many ages implement them: parameters that
came later (`refresh_ttl`, `ttl`) are given where they are known. No langgraph package is imported here; the
store brings its own.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import Any, TypeVar, cast

from memctl.errors import MemctlError
from memctl.model import Problem
from memctl.stores.api.failures import failure
from memctl.stores.api.holding import depth_fault, number_fault
from memctl.stores.api.interface import Found, Labels
from memctl.stores.api.loading import Loaded

Result = TypeVar("Result")

_DEEPEST = 500
"""Levels of nesting; Python's own JSON decoder gives up at some thousand, wherever it is called from."""


class BaseStoreInterface:
    """A `BaseStore`, called from the thread that opened it; one that was opened asynchronously, in its loop."""

    kind = "python"
    concurrency = 1

    def __init__(self, name: str, loaded: Loaded) -> None:
        self.address = f"python:{name}"
        self._loaded = loaded
        self._is_closed = False
        store, prefix = loaded.store, "a" if loaded.is_async else ""
        self._search, self._get, self._put, self._delete = (
            getattr(store, prefix + name) for name in ("search", "get", "put", "delete")
        )
        self._refreshes_not = {
            method: {"refresh_ttl": False} if _takes(method, "refresh_ttl") else {}
            for method in (self._search, self._get)
        }
        self._keeps_ttl = bool(getattr(store, "supports_ttl", False)) and _takes(self._put, "ttl")

    def search(self, labels: Labels, *, limit: int, offset: int) -> list[Found]:
        """Return a page of what begins with `labels`."""
        options = self._refreshes_not[self._search]
        return list(map(_found, self._call(self._search, labels, limit=limit, offset=offset, **options)))

    def get(self, labels: Labels, key: str) -> Found | None:
        """Return one item."""
        item = self._call(self._get, labels, key, **self._refreshes_not[self._get])
        return None if item is None else _found(item)

    def put(self, labels: Labels, key: str, value: bytes, *, ttl: float | None) -> None:
        """Write one item; without an expiry where the store supports none."""
        options = {"ttl": ttl} if self._keeps_ttl and ttl is not None else {}
        self._call(self._put, labels, key, json.loads(value), **options)

    def delete(self, labels: Labels, key: str) -> None:
        """Delete one item."""
        self._call(self._delete, labels, key)

    def fault(self, value: bytes) -> str | None:
        """Say what Python's numbers do not hold: integers of any size are, decimals are as floats are."""
        return depth_fault(value, _DEEPEST) or number_fault(value, bits=None)

    def close(self) -> None:
        """Leave the context that the store was opened in."""
        if not self._is_closed:
            self._is_closed = True
            self._loaded.close()

    def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            with redirect_stdout(sys.stderr):  # see `loading.load`
                answer = method(*arguments, **options)
                return self._loaded.result(cast(Awaitable[Any], answer)) if self._loaded.is_async else answer
        except MemctlError:
            raise
        except Exception as error:
            raise failure(self.address, error) from error


def _found(item: Any) -> Found:
    """Take an item of the library's; a value that has no JSON text is a problem."""
    problems: tuple[Problem, ...] = ()
    value: bytes | None = None
    try:
        text = json.dumps(item.value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            value = text.encode()
        except UnicodeEncodeError:  # lone surrogates, which only an escape spells
            value = json.dumps(item.value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problems = (Problem("value", f"no JSON: {error}"),)
    return Found(tuple(item.namespace), item.key, value, item.created_at, item.updated_at, problems)


def _takes(method: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.name == name or each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
