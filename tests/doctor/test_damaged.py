"""Each damaged store: the doctor finds exactly that, heals it, and moves nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memctl.doctor import CHECKS, check_class
from memctl.doctor.check import can_repair
from tests.contract.backends import Backend
from tests.contract.conftest import make_backend
from tests.doctor.damages import Damage, all_damages
from tests.invocation import ROOT, Memctl

CASES = [
    pytest.param(damage, name, id=f"{damage.id}-{name}")
    for damage in all_damages()
    for name in damage.backends
]


@pytest.fixture
def backend(request: pytest.FixtureRequest, backend_name: str, tmp_path: Path) -> Iterator[Backend]:
    with make_backend(backend_name, tmp_path, lambda: request.getfixturevalue("databases")) as backend:
        yield backend


def found(report: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """The checks that found something, with level and count. None may have failed."""
    assert [check["id"] for check in report["checks"] if check["status"] == "failed"] == []
    return {
        check["id"]: (check["level"], int(check["count"]))
        for check in report["checks"]
        if check["status"] == "found"
    }


@pytest.mark.parametrize(("damage", "backend_name"), CASES)
def test_it_is_found_and_healed(damage: Damage, backend: Backend, tmp_path: Path) -> None:
    damage.inflict(backend, tmp_path)
    memctl = Memctl(tmp_path, now=datetime.now(UTC))
    options = [option.format(folder=tmp_path) for option in damage.options]
    fixing = [option.format(folder=tmp_path) for option in damage.fix_options]

    outcome = memctl("-s", backend.address, "-o", "json", "doctor", *options)
    report = outcome.json()
    assert found(report) == damage.findings
    levels = {level for level, _ in damage.findings.values()}
    assert outcome.code == (4 if levels - {"note"} else 0), outcome.err
    check = next(each for each in report["checks"] if each["id"] == damage.check)
    assert check["message"]
    assert check["samples"]
    assert check["fix"] is not None or not damage.repaired  # it may name another command
    if not damage.repaired:
        return

    before = memctl("-s", backend.address, "export", "-f", "all.jsonl")
    assert before.code in (0, 3), before.err
    fix = ["-s", backend.address, "-o", "json", "doctor", "--fix", damage.check, *options, *fixing]
    rehearsed = memctl(*fix, "--dry-run").json()
    assert found(rehearsed) == damage.findings, "a rehearsal changes nothing"
    outcome = memctl(*fix, "--yes")
    healed = outcome.json()
    left = {name: value for name, value in damage.findings.items() if name != damage.check}
    left = {**({} if damage.check == "orphaned-vectors" else left), **damage.left}
    assert found(healed) == left
    [repair] = healed["repairs"]
    assert repair["items"] or repair["vectors"] or repair["parts"]
    same = ("id", "items", "vectors", "bytes", "parts")
    [plan] = rehearsed["repairs"]
    assert [plan[name] for name in same] == [repair[name] for name in same]

    rows = memctl("-o", "json", "diff", "all.jsonl", backend.address).json()
    moved = {(".".join(row["namespace"]), row["key"], row["in"], tuple(row["parts"])) for row in rows}
    assert moved == set(damage.moved)

    for saved in tmp_path.glob("gone*"):
        shutil.move(saved, tmp_path / f"first-{saved.name}")
    second = memctl(*fix, "--yes").json()
    assert [second[name] for name in ("items", "vectors", "bytes")] == [0, 0, 0]
    assert all(not repair["parts"] for repair in second["repairs"])
    if damage.works is not None:
        damage.works(backend)


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_its_damage_its_documentation_and_its_place(name: str, memctl: Memctl) -> None:
    damages = [damage for damage in all_damages() if damage.check == name]
    assert damages, f"{name} has no damaged store"
    if can_repair(check_class(name)):
        assert any(damage.repaired for damage in damages), f"no damage of {name} is healed"
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"`{name}`" in readme
    listed = [row for row in memctl.json("doctor", "--list-checks") if row["id"] == name]
    assert len(listed) == 1
    check = check_class(name)
    assert listed[0]["finds"] == check.summary
    assert listed[0]["level"] == check.level.value
    assert (listed[0]["repair"] is not None) == can_repair(check)
