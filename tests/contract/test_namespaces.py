"""`namespaces`: what each holds, its descendants not included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memctl.model import EVERYTHING, Namespace, Scope
from tests.contract.backends import UPDATED, Backend, RawItem, in_order, vector

ITEMS = in_order(
    [
        RawItem("users.ana", "1", '{"text": "naïve"}', vectors=(vector("a"), vector("b"))),
        RawItem("users.ana", "2", '{"text": "日本"}', updated_at="2026-11-30T07:30:00.000000Z"),
        RawItem("users.ana.deep", "1", vectors=(vector("$"),)),
        RawItem("users-x", "1", vectors=(vector("$"),)),
        *(RawItem("many", f"k{number}", f'{{"n": {number}}}') for number in range(40)),
        RawItem("", "", '{}', updated_at="2020-01-01T00:00:00.000000Z"),
    ]
)  # fmt: skip


def totals(backend: Backend, items: list[RawItem]) -> list[Namespace]:
    """The oracle's answer, in byte order because `items` are."""
    found: dict[str, Namespace] = {}
    for item in map(backend.remembered, items):
        before = found.get(item.prefix, Namespace(item.prefix, 0, 0, 0, None))
        newest = max(filter(None, (before.newest, item.updated_at)), default=None)
        found[item.prefix] = Namespace(
            item.prefix,
            before.items + 1,
            before.vectors + len(item.vectors),
            before.octets + len(item.value.encode()),
            newest,
        )
    return list(found.values())


@pytest.mark.needs("any name", "times")
@pytest.mark.parametrize("small", [False, True], ids=["usual pages", "small pages"])
@pytest.mark.parametrize("has_vectors", [True, False], ids=["vectors", "no vectors"])
def test_totals(backend: Backend, monkeypatch: pytest.MonkeyPatch, small: bool, has_vectors: bool) -> None:
    backend.create(vectors=has_vectors)
    backend.insert(ITEMS)
    if small:
        backend.small_pages(monkeypatch)
    with backend.open() as store:
        for scope in (
            EVERYTHING,
            Scope("users"),
            Scope("users.ana", descend=False),
            Scope(""),
            Scope("many"),
        ):
            inside = [
                item
                for item in ITEMS
                if scope.prefix is None
                or item.prefix == scope.prefix
                or (scope.descend and item.prefix.startswith(scope.prefix + "."))
            ]
            assert list(store.namespaces(scope)) == totals(backend, inside), scope


@pytest.mark.needs
def test_an_empty_store(backend: Backend) -> None:
    backend.create()
    with backend.open() as store:
        assert list(store.namespaces(EVERYTHING)) == []
        assert list(store.scan(EVERYTHING)) == []
        assert list(store.get("a", ["b"])) == []


def test_orphans_are_not_counted(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    backend.create()
    backend.insert(ITEMS)
    for prefix, key in (("users.ana", "0"), ("users.ana", "3"), ("nobody", "1"), ("", "x"), ("users", "1")):
        backend.orphan(prefix, key, vector("$"), vector("other"))
    with backend.open() as store:
        assert list(store.namespaces(EVERYTHING)) == totals(backend, ITEMS)
    backend.small_pages(monkeypatch)
    with backend.open() as store:
        assert list(store.namespaces(EVERYTHING)) == totals(backend, ITEMS)


def test_newest_leaves_out_what_is_no_time(backend: Backend) -> None:
    """Odd spellings are compared as the instants they mean, not as text."""
    backend.create(vectors=False)
    plain = RawItem("n", "plain", updated_at="2026-11-30T06:00:00.000000Z")
    for sql, (instant, _) in backend.odd_times.items():
        backend.execute("DELETE FROM store")
        backend.insert([plain, replace(plain, key="odd"), replace(plain, prefix="o", key="odd")])
        backend.set_time("updated_at", sql, "odd")
        with backend.open() as store:
            found = {namespace.prefix: namespace.newest for namespace in store.namespaces(EVERYTHING)}
        assert found["o"] == instant, sql
        assert found["n"] == max(filter(None, (instant, plain.updated_at))), sql


@pytest.mark.needs("times")
def test_a_namespace_is_newest_by_its_latest_item(backend: Backend) -> None:
    backend.create()
    backend.insert(
        [RawItem("n", str(hour), updated_at=f"2026-11-30T0{hour}:00:00.000000Z") for hour in (3, 1, 2)]
    )
    with backend.open() as store:
        assert [found.newest for found in store.namespaces(EVERYTHING)] == ["2026-11-30T03:00:00.000000Z"]
    assert UPDATED > "2026-11-30T03:00:00.000000Z"
