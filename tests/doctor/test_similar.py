"""`duplicates`: items that a similarity search has to choose between."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.doctor import similar
from memctl.doctor.finding import Level, Status
from memctl.doctor.similar import Unit
from tests.contract.backends import DIMS, RawItem, RawVector
from tests.doctor.clinic import SETTINGS, Clinic, places

ONE = (1.0, 0.2, 0.0, 0.5, 0.0, 0.3, 0.0, 0.1)
NEAR = (1.0, 0.25, 0.05, 0.5, 0.0, 0.3, 0.0, 0.1)
FAR = (0.0, 0.0, 1.0, 0.0, 0.4, 0.0, 0.9, 0.0)


def memory(
    prefix: str, key: str, numbers: Sequence[float], day: int = 1, field: str = "text", value: str = "{}"
) -> RawItem:
    at = f"2026-10-{day:02}T08:00:00.000000Z"
    return RawItem(prefix, key, value, at, at, vectors=(RawVector(field, tuple(numbers), at, at),))


def test_the_newer_comes_first(clinic: Clinic) -> None:
    clinic.backend.insert(
        [
            memory("a", "1", ONE, day=9),
            memory("a", "2", NEAR, day=3),
            memory("a", "3", FAR),
            memory("b", "4", ONE),
        ]
    )
    finding = clinic.finding("duplicates")
    assert (finding.level, finding.count, finding.fix) == (Level.NOTE, 1, None)
    [sample] = finding.samples
    assert (sample.prefix, sample.key, sample.detail) == ("a", "1", "1.00 like 2, 6 days older")
    [row] = finding.table
    assert (row["namespace"], row["newer"], row["older"]) == (["a"], "1", "2")
    assert row["similarity"] == pytest.approx(0.998, abs=0.002)


def test_the_threshold(sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert([memory("a", "1", ONE), memory("a", "2", NEAR), memory("a", "3", ONE)])
    assert sqlite_clinic.finding("duplicates").count == 2
    assert sqlite_clinic.finding("duplicates", threshold=0.9999).count == 1
    assert sqlite_clinic.finding("duplicates", threshold=1.0).count == 1


def test_one_subtree_and_not_its_siblings(sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert(
        [
            memory("u", "above", ONE, day=1),
            memory("u-x", "beside", ONE, day=2),
            memory("u.a", "below", ONE, day=3),
            memory("u.b", "sibling", ONE, day=4),
            memory("u.b.c", "newest", ONE, day=5),
        ]
    )
    finding = sqlite_clinic.finding("duplicates")
    # above is like all below it and is told once; sibling is like what is below it; below has nothing newer beside it.
    assert finding.count == 2
    assert [(sample.key, sample.detail) for sample in finding.samples] == [
        ("below", "1.00 like u above, 2 days older"),
        ("newest", "1.00 like u.b sibling, 1 day older"),
    ]


def test_a_shared_tag_is_no_repeat(sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert(
        memory("a", str(number), ONE, field=f"tags[*].{number % 2}") for number in range(4)
    )
    sqlite_clinic.backend.insert([memory("b", "1", ONE, field="text"), memory("b", "2", ONE, field="title")])
    assert sqlite_clinic.finding("duplicates").status is Status.OK


def test_every_field_that_both_have_must_be_alike(sqlite_clinic: Clinic) -> None:
    at = "2026-10-01T08:00:00.000000Z"
    for key, fact in {"1": ONE, "2": FAR}.items():
        vectors = (RawVector("fact", fact, at, at), RawVector("subject", ONE, at, at))
        sqlite_clinic.backend.insert([RawItem("a", key, "{}", at, at, vectors=vectors)])
    assert sqlite_clinic.finding("duplicates").status is Status.OK


def test_vectors_without_a_direction(sqlite_clinic: Clinic) -> None:
    zero, infinite = (0.0,) * DIMS, (math.inf,) * DIMS
    sqlite_clinic.backend.insert(
        memory("a", f"{number}", numbers)
        for number, numbers in enumerate([zero, zero, infinite, infinite, ONE[:4], ONE])
    )
    assert sqlite_clinic.finding("duplicates").status is Status.OK


class TestBounds:
    def test_only_the_newest_of_many_are_compared(
        self, sqlite_clinic: Clinic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(similar, "MOST_ITEMS", 3)
        sqlite_clinic.backend.insert(memory("a", f"{number}", ONE, day=1 + number) for number in range(9))
        finding = sqlite_clinic.finding("duplicates")
        assert finding.count == 2
        assert places(finding) == [("a", "8"), ("a", "8")]
        assert "Sampled" in finding.message
        assert finding.facts == {"threshold": 0.95, "sampled": True}

    def test_work_has_an_end(self, sqlite_clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(similar, "MOST_WORK", 10)
        sqlite_clinic.backend.insert(
            memory(f"u{number}", key, FAR if key == "a" else ONE) for number in range(9) for key in "ab"
        )
        finding = sqlite_clinic.finding("duplicates")
        assert finding.status is Status.OK
        assert finding.message.startswith("Sampled")
        assert finding.facts == {"threshold": 0.95, "sampled": True}

    def test_nothing_is_said_where_all_was_compared(self, sqlite_clinic: Clinic) -> None:
        sqlite_clinic.backend.insert(
            memory("a", f"{number}", [float(number == place) for place in range(DIMS)]) for number in range(6)
        )
        finding = sqlite_clinic.finding("duplicates")
        assert (finding.status, finding.message) == (Status.OK, "")
        assert finding.facts == {"threshold": 0.95, "sampled": False}


class TestSubjects:
    def test_several_keys_with_one_subject(self, sqlite_clinic: Clinic) -> None:
        at = "2026-10-0{}T08:00:00.000000Z"
        sqlite_clinic.backend.insert(
            RawItem(prefix, key, value, at.format(day), at.format(day))
            for prefix, key, value, day in (
                ("a", "1", '{"subject": "diet"}', 1),
                ("a", "2", '{"subject": "diet"}', 3),
                ("a", "3", '{"subject": "home"}', 1),
                ("a", "4", '{"subject": 5}', 1),
                ("a", "5", '{"subject": 5}', 1),
                ("b", "1", '{"subject": "diet"}', 1),
            )
        )
        assert sqlite_clinic.finding("duplicates").status is Status.OK
        finding = sqlite_clinic.finding("duplicates", subject_field="subject")
        assert finding.count == 1
        [sample] = finding.samples
        assert (sample.key, sample.detail) == ("2", "'diet' is also 1, 2 days older")

    def test_a_nested_field(self, sqlite_clinic: Clinic) -> None:
        sqlite_clinic.backend.insert(RawItem("a", key, '{"about": {"name": "x"}}') for key in "12")
        assert sqlite_clinic.finding("duplicates", subject_field="about.name").count == 1

    def test_a_pair_counts_once(self, sqlite_clinic: Clinic) -> None:
        value = '{"subject": "diet"}'
        sqlite_clinic.backend.insert(
            [memory("a", "1", ONE, 1, value=value), memory("a", "2", ONE, 2, value=value)]
        )
        assert sqlite_clinic.finding("duplicates", subject_field="subject").count == 1

    def test_it_needs_no_vectors(self, clinic: Clinic) -> None:
        clinic.backend.execute("DROP TABLE store_vectors")
        clinic.backend.insert(())
        clinic.backend.has_vectors = False
        clinic.backend.insert(RawItem("a", key, '{"subject": "x"}') for key in "12")
        skipped = clinic.finding("duplicates")
        assert skipped.status is Status.SKIPPED
        assert "--subject-field" in skipped.message
        assert clinic.finding("duplicates", subject_field="subject").count == 1


numbers = st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6)


@SETTINGS
@given(one=numbers, other=numbers, least=st.floats(-1, 1))
def test_a_cosine_is_told_if_it_is_large_enough(one: list[float], other: list[float], least: float) -> None:
    a, b = (Unit.of(struct.pack("<6f", *each)) for each in (one, other))
    if a is None or b is None:
        assert not any(one) or not any(other) or min(map(abs, [*one, *other])) < 1e-18
        return
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    if length < 1e-12:
        return
    exact = sum(x * y for x, y in zip(one, other, strict=True)) / length
    told = a.cosine(b, least)
    if exact >= least + 1e-5:
        assert told == pytest.approx(exact, abs=1e-5)
    elif exact < least - 1e-5:
        assert told is None
