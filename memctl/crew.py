"""Several connections to one store that write batches at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType

from memctl.model import Position
from memctl.store import Batch, Writable

Written = tuple[Batch, Sequence[Position]]
"""A batch, and what of it was left alone; see `Writable.write`."""


class Crew:
    """Writes each batch on whichever of `members` is idle; batches that share a name must not be given together.

    Leaving the `with` block waits for what is under way. An error of one batch comes out of the next call.
    """

    def __init__(self, members: Sequence[Writable]) -> None:
        self._idle: SimpleQueue[Writable] = SimpleQueue()
        for member in members:
            self._idle.put(member)
        self._most = len(members)
        self._pool = ThreadPoolExecutor(len(members))
        self._running: deque[tuple[Batch, Future[tuple[Position, ...]]]] = deque()

    def write(self, batch: Batch) -> Iterator[Written]:
        """Begin a batch, when there is somebody to write it; yield those that are done by then."""
        yield from self._done(self._most - 1)
        self._running.append((batch, self._pool.submit(self._write, batch)))

    def finish(self) -> Iterator[Written]:
        """Wait for all of them; yield what is done."""
        yield from self._done(0)

    def _done(self, most: int) -> Iterator[Written]:
        while len(self._running) > most:
            batch, future = self._running.popleft()
            yield batch, future.result()

    def _write(self, batch: Batch) -> tuple[Position, ...]:
        member = self._idle.get()
        try:
            return member.write(batch)
        finally:
            self._idle.put(member)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
