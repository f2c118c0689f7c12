"""Doing something again and again until a signal: `--watch`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from select import select
from socket import socketpair
from time import monotonic
from typing import TYPE_CHECKING, Any

from memctl.errors import Busy, Unreachable

if TYPE_CHECKING:
    from memctl.cli.context import Context

INTERRUPTED = 130


class Stop:
    """Whether to come to an end, and a wait that ends with it.

    A signal is taken between any two steps of the thread that waits. It must not need a lock that this thread may
    hold, as that of a `threading.Event`: it wakes the wait through a socket.
    """

    def __init__(self) -> None:
        self._is_set = False
        self.is_interrupted = False
        self._woken, self._wake = socketpair()
        self._wake.setblocking(False)

    def __bool__(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the end has come."""
        select([self._woken], [], [], seconds)

    def close(self) -> None:
        """Give the socket back: no signal may come any more."""
        self._woken.close()
        self._wake.close()

    def __call__(self, number: int, _frame: Any) -> None:
        """Take a signal; a second Ctrl-C does not wait for what is under way."""
        if number == signal.SIGINT:
            if self.is_interrupted:
                raise KeyboardInterrupt
            self.is_interrupted = True
        self._is_set = True
        with suppress(BlockingIOError):  # it is full of earlier ones
            self._wake.send(b"!")


def rounds(context: Context, every: timedelta, work: Callable[[Stop], object]) -> None:
    """Do `work` every so often, in the first round at once, until SIGTERM or SIGINT.

    Each round has its own connections, and is told when to stop; a store that is busy or cannot be reached is
    tried again in the next. SIGTERM is the regular end; after Ctrl-C the exit code is 130. What else goes wrong
    ends it.
    """
    with closing(Stop()) as stop, _listening(stop):
        while not stop:
            started = monotonic()
            try:
                with context.apart():
                    work(stop)
            except (Busy, Unreachable) as error:
                context.warn(f"memctl: {error.message}; trying again later")
            stop.wait(max(0.0, every.total_seconds() - (monotonic() - started)))
        if stop.is_interrupted:
            context.outcomes.add(INTERRUPTED)


@contextmanager
def _listening(stop: Stop) -> Iterator[None]:
    """Have signals come to `stop`; before and after they do what they did."""
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
