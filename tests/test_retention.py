"""Retention policies: how they are read, and what they take, against an oracle that knows no streams and no sorting."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memctl import sorting, sweeping
from memctl.errors import UsageError
from memctl.instants import from_datetime
from memctl.model import Instant, Item, Problem, Scope
from memctl.namespaces import parse as parse_namespace
from memctl.retention import Policy, parse
from memctl.sweeping import EXPIRED, Sweep

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
SETTINGS = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=int(os.environ.get("MEMCTL_TEST_EXAMPLES", "15")) * 8,
)
PREFIXES = ("ana.facts", "ana.facts.work", "ana.prefs", "bo.facts", "bo", "")
PATTERNS = ("*.facts", "ana", "*", "ana.facts.work", "*.*.work", "bo.facts")


def ago(hours: float) -> Instant:
    return from_datetime(NOW - timedelta(hours=hours))


class Memory:
    """A store of a few items in memory: as much of one as deciding takes."""

    def __init__(self, items: list[Item]) -> None:
        self._items = sorted(items, key=lambda item: (item.prefix.encode(), item.key.encode()))

    def scan(self, scope: Scope, *, values: bool = True, **_: Any) -> Iterator[Item]:
        for item in self._items:
            if scope.prefix is None or f"{item.prefix}.".startswith(f"{scope.prefix}."):
                yield item if values else msgspec.structs.replace(item, value=None)


hours = st.integers(0, 6)
VALUES = ('{"ok": true}', '{"ok": true}', '{"ok": false}', '{"n": 3}', "no JSON")
row = st.tuples(
    st.sampled_from(PREFIXES),
    st.sampled_from("abcdefgh"),
    st.sampled_from(VALUES),
    hours,
    st.sampled_from([0, 1, 1, 2, 2, 3, 4, 5, None]),
    st.sampled_from([*[None] * 7, -3, 0, 1, 2]),
    st.sampled_from([*[None] * 9, "expires_at", "updated_at", "created_at"]),
)


def item_of(
    prefix: str, key: str, value: str, created: int, updated: int | None, expires: int | None, odd: str | None
) -> Item:
    """An item whose times lie so many hours back; `odd` is a column that could only be guessed at."""
    faults = {odd, "updated_at" if updated is None else None} - {None}
    return Item(
        prefix,
        key,
        value.encode(),
        len(value),
        ago(created),
        None if updated is None else ago(updated),
        None if expires is None else ago(expires),
        None,
        (),
        tuple(Problem(str(part), "odd") for part in faults),
    )


stored = st.lists(row, min_size=10, max_size=30, unique_by=lambda row: row[:2]).map(
    lambda rows: [item_of(*row) for row in rows]
)


@st.composite
def rule_tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    tables = []
    for _ in range(draw(st.integers(1, 4))):
        table: dict[str, Any] = {}
        if draw(st.booleans()):
            table["namespace"] = draw(st.sampled_from(PATTERNS))
        if draw(st.integers(0, 3)) == 0:
            table["filter"] = draw(st.sampled_from(["ok=true", ["ok!=true", "n=3"], "n>2"]))
        kind = draw(st.sampled_from(["keep", "keep", "last", "last", "both", "forever"]))
        if kind in ("keep", "both"):
            table["keep"] = f"{draw(hours)}h"
            if draw(st.booleans()):
                table["since"] = draw(st.sampled_from(["updated_at", "created_at"]))
        if kind in ("last", "both"):
            table["keep_last"] = draw(st.integers(0, 3))
        if kind == "forever":
            table["keep"] = "forever"
        tables.append(table)
    return tables


def written(tables: list[dict[str, Any]]) -> str:
    lines = []
    for table in tables:
        lines += ["[[rule]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines)


def oracle(
    items: list[Item], tables: list[dict[str, Any]], *, grace: int, trusts_odd: bool, policy_only: bool
) -> tuple[dict[tuple[str, str], int], set[tuple[str, str]]]:
    """What goes, by which rule, and what is too odd to decide: straight from the words of the rules."""
    going: dict[tuple[str, str], int] = {}
    odd: set[tuple[str, str]] = set()
    counted: defaultdict[tuple[int, str], list[Item]] = defaultdict(list)
    now, until = ago(0), ago(grace)

    for item in items:
        place, faults = (item.prefix, item.key), {problem.part for problem in item.problems}
        has_odd_expiry = False
        if not policy_only and item.expires_at is None and "expires_at" in faults:
            has_odd_expiry = True
        elif not policy_only and item.expires_at is not None and item.expires_at <= until:
            if "expires_at" not in faults or trusts_odd:
                going[place] = EXPIRED
                continue
            has_odd_expiry = True
        number, table = next(
            (
                (n, t)
                for n, t in enumerate(tables, 1)
                if in_namespace(item, t) and passes(item, t) is not False
            ),
            (0, {}),
        )
        if table and passes(item, table) is None:
            odd.add(place)
            continue
        aged = table.get("keep", "forever") != "forever"
        since = table.get("since", "updated_at")
        looks_at = ({since} if aged else set()) | ({"updated_at"} if "keep_last" in table else set())
        if any(part in faults and not (trusts_odd and getattr(item, part)) for part in looks_at):
            odd.add(place)
            continue
        if aged and getattr(item, since) <= ago(int(table["keep"][:-1])):
            going[place] = number
        if "keep_last" in table and not (item.expires_at is not None and item.expires_at <= now):
            counted[number, item.prefix].append(item)
        if has_odd_expiry:
            odd.add(place)
    for (number, prefix), members in counted.items():
        members.sort(key=lambda item: item.key)
        members.sort(key=lambda item: item.updated_at or "", reverse=True)
        for item in members[tables[number - 1]["keep_last"] :]:
            going[prefix, item.key] = number
    return going, odd - going.keys()


def in_namespace(item: Item, table: dict[str, Any]) -> bool:
    labels, wanted = item.prefix.split("."), table.get("namespace", "").split(".")
    if "namespace" not in table:
        return True
    return len(labels) >= len(wanted) and all(w in ("*", h) for w, h in zip(wanted, labels, strict=False))


def passes(item: Item, table: dict[str, Any]) -> bool | None:
    """Whether the filter holds; None where nobody can tell."""
    if "filter" not in table:
        return True
    try:
        value = json.loads(item.value or b"")
    except ValueError:
        return None
    checks = {
        "ok=true": lambda: value.get("ok") is True,
        "ok!=true": lambda: value.get("ok") is not True,
        "n=3": lambda: value.get("n") == 3,
        "n>2": lambda: value.get("n", 0) > 2,
    }
    given = table["filter"] if isinstance(table["filter"], list) else [table["filter"]]
    return all(checks[text]() for text in given)


@SETTINGS
@given(
    items=stored, tables=rule_tables(), grace=st.integers(0, 3), trusts_odd=st.booleans(),
    policy_only=st.booleans(),
)  # fmt: skip
@pytest.mark.no_cover
def test_what_goes(
    items: list[Item], tables: list[dict[str, Any]], grace: int, trusts_odd: bool, policy_only: bool
) -> None:
    sweep = Sweep(
        ago(0), grace=timedelta(hours=grace), trusts_odd=trusts_odd, policy=parse(written(tables)),
        policy_only=policy_only,
    )  # fmt: skip
    odd: list[Item] = []
    found = list(sweep.find(Memory(items), odd.append))  # type: ignore[arg-type]
    places = [(going.item.prefix, going.item.key) for going in found]
    assert places == sorted(places, key=lambda place: (place[0].encode(), place[1].encode()))
    going, undecided = oracle(items, tables, grace=grace, trusts_odd=trusts_odd, policy_only=policy_only)
    assert {(each.item.prefix, each.item.key): each.rule for each in found} == going
    assert sorted((item.prefix, item.key) for item in odd) == sorted(undecided)
    assert all(each.item.value is None for each in found)


@SETTINGS
@given(items=stored, trusts_odd=st.booleans())
@pytest.mark.no_cover
def test_without_a_policy_what_has_expired_goes(items: list[Item], trusts_odd: bool) -> None:
    odd: list[Item] = []
    sweep = Sweep(ago(0), trusts_odd=trusts_odd)
    found = {(each.item.prefix, each.item.key): each.rule for each in sweep.find(Memory(items), odd.append)}  # type: ignore[arg-type]
    going, undecided = oracle(items, [{"keep": "forever"}], grace=0, trusts_odd=trusts_odd, policy_only=False)
    assert found == going
    assert {(item.prefix, item.key) for item in odd} == undecided


def test_a_namespace_of_any_size_is_ranked_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "SORTED_OCTETS", 50_000)
    items = [Item("a", f"{n:04}", b"{}", 2, ago(9), ago(n % 7), None, None) for n in range(2_000)]
    sweep = Sweep(ago(0), policy=parse("[[rule]]\nkeep_last = 300"))
    spilled: list[int] = []
    spill = sorting._spill
    monkeypatch.setattr(sorting, "_spill", lambda *rows: spilled.append(1) or spill(*rows))
    found = [each.item.key for each in sweep.find(Memory(items), never)]  # type: ignore[arg-type]
    newest = sorted(items, key=lambda item: (int(item.key) % 7, item.key))
    assert found == sorted(item.key for item in newest[300:])
    assert len(spilled) > 10


def never(item: Item) -> None:
    raise AssertionError(item)


def test_what_a_rule_says() -> None:
    policy = parse(
        '[[rule]]\nname = "n"\nnamespace = "*.facts"\nfilter = ["a=1", "b~x"]\nkeep = "1w"\nsince = "created_at"\n'
        "[[rule]]\nkeep_last = 0\n"
    )
    first, second = policy.rules
    assert (first.number, first.name, first.keep, first.since) == (1, "n", timedelta(days=7), "created_at")
    assert (first.pattern, len(first.filters)) == (parse_namespace("*.facts"), 2)
    assert (second.number, second.name, second.keep, second.keep_last) == (2, "rule 2", None, 0)
    assert (first.written, second.written) == ("keep 1w, since created_at", "keep_last 0")
    assert policy.looks_inside
    assert not Policy((second,)).looks_inside


GOOD = '[[rule]]\nkeep = "7d"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no rules"),
        ("[rule]\nkeep = '7d'", "no rules"),
        ("rule = 3", "no rules"),
        ("[[rule]", "no TOML"),
        (f"version = 1\n{GOOD}", "unknown key 'version'"),
        (f'{GOOD}\n# [[rule]]\n[[rule]]\nkep = "7d"', "rule 2, line 5: unknown key 'kep'"),
        ('[[rule]]\nname = "old facts"\nkeep = "7 dogs"', "rule 1 (old facts), line 1: keep: '7 dogs'"),
        ("[[rule]]\nkeep = 7", "keep: 7 is no text"),
        ("[[rule]]\nname = 3\nkeep = '7d'", "name: text is expected"),
        ('[[rule]]\nkeep = "7d"\nnamespace = "{user}.facts"', "namespace: '{user}.facts'"),
        ('[[rule]]\nkeep = "7d"\nnamespace = "a.**"', "namespace: 'a.**'"),
        ('[[rule]]\nkeep = "7d"\nnamespace = ["a"]', "namespace: ['a'] is no text"),
        ('[[rule]]\nkeep = "7d"\nfilter = "confirmed"', "filter: 'confirmed' is no filter"),
        ('[[rule]]\nkeep = "7d"\nfilter = [1]', "filter: 1 is no text"),
        ('[[rule]]\nkeep = "7d"\nsince = "now"', "since: 'now'"),
        ('[[rule]]\nkeep = "forever"\nsince = "created_at"', "since"),
        ('[[rule]]\nnamespace = "a"', "keeps nothing and takes nothing"),
        ("[[rule]]\nkeep_last = -1", "keep_last: -1"),
        ("[[rule]]\nkeep_last = true", "keep_last: True"),
        ('[[rule]]\nkeep_last = "5"', "keep_last: '5'"),
        ('[[rule]]\nkeep_last = 5\nkeep = "forever"', "exclude each other"),
    ],
)  # fmt: skip
def test_what_is_no_policy(text: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert says in refused.value.message
