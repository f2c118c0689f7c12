"""The fixture `clinic`: a store of each family, without an item, and the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.clinic import KINDS, Clinic, open_clinic


@pytest.fixture(params=KINDS)
def clinic(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clinic]:
    """An empty store of each family."""
    with open_clinic(request.param, tmp_path, lambda: request.getfixturevalue("databases")) as clinic:
        yield clinic


@pytest.fixture
def sqlite_clinic(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clinic]:
    """An empty store in a SQLite file."""
    with open_clinic(KINDS[0], tmp_path, lambda: request.getfixturevalue("databases")) as clinic:
        yield clinic
