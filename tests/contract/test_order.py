"""`scan` and `get`: byte order, resuming, scopes, and names that only a database finds harmless."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memctl.model import EVERYTHING, Detail, Position, Scope
from memctl.store import Store
from tests.contract.backends import Backend, RawItem, in_order, vector
from tests.contract.comparing import expected, places, yielded

PREFIXES = [
    "a", "a b", "a-b", "a.b", "a_b", "a/b", "a!b", "ab", "a.b.c", "a.B", "a.é", "a..b", "a.", ".a", "..", ".",
    "", "A", "A.b", "B", "b", "é", "É", "e\u0301", "z", "日本", "\uffee", "🙂", "%", "a%b", "a.%", "\\", "a\\.b",
    "'", '"', "a\tb", "a\nb", "\x01", "\x7f", "*", "{user_id}", "None", "langgraph", "x" * 1500,
]  # fmt: skip
"""Each collation, each kind of escaping and each neighbour of the dot in ASCII."""
KEYS = [
    "", " ", "a", "A", "b", "a b", "a-b", "a.b", "a_b", "é", "É", "-x", "--", "%", "_", "\\", "k'", '"', "日本",
    "\uffee", "🙂", "\t", "\n", "x" * 1000,
]  # fmt: skip
ITEMS = in_order(
    [
        RawItem(prefix, key, f'{{"n": {number}}}', vectors=(vector("$", f"{prefix}/{key}"),) * (number % 2))
        for number, (prefix, key) in enumerate(
            [(prefix, key) for prefix in PREFIXES for key in ("k", "K")]
            + [("a", key) for key in KEYS]
            + [("a.b", key) for key in KEYS]
            + [("", key) for key in KEYS[:5]]
        )
    ]
)
NAMES = [(item.prefix, item.key) for item in ITEMS]

pytestmark = pytest.mark.needs("any name", "times")


def is_in(scope: Scope, prefix: str) -> bool:
    """The rule, by whole labels, as simply as it can be said."""
    if scope.prefix is None or prefix == scope.prefix:
        return True
    wanted = scope.prefix.split(".")
    return scope.descend and prefix.split(".")[: len(wanted)] == wanted


@pytest.fixture(scope="module", params=["usual pages", "small pages"])
def store(request: pytest.FixtureRequest, shared_backend: Backend) -> Iterator[Store]:
    """`ITEMS`, read in pages of the usual size and in very small ones."""
    if not getattr(shared_backend, "is_filled", False):
        shared_backend.create()
        shared_backend.insert(ITEMS)
        shared_backend.is_filled = True  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param == "small pages":
            shared_backend.small_pages(monkeypatch)
        with shared_backend.open() as store:
            yield store


def test_names_are_different() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_scan_yields_everything_in_byte_order(store: Store, shared_backend: Backend) -> None:
    assert yielded(store.scan(EVERYTHING)) == expected(shared_backend, ITEMS)


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("values", [True, False], ids=["values", "no values"])
def test_scan_brings_what_was_asked_for(
    store: Store, shared_backend: Backend, values: bool, detail: Detail
) -> None:
    found = store.scan(EVERYTHING, values=values, vectors=detail)
    assert yielded(found) == expected(shared_backend, ITEMS, values=values, vectors=detail)


@pytest.mark.parametrize("descend", [True, False], ids=["descend", "exact"])
def test_scopes(store: Store, descend: bool) -> None:
    for prefix in (*PREFIXES, "nothing", "a.b.c.d", "a.b.", "..a", "a\0", "\udcff"):
        scope = Scope(prefix, descend)
        inside = [name for name in NAMES if is_in(scope, name[0])]
        assert places(store.scan(scope, values=False)) == inside, scope
        namespaces = list(store.namespaces(scope))
        assert [found.prefix for found in namespaces] == list(dict.fromkeys(prefix for prefix, _ in inside))
        assert sum(found.items for found in namespaces) == len(inside)


def test_scan_resumes_after_every_item(store: Store) -> None:
    for index, name in enumerate(NAMES):
        found = store.scan(EVERYTHING, after=Position(*name), values=False)
        first = next(found, None)
        if index + 1 == len(NAMES):
            assert first is None
        else:
            assert first is not None
            assert (first.prefix, first.key) == NAMES[index + 1]
        del found
    for index in range(0, len(NAMES), 9):
        found = store.scan(EVERYTHING, after=Position(*NAMES[index]), vectors=Detail.SHAPE)
        assert places(found) == NAMES[index + 1 :]


@pytest.mark.parametrize(
    "scope",
    [Scope("a"), Scope("a", descend=False), Scope("a.b"), Scope(""), Scope("é"), Scope("nothing")],
    ids=str,
)
def test_scan_resumes_within_a_scope(store: Store, scope: Scope) -> None:
    """Also after places that lie before it, behind it, and in between where no item is."""
    inside = [name for name in NAMES if is_in(scope, name[0])]
    somewhere = [(prefix, key)
                 for prefix in ("", "a", "a-", "a.", "a.a", "a.b", "a.b.", "a.é", "a0", "zz", "\U0010ffff")
                 for key in ("", "a", "zz", "\U0010ffff")]  # fmt: skip
    for place in (*NAMES[::5], *inside, *somewhere):
        octets = tuple(part.encode() for part in place)
        rest = [name for name in inside if tuple(part.encode() for part in name) > octets]
        assert places(store.scan(scope, after=Position(*place), values=False)) == rest, place


def test_resuming_between_what_the_store_cannot_hold(store: Store) -> None:
    """An archive of one backend is compared with another; places may hold NUL or bytes that are no UTF-8."""
    for place in (("a\0b", "x"), ("a", "a\0"), ("\udcff", ""), ("a.b", "\udc80\0"), ("", "\0")):
        octets = tuple(part.encode("utf-8", "surrogateescape") for part in place)
        rest = [name for name in NAMES if tuple(part.encode() for part in name) > octets]
        assert places(store.scan(EVERYTHING, after=Position(*place), values=False)) == rest, place


def test_get_finds_each_item(store: Store, shared_backend: Backend) -> None:
    for prefix in PREFIXES:
        keys = [item for item in ITEMS if item.prefix == prefix]
        found = store.get(prefix, [item.key for item in keys], vectors=Detail.FULL)
        assert yielded(found) == expected(shared_backend, keys, vectors=Detail.FULL), prefix


def test_get_keeps_the_order_it_was_asked_in(store: Store) -> None:
    asked = ["z", *reversed(KEYS), "nothing"]
    assert [item.key for item in store.get("a", asked)] == list(reversed(KEYS))


@pytest.mark.parametrize("prefix", ["nothing", "a.b.c.d", "A.B", "a\0", "\udcff", "..."])
def test_get_misses(store: Store, prefix: str) -> None:
    assert list(store.get(prefix, ["k", "K", "a"])) == []


@pytest.mark.parametrize("key", ["nothing", "k ", "a\0", "\udcff", "*", "k.K", "AB"])
def test_get_misses_a_key_and_finds_its_neighbour(store: Store, key: str) -> None:
    assert [item.key for item in store.get("a", [key, "k"])] == ["k"]


def test_get_of_no_key(store: Store) -> None:
    assert list(store.get("a", [])) == []


def test_two_scans_at_once(store: Store) -> None:
    """What a command looks up on the way disturbs no scan."""
    seen = []
    for item in store.scan(EVERYTHING, vectors=Detail.SHAPE):
        seen.append((item.prefix, item.key))
        if len(seen) % 20 == 1:
            assert [other.key for other in store.get(item.prefix, [item.key])] == [item.key]
            assert next(iter(store.namespaces(EVERYTHING))).prefix == NAMES[0][0]
            assert next(store.scan(EVERYTHING)).key == NAMES[0][1]
    assert seen == NAMES
