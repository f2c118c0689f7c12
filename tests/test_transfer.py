"""Bringing items into stores of every kind: what is written, what is left alone, what is found first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memctl import transfer as module
from memctl.addresses import parse
from memctl.compare import differences
from memctl.errors import MemctlError
from memctl.mapping import parse as parse_mapping
from memctl.model import EVERYTHING, Detail, Item, Position
from memctl.store import Batch, Setup, Target
from memctl.stores import open_store, open_writer
from memctl.transfer import (
    Entry,
    Incoming,
    Moved,
    Rejected,
    Rules,
    Survey,
    refuse_unless_clean,
    survey,
    transfer,
)
from tests.archive.samples import item, vector
from tests.databases import Database

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
EARLY, LATE = "2026-01-01T00:00:00.000000Z", "2026-12-01T00:00:00.000001Z"
GIVEN_ONLY_VALUE = frozenset({"value"})


class Place:
    """Where a store is, and what a test asks of it."""

    def __init__(self, address: str) -> None:
        self.address = address
        with closing(self.open(Setup(dims=2, index="flat"))) as made:
            made.finish()

    def open(self, setup: Setup | None = None) -> Target:
        """Open it for writing."""
        return open_writer(parse(self.address), timeout=5, clock=lambda: NOW, setup=setup)

    def held(self) -> dict[str, Item]:
        """Everything in it, by key."""
        with closing(open_store(parse(self.address), timeout=5, clock=lambda: NOW)) as store:
            return {each.key: each for each in store.scan(EVERYTHING, vectors=Detail.FULL)}

    def put(self, *items: Item) -> None:
        """Write items as they are."""
        with closing(self.open()) as store:
            store.write(Batch(items))

    def state(self) -> Any:
        """What changes whenever a row is written, even to what it was."""
        raise NotImplementedError


class File(Place):
    def state(self) -> Any:
        return Path(self.address).read_bytes()


class Server(Place):
    def __init__(self, database: Database) -> None:
        self.database = database
        super().__init__(database.url)

    def state(self) -> Any:
        return self.database.execute(
            "SELECT 'i', key, xmin::text, ctid::text FROM store "
            "UNION ALL SELECT field_name, key, xmin::text, ctid::text FROM store_vectors ORDER BY 1, 2"
        )


class Cluster(Server):
    """Tables in CockroachDB's layout."""

    def __init__(self, database: Database) -> None:
        self.database = database
        Place.__init__(self, database.url.replace("postgresql://", "cockroachdb://", 1))


