"""`--debug`: the statements that stores run, as they are sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STORES = logging.getLogger("memctl.stores")


@contextmanager
def told(say: Callable[[str], None]) -> Iterator[None]:
    """Say every statement while the context lasts; values are bound to them, so none of those shows."""

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = "http" if record.name.startswith("memctl.stores.api") else "sql"
            say(f"{kind}: " + " ".join(record.getMessage().split()))

    teller, level = Teller(), _STORES.level
    _STORES.addHandler(teller)
    _STORES.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        _STORES.removeHandler(teller)
        _STORES.setLevel(level)
