"""What a store remembers of itself: every former value, kept by triggers in its own database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from memctl.model import Instant, Item, Scope


class Operation(StrEnum):
    """What happened to an item."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    EXPIRED = "expired"
    """Deleted when its expiry had come, whoever did it."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One change. `former` is the item as it was before, without vectors; None where there was none.

    `role` and `application` are what the database knew of who did it; a file knows nothing.
    """

    seq: int
    at: Instant
    operation: Operation
    prefix: str
    key: str
    former: Item | None
    role: str | None = None
    application: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """How history stands in a store where it was ever switched on. `octets` are those of the former values."""

    is_on: bool
    scope: str | None
    """The namespace whose items, and those below, are recorded; None for all."""
    retain_minutes: float | None
    since: Instant
    """From when on nothing is missing: when it was last switched on, or the latest that was pruned."""
    entries: int
    octets: int
    is_current: bool = True
    """Whether its triggers are those of this version of memctl."""


@runtime_checkable
class Remembering(Protocol):
    """A store whose database can keep its history."""

    def history(self) -> Status | None:
        """Return how it stands; None where there is none."""
        ...

    def entries(
        self,
        scope: Scope,
        *,
        key: str | None = None,
        after: int = 0,
        since: Instant | None = None,
        operations: Sequence[Operation] = (),
        oldest_first: bool = False,
    ) -> Iterator[Entry]:
        """Yield the changes in `scope` past the sequence number `after`, the newest first."""
        ...

    def former(self, scope: Scope, *, seq: int | None = None, at: Instant | None = None) -> Iterator[Entry]:
        """Yield, of each item in `scope`, the first change that counts from `seq` on, or came after `at`.

        They come in byte order of (prefix, key): their `former` is what the item was at that point.
        """
        ...


@runtime_checkable
class Recording(Remembering, Protocol):
    """The same, open for writing. Each call is one transaction."""

    def record(self, scope: str | None, retain_minutes: float | None) -> None:
        """Switch history on, or change what is recorded and how long it is kept."""
        ...

    def stop_recording(self, *, drop: bool) -> None:
        """Switch it off; with `drop` all that was recorded goes too, without a trace."""
        ...

    def prune(self, until: Instant) -> int:
        """Delete what was recorded up to `until`; return how many entries."""
        ...

    def unremember(self, scope: Scope) -> int:
        """Delete all that was recorded of the items in `scope`; return how many entries."""
        ...
