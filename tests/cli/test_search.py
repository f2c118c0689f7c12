"""`memctl search`: text, filters, times, expiry, order, likeness."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ITEMS, NAMES, NEWEST_FIRST, PREFS, MakeStore
from tests.contract.backends import CREATED, RawItem, in_order, vector
from tests.invocation import Memctl, exact


def found(memctl: Memctl, store: Path, *arguments: str) -> list[tuple[str, ...]]:
    """The names of what a search finds, in its order."""
    return memctl.names("-s", store, "search", *arguments)


def found_keys(memctl: Memctl, store: Path, *arguments: str) -> list[str]:
    """The keys alone, by name."""
    return [key for _, key in found(memctl, store, "--order", "name", *arguments)]


class TestRows:
    def test_everything_newest_first(self, memctl: Memctl, store: Path) -> None:
        rows = memctl.json("-s", store, "search")
        assert [(".".join(row["namespace"]), row["key"]) for row in rows] == NEWEST_FIRST
        by_name = {(item.prefix, item.key): item for item in ITEMS}
        for row, name in zip(rows, NEWEST_FIRST, strict=True):
            item = by_name[name]
            assert list(row) == [
                "namespace", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes",
            ]  # fmt: skip
            assert row["value"] == exact(item.value)
            assert (row["created_at"], row["updated_at"]) == (CREATED, item.updated_at)
            assert (row["expires_at"], row["ttl_minutes"]) == (item.expires_at, item.ttl_minutes)

    def test_vectors(self, memctl: Memctl, store: Path) -> None:
        rows = memctl.json("-s", store, "search", "--vectors", "--order", "name")
        assert [[found["field"] for found in row["vectors"]] for row in rows] == [
            [found.field for found in item.vectors] for item in ITEMS
        ]
        octets = base64.b64decode(rows[1]["vectors"][0]["embedding"])
        assert octets == ITEMS[1].vectors[0].octets

    def test_nothing_found_is_no_failure(self, memctl: Memctl, store: Path) -> None:
        assert memctl.json("-s", store, "search", "no such text") == []
        assert memctl.json("-s", store, "search", "--in", "*.nobody") == []

    def test_damaged_items_are_shown_marked_and_counted(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store([RawItem("a", "bad", '{"half'), RawItem("a", "good"), RawItem("a", "list", "[1]")])
        outcome = memctl("-s", store, "-o", "json", "search")
        assert outcome.code == 3
        assert {row["key"]: "problems" in row for row in outcome.json()} == {
            "bad": True,
            "good": False,
            "list": True,
        }
        assert "2 items" in outcome.err
        assert memctl("-s", store, "search", "--count").code == 0
        assert found(memctl, store, "--filter", "n=1") == [("a", "good")]


class TestText:
    @pytest.mark.parametrize(
        ("text", "keys"),
        [
            ("aisle", ["seat"]),
            ("AISLE", ["seat"]),
            ("Covers", ["m1", "m2"]),
            ("fintech", ["m1"]),
            ("naïve", ["m2"]),
            ("NAÏVE", ["m2"]),
            ("memory", ["m1"]),
            ("vegan", ["meal"]),
            ("travel", ["meal"]),
            ("subject", []),  # an object's keys are no text
            ("10", []),  # nor are numbers
            ("true", []),
            ("9", ["meal"]),
            (",", []),
            ("food", ["meal"]),
            ("foodtravel", []),
        ],
    )
    def test_substring_of_any_string(self, memctl: Memctl, store: Path, text: str, keys: list[str]) -> None:
        assert found_keys(memctl, store, text) == keys

    @pytest.mark.parametrize(
        ("stored", "text"),
        [
            (r'{"a": "stra\u00dfe"}', "STRASSE"),
            ('{"a": "Straße"}', "strasse"),
            (r'{"a": "a\/b"}', "a/b"),
            (r'{"a": "line\nbreak"}', "line\nbreak"),
            (r'{"a": "tab\there"}', "tab\there"),
            (r'{"a": "quote\"here"}', 'e"h'),
            (r'{"a": "back\\slash"}', "back\\slash"),
            (r'{"a": "\ud83d\ude42"}', "🙂"),
            (r'{"a": [{"b": [["deep"]]}]}', "deep"),
            (r'{"a": "x", "a": "last"}', "last"),
        ],
    )
    def test_whatever_the_escaping(
        self, memctl: Memctl, make_store: MakeStore, stored: str, text: str
    ) -> None:
        store = make_store([RawItem("a", "b", stored), RawItem("a", "c", '{"a": "other"}')])
        assert found(memctl, store, text) == [("a", "b")]

    @pytest.mark.parametrize(
        ("pattern", "keys"),
        [("^Ana .* seat$", ["seat"]), ("AISLE", []), ("(?i)AISLE", ["seat"]), ("na.ve", ["m2"]), ("^$", []),
         (r"\bfood\b", ["meal"]), ("", None)],
    )  # fmt: skip
    def test_regex(self, memctl: Memctl, store: Path, pattern: str, keys: list[str] | None) -> None:
        if keys is None:
            assert memctl.refuse("-s", store, "search", "--regex", pattern, code=2)
        else:
            assert found_keys(memctl, store, "--regex", pattern) == keys

    def test_a_broken_regex(self, memctl: Memctl, store: Path) -> None:
        assert "regular expression" in memctl.refuse("-s", store, "search", "--regex", "(", code=2)["message"]


class TestNamespace:
    def test_descendants_and_wildcards(self, memctl: Memctl, store: Path) -> None:
        assert found(memctl, store, "--in", "users.ana", "--order", "name") == NAMES[1:5]
        assert found_keys(memctl, store, "--in", "users.*.prefs", "--filter", "value=window") == ["seat"]
        assert found_keys(memctl, store, "--in", "*.acme") == ["cadence"]
        assert found_keys(memctl, store, "Covers", "--in", "users.ana.memories") == ["m1", "m2"]

    def test_a_literal_one_that_holds_nothing(self, memctl: Memctl, store: Path) -> None:
        assert memctl.refuse("-s", store, "search", "--in", "users.anna", code=5)["code"] == "not-found"

    def test_the_empty_one(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store([RawItem("", "k"), RawItem(".a", "k"), RawItem("a", "k")])
        assert found(memctl, store, "--in", "", "--order", "name") == [("", "k"), (".a", "k")]


VALUES = {
    "int9": '{"n": 9}',
    "int10": '{"n": 10}',
    "float": '{"n": 9.0}',
    "exponent": '{"n": 9e0}',
    "text9": '{"n": "9"}',
    "text10": '{"n": "10"}',
    "true": '{"n": true}',
    "one": '{"n": 1}',
    "null": '{"n": null}',
    "missing": '{"m": 1}',
    "big": '{"n": 9007199254740993}',
    "bigger": '{"n": 123456789012345678901234567890}',
    "small": '{"n": 0.1}',
    "zero": '{"n": -0.0}',
    "object": '{"n": {"a": 1, "b": [1, 2]}}',
    "list": '{"n": ["Food", "travel", 3]}',
    "lists": '{"n": [[1], {"x": "deep"}]}',
    "dotted": '{"a.b": 5, "a": {"b": 6}}',
    "unicode": '{"n": "Stra\\u00dfe"}',
}
EVERY = set(VALUES)
NINES = {"int9", "float", "exponent"}


class TestFilters:
    @pytest.fixture
    def values(self, make_store: MakeStore) -> Path:
        return make_store(in_order(RawItem("v", key, value) for key, value in VALUES.items()))

    @pytest.mark.parametrize(
        ("condition", "keys"),
        [
            ("n=9", NINES),
            ("n = 9", NINES),
            ("n=9.00", NINES),
            ("n=90e-1", NINES),
            ('n="9"', {"text9"}),
            ("n!=9", EVERY - NINES),
            ('n!="9"', EVERY - {"text9"}),
            ("n>9", {"int10", "big", "bigger"}),
            ("n>=9", NINES | {"int10", "big", "bigger"}),
            ("n<9", {"one", "small", "zero"}),
            ("n<=9", NINES | {"one", "small", "zero"}),
            ('n>"10"', {"text9", "unicode"}),
            ('n>="10"', {"text9", "text10", "unicode"}),
            ('n<"9"', {"text10"}),
            ('n<="9"', {"text9", "text10"}),
            ("n>nine", set()),
            ("n<nine", {"text9", "text10", "unicode"}),
            ("n=9007199254740993", {"big"}),
            ("n=9007199254740992", set()),
            ("n>9007199254740992", {"big", "bigger"}),
            ("n=123456789012345678901234567890", {"bigger"}),
            ("n=123456789012345678901234567891", set()),
            ("n=0.1", {"small"}),
            ("n=0.1000000000000000055511151231257827", set()),
            ("n=0", {"zero"}),
            ("n=1", {"one"}),
            ("n=true", {"true"}),
            ("n!=true", EVERY - {"true"}),
            ("n>=true", set()),
            ("n<true", set()),
            ("n=null", {"null"}),
            ("n!=null", EVERY - {"null"}),
            ("n>null", set()),
            ('n={"b": [1, 2.0], "a": 1}', {"object"}),
            ('n={"a": 1}', set()),
            ('n!={"a": 1}', EVERY),
            ("n.a=1", {"object"}),
            ("n.b[0]=1", {"object"}),
            ("n.b[-1]=2", {"object"}),
            ("n.b[2]=1", set()),
            ("n[0]=Food", {"list"}),
            ("n[1].x=deep", {"lists"}),
            ("n[0][0]=1", {"lists"}),
            ("n[0]=food", set()),
            ("n~food", {"list"}),
            ("n~FOO", {"list"}),
            ("n~strasse", {"unicode"}),
            ("n~deep", set()),
            ("n~9", {"text9"}),
            ("n~3", set()),
            ("n!~food", EVERY - {"list"}),
            ("n~", {"text9", "text10", "unicode", "list"}),
            ("a.b=6", {"dotted"}),
            ('"a.b"=5', {"dotted"}),
            ('"a.b"=6', set()),
            ("a.b!=6", EVERY - {"dotted"}),
            ("nothing=1", set()),
            ("nothing!=1", EVERY),
            ("nothing=null", set()),
            ("nothing<1", set()),
            ("n=", set()),
            ('n!=""', EVERY),
            ('{"n": 9}', NINES),
            ('{"n": {"$eq": 9}}', NINES),
            ('{"n": {"$ne": 9}}', EVERY - NINES),
            ('{"n": {"$gt": 9}}', {"int10", "big", "bigger"}),
            ('{"n": {"$gte": 9, "$lt": 11}}', NINES | {"int10"}),
            ('{"n": {"$lt": "9"}}', {"text10"}),
            ('{"n": {"$lte": "9"}}', {"text9", "text10"}),
            ('{"n": {"a": 1, "b": [1, 2]}}', {"object"}),
            ('{"n": {"a": 1}}', set()),
            ('{"n": {"$eq": {"a": 1, "b": [1, 2]}}}', {"object"}),
            ('{"a.b": 5}', {"dotted"}),
            ('{"a.b": 6}', set()),
            ('{"n": null}', {"null"}),
            ('{"nothing": null}', set()),
            ('{"nothing": {"$ne": 1}}', EVERY),
            ('{"n": true}', {"true"}),
            ('{"a.b": 5, "a": {"b": 6}}', {"dotted"}),
            ("{}", EVERY),
            (' {"n": 10}', {"int10"}),
        ],
    )
    def test_condition(self, memctl: Memctl, values: Path, condition: str, keys: set[str]) -> None:
        assert set(found_keys(memctl, values, "--filter", condition)) == keys

    def test_repeated_means_and(self, memctl: Memctl, values: Path) -> None:
        assert set(found_keys(memctl, values, "--filter", "n>=9", "--filter", "n<11")) == NINES | {"int10"}

    @pytest.mark.parametrize(
        "condition",
        ["", "n", "n==", "=9", "n.=9", "n[=9", "n[x]=9", '"n=9', "{", '{"n": }', '{"n": {"$in": [1]}}',
         '{"n": {"$gt": 1, "x": 2}}', "[1]", ".n=9", "n..m=9"],
    )  # fmt: skip
    def test_what_is_no_filter(self, memctl: Memctl, values: Path, condition: str) -> None:
        outcome = memctl("-s", values, "-o", "json", "search", "--filter", condition)
        if condition == "n==":  # PATH `n`, OP `=`, VALUE `=`
            assert outcome.json() == []
        else:
            assert outcome.code == 2, condition
            assert outcome.error["code"] == "usage"

    def test_nothing_is_spliced(self, memctl: Memctl, values: Path) -> None:
        for condition in (
            "n='; DROP TABLE store; --",
            '"\'; DROP TABLE store; --"=1',
            "n=%s",
            "n~%",
            "n~_",
            "n~*",
        ):
            assert found_keys(memctl, values, "--filter", condition) == []
        assert len(found_keys(memctl, values)) == len(VALUES)


class TestTimes:
    """`ITEMS` were updated at 07:00:01 to 07:00:06, and created the day before; now is 08:00."""

    @pytest.mark.parametrize(
        ("options", "count"),
        [
            (["--since", "2026-11-30T07:00:04Z"], 3),
            (["--since", "2026-11-30 07:00:04"], 3),
            (["--since", "2026-11-30T12:30:04+05:30"], 3),
            (["--since", "2026-11-30T07:00:04.000001Z"], 2),
            (["--until", "2026-11-30T07:00:04Z"], 4),
            (["--until", "2026-11-30T07:00:03.999999Z"], 3),
            (["--since", "2026-11-30T07:00:02Z", "--until", "2026-11-30T07:00:03Z"], 2),
            (["--since", "2026-11-30"], 6),
            (["--until", "2026-11-30"], 0),
            (["--since", "1h"], 6),
            (["--since", "59m"], 0),
            (["--since", "45d"], 6),
            (["--until", "1h"], 0),
            (["--until", "59m56s"], 4),
            (["--since", "2026-11-30", "--by", "created_at"], 0),
            (["--until", "2026-11-30", "--by", "created_at"], 6),
            (["--since", "1d", "--by", "created_at"], 6),
            (["--since", "12h", "--by", "created_at"], 0),
            (["--since", "9000y"], 6),
            (["--since", "1h30m"], 6),
            (["--since", "20261130T070004Z"], 3),
        ],
    )
    def test_bounds(self, memctl: Memctl, store: Path, options: list[str], count: int) -> None:
        assert len(found(memctl, store, *options)) == count

    @pytest.mark.parametrize(
        "options",
        [["--since", "yesterday"], ["--since", "2026-13-01"], ["--since", "5 parsecs"], ["--by", "expires_at"],
         ["--since", "1d", "--until", "2d"], ["--since", "-1d"], ["--since", "99999999y"],
         ["--since", "0001-01-01T00:00:00+05:00"]],
    )  # fmt: skip
    def test_what_is_no_time(self, memctl: Memctl, store: Path, options: list[str]) -> None:
        assert memctl.refuse("-s", store, "search", *options, code=2)["code"] == "usage"

    def test_an_unknown_time_is_in_no_interval(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store([RawItem("a", "b", updated_at=None), RawItem("a", "c")])
        assert found(memctl, store, "--since", "1y") == [("a", "c")]
        assert found(memctl, store, "--until", "2099-01-01") == [("a", "c")]
        assert [row["key"] for row in memctl.json("-s", store, "search", code=3)] == ["c", "b"]


class TestExpiry:
    def test_expired_and_live(self, memctl: Memctl, store: Path) -> None:
        assert found_keys(memctl, store, "--expired") == ["cadence"]
        assert found_keys(memctl, store, "--live") == ["m1", "m2", "meal", "seat", "seat"]
        assert memctl.refuse("-s", store, "search", "--live", "--expired", code=2)

    def test_an_item_is_expired_from_its_expiry_on(self, memctl: Memctl, make_store: MakeStore) -> None:
        times = ("2026-11-30T07:59:59.999999Z", "2026-11-30T08:00:00.000000Z", "2026-11-30T08:00:00.000001Z")
        store = make_store(RawItem("a", str(number), expires_at=time) for number, time in enumerate(times))
        assert found_keys(memctl, store, "--expired") == ["0", "1"]
        assert found_keys(memctl, store, "--live") == ["2"]

    def test_a_store_that_knows_no_expiry(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store(ITEMS, expiry=False)
        assert memctl.refuse("-s", store, "search", "--expired", code=1)["code"] == "unsupported"
        assert len(found(memctl, store, "--live")) == 6


class TestOrder:
    @pytest.mark.parametrize(
        ("order", "names"),
        [
            ("newest", NEWEST_FIRST),
            ("oldest", NEWEST_FIRST[::-1]),
            ("name", NAMES),
            (
                "bytes",
                [
                    (item.prefix, item.key)
                    for item in sorted(ITEMS, key=lambda item: -len(item.value.encode()))
                ],
            ),
        ],
    )
    def test_order(self, memctl: Memctl, store: Path, order: str, names: list[tuple[str, str]]) -> None:
        assert found(memctl, store, "--order", order) == names
        for offset in range(8):
            for limit in range(8):
                shown = found(memctl, store, "--order", order, "--limit", str(limit), "--offset", str(offset))
                assert shown == names[offset : offset + limit], (limit, offset)
            assert found(memctl, store, "--order", order, "--offset", str(offset)) == names[offset:]

    def test_ties_go_by_namespace_and_key(self, memctl: Memctl, make_store: MakeStore) -> None:
        items = in_order(
            RawItem(prefix, key)
            for prefix in ("a", "a b", "a-b", "a.b", "é", "B")
            for key in ("2", "1", "É", "e")
        )
        store = make_store(reversed(items))
        for order in ("newest", "oldest", "bytes", "name"):
            assert found(memctl, store, "--order", order) == [(item.prefix, item.key) for item in items]

    def test_by_created_at(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store(
            RawItem("a", str(day), created_at=f"2026-11-0{day}T00:00:00.000000Z",
                    updated_at=f"2026-11-1{9 - day}T00:00:00.000000Z")
            for day in (2, 3, 1)
        )  # fmt: skip
        assert [key for _, key in found(memctl, store)] == ["1", "2", "3"]
        assert [key for _, key in found(memctl, store, "--by", "created_at")] == ["3", "2", "1"]

    def test_there_is_no_limit_unless_asked_for(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store(RawItem("a", f"{number:04}") for number in range(2_500))
        assert len(found(memctl, store)) == 2_500

    def test_an_order_that_is_none(self, memctl: Memctl, store: Path) -> None:
        assert memctl.refuse("-s", store, "search", "--order", "random", code=2)
        assert memctl.refuse("-s", store, "search", "--offset", "-1", code=2)


class TestCount:
    @pytest.mark.parametrize(
        ("options", "count"),
        [
            ([], 6),
            (["seat"], 1),
            (["--filter", "n=9"], 1),
            (["--in", "users.ana"], 4),
            (["nothing"], 0),
            (["--expired"], 1),
        ],
    )
    def test_count(self, memctl: Memctl, store: Path, options: list[str], count: int) -> None:
        assert memctl.json("-s", store, "search", "--count", *options) == {"count": count}
        assert memctl("-s", store, "search", "--count", *options).out == f"{count}\n"


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """As simply as it can be said."""
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (math.dist(a, [0.0] * len(a)) * math.dist(b, [0.0] * len(b)))


TEXTS = [f"text {number}" for number in range(15)]
LIKE_ITEMS = in_order(
    [RawItem("v", text, vectors=(vector("$", text),)) for text in TEXTS]
    + [RawItem("v", "many", vectors=tuple(vector(f"f.{number}", text) for number, text in enumerate(TEXTS[3:6]))),
       RawItem("w", "none")]
)  # fmt: skip
EMBEDDER = """
from tests.writers import embedder

