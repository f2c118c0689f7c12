"""`append-only`: namespaces in which snippets pile up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memctl.doctor.finding import Level, Status
from memctl.store import Capability
from tests.contract.backends import RawItem
from tests.doctor.clinic import Clinic, places

TEXT = "User said: can you look at the March figures again? Assistant answered with a table of rows. " * 3


def pile(prefix: str = "snippets", count: int = 6, **changes: Any) -> list[RawItem]:
    """Snippets, one every five days."""
    found = []
    for number in range(count):
        at = f"2026-10-{1 + 5 * number:02}T08:00:00.000000Z"
        item = RawItem(
            prefix, f"{number:08x}-0000-4000-8000-00000000000f", f'{{"content": "{TEXT}"}}', at, at
        )
        found.append(replace(item, **changes))
    return found


def test_a_pile(clinic: Clinic) -> None:
    clinic.backend.insert(
        [*pile(), *pile("z.snippets", 5, value=f'{{"kind": "M", "content": {{"content": "{TEXT}"}}}}')]
    )
    finding = clinic.finding("append-only")
    assert (finding.level, finding.count) == (Level.NOTE, 2)
    assert places(finding) == [("snippets", None), ("z.snippets", None)]
    assert finding.samples[0].detail == f"6 items of {len(TEXT) + 15} B each in 25 days"
    assert finding.octets == 6 * (len(TEXT) + 15) + 5 * (len(TEXT) + 41)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(pile(count=4), id="few"),
        pytest.param(pile(value='{"content": "Ana likes early trains"}'), id="short"),
        pytest.param(
            pile(value=f'{{"subject": "x", "fact": "{TEXT}", "notes": "{TEXT[:200]}"}}'), id="facts"
        ),
        pytest.param(
            pile(created_at="2026-10-01T08:00:00.000000Z", updated_at="2026-10-01T08:00:00.000000Z"),
            id="one import",
        ),
        pytest.param([*pile(), RawItem("snippets", "profile")], id="a key of its own"),
        pytest.param(
            [*pile()[:-1], replace(pile()[-1], expires_at="2099-01-01T00:00:00.000000Z")], id="expiring"
        ),
        pytest.param([replace(item, key=f"note-{place}") for place, item in enumerate(pile())], id="named"),
        pytest.param([*pile("a", 3), *pile("b", 3)], id="two namespaces"),
    ],
)
def test_what_is_no_pile(sqlite_clinic: Clinic, items: list[RawItem]) -> None:
    sqlite_clinic.backend.insert(items)
    assert sqlite_clinic.finding("append-only").status is Status.OK


def test_what_is_overwritten_is_no_pile(clinic: Clinic) -> None:
    """Where the store keeps creation times, that shows."""
    clinic.backend.insert(
        [*pile(count=5), replace(pile(count=6)[-1], created_at="2026-10-01T08:00:00.000000Z")]
    )
    status = clinic.finding("append-only").status
    assert status is (Status.OK if clinic.backend.can(Capability.KEEPS_CREATED) else Status.FOUND)


def test_keys_of_uuids_in_other_spellings(sqlite_clinic: Clinic) -> None:
    sqlite_clinic.backend.insert(replace(item, key=item.key.replace("-", "").upper()) for item in pile())
    assert sqlite_clinic.finding("append-only").count == 1
