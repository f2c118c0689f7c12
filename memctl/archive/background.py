"""Work that a second thread does meanwhile, in order."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from threading import Thread
from typing import Any

_WAITING = 4
"""Calls that may wait, each with its octets, before `run` does."""

_Call = tuple[Callable[..., None], tuple[Any, ...]]


class Background:
    """Runs calls one after the other. After the first that fails none is run, and its error is raised."""

    def __init__(self) -> None:
        self._calls: Queue[_Call | None] = Queue(_WAITING)
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="memctl-archive", daemon=True)
        self._thread.start()

    def run(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have a call made when those before it are done. Raises what an earlier one raised."""
        self._raise()
        self._calls.put((call, arguments))

    def wait(self) -> None:
        """Return when every call is done. Raises what one of them raised."""
        self._calls.join()
        self._raise()

    def close(self) -> None:
        """End the thread once the calls that wait are done."""
        self._calls.put(None)
        self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (job := self._calls.get()) is not None:
            call, arguments = job
            try:
                if self._error is None:
                    call(*arguments)
            except BaseException as error:
                self._error = error
            finally:
                self._calls.task_done()
