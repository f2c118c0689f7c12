"""The stores of every age in `tests/data/`: each shows what `doctor.json` beside them lists, and no more."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.doctor import CHECKS, check_class
from memctl.doctor.check import Settings
from memctl.doctor.finding import Finding, Status
from memctl.doctor.runner import examine
from memctl.instants import from_datetime
from tests.conftest import DATA
from tests.databases import Database
from tests.invocation import NOW

LISTED: dict[str, dict[str, list[object]]] = json.loads((DATA / "doctor.json").read_text("utf-8"))


def findings(address: str) -> list[Finding]:
    """What the doctor says at 08:00 on the day the stores were made, whatever the server's clock says."""
    opened = stores.open_store(parse(address), timeout=10, clock=lambda: NOW)
    with contextlib.closing(opened) as store:
        return examine(store, map(check_class, CHECKS), Settings(from_datetime(NOW)))


def shown(found: list[Finding]) -> dict[str, list[object]]:
    """The findings as the list has them: level and count by check."""
    assert [each.message for each in found if each.status is Status.FAILED] == []
    return {each.id: [each.level.value, each.count] for each in found if each.status is Status.FOUND}


def test_every_store_is_listed() -> None:
    assert sorted(LISTED) == sorted(path.stem for path in DATA.iterdir() if path.suffix != ".json")


def test_a_sqlite_store_shows_what_is_listed(sqlite_data: Path) -> None:
    assert shown(findings(str(sqlite_data))) == LISTED[sqlite_data.stem]


def test_a_postgres_store_shows_what_is_listed(
    postgres_data: Database, request: pytest.FixtureRequest
) -> None:
    assert shown(findings(postgres_data.url)) == LISTED[request.node.callspec.id]
