"""The few calls that stand between memctl and a store that it cannot read in SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

from memctl.model import Problem

Labels = tuple[str, ...]


class Found(msgspec.Struct, frozen=True, gc=False):
    """An item as it was handed out: `value` is its JSON text, None where it has none, and then a problem."""

    labels: Labels
    key: str
    value: bytes | None
    created_at: datetime | str | None
    updated_at: datetime | str | None
    problems: tuple[Problem, ...] = ()


class Interface(Protocol):
    """The store behind. Reading refreshes no TTL; errors are those of `memctl.errors`.

    Labels and keys are handed on as they are: what the store does not take it refuses.
    """

    kind: str
    address: str
    concurrency: int
    """How many calls may be under way at a time; 1 where they have to come from one thread."""

    def search(self, labels: Labels, *, limit: int, offset: int) -> list[Found]:
        """Return up to `limit` items whose namespace begins with `labels`, in the store's own order."""
        ...

    def get(self, labels: Labels, key: str) -> Found | None:
        """Return one item, None where there is none."""
        ...

    def put(self, labels: Labels, key: str, value: bytes, *, ttl: float | None) -> None:
        """Write one item, to expire in `ttl` minutes where the store knows such a thing."""
        ...

    def delete(self, labels: Labels, key: str) -> None:
        """Delete one item, or none."""
        ...

    def fault(self, value: bytes) -> str | None:
        """Say why the JSON text of an object cannot be kept exactly, None where it can."""
        ...

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        ...
