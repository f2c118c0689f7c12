"""`namespaces`: names that nobody meant, and names that older searches did not tell apart."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.doctor import siblings
from memctl.doctor.finding import Level, Status
from memctl.doctor.names import ADDRESS, CONTROL, EMPTY, RESERVED_ROOT, TEMPLATE, fault_of, mended
from memctl.doctor.siblings import Siblings, folded
from tests.contract.backends import RawItem
from tests.doctor.clinic import SETTINGS, Clinic, places
from tests.invocation import Memctl

HEALTHY = ("acme.ana.preferences", "acme.bo.preferences", "acme.bo.sessions", "users.42.facts")


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("", EMPTY),
        ("a..b", EMPTY),
        (".a", EMPTY),
        ("a.", EMPTY),
        ("langgraph", RESERVED_ROOT),
        ("langgraph.x", RESERVED_ROOT),
        ("a\nb", CONTROL),
        ("a.\x7f", CONTROL),
        ("a.\x85", CONTROL),
        ("\u2028.{x}", CONTROL),
        ("acme.{user_id}.memories", TEMPLATE),
        ("acme.user-{id}", TEMPLATE),
        ("acme.{}", TEMPLATE),
        ("None", TEMPLATE),
        ("acme.null", TEMPLATE),
        ("acme.undefined.prefs", TEMPLATE),
        ("acme.dana@example.com.preferences", ADDRESS),
        ("dana.smith@example.co.uk", ADDRESS),
        ("dana@mail.example.com", ADDRESS),
    ],
)
def test_what_is_wrong_with_a_name(prefix: str, kind: str) -> None:
    fault = fault_of(prefix)
    assert fault is not None
    assert fault.kind == kind
    better = mended(fault)
    assert better is not None
    assert fault_of(better) is None


@pytest.mark.parametrize(
    "prefix",
    [
        *HEALTHY,
        "acme.langgraph",
        "none.Nullable",
        "a-b.c_d",
        "acme.ana@corp.preferences",
        "日本.語",
        "acme.a b",
        "acme.*",
        "@home.com",
    ],
)
def test_ordinary_names(prefix: str) -> None:
    assert fault_of(prefix) is None


class TestTheCheck:
    def test_a_healthy_store(self, sqlite_clinic: Clinic) -> None:
        sqlite_clinic.backend.insert(RawItem(prefix, "k") for prefix in HEALTHY)
        finding = sqlite_clinic.finding("namespaces")
        assert finding.status is Status.OK
        assert finding.message == ""

    def test_faults_are_counted_by_namespace_and_named_in_byte_order(self, clinic: Clinic) -> None:
        names = [
            "acme..memories",
            "acme.None.memories",
            "acme.{user_id}.x",
            "langgraph.scratch",
            "acme.Bo.sessions",
        ]
        clinic.backend.insert(RawItem(prefix, key) for prefix in (*HEALTHY, *names) for key in ("1", "2"))
        finding = clinic.finding("namespaces")
        assert (finding.count, finding.level) == (5, Level.WARNING)
        assert places(finding) == [
            ("acme..memories", None),
            ("acme.Bo", None),
            ("acme.None.memories", None),
            ("acme.{user_id}.x", None),
            ("langgraph.scratch", None),
        ]

    def test_quick_gives_the_same_answer(self, clinic: Clinic) -> None:
        clinic.backend.insert(RawItem(prefix, "1") for prefix in (*HEALTHY, "a..b", "acme.Bo", "acme.an"))
        assert clinic.finding("namespaces", quick=True) == clinic.finding("namespaces")

    def test_only_names_mixed_by_old_searches_are_a_note(self, sqlite_clinic: Clinic) -> None:
        sqlite_clinic.backend.insert(
            RawItem(prefix, "1") for prefix in ("al.p", "alice.p", "x.a_1", "x.ab1", "x.a-1.y")
        )
        finding = sqlite_clinic.finding("namespaces")
        assert (finding.level, finding.count) == (Level.NOTE, 2)
        assert places(finding) == [("al", None), ("x.a_1", None)]
        assert finding.fix is None

    def test_case_mattered_to_old_searches_on_postgres_only(self, clinic: Clinic) -> None:
        clinic.backend.insert(RawItem(prefix, "1") for prefix in ("AL.p", "alice.p"))
        is_sqlite = clinic.backend.address.endswith(".db")
        assert clinic.finding("namespaces").count == (1 if is_sqlite else 0)

    def test_the_scope_bounds_it(self, sqlite_clinic: Clinic) -> None:
        sqlite_clinic.backend.insert(RawItem(prefix, "1") for prefix in ("a..b", "c.None"))
        assert places(sqlite_clinic.finding("namespaces", ns="c")) == [("c.None", None)]


@pytest.mark.parametrize(
    "prefix",
    [
        "acme.{user_id}.memories",
        "acme.None.memories",
        "a..b",
        "langgraph.x",
        "d.dana@example.com",
        "-.None.*",
        "a b.null",
    ],
)
def test_the_command_it_names_can_be_pasted(prefix: str, memctl: Memctl, sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert([RawItem(prefix, "k"), RawItem("zoe.prefs", "k")])
    finding = sqlite_clinic.finding("namespaces")
    assert finding.count == 1
    assert finding.fix is not None
    outcome = memctl("--yes", *shlex.split(finding.fix)[1:])
    assert outcome.code == 0, outcome.err
    assert sqlite_clinic.finding("namespaces").status is Status.OK
    assert len(sqlite_clinic.items()) == 2


class TestSiblings:
    """The walk against plain comparison of everything with everything."""

    @SETTINGS
    @given(
        names=st.sets(st.text("aAb_%.-é ", max_size=6), max_size=12),
        ignores_case=st.booleans(),
    )
    def test_mixed(self, names: set[str], ignores_case: bool) -> None:
        told: set[str] = set()
        walk(names, ignores_case, mixed=told)
        assert told == mixed_by_hand(names, ignores_case)

    @SETTINGS
    @given(names=st.sets(st.text("aAbB .-", max_size=5), max_size=10))
    def test_look_alike(self, names: set[str]) -> None:
        told: list[tuple[str, str]] = []
        walk(names, False, alike=told)
        nodes = every_node(names)
        expected = 0
        for parent in {parent for parent, _ in nodes}:
            labels = {label for other, label in nodes if other == parent}
            expected += len(labels) - len(set(map(folded, labels)))
        assert len(told) == len({odd for odd, _ in told}) == expected
        assert all(folded(odd) == folded(other) and odd != other for odd, other in told)

    def test_more_than_is_compared_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(siblings, "COMPARED", 3)
        told: set[str] = set()
        names = {f"user{number}" for number in range(9)} | {"user10", "zz", "z"}
        walk_of = walk(names, False, mixed=told)
        assert "z" in told
        assert not walk_of.is_complete


def walk(
    names: set[str],
    ignores_case: bool,
    *,
    mixed: set[str] | None = None,
    alike: list[tuple[str, str]] | None = None,
) -> Siblings:
    """Walk through names in byte order."""

    def note_alike(parent: str, labels: list[str]) -> None:
        if alike is not None:
            alike.append((parent + labels[0], parent + labels[1]))

    def note_mixed(parent: str, labels: list[str]) -> None:
        if mixed is not None:
            new = {parent + label for label in labels}
            assert len(new) == len(labels)
            assert not new & mixed
            mixed.update(new)

    found = Siblings(ignores_case=ignores_case, look_alike=note_alike, mixed=note_mixed)
    for name in sorted(names, key=str.encode):
        found.add(name)
    found.finish()
    return found


def every_node(names: set[str]) -> set[tuple[str, str]]:
    """Each label with the text before it."""
    nodes = set()
    for name in names:
        labels = name.split(".")
        for depth, label in enumerate(labels):
            nodes.add((".".join(labels[:depth]) + ("." if depth else ""), label))
    return nodes


def mixed_by_hand(names: set[str], ignores_case: bool) -> set[str]:
    """Labels whose LIKE pattern matches a sibling, by a regular expression for each."""
    mixed = set()
    flags = re.DOTALL | (re.IGNORECASE | re.ASCII if ignores_case else 0)
    nodes = every_node(names)
    for parent, label in nodes:
        pattern = "".join({"_": ".", "%": ".*"}.get(char) or re.escape(char) for char in label)
        siblings_of = {other for where, other in nodes if where == parent and other not in (label, "")}
        if label and any(re.match(pattern, other, flags) for other in siblings_of):
            mixed.add(parent + label)
    return mixed
