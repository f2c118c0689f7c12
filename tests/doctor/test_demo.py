"""The sample store has some of every fault, and its own story says which item has which."""

from __future__ import annotations

from pathlib import Path

import pytest

from memctl.doctor import CHECKS
from memctl.doctor.finding import Status
from memctl.stores.demo import create_demo
from tests.contract.backends import SqliteBackend
from tests.doctor.clinic import Clinic
from tests.invocation import NOW

EXPECTED = {
    "namespaces": [
        "acme..memories",
        "acme.Chen",
        "acme.None.memories",
        "acme.dana@example.com.preferences",
        "acme.{user_id}.memories",
    ],
    "tenancy": ["memories", "preferences"],
    "values": [
        f"helpdesk.import {key}" for key in ("caf\udce9", "colours", "faq-waiting", "form-letter", "hours")
    ],
    "timestamps": [f"helpdesk.import ticket-{number}" for number in range(1043, 1047)],
    "langmem-shape": ["acme.bo.memories de3b830b-93b4-4e41-8e31-5cd108908d9f"],
    "deepagents-shape": ["acme.bo.filesystem /todo.md"],
    "duplicates": ["acme.ana.facts diet-2"],
    "append-only": ["acme.chen.snippets"],
    "provenance": ["acme.ana.facts summer"],
}
COUNTS = {"namespaces": 6, "values": 7}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    backend = SqliteBackend(tmp_path_factory.mktemp("demo"))
    create_demo(Path(backend.address), NOW)
    return Clinic(backend)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_found_in_it(demo: Clinic, name: str) -> None:
    finding = demo.finding(name, source_field="source")
    assert [" ".join(filter(None, (each.prefix, each.key))) for each in finding.samples] == EXPECTED[name]
    assert finding.count == COUNTS.get(name, len(EXPECTED[name]))


def test_every_check_finds_something_in_it(demo: Clinic) -> None:
    findings = demo.examine(source_field="source")
    quiet = {name for name, finding in findings.items() if finding.status is not Status.FOUND}
    assert quiet == {"integrity", "resurrected", "ttl-job", "vector-expiry"}
    assert set(findings) == set(CHECKS)
