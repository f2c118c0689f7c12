"""Stores that today's libraries make and use as they are meant to be used: nothing is found in them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memctl.doctor import CHECKS
from tests.contract.backends import Backend
from tests.contract.conftest import make_backend
from tests.doctor.damages import POSTGRES, agent
from tests.invocation import Memctl

#: What a store of this kind cannot have, or what needs to be told more.
SKIPPED = {"sqlite": {"provenance"}, "postgres": {"orphaned-vectors", "provenance"}}


@pytest.fixture(params=["sqlite-rollback", "sqlite-wal", POSTGRES])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with make_backend(request.param, tmp_path, lambda: request.getfixturevalue("databases")) as backend:
        yield backend


#: What no store is spared.
ALWAYS = {
    "created-at-drift", "expired-unswept", "ttl-inconsistent", "schema", "namespaces", "tenancy", "values",
    "timestamps", "langmem-shape", "deepagents-shape", "append-only", "integrity",
}  # fmt: skip


def use(store: Any) -> None:
    """Some weeks in the life of an agent: facts about two people, sessions that expire, files, a graph's notes."""
    for user in ("ana", "chen"):
        store.put(("users", user, "facts"), "diet", {"text": f"{user} eats no fish", "confirmed": True})
        store.put(
            ("users", user, "facts"), "seat", {"text": f"{user} wants a window", "tags": ["trains", "planes"]}
        )
        store.put(
            ("users", user, "facts"), "seat", {"text": f"{user} wants the aisle", "tags": ["cars", "ships"]}
        )
        store.put(("users", user, "sessions"), "today", {"text": f"{user} is on a train"}, ttl=1440)
        store.put(("users", user, "sessions"), "trip", {"text": f"{user} will be in Lisbon"}, ttl=10_080)
        store.put(
            ("users", user, "memories"),
            "6c1f3f0e-6bb0-4a51-9f0e-5f6c3f0e6bb0",
            {"kind": "Memory", "content": {"text": f"{user} has a dog"}, "text": f"{user} has a dog"},
        )
        store.put(
            ("users", user, "files"),
            "/notes.md",
            {
                "content": "# Notes\n",
                "created_at": "2026-11-01T08:00:00+00:00",
                "modified_at": "2026-11-01T08:00:00+00:00",
                "encoding": "utf-8",
            },
            index=False,
        )


@pytest.mark.parametrize("index", [False, True], ids=["plain", "indexed"])
def test_nothing_is_found(backend: Backend, index: bool, tmp_path: Path) -> None:
    backend.create(vectors=index)
    with agent(backend, index=index, refresh_on_read=True) as store:
        use(store)
        assert store.get(("users", "ana", "sessions"), "today") is not None
        assert store.sweep_ttl() == 0
    memctl = Memctl(tmp_path, now=datetime.now(UTC))
    report = memctl.json("-s", backend.address, "doctor", "--fail-on", "note")
    assert [check["id"] for check in report["checks"]] == list(CHECKS)
    assert {check["id"]: check["message"] for check in report["checks"] if check["status"] == "found"} == {}
    skipped = {check["id"] for check in report["checks"] if check["status"] == "skipped"}
    needs_vectors = {"orphaned-vectors", "stale-vectors", "vector-shape", "index-coverage"}
    family = "postgres" if backend.address.startswith("postgres") else "sqlite"
    expected = SKIPPED[family] | (set() if index else needs_vectors)
    assert expected <= skipped
    assert skipped & ALWAYS == set()
    assert all(check["message"] for check in report["checks"] if check["status"] == "skipped")


@pytest.mark.parametrize("backend", ["sqlite-rollback"], indirect=True)
def test_there_is_nothing_to_repair(backend: Backend, tmp_path: Path) -> None:
    backend.create()
    with agent(backend) as store:
        use(store)
    memctl = Memctl(tmp_path, now=datetime.now(UTC))
    before = Path(backend.address).read_bytes()
    report = memctl.json("-s", backend.address, "doctor", "--fix", "all", "--yes", "--save", "gone.jsonl")
    assert (report["items"], report["vectors"], report["skipped"]) == (0, 0, 0)
    assert Path(backend.address).read_bytes() == before
    assert not (tmp_path / "gone.jsonl").exists()
