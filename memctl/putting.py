"""Putting one item: what it becomes of what was there, as the library's put would have it and without its losses."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from memctl import admission, deadlines
from memctl.compare import same_value
from memctl.deadlines import Deadline
from memctl.doctor.paths import gives_the_same
from memctl.errors import MemctlError
from memctl.merging import merge
from memctl.model import Detail, Instant, Item, Scope, Vector, encode, shown
from memctl.store import Capability, Change, Examined, Store
from memctl.values import decode_quick, fault_of


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

    def change(self, was: Item | None, now: Instant, kind: str) -> Change:
        """Return what becomes of an item, `was` read with its value and its whole vectors.

        `created_at` stays; vectors stay where their text does, see `_kept`. Raises MemctlError where the item was
        written after `unchanged_since` and where there is nothing to merge into but no object, UsageError where
        the library would not write such a value into a store of this `kind`.
        """
        self._check(was)
        if was is None:
            value = merge(b"{}", self.value) if self.merges else self.value
            admission.check_legible(value, kind)
            new = Item(self.prefix, self.key, value, len(value), now, now, None, None)
            return Change(None, self.ttl.on(new) if self.ttl else new)
        value = merge(was.value or b"", self.value) if self.merges else self.value
        admission.check_legible(value, kind)
        problems = tuple(problem for problem in was.problems if problem.part != "updated_at")
        becomes = msgspec.structs.replace(
            was, value=value, size=len(value), updated_at=now, problems=problems
        )
        becomes = msgspec.structs.replace(becomes, vectors=_kept(was, becomes, now))
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


def left_behind(store: Store, prefix: str, key: str) -> Item | None:
    """Return the whole vectors of a name that has no item, if there are any: they go when one is put there."""
    if Capability.CASCADE in store.capabilities or not isinstance(store, Examined):
        return None
    wanted = encode(key)
    for orphan in store.orphans(Scope(prefix, descend=False), detail=Detail.FULL):
        if encode(orphan.key) >= wanted:
            return orphan if orphan.key == key and not orphan.problems else None
    return None


def _kept(was: Item, becomes: Item, now: Instant) -> tuple[Vector, ...]:
    """Return the vectors whose text is the same in the new value, as the library's put would leave them.

    That embeds the text again and sets their `updated_at`, by which everybody tells that they are right. So it
    is set here, too, but never on one that was older than its item: that one may be of an earlier text, and
    goes on to look so. One that cannot be read whole stays as it is.
    """
    if same_value(was, becomes):
        return tuple(_renewed(vector, was, now) for vector in was.vectors)
    try:
        old, new = decode_quick(was.value or b""), decode_quick(becomes.value or b"")
    except (ValueError, RecursionError):
        return ()
    return tuple(
        _renewed(vector, was, now) for vector in was.vectors if gives_the_same(old, new, vector.field)
    )


def _renewed(vector: Vector, was: Item, now: Instant) -> Vector:
    written = vector.updated_at
    if written is None or vector.embedding is None or vector.problems:
        return vector
    if was.updated_at is not None and written < was.updated_at:
        return vector
    return msgspec.structs.replace(vector, updated_at=now)
