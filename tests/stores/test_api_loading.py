"""What `python:module:store` may name, and what it is when it is none of that."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.errors import MemctlError, NoStore, Refused, Unreachable, UsageError
from memctl.model import EVERYTHING, Item
from memctl.store import Batch, Store, Target
from memctl.stores import Surroundings
from memctl.values import inspect
from tests.invocation import NOW

MODULE = '''\
"""Stores in every form."""
import contextlib
from langgraph.store.memory import InMemoryStore

store = InMemoryStore()
store.put(("a",), "1", {"n": 1})
events = []

class Family:
    member = store

def factory():
    return store

@contextlib.contextmanager
def managed():
    events.append("entered")
    try:
        yield store
    finally:
        events.append("left")

@contextlib.asynccontextmanager
async def managed_in_a_loop():
    import asyncio
    events.append(asyncio.get_running_loop())
    yield Looped(events[-1])
    events.append("left")

async def made_in_a_loop():
    import asyncio
    return Looped(asyncio.get_running_loop())

class Looped(InMemoryStore):
    """Has to be called in the loop that it was made in, as a store on an asynchronous driver has."""
    def __init__(self, loop):
        super().__init__()
        self.loop = loop
        self._data = store._data
    def batch(self, ops):
        raise RuntimeError("called from outside")
    async def abatch(self, ops):
        import asyncio
        assert asyncio.get_running_loop() is self.loop
        return await super().abatch(ops)

def broken():
    raise ConnectionRefusedError("nobody at redis://user:s3cret@host/1")

def forbidden():
    class AuthenticationError(Exception): pass
    raise AuthenticationError("wrong password")

def numbers():
    return 5

number = 5
'''


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    """The name of that module, in `tmp_path`."""
    name = f"stores_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    yield name
    sys.modules.pop(name, None)


@contextlib.contextmanager
def opened(address: str, folder: Path, *, to_write: bool = False) -> Iterator[Any]:
    opener: Any = stores.open_writer if to_write else stores.open_store
    store: Store | Target = opener(
        parse(address), timeout=2, clock=lambda: NOW, surroundings=Surroundings(folder=folder)
    )
    with contextlib.closing(store):
        yield store


@pytest.mark.parametrize(
    "name",
    ["store", "factory", "managed", "managed_in_a_loop", "made_in_a_loop", "Family.member", "InMemoryStore"],
)
def test_every_form(module: str, tmp_path: Path, name: str) -> None:
    before = (list(sys.path), threading.active_count())
    with opened(f"python:{module}:{name}", tmp_path, to_write=True) as store:
        assert (store.kind, store.address) == ("python", f"python:{module}:{name}")
        found = [item.key for item in store.scan(EVERYTHING)]
        assert found == ([] if name == "InMemoryStore" else ["1"])
        value = b'{"n":2}'
        assert store.write(Batch([Item("b", "2", value, len(value), None, None, None, None)])) == ()
        assert [item.value for item in store.get("b", ["2", "3"])] == [value]
    store.close()
    assert (sys.path, threading.active_count()) == before
    events = sys.modules[module].events
    if name == "managed":
        assert events == ["entered", "left"]
    if name == "managed_in_a_loop":
        assert isinstance(events[0], asyncio.AbstractEventLoop)
        assert events[0].is_closed()
        assert events[1:] == ["left"]


@pytest.mark.parametrize("address", ["", "x", "x:", ":x", "x y:z", "x:y z", "x:y()", "../x:y", "x:y:z"])
def test_what_is_no_name_is_a_usage_error(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError), opened(f"python:{address}", tmp_path):
        pass


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("nothing", NoStore, "there is no 'nothing'"),
        ("Family.nothing", NoStore, "there is no 'nothing'"),
        ("number", NoStore, "is no BaseStore"),
        ("numbers", NoStore, "is no BaseStore"),
        ("broken", Unreachable, "ConnectionRefusedError: nobody at redis://host/1"),
        ("forbidden", Refused, "AuthenticationError: wrong password"),
    ],
)
def test_what_is_no_store(module: str, tmp_path: Path, name: str, kind: type[MemctlError], text: str) -> None:
    before = list(sys.path)
    with pytest.raises(kind, match=text), opened(f"python:{module}:{name}", tmp_path):
        pass
    assert sys.path == before


def test_modules_that_are_not_there_or_fail(tmp_path: Path) -> None:
    for name in ("not_there_at_all", "json.not_there"):
        with pytest.raises(NoStore, match=f"no Python module '{name}'"), opened(f"python:{name}:x", tmp_path):
            pass
    (tmp_path / "needs_more.py").write_text("import not_there_either")
    (tmp_path / "mistyped.py").write_text("def :")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit()")
    for name, reason in (
        ("leaves", "SystemExit"),
        ("needs_more", "ModuleNotFoundError: No module named 'not_there_either'"),
        ("mistyped", "SyntaxError"),
    ):
        with pytest.raises(MemctlError, match=reason) as caught, opened(f"python:{name}:store", tmp_path):
            pass
        assert ("installed" in (caught.value.hint or "")) == (name == "needs_more")


def test_values_that_are_no_json_are_shown_as_such(module: str, tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "infinite": {"n": float("inf")},
        "object": {"n": object()},
        "surrogate": {"n": "\ud800"},
        "huge": {"n": 10**40, "text": "naïve"},
    }
    with opened(f"python:{module}:store", tmp_path) as store:
        memory = sys.modules[module].store
        for key, value in odd.items():
            memory.put(("odd",), key, value)
        found = {item.key: item for item in store.get("odd", list(odd))}
    assert found["huge"].value == b'{"n":1' + b"0" * 40 + ',"text":"naïve"}'.encode()
    assert not inspect(found["huge"])
    assert found["surrogate"].value == b'{"n":"\\ud800"}'
    for key in ("infinite", "object"):
        assert found[key].value is None
        assert [problem.part for problem in found[key].problems] == ["value"]


class Older:
    """A store of the time before TTLs: what came later it does not take."""

    def __init__(self) -> None:
        self.rows: dict[tuple[tuple[str, ...], str], Any] = {}

    def search(self, namespace_prefix: tuple[str, ...], /, *, limit: int = 10, offset: int = 0) -> list[Any]:
        return []

    def get(self, namespace: tuple[str, ...], key: str) -> Any:
        return None

    def put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        self.rows[namespace, key] = value

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        del self.rows[namespace, key]


class Newer(Older):
    """One that knows TTLs."""

    supports_ttl = True

    def put(  # type: ignore[override]
        self, namespace: tuple[str, ...], key: str, value: dict[str, Any], *, ttl: float | None = None
    ) -> None:
        self.rows[namespace, key] = (value, ttl)


@pytest.mark.parametrize("kind", [Older, Newer])
def test_what_a_store_takes_is_found_by_looking(
    kind: type[Older], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that is left goes out where it is taken; what has expired gets a last minute, not eternity."""
    older = kind()
    monkeypatch.setattr(sys.modules[__name__], "chosen", older, raising=False)
    value = b'{"n":1}'
    times = {
        "never": (None, None),
        "later": ("2026-11-30T08:30:00.000000Z", 60.0),
        "overdue": ("2026-11-01T00:00:00.000000Z", 60.0),
        "unset": (None, 5.0),
    }
    with opened(f"python:{__name__}:chosen", tmp_path, to_write=True) as target:
        assert list(target.scan(EVERYTHING)) == []
        target.write(Batch([Item("a", key, value, 7, None, None, *expiry) for key, expiry in times.items()]))
    rows = {key: row for (_, key), row in older.rows.items()}
    if kind is Older:
        assert rows == {key: {"n": 1} for key in times}
    else:
        assert {key: ttl for key, (_, ttl) in rows.items()} == {
            "never": None,
            "later": 30.0,
            "overdue": 1.0,
            "unset": 5.0,
        }
