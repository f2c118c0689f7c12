"""What a store is: its capabilities, its clock, its times, and how it ends."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from memctl.errors import NoStore
from memctl.model import EVERYTHING, Detail, Scope
from memctl.store import Capability, Described
from memctl.values import decode_exact
from tests.contract.backends import Backend, RawItem, in_order, vector
from tests.contract.comparing import expected, places, yielded

ITEMS = in_order(
    [
        RawItem("a", "1", expires_at="2026-11-30T07:42:43.843759Z", ttl_minutes=60, vectors=(vector("$"),)),
        RawItem("a", "2", expires_at="2026-11-30T09:13:09.000000Z", ttl_minutes=1440),
        RawItem("a", "3"),
        RawItem("b", "1", expires_at="2099-01-01T00:00:00.000000Z"),
    ]
)


@pytest.mark.needs
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
@pytest.mark.parametrize("expiry", [True, False], ids=["expiry", "no expiry"])
def test_capabilities_are_those_of_the_live_schema(backend: Backend, expiry: bool, vectors: bool) -> None:
    backend.create(expiry=expiry, vectors=vectors)
    backend.insert(ITEMS)
    with backend.open() as store:
        assert store.capabilities == frozenset(filter(backend.can, Capability))
        assert yielded(store.scan(EVERYTHING)) == expected(backend, ITEMS)
        assert yielded(store.get("a", ["1", "2", "3"])) == expected(backend, ITEMS[:3])
        assert sum(found.items for found in store.namespaces(EVERYTHING)) == len(ITEMS)


def test_a_cascade_is_there_as_long_as_the_reference_is(backend: Backend) -> None:
    backend.create()
    backend.insert([RawItem("a", "1")])
    backend.orphan("a", "2", vector("$"))
    with backend.open() as store:
        assert Capability.CASCADE not in store.capabilities


def test_nothing_is_made_where_no_store_is(backend: Backend) -> None:
    backend.execute("CREATE TABLE something (a int)")
    with pytest.raises(NoStore), backend.open():
        pass
    with pytest.raises(Exception, match="store"):
        backend.execute("SELECT * FROM store")


@pytest.mark.needs
def test_close_twice(backend: Backend) -> None:
    backend.create()
    with backend.open() as store:
        store.close()
        store.close()


@pytest.mark.needs("many items")
def test_close_in_the_middle_of_a_scan(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the reader of a pipe goes away: whatever is left of the scan, a writer has a free hand."""
    backend.create()
    backend.insert(RawItem("a", f"{number:03}") for number in range(50))
    backend.small_pages(monkeypatch)
    with backend.open() as store:
        found = store.scan(EVERYTHING)
        next(found)
        store.close()
    backend.insert([RawItem("b", "1")])
    with backend.open() as store:
        assert len(list(store.scan(EVERYTHING))) == 51


@pytest.mark.needs
def test_now_is_the_same_for_the_lifetime_of_a_store(backend: Backend) -> None:
    backend.create()
    earliest, _ = backend.bounds_of_now()
    with backend.open() as store:
        now = store.now()
        time.sleep(0.01)
        assert store.now() == now
    _, latest = backend.bounds_of_now()
    assert earliest <= now <= latest


@pytest.mark.needs
def test_the_address_is_shown(backend: Backend) -> None:
    backend.create()
    with backend.open() as store:
        assert store.address
        assert store.kind in ("sqlite", "postgres", "cockroach", "python", "server")


def test_a_store_describes_itself(backend: Backend) -> None:
    backend.create()
    with backend.open() as store:
        assert isinstance(store, Described)
        description = store.describe()
        assert set(backend.tables) <= {table.name for table in description.tables}
        assert all(ledger.agrees for ledger in description.ledgers)
        assert description.vectors is not None
        assert list(store.scan(EVERYTHING)) == []


@pytest.mark.parametrize("column", ["created_at", "updated_at", "expires_at"])
def test_odd_times_are_shown_and_named(backend: Backend, column: str) -> None:
    backend.create()
    backend.insert(RawItem("a", str(number)) for number in range(len(backend.odd_times)))
    for number, sql in enumerate(backend.odd_times):
        backend.set_time(column, sql, str(number))
    with backend.open() as store:
        found = {item.key: item for item in store.scan(EVERYTHING)}
    assert len(found) == len(backend.odd_times)
    for number, (sql, (instant, is_problem)) in enumerate(backend.odd_times.items()):
        item = found[str(number)]
        assert getattr(item, column) == instant, sql
        parts = [problem.part for problem in item.problems]
        never = column == "expires_at" and sql == "NULL"
        assert parts == ([column] if is_problem and not never else []), sql
        assert all(problem.reason for problem in item.problems)
        assert item.value == b'{"n": 1}'


