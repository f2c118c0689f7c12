"""Whether snippets of conversations pile up where facts were meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted
from memctl.instants import to_datetime
from memctl.model import Instant, Item
from memctl.store import Capability
from memctl.values import decode_quick, strings

FEWEST = 5
"""Items that make a pile."""
LONG = 240
"""Characters in the longest text of a value above which it is a piece of a conversation rather than a fact."""
_LOOKED_AT = 5
GROWING = timedelta(days=14)
"""Time between the first and the last item above which it is no single import."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}").fullmatch


class AppendOnly(Check):
    """Namespaces that only ever grow."""

    id = "append-only"
    level = Level.NOTE
    summary = (
        "namespaces of UUID keys that are never overwritten, keep growing, hold long text and never expire"
    )
    values = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._octets = 0
        self._keeps_created = Capability.KEEPS_CREATED in patient.capabilities
        self._prefix = ""
        self._is_candidate = False
        self._start("")

    def _start(self, prefix: str) -> None:
        self._prefix = prefix
        self._is_candidate = True
        self._items = self._size = 0
        self._first: Instant = "~"
        self._last: Instant = ""
        self._values: list[bytes] = []

    def namespace(self, prefix: str) -> None:
        """Judge the namespace before, and begin with this one."""
        self._judge()
        self._start(prefix)

    def items(self, items: Sequence[Item]) -> None:
        """Add items up, until the namespace is none of these any more."""
        for item in items:
            if not self._is_candidate:
                return
            self.item(item)

    def item(self, item: Item) -> None:
        """Add an item up."""
        created = item.created_at
        if (
            item.expires_at is not None
            or created is None
            or not _UUID(item.key)
            or (self._keeps_created and item.updated_at != created)
        ):
            self._is_candidate = False
            return
        self._items += 1
        self._size += item.size
        if self._items <= _LOOKED_AT and item.value is not None:
            self._values.append(item.value)
        self._first = min(self._first, created)
        self._last = max(self._last, created)

    def _judge(self) -> None:
        if not self._is_candidate or self._items < FEWEST or self._size < LONG * self._items:
            return
        time = to_datetime(self._last) - to_datetime(self._first)
        if time < GROWING or not all(map(_is_long, self._values)):
            return
        self.count += 1
        self._octets += self._size
        detail = f"{self._items:,} items of {self._size // self._items:,} B each in {time.days:,} days"
        self.sample(self._prefix, None, detail)

    def finish(self) -> Finding:
        """Say what becomes of it, and what can be done."""
        self._judge()
        self._is_candidate = False
        if not self.count:
            return self.fine()
        return self.found(
            f"{counted(self.count, 'namespace')} of long texts under random keys, never overwritten, never expiring,"
            " more of them every week: snippets of conversations pile up where facts were meant. Distil them, or let"
            " them expire, with expire or a retention policy.",
            brief="namespaces that only ever grow",
            octets=self._octets,
        )


def _is_long(value: bytes) -> bool:
    """Tell whether a value is a long text, and little else: one with a subject and a source is a fact."""
    try:
        longest = max(map(len, strings(decode_quick(value))), default=0)
    except (ValueError, RecursionError):
        return False
    return longest >= LONG and longest * 3 >= len(value.decode()) * 2
