"""`ls`, `get` and `search` beside the real store's own answers, on stores that it wrote itself."""

from __future__ import annotations

import itertools
import json
from datetime import UTC
from decimal import Decimal
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from memctl.namespaces import show
from tests.interop.conftest import Library
from tests.invocation import Memctl
from tests.writers import SAMPLE, Index, embedder

PREFIXES = [
    ("users", "ana", "prefs"), ("users", "ana", "memories"), ("users", "bo", "prefs"), ("users", "bo_2", "prefs"),
    ("users", "Ana", "prefs"), ("users",), ("user",), ("users%",), ("org", "acme", "facts"), ("memories", "{user_id}"),
    ("a b", "c"), ("a-b", "c"), ("a_b", "c"), ("é", "日本"), ("*", "x"), ("x", "*", "y"),
]  # fmt: skip
VALUES: list[dict[str, Any]] = [
    {"n": 1, "s": "a", "t": True, "text": "one"},
    {"n": 2, "s": "b", "t": False, "text": "two"},
    {"n": 3, "s": "B", "t": None, "text": "three"},
    {"n": 4, "s": "a b", "text": "naïve — 日本語 🙂"},
    {"n": 5.5, "s": "", "o": {"a": 1, "b": [1, 2]}, "l": ["x", "y"]},
    {"n": -1, "s": "é", "o": {"a": 2}, "text": "six"},
]
PUTS = [
    PutOp(namespace, f"k{number}", VALUES[number % len(VALUES)], index=False)
    for number, namespace in enumerate(itertools.chain.from_iterable([prefix] * 3 for prefix in PREFIXES))
]
STORED = {(put.namespace, put.key): put.value for put in PUTS}


def named(rows: list[dict[str, Any]]) -> set[tuple[tuple[str, ...], str]]:
    """The names of rows."""
    return {(tuple(row["namespace"]), row["key"]) for row in rows}


def plain(value: Any) -> Any:
    """JSON numbers as floats where they have a fraction, as the library reads them."""
    return json.loads(json.dumps(value, default=float)) if isinstance(value, dict | list | Decimal) else value


def listed(memctl: Memctl, library: Library, *arguments: str) -> list[tuple[str, ...]]:
    """The namespaces that `ls` lists."""
    return [tuple(row["namespace"]) for row in memctl.json("-s", library.address, "ls", *arguments)]


def test_agreement(memctl: Memctl, library: Library) -> None:
    """One store an engine, written once, and everything asked of it: opening a real library takes its time."""
    library.batch(*PUTS)
    check_namespaces(memctl, library)
    check_get(memctl, library)
    check_search(memctl, library)
    check_filters(memctl, library)


def check_namespaces(memctl: Memctl, library: Library) -> None:
    prefixes = [
        ("users",),
        ("users", "ana"),
        ("org", "acme", "facts"),
        ("a_b",),
        ("é",),
        ("memories", "{user_id}"),
    ]
    suffixes = [("prefs",), ("ana", "prefs"), ("c",), ("日本",)]
    depths = [None, 1, 2, 3]
    questions = [
        *((prefix, None, depth) for prefix in (None, *prefixes) for depth in depths),
        *((None, suffix, None) for suffix in suffixes),
        (("users",), ("prefs",), None),
        (("users", "*", "prefs"), None, None),
    ]
    operations = []
    for prefix, suffix, depth in questions:
        conditions = [MatchCondition("prefix", prefix)] if prefix else []
        conditions += [MatchCondition("suffix", suffix)] if suffix else []
        operations.append(ListNamespacesOp(tuple(conditions) or None, max_depth=depth, limit=1000, offset=0))
    for (prefix, suffix, depth), answer in zip(questions, library.batch(*operations), strict=True):
        arguments = []
        if prefix:
            arguments.append(".".join("*" if label == "*" else show(label) for label in prefix))
        if suffix:
            arguments += ["--suffix", ".".join(map(show, suffix))]
        if depth:
            arguments += ["--depth", str(depth)]
        found = listed(memctl, library, *arguments)
        assert sorted(found) == sorted(set(answer)), arguments
        assert len(found) == len(set(found))


def check_get(memctl: Memctl, library: Library) -> None:
    places = [*STORED, (("users",), "nothing"), (("nobody",), "k0")]
    answers = library.batch(*(GetOp(namespace, key, refresh_ttl=False) for namespace, key in places))
    names = "".join(f"{show('.'.join(namespace))}\t{key}\n" for namespace, key in STORED)
    stdin = names.replace("\\", "\\\\").encode()  # a backslash in a name is written twice
    rows = {
        (tuple(row["namespace"]), row["key"]): row
        for row in memctl.json("-s", library.address, "get", "--from", "-", stdin=stdin)
    }
    for place, answer in zip(places, answers, strict=True):
        if answer is None:
            assert place not in rows
            assert memctl("-s", library.address, "get", show(".".join(place[0])), place[1]).code == 5
            continue
        row = rows[place]
        assert plain(row["value"]) == answer.value == STORED[place]
        for column in ("created_at", "updated_at"):
            moment = getattr(answer, column)
            moment = moment.astimezone(UTC) if moment.tzinfo else moment
            assert row[column] == moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), column


