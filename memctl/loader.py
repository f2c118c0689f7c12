"""Loading by a second thread: blocks are written while those that follow are read.

It pays because a database does its work without the interpreter: SQLite lets go of it for as long as a
statement runs, and a server is another process altogether.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol, runtime_checkable

from memctl.blocks import Block, Loading

_TURN_SECONDS = 0.0005
"""How long a thread may keep the interpreter from the other: what the database waits for before it goes on."""


@runtime_checkable
class Interruptible(Protocol):
    """A store whose writing another thread can break off."""

    def interrupt(self) -> None:
        """Have the `load` that another thread may be in raise soon; nothing of it stays."""
        ...


class Loader:
    """Loads blocks into `target` one batch at a time, in the order given. Leaving the `with` block ends the thread.

    No other thread may write to the target between `give` and `settle`. Left by an exception, it has the
    load that is under way broken off.
    """

    def __init__(self, target: Loading) -> None:
        self._target = target
        self._pool = ThreadPoolExecutor(1, "memctl-loader")
        self._running: tuple[Sequence[Block], Future[bool]] | None = None
        self._former_turn = 0.0

    def give(self, blocks: Sequence[Block]) -> None:
        """Begin to load a batch; the one before it was settled."""
        assert self._running is None
        self._running = blocks, self._pool.submit(self._target.load, blocks)

    def settle(self) -> tuple[Sequence[Block], bool]:
        """Wait for what is under way; return it, if there is anything, and whether it was loaded.

        Raises what loading it raised.
        """
        running, self._running = self._running, None
        return ((), True) if running is None else (running[0], running[1].result())

    def __enter__(self) -> Loader:
        self._former_turn = sys.getswitchinterval()
        sys.setswitchinterval(_TURN_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setswitchinterval(self._former_turn)
        if error is not None and isinstance(self._target, Interruptible):
            self._target.interrupt()
        self._pool.shutdown(wait=True, cancel_futures=True)
