"""`memctl ls`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import ITEMS, NAMES, MakeStore
from tests.contract.backends import CREATED, RawItem, in_order
from tests.invocation import Memctl


def size(*prefixes: str) -> int:
    """Octets of the values in those namespaces."""
    return sum(len(item.value.encode()) for item in ITEMS if item.prefix in prefixes)


NAMESPACES = [
    {"namespace": ["org", "acme", "facts"], "items": 1, "vectors": 0, "bytes": size("org.acme.facts"),
     "newest": "2026-11-30T07:00:05.000000Z"},
    {"namespace": ["users", "ana", "memories"], "items": 2, "vectors": 1, "bytes": size("users.ana.memories"),
     "newest": "2026-11-30T07:00:04.000000Z"},
    {"namespace": ["users", "ana", "prefs"], "items": 2, "vectors": 3, "bytes": size("users.ana.prefs"),
     "newest": "2026-11-30T07:00:06.000000Z"},
    {"namespace": ["users", "bo", "prefs"], "items": 1, "vectors": 0, "bytes": size("users.bo.prefs"),
     "newest": "2026-11-30T07:00:01.000000Z"},
]  # fmt: skip


def shown(rows: list[dict[str, object]]) -> list[str]:
    """The namespaces of rows, joined."""
    return [".".join(row["namespace"]) for row in rows]  # type: ignore[arg-type]


def test_everything(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "ls") == NAMESPACES


def test_keys_come_in_the_order_of_the_contract(memctl: Memctl, store: Path) -> None:
    for row in memctl.json("-s", store, "ls"):
        assert list(row) == ["namespace", "items", "vectors", "bytes", "newest"]
    for row in memctl.json("-s", store, "ls", "--items"):
        assert list(row) == [
            "namespace", "key", "bytes", "created_at", "updated_at", "expires_at", "ttl_minutes", "vectors",
            "preview",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("namespace", "found"),
    [
        ("users", ["users.ana.memories", "users.ana.prefs", "users.bo.prefs"]),
        ("users.ana", ["users.ana.memories", "users.ana.prefs"]),
        ("users.ana.prefs", ["users.ana.prefs"]),
        ("users.*.prefs", ["users.ana.prefs", "users.bo.prefs"]),
        ("*.*.facts", ["org.acme.facts"]),
        ("*", ["org.acme.facts", "users.ana.memories", "users.ana.prefs", "users.bo.prefs"]),
        ("users.*", ["users.ana.memories", "users.ana.prefs", "users.bo.prefs"]),
        ("users.*.nothing", []),
        ("*.*.*.*", []),
    ],
)
def test_namespace_covers_descendants(memctl: Memctl, store: Path, namespace: str, found: list[str]) -> None:
    assert shown(memctl.json("-s", store, "ls", namespace)) == found


@pytest.mark.parametrize(
    "namespace", ["user", "users.an", "Users", "USERS.ANA", "prefs", "users.ana.prefs.x", "", "."]
)
def test_a_literal_namespace_that_holds_nothing(memctl: Memctl, store: Path, namespace: str) -> None:
    error = memctl.refuse("-s", store, "ls", namespace, code=5)
    assert error["code"] == "not-found"
    error = memctl.refuse("-s", store, "ls", "--items", namespace, code=5)
    assert error["code"] == "not-found"


def test_a_near_namespace_is_named(memctl: Memctl, store: Path) -> None:
    assert "users.ana.prefs" in memctl.refuse("-s", store, "ls", "users.ana.pref", code=5)["hint"]


def test_depth_is_absolute(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "ls", "--depth", "1") == [
        NAMESPACES[0] | {"namespace": ["org"]},
        {
            "namespace": ["users"],
            "items": 5,
            "vectors": 4,
            "bytes": size("users.ana.memories", "users.ana.prefs", "users.bo.prefs"),
            "newest": "2026-11-30T07:00:06.000000Z",
        },
    ]
    assert shown(memctl.json("-s", store, "ls", "users", "--depth", "1")) == ["users"]
    assert shown(memctl.json("-s", store, "ls", "users.ana", "--depth", "2")) == ["users.ana"]
    assert memctl.json("-s", store, "ls", "--depth", "9") == NAMESPACES


def test_depth_adds_up_what_does_not_follow_each_other(memctl: Memctl, make_store: MakeStore) -> None:
    """In byte order `a-x` stands between `a` and `a.b`."""
    prefixes = ["a", "a b.c", "a-x.y", "a.b", "a.b.c", "a..", "a/x", "", ".a", "b"]
    store = make_store(in_order(RawItem(prefix, "k") for prefix in prefixes))
    rows = memctl.json("-s", store, "ls", "--depth", "1")
    assert {tuple(row["namespace"]): row["items"] for row in rows} == {
        ("",): 2, ("a",): 4, ("a b",): 1, ("a-x",): 1, ("a/x",): 1, ("b",): 1,
    }  # fmt: skip
    assert shown(rows) == ["", "a", "a b", "a-x", "a/x", "b"]


def test_tree(memctl: Memctl, store: Path) -> None:
    rows = memctl.json("-s", store, "ls", "--tree")
    assert {".".join(row["namespace"]): row["items"] for row in rows} == {
        "org": 1, "org.acme": 1, "org.acme.facts": 1, "users": 5, "users.ana": 4, "users.ana.memories": 2,
        "users.ana.prefs": 2, "users.bo": 1, "users.bo.prefs": 1,
    }  # fmt: skip
    assert shown(rows) == sorted(shown(rows))
    assert rows[3]["newest"] == "2026-11-30T07:00:06.000000Z"


def test_tree_on_paper(memctl: Memctl, store: Path) -> None:
    lines = memctl("-s", store, "ls", "--tree", "users.ana").lines
    assert [line.split()[:2] for line in lines[1:]] == [
        ["users", "4"],
        ["ana", "4"],
        ["memories", "2"],
        ["prefs", "2"],
    ]
    assert [len(line) - len(line.lstrip()) for line in lines[1:]] == [0, 2, 4, 4]


def test_tree_to_a_depth(memctl: Memctl, store: Path) -> None:
    assert shown(memctl.json("-s", store, "ls", "--tree", "--depth", "2")) == [
        "org", "org.acme", "users", "users.ana", "users.bo",
    ]  # fmt: skip


def test_tree_puts_descendants_under_their_ancestor(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store(in_order(RawItem(prefix, "k") for prefix in ("a", "a-x", "a.b", "a..b", "")))
    assert shown(memctl.json("-s", store, "ls", "--tree")) == ["", "a", "a.", "a..b", "a.b", "a-x"]


@pytest.mark.parametrize(
    ("suffix", "found"),
    [
        ("prefs", ["users.ana.prefs", "users.bo.prefs"]),
        ("ana.prefs", ["users.ana.prefs"]),
        ("*.prefs", ["users.ana.prefs", "users.bo.prefs"]),
        ("refs", []),
        ("Prefs", []),
        ("users.ana.prefs", ["users.ana.prefs"]),
        ("x.users.ana.prefs", []),
    ],
)
def test_suffix(memctl: Memctl, store: Path, suffix: str, found: list[str]) -> None:
    assert shown(memctl.json("-s", store, "ls", "--suffix", suffix)) == found
    items = memctl.json("-s", store, "ls", "--items", "--suffix", suffix)
    assert list(dict.fromkeys(shown(items))) == found


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("name", ["org.acme.facts", "users.ana.memories", "users.ana.prefs", "users.bo.prefs"]),
        ("items", ["users.ana.memories", "users.ana.prefs", "org.acme.facts", "users.bo.prefs"]),
        ("bytes", ["users.ana.prefs", "users.ana.memories", "org.acme.facts", "users.bo.prefs"]),
        ("newest", ["users.ana.prefs", "org.acme.facts", "users.ana.memories", "users.bo.prefs"]),
    ],
)
def test_sort(memctl: Memctl, store: Path, sort: str, found: list[str]) -> None:
    assert shown(memctl.json("-s", store, "ls", "--sort", sort)) == found
    for limit in range(6):
        assert shown(memctl.json("-s", store, "ls", "--sort", sort, "--limit", str(limit))) == found[:limit]


def test_items(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "ls", "--items") == [
        {
            "namespace": item.prefix.split("."),
            "key": item.key,
            "bytes": len(item.value.encode()),
            "created_at": CREATED,
            "updated_at": item.updated_at,
            "expires_at": item.expires_at,
            "ttl_minutes": item.ttl_minutes,
            "vectors": len(item.vectors),
            "preview": item.value,
        }
        for item in ITEMS
    ]


def test_items_sorted(memctl: Memctl, store: Path) -> None:
    def keys(*options: str) -> list[tuple[str, ...]]:
        return memctl.names("-s", store, "ls", "--items", *options)

    assert keys() == keys("--sort", "name") == NAMES
    by_bytes = sorted(ITEMS, key=lambda item: -len(item.value.encode()))
    assert keys("--sort", "bytes") == [(item.prefix, item.key) for item in by_bytes]
    newest = sorted(ITEMS, key=lambda item: item.updated_at or "", reverse=True)
    assert keys("--sort", "newest", "--limit", "2") == [(item.prefix, item.key) for item in newest[:2]]
    assert keys("users.ana", "--limit", "3") == NAMES[1:4]


def test_a_long_preview_is_cut(memctl: Memctl, make_store: MakeStore) -> None:
    text = "é" * 5000
    store = make_store([RawItem("a", "b", json.dumps({"text": text}, ensure_ascii=False))])
    [row] = memctl.json("-s", store, "ls", "--items")
    assert row["bytes"] == len('{"text": ""}') + 2 * len(text)
    assert '{"text": "' + text[: len(row["preview"]) - 10] == row["preview"]
    assert len(row["preview"]) < 1000


def test_limit(memctl: Memctl, store: Path) -> None:
    assert memctl.json("-s", store, "ls", "--limit", "0") == []
    assert memctl.json("-s", store, "ls", "--limit", "2") == NAMESPACES[:2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sort", "size"],
        ["--depth", "0"],
        ["--depth", "x"],
        ["--limit", "-1"],
        ["--items", "--tree"],
        ["--items", "--depth", "2"],
        ["--items", "--sort", "items"],
        ["--tree", "--sort", "bytes"],
        ["a", "b"],
        ["--nonsense"],
    ],
)
def test_usage(memctl: Memctl, store: Path, arguments: list[str]) -> None:
    assert memctl.refuse("-s", store, "ls", *arguments, code=2)["code"] == "usage"


def test_an_empty_store(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([])
    assert memctl.json("-s", store, "ls") == []
    assert memctl.json("-s", store, "ls", "--items") == []
    assert memctl.json("-s", store, "ls", "--tree") == []
    assert memctl("-s", store, "ls", "-o", "name").stdout == b""
    assert memctl("-s", store, "ls", "-o", "jsonl").stdout == b""


def test_a_store_of_an_older_library(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store(ITEMS, expiry=False, vectors=False)
    rows = memctl.json("-s", store, "ls")
    assert rows == [row | {"vectors": 0} for row in NAMESPACES]
    items = memctl.json("-s", store, "ls", "--items")
    assert [(row["expires_at"], row["ttl_minutes"], row["vectors"]) for row in items] == [(None, None, 0)] * 6


def test_what_cannot_be_decoded_is_listed_and_counted(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([RawItem("a", "bad", '{"half'), RawItem("a", "list", "[1]"), RawItem("a", "good")])
    assert memctl.json("-s", store, "ls") == [
        {"namespace": ["a"], "items": 3, "vectors": 0, "bytes": 17, "newest": "2026-11-30T07:00:01.000000Z"}
    ]
    outcome = memctl("-s", store, "-o", "json", "ls", "--items")
    assert outcome.code == 3
    assert "2 items" in outcome.err
    rows = {row["key"]: row for row in outcome.json()}
    assert rows.keys() == {"bad", "good", "list"}
    assert [problem["part"] for problem in rows["bad"]["problems"]] == ["value"]
    assert [problem["part"] for problem in rows["list"]["problems"]] == ["value"]
    assert "problems" not in rows["good"]
    assert rows["bad"]["preview"] == '{"half'
