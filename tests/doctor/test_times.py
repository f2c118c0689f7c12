"""`timestamps`: creation and update times that the library cannot read, or sorts wrongly."""

from __future__ import annotations

import pytest

from memctl.doctor.finding import Level, Status
from tests.contract.backends import CREATED, RawItem
from tests.doctor.clinic import Clinic, places
from tests.writers import sqlite_store

TIMES = {
    # cell: (what it says in the sample, what is stored after the repair; None: the same)
    "NULL": ("created_at null", None),
    "'yesterday'": ("created_at no time: yesterday", None),
    "''": ("created_at no time: ", None),
    "x'00ff'": ("created_at no time: \0\ufffd", None),
    "1796024563": ("created_at a number: 1796024563", None),
    "'1796024563843'": ("created_at a number: 1796024563843", None),
    "9e99": ("created_at a number: 9e+99", None),
    "'2026-11-29T10:20:30Z'": ("created_at spelled otherwise: 2026-11-29T10:20:30Z", "2026-11-29 10:20:30"),
    "'2026-11-29 12:20:30+02:00'": (
        "created_at spelled otherwise: 2026-11-29 12:20:30+02:00",
        "2026-11-29 10:20:30",
    ),
    "CAST('2026-11-29 10:20:30' AS BLOB)": (
        "created_at spelled otherwise: 2026-11-29 10:20:30",
        "2026-11-29 10:20:30",
    ),
}


@pytest.mark.parametrize("cell", TIMES)
def test_what_a_column_can_hold(sqlite_clinic: Clinic, cell: str) -> None:
    detail, mended = TIMES[cell]
    backend = sqlite_clinic.backend
    backend.insert([RawItem("p", "odd"), RawItem("p", "well")])
    backend.set_time("created_at", cell, "odd")
    finding = sqlite_clinic.finding("timestamps")
    assert (finding.level, finding.count, places(finding)) == (Level.ERROR, 1, [("p", "odd")])
    assert finding.samples[0].detail == detail
    assert (finding.fix is not None) == (mended is not None)
    before = backend.execute("SELECT created_at, typeof(created_at) FROM store WHERE key = 'odd'")
    sqlite_clinic.heal("timestamps")
    after = backend.execute("SELECT created_at, typeof(created_at) FROM store WHERE key = 'odd'")
    assert after == ([(mended, "text")] if mended else before)
    assert sqlite_clinic.finding("timestamps").status is (Status.OK if mended else Status.FOUND)


def test_both_columns_and_what_is_left(sqlite_clinic: Clinic) -> None:
    backend = sqlite_clinic.backend
    backend.insert([RawItem("p", "odd"), RawItem("p", "half")])
    for key in ("odd", "half"):
        backend.set_time("created_at", "'2026-11-29T10:20:30Z'", key)
    backend.set_time("updated_at", "'2026-11-29T10:20:30Z'", "odd")
    backend.set_time("updated_at", "NULL", "half")
    finding = sqlite_clinic.finding("timestamps")
    assert [sample.detail for sample in finding.samples] == [
        "created_at spelled otherwise: 2026-11-29T10:20:30Z; updated_at null",
        "created_at and updated_at spelled otherwise: 2026-11-29T10:20:30Z",
    ]
    sqlite_clinic.heal("timestamps")
    [left] = sqlite_clinic.finding("timestamps").samples
    assert (left.key, left.detail) == ("half", "updated_at null")
    assert all(item.created_at == CREATED for item in sqlite_clinic.items())


def test_an_odd_expiry_is_another_checks(sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert([RawItem("p", "odd")])
    sqlite_clinic.backend.set_time("expires_at", "'soon'", "odd")
    assert sqlite_clinic.finding("timestamps").status is Status.OK


def test_what_the_library_writes_is_right(clinic: Clinic) -> None:
    with clinic.backend.agent() as store:
        store.put(("a",), "k", {"n": 1}, ttl=5)
    assert clinic.finding("timestamps").status is Status.OK


def test_the_library_reads_what_was_spelled_anew(sqlite_clinic: Clinic) -> None:
    backend = sqlite_clinic.backend
    backend.insert([RawItem("p", "odd")])
    backend.set_time("updated_at", "CAST('2026-11-29 10:20:30' AS BLOB)", "odd")
    with sqlite_store(backend.address) as store, pytest.raises((TypeError, ValueError, AttributeError)):
        _ = store.get(("p",), "odd").updated_at.year
    sqlite_clinic.heal("timestamps")
    with sqlite_store(backend.address) as store:
        assert store.get(("p",), "odd").updated_at.year == 2026
