"""Renaming namespaces by template."""

from __future__ import annotations

import pytest

from memctl.errors import UsageError
from memctl.mapping import Mapping, parse


def renamed(prefix: str, *rules: str, into: str | None = None) -> str:
    return parse(rules, into).apply(prefix)


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("a=b", "a", "b"),
        ("a=b", "a.x.y", "b.x.y"),
        ("a=b", "ab", "ab"),
        ("a=b", "x.a", "x.a"),
        ("a.b=c", "a", "a"),
        ("a.b=c", "a.b.d", "c.d"),
        ("prefs.{user}={user}.prefs", "prefs.ana", "ana.prefs"),
        ("prefs.{user}={user}.prefs", "prefs.ana.food", "ana.prefs.food"),
        ("prefs.{user}={user}.prefs", "prefs", "prefs"),
        ("{a}.{b}={b}.{a}.{b}", "x.y.z", "y.x.y.z"),
        ("{a}.{a}=twice.{a}", "x.x", "twice.x"),
        ("{a}.{a}=twice.{a}", "x.y", "x.y"),
        ("{{user}}=user", "{user}", "user"),
        ("{{user}}=user", "ana", "ana"),
        ("user={{user}}", "user", "{user}"),
        (r"\*.a=star.a", "*.a", "star.a"),
        (r"\*.a=star.a", "x.a", "x.a"),
        (r"a=\*", "a", "*"),
        ("a=b=c", "a", "b=c"),
        ("{user}={user}.{{user}}", "*", "*.{user}"),
        ("=root", "", "root"),
        ("=root", ".a", "root.a"),
        ("{x}={x}", "\udcff", "\udcff"),
    ],
)
def test_one_rule(rule: str, old: str, new: str) -> None:
    assert renamed(old, rule) == new


def test_the_first_that_fits_counts() -> None:
    rules = ("a.b=first", "a=second", "first=third")
    assert [renamed(name, *rules) for name in ("a.b", "a.c", "first", "z")] == [
        "first",
        "second.c",
        "third",
        "z",
    ]


def test_into_stands_in_front_of_everything() -> None:
    assert renamed("x.y", into="archive.2026") == "archive.2026.x.y"
    assert renamed("a.y", "a=b", into="archive") == "archive.b.y"
    assert renamed("", into="archive") == "archive."


def test_only_a_mapping_that_does_something_is_true() -> None:
    assert not Mapping()
    assert not parse([])
    assert parse(["a=b"])
    assert parse([], "x")


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("a", "OLD=NEW is expected"),
        ("", "OLD=NEW is expected"),
        ("prefs.{user}=prefs", "{user} stands on one side only"),
        ("prefs=prefs.{user}", "{user} stands on one side only"),
        ("{a}={b}", "stands on one side only"),
        ("a.*=b", "a wildcard cannot be renamed"),
        ("a=*", "a wildcard cannot be renamed"),
    ],
)
def test_what_is_no_rule(rule: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse([rule])
    assert complaint in caught.value.message


def test_into_names_one_namespace() -> None:
    with pytest.raises(UsageError):
        parse([], "archive.*")
