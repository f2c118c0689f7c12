"""The writing side of a store that is reached through the methods of `BaseStore` alone.

Such a store knows no transactions: each item is written or deleted by a call of its own, and a call that
fails leaves done what was done before it. It sets `created_at` and `updated_at` itself. An item is compared
just before it is changed, so what somebody writes between those two calls is overwritten unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial

import msgspec

from memctl.errors import Unsupported
from memctl.instants import from_datetime, to_datetime
from memctl.model import Item, Position, Problem
from memctl.store import Batch, Change
from memctl.stores.api.decode import item_of
from memctl.stores.api.holding import faults
from memctl.stores.api.paging import Paging
from memctl.stores.api.store import ApiStore, can_be_asked_for

_LEAST_TTL = 1.0
"""Minutes that an item is given whose expiry has come already: without any it would stay for ever."""
_WORTH_COUNTING = 10

Job = Callable[[], None]


class ApiWriter(ApiStore):
    """A store behind an `Interface`, open for writing."""

    batch_rows = 500
    pause = 0.0

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what put would refuse or not keep; the parts in `lost` are never held, and not told here."""
        return tuple(faults(item, self._interface.fault))

    def write(self, batch: Batch) -> tuple[Position, ...]:
        """Write a batch; return the places of items that are there by now, or newer."""
        there = {} if self._are_absent(batch.new) else self._states(map(_place, batch.new))
        if batch.only_older:
            there |= self._states(map(_place, batch.changed))
        new = [item for item in batch.new if there.get(_place(item)) is None]
        changed = [item for item in batch.changed if not _is_newer(there.get(_place(item)), item)]
        self._each(self._put, [*new, *changed])
        if self._size is not None:
            self._size += len(new)
        written = {_place(item) for item in (*new, *changed)}
        return tuple(place for item in (*batch.new, *batch.changed) if (place := _place(item)) not in written)

    def apply(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Carry out changes, each item compared first. Raises Unsupported before anything is written."""
        for change in changes:
            _refuse_what_cannot_be_set(change)
        there = self._states([place for change in changes for place in _places(change)])
        left: list[Change] = []
        jobs: list[Job] = []
        touched: set[Position] = set()
        for change in changes:
            job = self._job(change, there)
            if job is None:
                left.append(change)
                continue
            if not touched.isdisjoint(_places(change)):  # what comes later in the call comes later in time
                self._carry_out(jobs)
                jobs, touched = [], set()
            jobs.append(job)
            touched.update(_places(change))
        self._carry_out(jobs)
        return tuple(left)

    def finish(self) -> None:
        """Do nothing: the store looks after its own index."""

    def _are_absent(self, items: Sequence[Item]) -> bool:
        """Tell from their number alone that nobody has added anything since all items were read.

        Two questions a batch instead of one an item: those take as long as writing does.
        """
        if self._size is None or len(items) < _WORTH_COUNTING:
            return False
        if Paging(self._interface, ()).holds(self._size):
            return True
        self._size = None
        return False

    def _states(self, places: Iterable[Position]) -> dict[Position, Item | None]:
        """Read items as they are now."""

        distinct = list(dict.fromkeys(places))
        plain = [place for place in distinct if can_be_asked_for(place.prefix, place.key)]
        found = self._each(
            lambda place: self._interface.get(tuple(place.prefix.split(".")), place.key), plain
        )
        states = {
            place: None if each is None else item_of(each) for place, each in zip(plain, found, strict=True)
        }
        for place in distinct:
            if place not in states:
                states[place] = next(self.get(place.prefix, [place.key]), None)
        return states

    def _job(self, change: Change, there: dict[Position, Item | None]) -> Job | None:
        """Return what carries a change out, None where it is not to be, and note what it leaves."""
        was, becomes = change.was, change.becomes
        if was is None:
            if becomes is None or there[_place(becomes)] is not None:
                return None
            there[_place(becomes)] = becomes
            return partial(self._put, becomes)
        now = there[_place(was)]
        if now is None or not _is_still(now, was):
            return None
        if becomes is None:
            there[_place(was)] = None
            return partial(self._delete, was)
        value = now.value if becomes.value is None else becomes.value
        new = msgspec.structs.replace(becomes, value=value)
        if _place(becomes) == _place(was):
            there[_place(was)] = new
            return partial(self._put, new)
        taken = there[_place(becomes)]
        if taken is not None and (change.over is None or not _is_still(taken, change.over)):
            return None
        there[_place(becomes)], there[_place(was)] = new, None
        return partial(self._rename, was, new)

    def _put(self, item: Item) -> None:
        labels = tuple(item.prefix.split("."))
        self._interface.put(labels, item.key, item.value or b"{}", ttl=self._ttl(item))

    def _delete(self, item: Item) -> None:
        self._interface.delete(tuple(item.prefix.split(".")), item.key)

    def _rename(self, was: Item, becomes: Item) -> None:
        """Write the new name before the old one goes: an interruption leaves both rather than none."""
        self._put(becomes)
        self._delete(was)

    def _ttl(self, item: Item) -> float | None:
        """Return the minutes that are left to an item."""
        if item.expires_at is None:
            return item.ttl_minutes
        left = to_datetime(item.expires_at) - to_datetime(from_datetime(self._clock()))
        return max(_LEAST_TTL, left / timedelta(minutes=1))

    def _carry_out(self, jobs: Sequence[Job]) -> None:
        self._each(lambda job: job(), jobs)
        if jobs:
            self._size = None


def _is_newer(there: Item | None, item: Item) -> bool:
    return there is not None and (there.updated_at or "") > (item.updated_at or "")


def _place(item: Item) -> Position:
    return Position(item.prefix, item.key)


def _places(change: Change) -> list[Position]:
    return [_place(item) for item in (change.was, change.becomes) if item is not None]


def _is_still(now: Item, was: Item) -> bool:
    """Tell whether an item is as it was read, as far as this interface shows it."""
    return (
        now.created_at == was.created_at
        and now.updated_at == was.updated_at
        and now.size == was.size
        and (was.value is None or now.value == was.value)
    )


def _refuse_what_cannot_be_set(change: Change) -> None:
    was, becomes = change.was, change.becomes
    if was is None or becomes is None:
        return
    if (was.expires_at, was.ttl_minutes) != (becomes.expires_at, becomes.ttl_minutes):
        raise Unsupported("the expiry of an item cannot be seen or set through this store's interface")
    if was.vectors != becomes.vectors:
        raise Unsupported("vectors cannot be seen or set through this store's interface")
    is_put = (
        becomes.value is not None or _place(was) != _place(becomes) or was.updated_at != becomes.updated_at
    )
    if not is_put:
        raise Unsupported("this store sets created_at and updated_at itself")
