"""A store under the doctor's hands: what checks find in it, and what a repair leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from memctl import namespaces, stores
from memctl.addresses import parse
from memctl.doctor import CHECKS, check_class
from memctl.doctor.check import Settings
from memctl.doctor.finding import Finding, Status
from memctl.doctor.runner import examine
from memctl.doctor.surgery import Operation, Removed, heal
from memctl.model import EVERYTHING, Detail, Item
from tests.contract.backends import Backend
from tests.contract.conftest import make_backend
from tests.databases import DEFAULT_KIND, Databases
from tests.invocation import NOW

SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""For tests with examples: how busy the machine is decides about none of them."""
KINDS = ("sqlite-rollback", f"postgres-{DEFAULT_KIND}")


@dataclass
class Clinic:
    """A backend with the library's own tables, and the doctor."""

    backend: Backend
    kept: list[Item] = field(default_factory=list)
    """What repairs have put aside before they took it away."""

    def examine(
        self, *ids: str, ns: str | None = None, quick: bool = False, **chosen: Any
    ) -> dict[str, Finding]:
        """What these checks say, or all of them."""
        checks = [check_class(name) for name in ids or CHECKS]
        with self.backend.open() as store:
            told = self._settings(store.now(), ns, quick=quick, **chosen)
            return {finding.id: finding for finding in examine(store, checks, told)}

    def finding(self, name: str, **chosen: Any) -> Finding:
        """What one check says."""
        return self.examine(name, **chosen)[name]

    def heal(self, *ids: str, ns: str | None = None, is_rehearsal: bool = False, **chosen: Any) -> Operation:
        """Repair what these checks find."""

        def keep(removed: Sequence[Removed]) -> None:
            self.kept.extend(entry.item for entry in removed)

        opened = stores.open_writer(parse(self.backend.address), timeout=5, clock=lambda: NOW)
        with contextlib.closing(opened) as store:
            return heal(
                store,
                [check_class(name) for name in ids],
                self._settings(store.now(), ns, **chosen),
                is_rehearsal=is_rehearsal,
                keep=keep,
            )

    def _settings(self, now: str, ns: str | None, **chosen: Any) -> Settings:
        pattern = namespaces.parse(ns) if ns is not None else None
        return Settings(now, pattern=pattern, invocation=("memctl", "-s", self.backend.address), **chosen)

    def items(self) -> list[Item]:
        """Everything in the store, whole."""
        with self.backend.open() as store:
            return list(store.scan(EVERYTHING, vectors=Detail.FULL))


def places(finding: Finding) -> list[tuple[str | None, str | None]]:
    """Where the samples of a finding are."""
    return [(sample.prefix, sample.key) for sample in finding.samples]


def found(findings: dict[str, Finding]) -> dict[str, int]:
    """The checks that found something, and how much."""
    return {name: finding.count for name, finding in findings.items() if finding.status is Status.FOUND}


@contextlib.contextmanager
def open_clinic(kind: str, folder: Path, databases: Callable[[], Databases]) -> Iterator[Clinic]:
    """An empty store of that kind, as today's library makes it."""
    with make_backend(kind, folder, databases) as backend:
        backend.create()
        yield Clinic(backend)
