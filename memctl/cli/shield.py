"""Signals held back while something is under way that has to be counted when it is done."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any, TypeVar

Found = TypeVar("Found")

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Shield:
    """Has every signal that ends a command interrupt it like Ctrl-C, and none of them in the midst of a step.

    A transaction that is interrupted in its COMMIT has taken place all the same: it would be counted as not done.
    While the shield is up, a signal waits for the end of the step; a second one does not.
    """

    def __init__(self) -> None:
        self._is_up = False
        self._is_awaited = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Shield:
        if current_thread() is main_thread():  # no other may
            self._before = {
                number: signal.signal(number, self._take)
                for number in _SIGNALS
                if signal.getsignal(number) is not signal.SIG_IGN  # as `nohup` has it
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def up(self) -> Iterator[None]:
        """Hold signals back until the end of the block. Raises KeyboardInterrupt there if one came."""
        self._is_up = True
        try:
            yield
        finally:
            self._is_up = False
            self._let_through()

    def each(self, found: Iterable[Found]) -> Iterator[Found]:
        """Pass on what is found; inside `up`, a signal comes through while the next one is looked for."""
        rest = iter(found)
        while True:
            self._is_up = False
            self._let_through()
            one = next(rest, None)
            self._is_up = True
            if one is None:
                return
            yield one

    def _let_through(self) -> None:
        if self._is_awaited:
            self._is_awaited = False
            raise KeyboardInterrupt

    def _take(self, _number: int, _frame: Any) -> None:
        if not self._is_up or self._is_awaited:
            raise KeyboardInterrupt
        self._is_awaited = True
