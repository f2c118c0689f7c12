"""Stores that keep their history, or an expiry twice."""

from __future__ import annotations

import contextlib
from pathlib import Path

from memctl import stores
from memctl.addresses import parse
from memctl.history import Recording
from tests.contract.backends import Backend, RawItem, vector
from tests.doctor.damages import POSTGRES, SQLITE, Damage, agent
from tests.invocation import NOW

SPACE = ("users", "ana", "facts")
LATER = "2099-01-01T00:00:00.000000Z"
COCKROACH = ("cockroach",)


def _come_back(backend: Backend, folder: Path) -> None:
    """Deleted facts, one of which an agent extracts again in other words."""
    backend.create(vectors=False)
    opened = stores.open_writer(parse(backend.address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(opened) as target:
        assert isinstance(target, Recording)
        target.record(None, None)
    text = "Ana was vegetarian once, and is not any more; she eats fish on Fridays and at her mother's"
    with agent(backend, index=False) as store:
        for key in ("diet", "city", "car"):
            store.put(SPACE, key, {"text": text, "about": key})
        for key in ("diet", "city", "car"):
            store.delete(SPACE, key)
        store.put(SPACE, "diet", {"text": f"{text}.", "about": "diet"})
        store.put(SPACE, "city", {"text": "Graz"})


def _without_a_job(backend: Backend, folder: Path) -> None:
    backend.create()
    backend.insert(
        [RawItem("users.ana.facts", "a", expires_at=LATER, ttl_minutes=5), RawItem("users.ana.facts", "b")]
    )


def _apart(backend: Backend, folder: Path) -> None:
    """An item put again by a handle without an index, whose vectors keep their old expiry."""
    backend.create()
    backend.insert([RawItem("users.ana.facts", "a", '{"text": "Graz"}', vectors=(vector("text"),))])
    backend.execute(f"UPDATE store_vectors SET expires_at = '{LATER}', ttl_minutes = 5")


DAMAGES = (
    Damage(
        "resurrected",
        "extracted-again",
        _come_back,
        {"resurrected": ("note", 1)},
        (SQLITE, POSTGRES),
        repaired=False,
    ),
    Damage(
        "ttl-job",
        "no-configuration",
        _without_a_job,
        {"ttl-job": ("warning", 1)},
        COCKROACH,
        repaired=False,
    ),
    Damage("vector-expiry", "no-index", _apart, {"vector-expiry": ("warning", 1)}, COCKROACH),
)
