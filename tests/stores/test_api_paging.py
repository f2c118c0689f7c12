"""Reading by offset where pages move: nothing is passed over, nothing comes twice, and what moved is told."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from memctl.errors import MemctlError
from memctl.model import EVERYTHING, Item, Position, Scope
from memctl.stores.api import gathered, paging
from memctl.stores.api.interface import Found, Labels
from memctl.stores.api.store import ApiStore
from tests.invocation import NOW

FIRST = datetime(2026, 11, 1, tzinfo=UTC)


class Shelf:
    """A store as simple as can be: a list in the order in which it is handed out."""

    kind = "shelf"
    address = "a shelf"
    concurrency = 1
    ignores_offsets = False
    most = 1_000_000

    def __init__(self, count: int) -> None:
        self.items = [found(number) for number in range(count)]
        self.asked: list[tuple[int, int]] = []
        self.before: Callable[[int], None] = lambda _request: None

    def search(self, labels: Labels, *, limit: int, offset: int) -> list[Found]:
        self.before(len(self.asked))
        self.asked.append((limit, offset))
        matching = [item for item in self.items if item.labels[: len(labels)] == labels]
        start = 0 if self.ignores_offsets else offset
        return matching[start : start + min(limit, self.most)]

    def get(self, labels: Labels, key: str) -> Found | None:
        return next((item for item in self.items if (item.labels, item.key) == (labels, key)), None)

    def put(self, labels: Labels, key: str, value: bytes, *, ttl: float | None) -> None:
        raise NotImplementedError

    def delete(self, labels: Labels, key: str) -> None:
        raise NotImplementedError

    def fault(self, value: bytes) -> str | None:
        return None

    def close(self) -> None:
        pass


def found(number: int, *, name: str = "k", octets: int = 10, labels: Labels = ("a", "b")) -> Found:
    value = b'{"t": "%s"}' % (b"x" * octets)
    return Found(labels, f"{name}{number:05}", value, FIRST, FIRST + timedelta(seconds=number))


@contextlib.contextmanager
def store_on(shelf: Shelf) -> Iterator[ApiStore]:
    store = ApiStore(shelf, clock=lambda: NOW)
    with contextlib.closing(store):
        yield store


def scanned(shelf: Shelf) -> tuple[list[str], bool]:
    with store_on(shelf) as store:
        keys = [item.key for item in store.scan(EVERYTHING)]
        return keys, store.moved


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE_ROWS", 20)
    monkeypatch.setattr(paging, "FIRST_ROWS", 5)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 6, 19, 20, 21, 39, 40, 41, 42, 79, 80, 81, 200, 333])
@pytest.mark.usefixtures("small")
def test_every_number_of_items(count: int) -> None:
    shelf = Shelf(count)
    random.Random(count).shuffle(shelf.items)
    assert scanned(shelf) == ([f"k{number:05}" for number in range(count)], False)


def test_ten_thousand_items_take_few_questions_and_few_high_offsets() -> None:
    """What a store does for a page grows with the offset, as for a loop that reads all pages once."""
    shelf = Shelf(10_000)
    keys, moved = scanned(shelf)
    assert (len(keys), moved) == (10_000, False)
    assert len(shelf.asked) <= 12
    bare_loop = sum(range(1_000, 10_001, 1_000)) + 10_000
    assert sum(min(10_000, limit + offset) for limit, offset in shelf.asked) <= bare_loop * 1.3


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("request_number", range(12))
def test_what_is_deleted_in_front_makes_nothing_else_go_missing(request_number: int) -> None:
    shelf = Shelf(100)
    gone = [item.key for item in shelf.items[:3]]

    def delete(request: int) -> None:
        if request == request_number:
            del shelf.items[:3]

    shelf.before = delete
    keys, moved = scanned(shelf)
    is_over = len(shelf.asked) <= request_number
    assert [key for key in keys if key not in gone] == [item.key for item in Shelf(100).items[3:]]
    assert len(set(keys)) == len(keys)
    assert moved or request_number == 0 or is_over


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("place", ["front", "back"])
@pytest.mark.parametrize("request_number", range(1, 12))
def test_what_is_added_meanwhile_doubles_nothing(request_number: int, place: str) -> None:
    shelf = Shelf(100)

    def add(request: int) -> None:
        if request == request_number:
            shelf.items.insert(0 if place == "front" else len(shelf.items), found(0, name="new"))

    shelf.before = add
    keys, moved = scanned(shelf)
    assert [key for key in keys if not key.startswith("new")] == [item.key for item in Shelf(100).items]
    assert len(set(keys)) == len(keys)
    if place == "front" and len(shelf.asked) > request_number:
        assert moved


@pytest.mark.usefixtures("small")
def test_an_item_that_comes_twice_comes_in_its_latest_form() -> None:
    """Newest first, as the library's stores: an item is rewritten that was not read yet, and one that was."""
    shelf = Shelf(100)
    shelf.items.reverse()

    def rewrite(request: int) -> None:
        if request == 5:
            for key in ("k00001", "k00060"):
                old = next(item for item in shelf.items if item.key == key)
                shelf.items.remove(old)
                shelf.items.insert(0, Found(old.labels, key, b'{"new": 1}', FIRST, FIRST + timedelta(days=1)))

    shelf.before = rewrite
    with store_on(shelf) as store:
        values = {item.key: item.value for item in store.scan(EVERYTHING)}
        assert store.moved
    assert len(values) == 100
    assert values["k00001"] == values["k00060"] == b'{"new": 1}'


