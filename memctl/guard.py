"""The guard: triggers in the store's own database, with which the library behaves as its contract says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

RULES = {
    "keep-created-at": "an overwrite keeps the item's created_at",
    "cascade-vectors": "an item that is deleted takes its vectors along",
    "fresh-vectors": "an item that is put again loses the vectors of its former value before the new ones arrive",
    "whole-ttl": "a TTL below a minute is stored as 1, never as 0",
}
"""What each rule makes true, in the order in which they are shown."""


class State(StrEnum):
    """How a rule stands in a store."""

    INSTALLED = "installed"
    OUTDATED = "outdated"
    """Made by another version of memctl, or in part; `install` makes it anew."""
    ABSENT = "absent"
    NEEDLESS = "needless"
    """This store keeps the rule by itself, or has nothing it would apply to."""
    OFF = "off"
    """It cannot be installed here; the reason says why."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One rule in one store; `objects` are what it is made of, or would be, in the database."""

    rule: str
    state: State
    objects: tuple[str, ...] = ()
    reason: str = ""


@runtime_checkable
class Guarded(Protocol):
    """A store whose database can hold the guard."""

    def guards(self) -> tuple[Guard, ...]:
        """Return how each rule stands, in the order of `RULES`."""
        ...


@runtime_checkable
class Guardable(Guarded, Protocol):
    """The same, open for writing. Each call is one transaction; doing it twice is doing it once."""

    def install_guards(self, rules: Sequence[str]) -> None:
        """Install these rules, in place of what other versions left of them."""
        ...

    def remove_guards(self, rules: Sequence[str]) -> None:
        """Remove all that any version has made for these rules; nothing is left behind."""
        ...