@pytest.fixture(params=["sqlite", "postgres", "cockroach"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return File(str(tmp_path / "store.db"))
    return (Cluster if request.param == "cockroach" else Server)(request.getfixturevalue("database"))


def bring(place: Place, *entries: Entry | Item, **rules: Any) -> tuple[Survey, Moved, list[Rejected]]:
    """Survey and transfer as the commands do."""
    chosen = Rules(**{"is_ordered": True, **rules})
    incoming = [Incoming(each) if isinstance(each, Item) else each for each in entries]
    rejected: list[Rejected] = []
    with closing(place.open()) as target:
        found = survey(iter(incoming), target, chosen, reject=rejected.append, progress=lambda _count: None)
        refuse_unless_clean(found, skip_rejected=True)
        moved = transfer(iter(incoming), target, chosen, progress=lambda _count: None)
    return found, moved, rejected


class TestConflicts:
    def test_what_is_equal_is_not_written_again(self, place: Place) -> None:
        mine = [
            item("a", vectors=(vector("t", 1, 2),)),
            item("b", b'{"x": 1, "y": [1.50]}'),
            item("c", expires_at=LATE),
        ]
        bring(place, *mine)
        before = place.state()
        again = [mine[0], item("b", b'{"y":[1.5],"x":1.0}'), mine[2]]
        for rule in ("fail", "skip", "overwrite", "newer"):
            found, moved, _ = bring(place, *again, on_conflict=rule)
            assert (found.unchanged, found.to_write, moved) == (3, 0, Moved(unchanged=3))
        assert place.state() == before

    def test_fail(self, place: Place) -> None:
        place.put(item("b"))
        before = place.state()
        with pytest.raises(MemctlError) as caught:
            bring(place, item("a"), item("b", b'{"n":2}'))
        assert caught.value.code == "conflict"
        assert "1 of the items are there already" in caught.value.message
        assert "users.ana 'b'" in caught.value.message
        assert place.state() == before

    def test_skip(self, place: Place) -> None:
        place.put(item("b"))
        found, moved, _ = bring(place, item("a"), item("b", b'{"n":2}'), on_conflict="skip")
        assert (found.skipped, moved.items) == (1, 1)
        assert place.held()["b"].value in (b'{"n":1}', b'{"n": 1}')

    def test_overwrite_takes_every_part(self, place: Place) -> None:
        place.put(item("a", vectors=(vector("t", 1, 2), vector("u", 3, 4)), ttl_minutes=5.0), item("b"))
        new = item(
            "a", b'{"n": 2}', created_at=EARLY, updated_at=LATE, expires_at=LATE, ttl_minutes=60.0,
            vectors=(vector("u", 5, 6),),
        )  # fmt: skip
        found, moved, _ = bring(place, new, on_conflict="overwrite")
        assert (found.changed, moved.items, moved.vectors) == (1, 1, 1)
        assert not differences(new, place.held()["a"])

    @pytest.mark.parametrize(
        ("updated", "is_written"), [(LATE, True), (EARLY, False), (item().updated_at, False)]
    )
    def test_newer(self, place: Place, updated: str, is_written: bool) -> None:
        place.put(item("a"))
        found, _, _ = bring(place, item("a", b'{"n": 2}', updated_at=updated), on_conflict="newer")
        assert (found.changed, found.skipped) == (int(is_written), int(not is_written))
        assert (place.held()["a"].updated_at == LATE) is is_written


class TestWhatIsGiven:
    def test_without_times_values_decide(self, place: Place) -> None:
        place.put(item("a"))
        found, _, _ = bring(
            place, Incoming(item("a", b'{"n": 1.0}', created_at=None, updated_at=None), GIVEN_ONLY_VALUE)
        )
        assert found.unchanged == 1
        with pytest.raises(MemctlError):
            bring(place, Incoming(item("a", b'{"n": 3}'), GIVEN_ONLY_VALUE))

    def test_a_new_item_gets_the_time_of_the_store(self, place: Place) -> None:
        bring(place, Incoming(item("a", created_at=None, updated_at=None), GIVEN_ONLY_VALUE))
        made = place.held()["a"]
        assert made.created_at is not None
        assert made.created_at == made.updated_at

    def test_only_what_is_given_changes(self, place: Place) -> None:
        place.put(
            item("a", expires_at=LATE, ttl_minutes=60.0, created_at=EARLY, vectors=(vector("t", 1, 2),))
        )
        parts = frozenset({"value", "updated_at"})
        bring(place, Incoming(item("a", b'{"n": 2}', updated_at=LATE), parts), on_conflict="overwrite")
        kept = place.held()["a"]
        assert (kept.value, kept.updated_at) == (b'{"n": 2}', LATE)
        assert (kept.created_at, kept.expires_at, kept.ttl_minutes) == (EARLY, LATE, 60.0)
        assert kept.vectors == (), "a vector of the former value was kept"

    def test_vectors_of_the_same_value_stay(self, place: Place) -> None:
        place.put(item("a", vectors=(vector("t", 1, 2),)))
        parts = frozenset({"value", "updated_at"})
        bring(place, Incoming(item("a", updated_at=LATE), parts), on_conflict="overwrite")
        there = place.held()["a"]
        assert not differences(item("a", updated_at=LATE, vectors=(vector("t", 1, 2),)), there)


class TestRejected:
    def test_the_second_of_two(self, place: Place) -> None:
        _, moved, rejected = bring(
            place,
            Incoming(item("a"), line=1),
            Incoming(item("a", b"{}"), line=2),
            Incoming(item("b"), line=3),
        )
        assert moved.items == 2
        assert [(each.line, each.part, each.reason) for each in rejected] == [
            (2, "key", "the same namespace and key as another item (line 1)")
        ]

    @pytest.mark.parametrize(
        "mapping", [parse_mapping(["x=y", "z=y"]), parse_mapping(["x=deep.y", "y=deep.y", "z=deep.y"])]
    )
    def test_two_sources_onto_one_name(self, place: Place, mapping: Any) -> None:
        sources = [item("k", prefix="x", value=b'{"n":1}'), item("k", prefix="z", value=b'{"n":1}')]
        found, _, rejected = bring(place, *sources, mapping=mapping)
        assert found.rejected == 1
        assert rejected[0].reason == "the same namespace and key as another item"

    def test_they_are_found_before_anything_is_written(self, place: Place) -> None:
        before = place.state()
        rules = Rules(mapping=parse_mapping(["b=a"]))
        entries = [Incoming(item("k", prefix="a")), Incoming(item("k", prefix="b"))]
        with closing(place.open()) as target:
            found = survey(entries, target, rules, reject=lambda _each: None, progress=lambda _count: None)
            with pytest.raises(MemctlError, match="nothing was written"):
                refuse_unless_clean(found, skip_rejected=False)
        assert place.state() == before

    def test_unordered_sources_are_sorted(self, place: Place) -> None:
        items = [item(key) for key in ("c", "B", "a", "ä", "_")]
        place.put(item("a"), item("c"))
        found, moved, _ = bring(place, *items, is_ordered=False)
        assert (found.unchanged, moved.items) == (2, 3)

    def test_what_a_server_cannot_hold(self, database: Database) -> None:
        place = Server(database)
        bad = [
            item("a", b'{"t": "\\u0000"}'),
            item("b", b'{"t": "\\ud800"}'),
            item("c", b'{"t": NaN}'),
            item("d", b'{"n": 1e999999}'),
            item("e", ttl_minutes=0.01),
            item("f", vectors=(vector("t", 1.0),)),
            item("g", vectors=(vector("t", 1.0, float("nan")),)),
            item("h\0"),
        ]
        found, moved, rejected = bring(place, *bad, item("z"))
        assert (found.rejected, moved.items) == (8, 1)
        assert [each.part for each in rejected] == [
            "value", "value", "value", "value", "ttl_minutes", "vectors", "vectors", "key",
        ]  # fmt: skip
        assert list(place.held()) == ["z"]

    def test_a_fraction_of_a_minute_is_never_rounded_to_nothing(self, database: Database) -> None:
        place = Server(database)
        bring(place, item("a", ttl_minutes=0.01), item("b", ttl_minutes=90.5), round_ttl_up=True)
        assert [each.ttl_minutes for each in place.held().values()] == [1.0, 91.0]

    def test_vectors_are_left_out_only_when_asked(self, database: Database) -> None:
        place = Server(database)
        wide = item("a", vectors=(vector("t", 1, 2, 3),))
        found, moved, _ = bring(place, wide, left_out=frozenset({"vectors"}))
        assert (found.vectors_left_out, moved.items, moved.vectors) == (1, 1, 0)


class TestMeanwhile:
    def overtaken(self, place: Place, other: Item, mine: Item, **rules: Any) -> Moved:
        """Let somebody write between the survey and the transfer's own write."""
        chosen = Rules(is_ordered=True, **rules)
        with closing(place.open()) as target:

            def entries() -> Iterator[Entry]:
                yield Incoming(mine)
                yield Incoming(item("z"))
                self.write(place, other)

            return transfer(entries(), target, chosen, progress=lambda _count: None)

    def write(self, place: Place, other: Item) -> None:
        there = place.held()
        with closing(place.open()) as store:
            store.write(Batch(changed=[other]) if other.key in there else Batch(new=[other]))

    def test_a_new_item_that_somebody_else_wrote_is_left_alone(self, place: Place) -> None:
        moved = self.overtaken(
            place, item("a", b'{"n": 7}'), item("a", b'{"n": 1}', vectors=(vector("t", 1, 2),))
        )
        assert (moved.items, moved.vectors, moved.overtaken) == (1, 0, 1)
        assert place.held()["a"] == item("a", b'{"n": 7}')

    def test_one_that_has_become_newer_is_left_alone(self, place: Place) -> None:
        place.put(item("a", updated_at=EARLY))
        other = item("a", b'{"n": 7}', updated_at=LATE)
        moved = self.overtaken(place, other, item("a", b'{"n": 2}'), on_conflict="newer")
        assert (moved.items, moved.overtaken) == (1, 1)
        assert place.held()["a"] == other


def test_few_items_are_looked_up_in_a_large_store(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is not read through: after `_LEAP` rows the search goes on where the item would be."""
    monkeypatch.setattr(module, "_LEAP", 10)
    place.put(*(item(f"{n:04}", b'{"n": %d}' % n) for n in range(600)))
    asked: list[Position | None] = []
    there = [
        item("0003", b'{"n": 3}'),
        item("0300", b'{"n": 300}'),
        item("0590", b'{"n": 590}'),
        item("0599", b'{"n": 599}'),
    ]
    absent = [item("0005x"), item("0301x"), item("1"), item("2")]
    wanted = sorted([*there, *absent, item("0301", b'{"n": 0}')], key=lambda each: each.key)
    with closing(place.open()) as target:
        scan: Callable[..., Iterable[Item]] = target.scan

        def counted(*arguments: Any, **options: Any) -> Any:
            asked.append(options.get("after"))
            return scan(*arguments, **options)

        monkeypatch.setattr(target, "scan", counted)
        found = survey(
            map(Incoming, wanted),
            target,
            Rules(is_ordered=True),
            reject=lambda _each: None,
            progress=lambda _n: None,
        )
    assert (found.unchanged, found.new, found.conflict_count) == (4, 4, 1)
    assert [position and position.key for position in asked] == [None, "0300", "0590"]
