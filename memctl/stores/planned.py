"""A store that is not there yet: what a rehearsal of `--init` finds in its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from memctl.blocks import Block
from memctl.instants import from_datetime
from memctl.model import Instant, Item, Namespace, Position, Problem, Scope
from memctl.store import Batch, Capability, Change, Setup, Store, Target

if TYPE_CHECKING:
    from memctl.addresses import Address
    from memctl.stores.postgres.holding import Judge
    from memctl.stores.postgres.trial import ValueTrial


class _Doubts:
    """Stands where a server would be asked about its tables: takes names for held, and remembers that it was asked.

    About values it asks PostgreSQL itself, which takes no table.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        self.met = False
        self._address, self._timeout = address, timeout
        self._server: ValueTrial | None = None

    def value(self, value: bytes) -> str | None:
        if self._address.scheme != "postgres":
            self.met = True
            return None
        if self._server is None:
            from memctl.stores.postgres.trial import ValueTrial

            self._server = ValueTrial(self._address.target, timeout=self._timeout)
        return self._server.value(value)

    def fits(self, prefix: str, key: str, fields: Sequence[str]) -> bool:  # noqa: ARG002
        self.met = True
        return True

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class Widened:
    """A store that is there, in a rehearsal of `--init` that would give it the tables of vectors."""

    def __init__(self, store: Target, planned: Planned) -> None:
        self._store, self._planned = store, planned
        self.capabilities = store.capabilities | {Capability.VECTORS}

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what the tables could not hold, those that would be made among them."""
        there = self._store.unholdable(msgspec.structs.replace(item, vectors=()))
        return (*there, *(fault for fault in self._planned.unholdable(item) if fault.part == "vectors"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Planned:
    """An empty store in the tables that `setup` would make. It can be asked anything and told nothing."""

    batch_rows = 1
    pause = 0.0
    moved = False
    lock_seconds = 0.0

    def __init__(
        self, address: Address, setup: Setup, clock: Callable[[], datetime], *, timeout: float
    ) -> None:
        self.kind: str = address.scheme
        self.address = address.target if address.scheme == "sqlite" else "the target"
        self._setup = setup
        self._clock = clock
        self._doubts = _Doubts(address, timeout)
        vectors = {Capability.VECTORS} if setup.dims is not None else set()
        self.capabilities = frozenset({Capability.EXPIRY, Capability.TIMES} | vectors)

    @property
    def path(self) -> Path | None:
        """Where there will be a file, and is none yet."""
        path = Path(self.address)
        return path if self.kind == "sqlite" and not os.path.lexists(path) else None

    @property
    def is_sure(self) -> bool:
        """Whether no item came near a limit that only the server knows."""
        return not self._doubts.met

    @cached_property
    def _judge(self) -> Judge:
        from memctl.stores.postgres.holding import Holding, Judge

        whole = self.kind == "postgres"
        return Judge(Holding.of_setup(self._setup, whole_minutes=whole), self._doubts)

    def now(self) -> Instant:
        """Return the time of the clock."""
        return from_datetime(self._clock())

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:  # noqa: ARG002
        """Yield nothing."""
        return iter(())

    def scan(self, scope: Scope, **options: Any) -> Iterator[Item]:  # noqa: ARG002
        """Yield nothing."""
        return iter(())

    def get(self, prefix: str, keys: Sequence[str], **options: Any) -> Iterator[Item]:  # noqa: ARG002
        """Yield nothing."""
        return iter(())

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give itself."""
        yield self

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what the tables could not hold."""
        if self.kind in ("postgres", "cockroach"):
            return self._judge.faults(item)
        if item.vectors and self._setup.dims is None:
            return (Problem("vectors", "the store has no vector tables"),)
        return ()

    @property
    def loads(self) -> bool:
        """Whether the store that is made of this will load blocks."""
        return self.kind in ("sqlite", "postgres")

    def holds(self, block: Block) -> bool:
        """Tell whether the tables could hold a block for certain."""
        if self.kind == "sqlite":
            return self._setup.dims is not None or not block.vectors
        return self._judge.holds(block)

    def load(self, blocks: Sequence[Block]) -> bool:
        """Refuse, as `write` does."""
        raise NotImplementedError(f"a planned store cannot take {len(blocks)} blocks")

    def write(self, batch: Batch) -> tuple[Position, ...]:
        """Refuse: nothing is written in a rehearsal."""
        raise NotImplementedError(f"a planned store cannot take {len(batch.new)} items")

    def apply(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Refuse, as `write` does."""
        raise NotImplementedError(f"a planned store cannot take {len(changes)} changes")

    def finish(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Let go of the server, if it was asked."""
        self._doubts.close()
