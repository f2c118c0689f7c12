"""Statistics against counting by hand, over a store that is a list, and against SQL over real files."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl import sorting
from memctl.instants import from_datetime, shift
from memctl.model import Detail, Instant, Item, Namespace, Position, Problem, Scope, Vector, encode
from memctl.namespaces import parse
from memctl.statistics import HORIZONS, LARGEST, Statistics, collect
from memctl.store import Capability
from memctl.stores.sqlite.store import SqliteStore
from tests.invocation import NOW

MOMENT = from_datetime(NOW)


class ListStore:
    """A store that is an iterable of items, and remembers how it was read."""

    kind = "list"
    address = "list"
    moved = False

    def __init__(self, items: Iterable[Item], *, vectors: bool = True) -> None:
        self.items = items
        self.capabilities = frozenset({Capability.EXPIRY} | ({Capability.VECTORS} if vectors else set()))
        self.reads: list[tuple[bool, Detail]] = []

    def now(self) -> Instant:
        return MOMENT

    def scan(
        self,
        scope: Scope,
        *,
        after: Position | None = None,
        values: bool = True,
        vectors: Detail = Detail.NONE,
    ) -> Iterator[Item]:
        self.reads.append((values, vectors))
        for item in self.items:
            if scope.prefix is None or f"{item.prefix}.".startswith(f"{scope.prefix}."):
                yield item

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:
        raise NotImplementedError

    def get(self, prefix: str, keys: Sequence[str], *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        raise NotImplementedError

    def close(self) -> None:
        pass


def item(prefix: str, key: str = "k", size: int = 10, **rest: Any) -> Item:
    """An item written an hour ago, unless told otherwise."""
    hour_ago = shift(MOMENT, timedelta(hours=-1))
    fields = {"created_at": hour_ago, "updated_at": hour_ago, "expires_at": None, "ttl_minutes": None} | rest
    return Item(prefix, key, None, size, **fields)


def vector(dims: int, *problems: Problem) -> Vector:
    return Vector("$", dims, None, MOMENT, MOMENT, problems)


def count(items: Iterable[Item], depth: int = 2, pattern: str | None = None, **rest: Any) -> Statistics:
    return collect(ListStore(items, **rest), parse(pattern) if pattern else None, depth=depth)


labels = st.sampled_from(["a", "a-", "a-b", "a/", "b", "", "é", "\udcc3", "a b", "\udcff"])
prefixes = st.lists(labels, min_size=1, max_size=4).map(".".join)
instants = st.none() | st.timedeltas(timedelta(days=-400), timedelta(days=400)).map(
    lambda length: shift(MOMENT, length)
)
faults = st.lists(
    st.sampled_from(["key", "created_at", "expires_at"]).map(lambda part: Problem(part, "odd")), max_size=2
).map(tuple)
shapes = st.lists(
    st.builds(vector, st.integers(1, 3)) | st.just(vector(0, Problem("embedding", "null"))), max_size=2
).map(tuple)
stored = st.builds(
    Item,
    prefix=prefixes,
    key=st.text(max_size=3),
    value=st.none(),
    size=st.integers(1, 40),
    created_at=instants,
    updated_at=instants,
    expires_at=instants,
    ttl_minutes=st.none(),
    vectors=shapes,
    problems=faults,
)


def in_order(items: Iterable[Item]) -> list[Item]:
    unique = {(item.prefix, item.key): item for item in items}.values()
    return sorted(unique, key=lambda item: (encode(item.prefix), encode(item.key)))


@given(st.lists(stored, max_size=40), st.integers(1, 4))
@pytest.mark.no_cover
def test_every_number_is_what_a_list_says(items: list[Item], depth: int) -> None:
    items = in_order(items)
    found = count(items, depth)

    expired = [item for item in items if item.expires_at and item.expires_at <= MOMENT]
    assert (found.items, found.octets) == (len(items), sum(item.size for item in items))
    assert found.namespaces == len({item.prefix for item in items})
    assert (found.expired, found.live) == (len(expired), len(items) - len(expired))
    unreadable = [
        item
        for item in items
        if item.expires_at is None and any(problem.part == "expires_at" for problem in item.problems)
    ]
    assert found.unreadable_expiries == len(unreadable)
    assert found.never_expiring == sum(item.expires_at is None for item in items) - len(unreadable)

    for name in ("created", "updated"):
        times = [time for item in items if (time := getattr(item, f"{name}_at"))]
        reached = getattr(found, name)
        assert (reached.oldest, reached.newest) == (min(times, default=None), max(times, default=None))

    largest = sorted(items, key=lambda item: -item.size)[:LARGEST]
    assert [(item.prefix, item.key) for item in found.largest] == [
        (item.prefix, item.key) for item in largest
    ]

    vectors = [vector for item in items for vector in item.vectors]
    assert found.vectors == len(vectors)
    assert found.items_with_vectors == sum(bool(item.vectors) for item in items)
    assert found.dims == dict(Counter(vector.dims for vector in vectors if not vector.problems))

    parts: Counter[str] = Counter()
    damaged = 0
    for item in items:
        names = {problem.part for problem in item.problems}
        if any(vector.problems for vector in item.vectors):
            names.add("vectors")
        parts.update(names)
        damaged += bool(names)
    assert (found.damaged, found.damaged_parts) == (damaged, dict(parts))


@given(st.lists(stored, max_size=60), st.integers(1, 4))
@pytest.mark.no_cover
def test_prompts_add_up_what_the_namespaces_of_a_depth_hold_alive(items: list[Item], depth: int) -> None:
    items = in_order(items)
    totals: defaultdict[str, int] = defaultdict(int)
    for item in items:
        if item.expires_at is None or item.expires_at > MOMENT:
            totals[".".join(item.prefix.split(".")[:depth])] += item.size
    sizes = sorted(totals.values())

    prompt = count(items, depth).prompt
    assert prompt.namespaces == len(sizes)
    if not sizes:
        assert (prompt.median, prompt.p95, prompt.largest, prompt.largest_prefix) == (0, 0, 0, None)
        return
    for percent, value in ((50, prompt.median), (95, prompt.p95), (100, prompt.largest)):
        # nearest rank: the smallest size that so many of a hundred do not exceed
        assert value == next(
            size for size in sizes if sum(one <= size for one in sizes) * 100 >= percent * len(sizes)
        )
    assert prompt.largest_prefix is not None
    assert totals[prompt.largest_prefix] == prompt.largest


def test_percentiles_over_many_namespaces() -> None:
    items = [item(f"users.u{number:05}.facts", size=number + 1) for number in range(10_000)]
    prompt = count(items).prompt
    assert (prompt.namespaces, prompt.median, prompt.p95, prompt.largest) == (10_000, 5_000, 9_500, 10_000)
    assert prompt.largest_prefix == "users.u09999"


def test_a_namespace_that_others_interrupt_counts_once() -> None:
    items = [item("a"), item("a-b.c"), item("a.b"), item("a.b-c"), item("a.b.c"), item("a.b/"), item("a/")]
    assert items == in_order(items)
    prompt = count(items, 1).prompt
    assert (prompt.namespaces, prompt.largest, prompt.largest_prefix) == (3, 50, "a")
    prompt = count(items, 2).prompt
    assert (prompt.namespaces, prompt.largest, prompt.largest_prefix) == (6, 20, "a.b")


def test_expiries_fall_into_the_horizon_that_ends_with_them() -> None:
    ends = [shift(MOMENT, length) for _, length in HORIZONS]
    just_after = [shift(end, timedelta(microseconds=1)) for end in ends]
    items = [item("a", str(number), expires_at=at) for number, at in enumerate(ends + just_after)]
    found = count([*items, item("b")])
    assert found.expiries == [1, 2, 2, 2, 2, 1]
    assert found.never_expiring == 1


def test_a_pattern_decides_what_counts() -> None:
    items = [item("a.x.p"), item("a.x.q"), item("a.y.p"), item("b.x.p")]
    assert count(items, pattern="a").items == 3
    assert count(items, pattern="a.*.p").items == 2
    assert count(items, pattern="*.x").items == 3
    assert count(items, pattern="c.*").items == 0


def test_one_pass_reads_neither_values_nor_embeddings() -> None:
    store = ListStore([item("a")])
    collect(store, None, depth=1)
    assert store.reads == [(False, Detail.SHAPE)]
    bare = ListStore([item("a")], vectors=False)
    assert collect(bare, None, depth=1).vectors is None
    assert bare.reads == [(False, Detail.NONE)]


def test_times_far_apart_and_close_together_make_one_histogram() -> None:
    hours = [item("a", str(n), created_at=shift(MOMENT, timedelta(hours=-n))) for n in range(5_000)]
    found = count(sorted(hours, key=lambda item: item.key))
    assert found.creation.step is not None
    assert found.creation.step.name == "2 weeks"
    assert sum(bar.count for bar in found.creation.bars) == 5_000


@pytest.mark.parametrize("one_each", [True, False], ids=["a namespace each", "one namespace"])
def test_memory_does_not_grow_with_the_store(one_each: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "RUN_OCTETS", 500_000)
    hours = [shift(MOMENT, timedelta(hours=-n)) for n in range(10_000)]

    def items() -> Iterator[Item]:
        for n, hour in enumerate(hours):
            yield item(f"u.{n:06}" if one_each else "u", f"{n:06}", created_at=hour, updated_at=hour)

    tracemalloc.start()
    try:
        assert count(items()).items == len(hours)
        assert tracemalloc.get_traced_memory()[1] < 700_000  # a set of the namespaces would hold 1.5 MB
    finally:
        tracemalloc.stop()


def test_real_files_agree_with_sql(sqlite_data: Path) -> None:
    with closing(SqliteStore(sqlite_data, clock=lambda: NOW)) as store:
        found = collect(store, None, depth=2)
        ana = collect(store, parse("users.ana"), depth=3)
    now = f"{NOW:%Y-%m-%d %H:%M:%S}"
    with closing(sqlite3.connect(sqlite_data)) as connection:

        def one(sql: str, *parameters: str) -> Any:
            return connection.execute(sql, parameters).fetchone()

        octets = "length(CAST(value AS BLOB))"
        assert (found.items, found.octets, found.namespaces) == one(
            f"SELECT count(*), sum({octets}), count(DISTINCT prefix) FROM store"
        )
        assert (found.expired, found.never_expiring) == one(
            "SELECT sum(coalesce(datetime(expires_at) <= ?, 0)), sum(expires_at IS NULL) FROM store", now
        )
        assert found.expired == 1
        joined = "store_vectors JOIN store USING (prefix, key)"
        assert (found.vectors, found.items_with_vectors) == one(
            f"SELECT count(*), count(DISTINCT prefix || char(0) || key) FROM {joined}"
        )
        assert found.dims == dict(
            connection.execute(f"SELECT length(embedding) / 4, count(*) FROM {joined} GROUP BY 1").fetchall()
        )
        assert (found.created.oldest, found.created.newest) == one(
            "SELECT strftime('%Y-%m-%dT%H:%M:%S.000000Z', min(created_at)),"
            " strftime('%Y-%m-%dT%H:%M:%S.000000Z', max(created_at)) FROM store"
        )
        assert [(item.prefix, item.key, item.size) for item in found.largest] == connection.execute(
            f"SELECT prefix, key, {octets} FROM store ORDER BY 3 DESC, prefix, key LIMIT {LARGEST}"
        ).fetchall()
        assert (ana.items, ana.octets) == one(
            f"SELECT count(*), sum({octets}) FROM store WHERE prefix LIKE 'users.ana.%'"
        )
    assert found.damaged == 0
    assert (found.prompt.namespaces, ana.prompt.namespaces) == (4, 2)
