"""`tenancy`: prefixes under which one search spans several users."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.doctor.finding import Status
from memctl.doctor.tenancy import Distinct
from tests.contract.backends import RawItem
from tests.doctor.clinic import SETTINGS, Clinic, places


@pytest.mark.parametrize(
    "prefixes",
    [
        ["ana.preferences", "bo.preferences", "bo.facts"],
        ["acme.ana.memories", "acme.bo.memories", "acme.handbook"],
        ["users.ana.prefs", "users.bo.prefs"],
        ["memories.ana", "memories.ana.work"],
        ["preferences.facts", "preferences.notes"],
        ["ana", "bo"],
        ["acme.memories.ana"],
    ],
)
def test_ordinary_layouts(sqlite_clinic: Clinic, prefixes: Sequence[str]) -> None:
    sqlite_clinic.backend.insert(RawItem(prefix, "1") for prefix in prefixes)
    assert sqlite_clinic.finding("tenancy").status is Status.OK


def test_how_many_tenants_each_prefix_exposes(clinic: Clinic) -> None:
    spaces = ["Memories.1", "Memories.2", "memories", "preferences.a", "preferences.a-b.x", "preferences.a.y"]
    clinic.backend.insert(RawItem(prefix, key) for prefix in (*spaces, "zoe.memories") for key in "12")
    finding = clinic.finding("tenancy")
    assert finding.count == 3
    assert finding.table == (
        {"namespace": ["Memories"], "tenants": 2, "namespaces": 2, "items_directly": 0},
        {"namespace": ["memories"], "tenants": 0, "namespaces": 1, "items_directly": 2},
        {"namespace": ["preferences"], "tenants": 2, "namespaces": 3, "items_directly": 0},
    )
    assert places(finding) == [("Memories", None), ("memories", None), ("preferences", None)]
    assert finding.fix is not None
    assert finding.fix.endswith("mv 'Memories.{user}' '{user}.Memories'")


def test_quick_counts_no_items(sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert(RawItem(prefix, "1") for prefix in ("facts.ana", "facts.bo", "facts"))
    [row] = sqlite_clinic.finding("tenancy", quick=True).table
    assert row == {"namespace": ["facts"], "tenants": 2, "namespaces": 3, "items_directly": None}


@SETTINGS
@given(st.sets(st.text("ab-. _", min_size=1, max_size=4), max_size=12))
def test_distinct(names: set[str]) -> None:
    distinct = Distinct()
    labels = [name.partition(".")[0] for name in sorted(names)]
    for label in labels:
        distinct.add(label)
    assert distinct.count == len(set(labels))