@pytest.mark.usefixtures("small")
def test_an_order_that_changes_with_each_question_is_read_until_all_is_there() -> None:
    """Rows of one updated_at come in whatever order the database finds handy."""
    shelf = Shelf(60)
    chance = random.Random(7)

    def shuffle(_request: int) -> None:
        tail = shelf.items[40:]
        chance.shuffle(tail)
        shelf.items[40:] = tail

    shelf.before = shuffle
    keys, _ = scanned(shelf)
    assert keys == [f"k{number:05}" for number in range(60)]


@pytest.mark.usefixtures("small")
def test_what_cannot_be_reached_is_an_error_and_no_gap() -> None:
    shelf = Shelf(60)

    class Hiding(Shelf):
        def search(self, labels: Labels, *, limit: int, offset: int) -> list[Found]:
            page = super().search(labels, limit=limit, offset=offset)
            return [self.items[0] if item.key == "k00030" else item for item in page]

    shelf = Hiding(60)
    with pytest.raises(MemctlError, match="only 59 items") as caught:
        scanned(shelf)
    assert caught.value.code == "unstable-paging"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("count", [3, 5, 6, 20, 21, 200])
def test_a_store_that_pays_no_heed_to_offsets(count: int) -> None:
    """As langgraph-store-mongodb 0.4.0: every page is the first one."""
    shelf = Shelf(count)
    shelf.ignores_offsets = True
    assert scanned(shelf) == ([f"k{number:05}" for number in range(count)], False)
    assert len(shelf.asked) < 12


@pytest.mark.usefixtures("small")
def test_a_store_that_gives_less_than_is_asked_for() -> None:
    shelf = Shelf(100)
    shelf.most = 7
    assert scanned(shelf)[0] == [f"k{number:05}" for number in range(100)]


def test_large_values_make_small_pages() -> None:
    shelf = Shelf(0)
    shelf.items = [found(number, octets=1_000_000) for number in range(24)]
    with store_on(shelf) as store:
        assert sum(1 for _ in store.scan(EVERYTHING, values=False)) == 24
    assert max(limit for limit, _ in shelf.asked[1:]) <= 5


def test_the_narrowest_labels_are_asked_for_and_the_rest_is_sifted() -> None:
    shelf = Shelf(3)
    shelf.items += [found(1, labels=("a",)), found(2, labels=("ab",)), found(3, labels=("a", "", "c"))]
    with store_on(shelf) as store:
        assert [item.prefix for item in store.scan(Scope("a"))] == ["a", "a..c", "a.b", "a.b", "a.b"]
        assert [item.prefix for item in store.scan(Scope("a", descend=False))] == ["a"]
        assert [item.prefix for item in store.scan(Scope("a..c"))] == ["a..c"]
        assert [item.key for item in store.get("a..c", ["k00003", "none"])] == ["k00003"]
        assert list(store.scan(Scope(""))) == []


def test_labels_that_read_alike_stay_two_items() -> None:
    shelf = Shelf(1)
    shelf.items += [found(0, labels=("a.b",))]
    with store_on(shelf) as store:
        one, other = store.scan(EVERYTHING)
    assert (one.prefix, one.key) == (other.prefix, other.key) == ("a.b", "k00000")
    assert sorted(len(item.problems) for item in (one, other)) == [0, 1]


def test_a_scan_that_goes_on_reads_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "BLOCK_OCTETS", 1_000)
    shelf = Shelf(500)
    with store_on(shelf) as store:
        assert sum(1 for _ in store.scan(EVERYTHING)) == 500
        asked = len(shelf.asked)
        for number in (0, 7, 250, 498, 499):
            rest = list(store.scan(EVERYTHING, after=Position("a.b", f"k{number:05}")))
            assert [item.key for item in rest] == [f"k{later:05}" for later in range(number + 1, 500)]
        assert len(shelf.asked) == asked
        assert sum(1 for _ in store.scan(EVERYTHING)) == 500
        assert len(shelf.asked) > asked


def test_times_in_every_form() -> None:
    shelf = Shelf(0)
    moments: list[datetime | str | None] = [
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2026, 1, 2, 3, 4, 5, 6),
        "2026-01-02T03:04:05.000006+00:00",
        "2026-01-02T03:04:05.000006Z", "2026-01-02T05:04:05.000006+02:00", "2026-01-02 03:04:05.000006",
    ]  # fmt: skip
    shelf.items = [Found(("a",), str(number), b"{}", moment, moment) for number, moment in enumerate(moments)]
    shelf.items += [Found(("b",), "1", b"{}", "yesterday", None)]
    with store_on(shelf) as store:
        items = list(store.scan(EVERYTHING))
    assert {item.created_at for item in items[:-1]} == {"2026-01-02T03:04:05.000006Z"}
    odd: Item = items[-1]
    assert (odd.created_at, odd.updated_at) == (None, None)
    assert [(problem.part, problem.raw) for problem in odd.problems] == [
        ("created_at", "yesterday"),
        ("updated_at", None),
    ]
