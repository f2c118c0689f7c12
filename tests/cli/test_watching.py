"""`--watch`: a signal that comes at any moment ends it."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import closing
from types import FrameType
from typing import Any

from memctl.cli.watching import Stop


def test_a_signal_ends_the_wait_wherever_it_comes() -> None:
    """A handler runs between any two lines of the thread it interrupts, also inside of the standard library."""
    for nth in range(200):
        with closing(Stop()) as stop:
            waiting = _Interrupted(stop, nth)
            waiting.start()
            waiting.join(10)
            assert not waiting.is_alive(), f"it hangs when the signal comes before line {nth} of the wait"
            assert stop
            if not waiting.had_more:
                assert nth, "not one line was traced"
                return
    raise AssertionError("the wait never ends")


class _Interrupted(threading.Thread):
    """A wait whose nth line, counting those of what it calls, is preceded by a signal."""

    def __init__(self, stop: Stop, nth: int) -> None:
        super().__init__(daemon=True)
        self.stop, self.nth, self.had_more = stop, nth, False

    def run(self) -> None:
        sys.settrace(self._trace)
        self.stop.wait(0.05)
        sys.settrace(None)
        if not self.had_more:
            self.stop(signal.SIGTERM, None)

    def _trace(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.nth -= 1
            if self.nth == -1:
                self.had_more = True
                sys.settrace(None)
                self.stop(signal.SIGTERM, None)
        return None if self.had_more else self._trace


def test_a_signal_that_came_before_leaves_nothing_to_wait_for() -> None:
    with closing(Stop()) as stop:
        for _ in range(100_000):  # more than the socket holds
            stop(signal.SIGTERM, None)
        stop.wait(60)
        assert stop
        assert not stop.is_interrupted
