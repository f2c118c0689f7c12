"""`memctl policy check`: what a policy says about a store, and about one item."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import ITEMS, PREFS, MakeStore
from tests.contract.backends import RawItem
from tests.invocation import Memctl

TEXT = """
[[rule]]
name = "confirmed facts"
namespace = "org"
filter = "confirmed=true"
keep = "forever"
[[rule]]
namespace = "*.*.memories"
keep = "30m"
since = "created_at"
[[rule]]
name = "prefs"
namespace = "users"
keep_last = 1
"""


@pytest.fixture
def policy(memctl: Memctl) -> str:
    (memctl.folder / "retention.toml").write_text(TEXT)
    return "retention.toml"


def test_without_a_store_the_file_is_checked(memctl: Memctl, policy: str) -> None:
    found = memctl.json("policy", "check", policy)
    assert found["store"] is None
    assert [rule["keeps"] for rule in found["rules"]] == [
        "keep forever",
        "keep 30m, since created_at",
        "keep_last 1",
    ]
    assert "retention.toml is good: 3 rules" in memctl("policy", "check", policy).out


def test_a_bad_file_is_refused(memctl: Memctl, store: Path) -> None:
    (memctl.folder / "bad.toml").write_text('[[rule]]\nname = "x"\nkeep = "7 dogs"\n')
    error = memctl.refuse("-s", store, "policy", "check", "bad.toml", code=2)
    assert error["code"] == "bad-policy"
    assert error["message"].startswith("bad.toml: rule 1 (x), line 1: keep: '7 dogs'")
    assert memctl.refuse("policy", "check", "none.toml", code=2)["code"] == "usage"
    (memctl.folder / "bad.toml").write_bytes(b"\xff")
    assert "no UTF-8" in memctl.refuse("policy", "check", "bad.toml", code=2)["message"]
    assert "policy check FILE" in memctl.refuse("policy", "delete", "bad.toml", code=2)["message"]


def test_what_each_rule_decides(memctl: Memctl, store: Path, policy: str) -> None:
    before = store.read_bytes()
    found = memctl.json("-s", store, "policy", "check", policy)
    assert [(rule["name"], rule["decides"], rule["goes"], rule["next"]) for rule in found["rules"]] == [
        ("expired", 1, 1, None),
        ("confirmed facts", 0, 0, None),
        ("rule 2", 2, 2, None),
        ("prefs", 3, 1, None),
        ("no rule", 0, 0, None),
    ]
    assert (found["items"], found["goes"], found["undecided"]) == (len(ITEMS), 4, 0)
    assert found["goes"] == memctl.json("-s", store, "sweep", "--policy", policy, "-n")["items"]
    assert "4 of 6 items" in memctl("-s", store, "policy", "check", policy).out
    assert store.read_bytes() == before


def test_when_the_next_one_goes(memctl: Memctl, store: Path) -> None:
    (memctl.folder / "p.toml").write_text('[[rule]]\nkeep = "2h"\n')
    found = memctl.json("-s", store, "policy", "check", "p.toml")
    assert found["rules"][1]["next"] == "2026-11-30T09:00:01.000000Z"


@pytest.mark.parametrize(
    ("item", "rule", "goes", "at", "place"),
    [
        (("org.acme.facts", "cadence"), 0, True, "2026-11-30T07:42:43.843759Z", None),
        (("users.ana.memories", "m1"), 2, True, "2026-11-29T10:50:30.000000Z", None),
        ((PREFS, "meal"), 3, True, "2026-11-30T09:13:09.000000Z", (2, 2)),
        ((PREFS, "seat"), 3, False, None, (1, 2)),
        (("users.bo.prefs", "seat"), 3, False, None, (1, 1)),
    ],
)
def test_one_item(
    memctl: Memctl, store: Path, policy: str, item: tuple[str, str], rule: int, goes: bool, at: str | None,
    place: tuple[int, int] | None,
) -> None:  # fmt: skip
    found = memctl.json("-s", store, "policy", "check", policy, "--item", *item)
    assert (".".join(found["namespace"]), found["key"]) == item
    assert (found["rule"], found["goes"], found["at"]) == (rule, goes, at)
    assert (found["place"], found["among"]) == (place or (None, None))
    out = memctl("-s", store, "policy", "check", policy, "--item", *item).out
    assert ("would go now" if goes else "stays") in out


def test_an_item_that_is_not_there(memctl: Memctl, store: Path, policy: str) -> None:
    error = memctl.refuse("-s", store, "policy", "check", policy, "--item", PREFS, "seta", code=5)
    assert "seat" in error["hint"]
    assert (
        memctl.refuse("policy", "check", policy, "--item", PREFS, "seat", code=2)["code"] == "no-store-named"
    )


def test_a_value_that_no_filter_can_judge(memctl: Memctl, make_store: MakeStore) -> None:
    """Not decided: neither by the rule that may fit nor by the one behind it, unless its own expiry has come."""
    texts = {
        "cut": '{"ok": fal',
        "deep": "[" * 5_000,
        "huge": '{"n": 1e99999999999999999999}',
        "read": '{"ok": false}',
    }
    items = [RawItem("a", key, value) for key, value in texts.items()]
    items += [RawItem("a", "gone", "{", expires_at="2026-11-30T07:00:00.000000Z"), RawItem("b", "cut", "{")]
    store = make_store(items)
    (memctl.folder / "p.toml").write_text(
        '[[rule]]\nname = "pinned"\nnamespace = "a"\nfilter = "ok=true"\nkeep = "forever"\n[[rule]]\nkeep = "1m"\n'
    )
    found = memctl.json("-s", store, "policy", "check", "p.toml", code=3)
    assert (found["goes"], found["undecided"]) == (3, 3)
    assert found["rules"][1]["decides"] == 3
    outcome = memctl("-s", store, "policy", "check", "p.toml", "--item", "a", "cut")
    assert outcome.code == 3
    assert "a cut: is left alone" in outcome.out
    assert "value: no valid JSON" in outcome.err
    swept = memctl.json("-s", store, "sweep", "--policy", "p.toml", "--yes", code=3)
    assert (swept["items"], swept["rejected"]) == (3, 3)
    assert [(each["key"], each["problems"][-1]["part"]) for each in swept["odd"]] == [
        ("cut", "value"), ("deep", "value"), ("huge", "value"),
    ]  # fmt: skip
    outcome = memctl("-s", store, "sweep", "--policy", "p.toml")
    assert "a 'cut': value: no valid JSON" in outcome.err
    assert "`memctl put` replaces a value" in outcome.err
    assert "--include-odd" not in outcome.err


def test_an_age_that_is_odd(memctl: Memctl, make_store: MakeStore) -> None:
    store = make_store([RawItem("a", "k", "{}", updated_at=None)])
    (memctl.folder / "p.toml").write_text('[[rule]]\nkeep = "1m"\n')
    outcome = memctl("-s", store, "sweep", "--policy", "p.toml", "--yes")
    assert outcome.code == 3
    assert "memctl doctor --fix timestamps" in outcome.err
    assert "memctl expire" not in outcome.err