embed = embedder(8)
wide = embedder(16)


def broken(texts):
    raise ValueError("out of tokens")


def words(texts):
    return ["no numbers"]


async def later(texts):
    return embed(texts)


class Model:
    def embed_query(self, text):
        return embed([text])[0]


model = Model()
"""


class TestLikeness:
    @pytest.fixture
    def embedded(self, make_store: MakeStore, tmp_path: Path) -> Path:
        (tmp_path / "my_embedder.py").write_text(EMBEDDER)
        return make_store(LIKE_ITEMS)

    def oracle(self, query: str, *, without: str = "", fields: int = 1) -> list[tuple[str, float]]:
        """Keys and scores, best first, ties by key."""
        [numbers] = (vector("$", query).numbers,)
        scores = {
            item.key: max(cosine(numbers, found.numbers) for found in item.vectors)
            for item in LIKE_ITEMS
            if item.vectors and item.key != without
        }
        return sorted(scores.items(), key=lambda pair: (-round(pair[1], 6), pair[0]))

    def check(self, rows: list[dict[str, Any]], expected: list[tuple[str, float]]) -> None:
        assert [row["key"] for row in rows] == [key for key, _ in expected]
        assert [float(row["score"]) for row in rows] == pytest.approx(
            [score for _, score in expected], abs=2e-6
        )
        assert next(iter(rows[0])) == "score"

    def test_semantic(self, memctl: Memctl, embedded: Path) -> None:
        ask = ("-s", embedded, "search", "--semantic", "a question", "--embed", "my_embedder:embed")
        self.check(memctl.json(*ask, "--limit", "100"), self.oracle("a question"))
        self.check(memctl.json(*ask, "--limit", "3", "--offset", "2"), self.oracle("a question")[2:5])
        assert memctl.json(*ask, "--limit", "5", "--offset", "100") == []

    def test_ten_by_default_and_it_says_so(self, memctl: Memctl, embedded: Path) -> None:
        ask = ("-s", embedded, "search", "--semantic", "a question", "--embed", "my_embedder:embed")
        outcome = memctl("-o", "json", *ask)
        self.check(outcome.json(), self.oracle("a question")[:10])
        assert "10" in outcome.err
        assert "--limit" in outcome.err
        assert memctl("-o", "json", "-q", *ask).err == ""
        assert memctl("-o", "json", *ask, "--limit", "10").err == ""

    def test_like(self, memctl: Memctl, embedded: Path) -> None:
        """Without the item itself; one row an item, by its best vector."""
        rows = memctl.json("-s", embedded, "search", "--like", "v", "text 4", "--limit", "100")
        self.check(rows, self.oracle("text 4", without="text 4"))
        assert rows[0]["key"] == "many"
        assert float(rows[0]["score"]) == 1

    def test_like_uses_all_vectors_of_the_item(self, memctl: Memctl, embedded: Path) -> None:
        rows = memctl.json("-s", embedded, "search", "--like", "v", "many", "--limit", "3")
        assert [(row["key"], float(row["score"])) for row in rows] == [(text, 1) for text in TEXTS[3:6]]

    def test_conditions_narrow_it(self, memctl: Memctl, embedded: Path) -> None:
        ask = ("-s", embedded, "search", "--semantic", "q", "--embed", "my_embedder:embed")
        assert memctl.json(*ask, "--in", "w") == []
        assert memctl.json(*ask, "--filter", "n=2") == []
        assert len(memctl.json(*ask, "--in", "v", "--filter", "n=1", "--limit", "99")) == 16

    def test_of_equal_likeness_the_first_names_win(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store(
            RawItem("v", f"{number:02}", vectors=(vector("$", "same"),)) for number in range(30)
        )
        rows = memctl.json("-s", store, "search", "--like", "v", "07", "--limit", "8")
        assert [row["key"] for row in rows] == ["00", "01", "02", "03", "04", "05", "06", "08"]

    @pytest.mark.parametrize("embedder", ["my_embedder:later", "my_embedder:Model", "my_embedder:model"])
    def test_other_kinds_of_embedder(self, memctl: Memctl, embedded: Path, embedder: str) -> None:
        rows = memctl.json("-s", embedded, "search", "--semantic", "q", "--embed", embedder, "--limit", "3")
        self.check(rows, self.oracle("q")[:3])

    def test_the_local_model(self, memctl: Memctl, make_store: MakeStore) -> None:
        """No key and no network; its 256 dims are not this store's."""
        store = make_store(LIKE_ITEMS)
        error = memctl.refuse("-s", store, "search", "--semantic", "q", "--embed", "local", code=1)
        assert error["code"] == "dims"
        assert "256" in error["message"]
        assert "8" in error["message"]

    def test_a_dims_mismatch_says_which_the_store_has(self, memctl: Memctl, embedded: Path) -> None:
        error = memctl.refuse(
            "-s", embedded, "search", "--semantic", "q", "--embed", "my_embedder:wide", code=1
        )
        assert error["code"] == "dims"
        assert "16" in error["message"]
        assert "8" in error["message"]

    @pytest.mark.parametrize(
        ("embedder", "code"),
        [
            ("my_embedder:broken", 1),
            ("my_embedder:words", 1),
            ("my_embedder", 2),
            ("", 2),
            ("my_embedder:", 2),
        ],
    )
    def test_embedders_that_are_none(self, memctl: Memctl, embedded: Path, embedder: str, code: int) -> None:
        error = memctl.refuse("-s", embedded, "search", "--semantic", "q", "--embed", embedder, code=code)
        assert error["message"]

    @pytest.mark.parametrize(
        "options",
        [
            ["--semantic", "q"],
            ["--embed", "local"],
            ["--like", "v", "text 1", "--semantic", "q", "--embed", "local"],
            ["--like", "v", "text 1", "--order", "name"],
            ["--like", "v", "text 1", "--count"],
            ["--like", "v"],
            ["--like", "*", "text 1"],
        ],
    )
    def test_usage(self, memctl: Memctl, embedded: Path, options: list[str]) -> None:
        assert memctl.refuse("-s", embedded, "search", *options, code=2)["code"] == "usage"

    def test_like_something_that_is_not_there(self, memctl: Memctl, embedded: Path) -> None:
        assert "text 1" in memctl.refuse("-s", embedded, "search", "--like", "v", "text 1x", code=5)["hint"]
        assert memctl.refuse("-s", embedded, "search", "--like", "w", "none", code=5)["code"] == "no-vectors"

    def test_a_store_without_vectors(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store(LIKE_ITEMS, vectors=False)
        assert memctl.refuse("-s", store, "search", "--like", "v", "text 1", code=1)["code"] == "unsupported"

    def test_orphans_never_rank(self, memctl: Memctl, make_store: MakeStore, tmp_path: Path) -> None:
        from tests.contract.backends import SqliteBackend

        store = make_store(LIKE_ITEMS)
        SqliteBackend(tmp_path).orphan("v", "gone", vector("$", "text 4"))
        keys = [row["key"] for row in memctl.json("-s", store, "search", "--like", "v", "text 4")]
        assert "gone" not in keys

    def test_a_known_item_beats_a_configured_prefix(self, memctl: Memctl, store: Path) -> None:
        rows = memctl.json("-s", store, "search", "--like", PREFS, "meal", "--vectors")
        assert {row["key"] for row in rows} == {"m1", "seat"}
        assert all(row["vectors"] for row in rows)