def check_search(memctl: Memctl, library: Library) -> None:
    prefixes = [
        (),
        ("users",),
        ("users", "ana"),
        ("user",),
        ("a_b",),
        ("users%",),
        ("é",),
        ("memories", "{user_id}"),
    ]
    answers = library.batch(*(SearchOp(prefix, limit=1000, refresh_ttl=False) for prefix in prefixes))
    for prefix, answer in zip(prefixes, answers, strict=True):
        scope = ["--in", show(".".join(prefix))] if prefix else []
        rows = memctl.json("-s", library.address, "search", *scope)
        assert named(rows) == {(item.namespace, item.key) for item in answer}, prefix
        assert {row["key"]: plain(row["value"]) for row in rows} == {item.key: item.value for item in answer}
        updated = [row["updated_at"] for row in rows]
        assert updated == sorted(updated, reverse=True)
        assert [item.updated_at for item in answer] == sorted(
            (item.updated_at for item in answer), reverse=True
        )


WELL_DEFINED: list[dict[str, Any]] = [
    {},
    {"n": 1},
    {"n": 5.5},
    {"n": 99},
    {"s": "a"},
    {"s": ""},
    {"s": "é"},
    {"s": "a b"},
    {"n": 1, "s": "a"},
    {"n": 1, "s": "b"},
    {"text": "naïve — 日本語 🙂"},
    {"n": {"$eq": 2}},
    {"s": {"$eq": "b"}},
    {"n": {"$gt": 1}},
    {"n": {"$gte": 2}},
    {"n": {"$lt": 3}},
    {"n": {"$lte": 3}},
    {"n": {"$gte": 2, "$lt": 4}},
    {"n": {"$ne": 2}},
    {"s": {"$ne": "a"}},
    {"n": {"$gt": 1}, "s": {"$ne": "b"}},
]
"""Where both libraries agree with themselves: `$ne` of a path that every item has, single digits (they are
compared as text on Postgres), no booleans, nulls or objects."""


def check_filters(memctl: Memctl, library: Library) -> None:
    scope = ("users", "ana")
    operations = [
        SearchOp(prefix, filter=condition, limit=1000, refresh_ttl=False)
        for prefix in ((), scope)
        for condition in WELL_DEFINED
    ]
    answers = library.batch(*operations)
    for operation, answer in zip(operations, answers, strict=True):
        within = ["--in", ".".join(scope)] if operation.namespace_prefix else []
        condition = json.dumps(operation.filter)
        rows = memctl.json("-s", library.address, "search", *within, "--filter", condition)
        assert named(rows) == {(item.namespace, item.key) for item in answer}, condition
        equals = [f"{name}={json.dumps(wanted)}" for name, wanted in (operation.filter or {}).items()]
        if equals and "$" not in condition:
            again = [argument for equal in equals for argument in ("--filter", equal)]
            assert memctl.json("-s", library.address, "search", *within, *again) == rows


def test_likeness(memctl: Memctl, library: Library, index: Index) -> None:
    """Cosine as the library ranks it, where its window of candidates cannot matter."""
    texts = [f"memory number {number}" for number in range(12)]
    library.batch(
        *(
            PutOp(("v", str(number % 2)), f"k{number:02}", {"text": text})
            for number, text in enumerate(texts)
        ),
        PutOp(("v", "none"), "k99", {"text": "never embedded"}, index=False),
        index=index,
    )
    questions = [((), "something else"), ((), texts[3]), (("v", "1"), texts[4]), (("v",), "")]
    questions = [(prefix, query) for prefix, query in questions if query]
    answers = library.batch(
        *(SearchOp(prefix, query=query, limit=100, refresh_ttl=False) for prefix, query in questions),
        index=index,
    )
    for (prefix, query), answer in zip(questions, answers, strict=True):
        ranked = [item for item in answer if item.score is not None]
        assert len(ranked) in (6, 12)
        scope = ["--in", ".".join(prefix)] if prefix else []
        rows = memctl.json(
            "-s", library.address, "search", "--semantic", query, "--embed", "tests.interop.test_agreement:embed8",
            "--limit", "100", *scope,
        )  # fmt: skip
        assert [row["key"] for row in rows] == [item.key for item in ranked]
        assert [float(row["score"]) for row in rows] == pytest.approx(
            [item.score for item in ranked], abs=1e-5
        )
        if query in texts:
            key = f"k{texts.index(query):02}"
            namespace = f"v.{texts.index(query) % 2}"
            like = memctl.json(
                "-s", library.address, "search", "--like", namespace, key, "--limit", "100", *scope
            )
            assert [row["key"] for row in like] == [item.key for item in ranked if item.key != key]


embed8 = embedder(8)


def test_the_sample_is_shown_as_it_was_written(
    memctl: Memctl, sqlite_sample: Any, postgres_sample: Any
) -> None:
    for address in (str(sqlite_sample), postgres_sample.url):
        rows = memctl.json("-s", address, "search", "--order", "name")
        assert [((tuple(row["namespace"])), row["key"]) for row in rows] == list(SAMPLE)
        assert [plain(row["value"]) for row in rows] == list(SAMPLE.values())