@pytest.mark.needs
@pytest.mark.parametrize("small", [False, True], ids=["usual pages", "small pages"])
def test_big_values(backend: Backend, monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    sizes = [10, 300_000, 100, 20_000, 1, 16_384, 1_200_000, 16_385, 59, 60, 61]
    items = in_order(
        RawItem(
            "a", f"{number:02}", f'{{"text": "{"é" * (size // 2)}"}}', vectors=(vector("$"),) * (number % 2)
        )
        for number, size in enumerate(sizes)
    )
    backend.create()
    backend.insert(items)
    if small:
        backend.small_pages(monkeypatch)
    with backend.open() as store:
        assert yielded(store.scan(EVERYTHING, vectors=Detail.FULL)) == expected(
            backend, items, vectors=Detail.FULL
        )
        assert yielded(store.scan(EVERYTHING, values=False)) == expected(backend, items, values=False)
        assert yielded(store.get("a", [item.key for item in items])) == expected(backend, items)
        after = store.scan(EVERYTHING, after=items[3].place)
        assert yielded(after) == expected(backend, items[4:])


@pytest.mark.needs("many items")
@pytest.mark.parametrize("small", [False, True], ids=["usual pages", "small pages"])
def test_page_boundaries(backend: Backend, monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    """More than one page of everything: rows, keys asked for, vectors of a single item, namespaces."""
    count = 100 if small else 2_300
    items = in_order(
        [
            *(RawItem("many", f"{number:04}", f'{{"n": {number}}}') for number in range(count)),
            *(RawItem(f"n{number:03}", "k") for number in range(50)),
            RawItem("o", "k", vectors=tuple(vector(f"f{number:04}") for number in range(count // 2))),
            RawItem("p", "k", vectors=(vector("$"),)),
        ]
    )
    backend.create()
    backend.insert(items)
    if small:
        backend.small_pages(monkeypatch)
    with backend.open() as store:
        assert yielded(store.scan(EVERYTHING, vectors=Detail.FULL)) == expected(
            backend, items, vectors=Detail.FULL
        )
        keys = [item.key for item in items if item.prefix == "many"]
        assert [item.key for item in store.get("many", list(reversed(keys)))] == list(reversed(keys))
        assert len(list(store.namespaces(EVERYTHING))) == 53
        assert len(list(store.scan(Scope("many")))) == count


@pytest.mark.parametrize("small", [False, True], ids=["usual pages", "small pages"])
def test_a_writer_beside_a_scan(backend: Backend, monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    """The agent's put goes through at once, and what was not touched is yielded once, whoever commits."""
    items = in_order(RawItem("a", f"{number:04}") for number in range(4_500))
    backend.create(vectors=False)
    backend.insert(items)
    if small:
        backend.small_pages(monkeypatch)
        items = items[:200]
    seen = []
    with backend.agent() as agent, backend.open() as store:
        assert not store.moved
        for number, item in enumerate(store.scan(EVERYTHING)):
            if number in (0, 100):
                agent.put(("0", "before"), f"new{number}", {"n": 2})
                agent.put(("z", "behind"), f"new{number}", {"n": 2})
            seen.append((item.prefix, item.key))
            if small and number == 250:
                break
        assert store.moved == (not backend.can(Capability.SNAPSHOT))
    untouched = [place for place in seen if place[0] == "a"]
    assert untouched[: len(items)] == places(items)
    assert len(set(seen)) == len(seen)
    if backend.can(Capability.SNAPSHOT):
        assert seen == untouched
    with backend.open() as store:
        assert sum(found.items for found in store.namespaces(EVERYTHING)) == 4_504
        assert not store.moved


@pytest.mark.needs
def test_a_quiet_store_has_not_moved(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    backend.create()
    backend.insert(ITEMS)
    backend.small_pages(monkeypatch)
    with backend.open() as store:
        assert len(list(store.scan(EVERYTHING, vectors=Detail.FULL))) == len(ITEMS)
        assert list(store.namespaces(EVERYTHING))
        assert not store.moved


@pytest.mark.needs
def test_a_snapshot_is_one_state(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reads of one command agree with each other where the backend says so."""
    backend.create()
    backend.insert(ITEMS)
    backend.small_pages(monkeypatch)
    with backend.open() as store:
        before = places(store.scan(EVERYTHING))
        backend.insert([replace(ITEMS[0], prefix="new", vectors=())])
        after = places(store.scan(EVERYTHING))
    assert before == places(ITEMS)
    assert (after == before) == backend.can(Capability.SNAPSHOT)


def test_created_at_after_an_overwrite(backend: Backend) -> None:
    """`KEEPS_CREATED` says what the real library does."""
    backend.create(vectors=False)
    backend.insert([RawItem("a", "1", created_at="2020-01-01T00:00:00.000000Z")])
    with backend.agent() as agent:
        agent.put(("a",), "1", {"n": 2})
    with backend.open() as store:
        [item] = store.scan(EVERYTHING)
        kept = item.created_at == "2020-01-01T00:00:00.000000Z"
        assert kept == (Capability.KEEPS_CREATED in store.capabilities)


def test_a_value_is_the_text_that_was_written(backend: Backend) -> None:
    """Byte by byte where the backend says so; else in another spelling of the same, no digit lost."""
    text = '{"b":1,  "a": 1e2, "b": 123456789012345678901234567890.10, "e": "\\u00e9"}'
    backend.create(vectors=False)
    backend.insert([RawItem("a", "b", text)])
    with backend.open() as store:
        [item] = store.scan(EVERYTHING)
        [again] = store.get("a", ["b"])
        assert again == item
        assert (item.value == text.encode()) == (Capability.RAW_TEXT in store.capabilities)
        assert item.size == len(item.value or b"")
        assert decode_exact(item.value or b"") == decode_exact(text.encode())
