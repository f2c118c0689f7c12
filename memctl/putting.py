"""Putting one item: what it becomes of what was there, as the library's put would have it and without its losses."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from memctl import deadlines
from memctl.compare import same_value
from memctl.deadlines import Deadline
from memctl.errors import MemctlError
from memctl.merging import merge
from memctl.model import Instant, Item, shown
from memctl.store import Change
from memctl.values import fault_of


@dataclass(frozen=True, slots=True)
class Order:
    """A value for one name. It can be applied to whatever is there, and once more when that was overtaken.

    `ttl` is None where the TTL of an item goes on. `unchanged_since`: nobody may have written it after that.
    """

    prefix: str
    key: str
    value: bytes
    """A JSON object, see `admission.check_value`."""
    merges: bool = False
    ttl: Deadline | None = None
    unchanged_since: Instant | None = None

    def change(self, was: Item | None, now: Instant) -> Change:
        """Return what becomes of an item, `was` read with its value and its vectors' shapes.

        `created_at` stays; vectors stay where the value means the same. Raises MemctlError where the item was
        written after `unchanged_since`, and where there is nothing to merge into but no object.
        """
        self._check(was)
        if was is None:
            value = merge(b"{}", self.value) if self.merges else self.value
            new = Item(self.prefix, self.key, value, len(value), now, now, None, None)
            return Change(None, self.ttl.on(new) if self.ttl else new)
        value = merge(was.value or b"", self.value) if self.merges else self.value
        problems = tuple(problem for problem in was.problems if problem.part != "updated_at")
        becomes = msgspec.structs.replace(
            was, value=value, size=len(value), updated_at=now, problems=problems
        )
        if not same_value(was, becomes):
            becomes = msgspec.structs.replace(becomes, vectors=())
        return Change(was, (self.ttl or deadlines.after(was, now)).on(becomes))

    def _check(self, was: Item | None) -> None:
        if self.unchanged_since is not None:
            if was is None:
                raise MemctlError("the item is gone", hint="somebody has deleted it", code="changed")
            if was.updated_at is None or was.updated_at > self.unchanged_since:
                raise MemctlError(
                    f"{shown(was.key)!r} was written at {was.updated_at or 'an unknown time'}, "
                    f"after {self.unchanged_since}",
                    hint="`memctl get` shows what it is now",
                    code="changed",
                )
        if self.merges and was is not None and (fault := fault_of(was.value)):
            raise MemctlError(
                f"there is nothing to merge into: the value is {fault.reason}",
                hint="without --merge it is replaced",
                code="no-object",
            )
