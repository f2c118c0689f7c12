"""Damaged stores: one or more for each of the doctor's checks, made through the real library where it can.

A `Damage` says how a store is damaged and what the doctor has to make of it; `test_damaged` runs them all,
and fails when a check has none. Those of each family of checks stand in a module `damages_*`, as a tuple
`DAMAGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.contract.backends import DIMS, Backend, PostgresBackend, SqliteBackend
from tests.databases import DEFAULT_KIND
from tests.writers import Index, postgres_store, sqlite_store

SQLITE, POSTGRES = "sqlite-rollback", f"postgres-{DEFAULT_KIND}"
MODULES = ("damages_store", "damages_contents", "damages_kept")

Moved = Sequence[tuple[str, str, str, tuple[str, ...]]]
"""What differs after the repair, as `diff BEFORE AFTER` tells it: namespace, key, in, parts."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged store, and what is expected of the doctor.

    `inflict` gets a backend without a store and a folder for what else it makes; it leaves the store damaged.
    """

    check: str
    name: str
    inflict: Callable[[Backend, Path], None]
    findings: dict[str, tuple[str, int]]
    """Exactly the checks that find something, each with level and count."""
    backends: tuple[str, ...] = (SQLITE,)
    options: tuple[str, ...] = ()
    """Further arguments of `memctl doctor`; `{folder}` stands for the folder."""
    repaired: bool = True
    """Whether `--fix CHECK` heals it."""
    left: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What is still found after the repair."""
    moved: Moved = ()
    """What the repair changes, and nothing else does."""
    works: Callable[[Backend], None] | None = None
    """Uses the healed store through the real library, and asserts that it does its work."""
    fix_options: tuple[str, ...] = ()
    """Further arguments of the repair alone, such as `--save {folder}/gone.jsonl`."""

    @property
    def id(self) -> str:
        """Its name in test reports."""
        return f"{self.check}-{self.name}"


def agent(backend: Backend, *, index: bool = True, **ttl: Any) -> AbstractContextManager[Any]:
    """The real library's store, which embeds `text` and each of `tags`; `ttl` is its TTL configuration."""
    if isinstance(backend, SqliteBackend):
        own = Index(dims=DIMS, text_fields=["text", "tags[*]"])  # SqliteStore ignores `fields`
        return sqlite_store(backend.path, index=own if index else None, ttl=ttl or None, wal=backend.wal)
    assert isinstance(backend, PostgresBackend)
    return postgres_store(backend.address, index=Index(dims=DIMS) if index else None, ttl=ttl or None)


def all_damages() -> list[Damage]:
    """Every damaged store there is."""
    found: list[Damage] = []
    for name in MODULES:
        found += import_module(f"tests.doctor.{name}").DAMAGES
    return found
