"""What a check has to say about a store."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


class Level(enum.StrEnum):
    """How bad a thing is: an error breaks the library, a warning misleads it, a note is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def gravity(self) -> int:
        """For comparing: the graver the greater."""
        return {"note": 1, "warning": 2, "error": 3}[self.value]


class Status(enum.StrEnum):
    """What became of a check."""

    OK = "ok"
    FOUND = "found"
    SKIPPED = "skipped"
    """This store cannot have the fault, or cannot show it; the message says why."""
    FAILED = "failed"
    """The check itself could not run; the message says why."""


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One of the things found: `detail` says in a few words what is wrong with it.

    Without `key` it is a namespace, without `prefix` a thing of the schema, which `detail` names.
    """

    prefix: str | None
    key: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer of one check."""

    id: str
    level: Level
    """Of the worst that was found; where nothing was, of the check."""
    status: Status
    count: int = 0
    """How many things are wrong: items, vectors, namespaces or parts of the schema, as the message says."""
    octets: int | None = None
    """How much room they take, where that matters."""
    samples: tuple[Sample, ...] = ()
    """At most `check.MOST_SAMPLES`, in byte order of (prefix, key)."""
    message: str = ""
    """One or two sentences that an operator can act on."""
    brief: str = ""
    """The same in a few words (45 characters), without the count, for a line of its own."""
    fix: str | None = None
    """The command that repairs it, quoted so that it can be pasted into a shell."""
    table: tuple[Mapping[str, Any], ...] = ()
    """Rows of numbers that belong to it, as `-o json` shows them."""
    facts: Mapping[str, Any] | None = None
    """Further numbers by name, as `-o json` shows them."""
