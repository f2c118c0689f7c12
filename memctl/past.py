"""Using a store's history: the store as it was, and the way back to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from typing import Any

import msgspec

from memctl.errors import MemctlError, Unsupported
from memctl.filters import equal
from memctl.history import Recording, Remembering
from memctl.instants import shift
from memctl.model import Detail, Instant, Item, Namespace, Position, Scope, encode
from memctl.store import Change, Store
from memctl.values import decode_exact


def remembering(store: Store) -> Remembering:
    """Return the store where history is, or was, on. Raises Unsupported, or MemctlError where it never was."""
    if not isinstance(store, Remembering):
        raise Unsupported(
            f"{store.address} keeps no history: that takes triggers in the store's own database"
        )
    if store.history() is None:
        raise MemctlError(
            f"{store.address} keeps no history",
            hint="memctl history on records every change from then on",
            code="no-history",
        )
    return store


def reach(store: Store, at: Instant) -> Remembering:
    """Return the store where its history reaches back to `at`. Raises MemctlError where it does not."""
    found = remembering(store)
    status = found.history()
    if status is not None and at < status.since:
        raise MemctlError(
            f"the history of {store.address} reaches back to {status.since}, not to {at}",
            hint="an older state may be in an archive: memctl export keeps one",
            code="before-history",
        )
    return found


def _as_it_was(store: Store, scope: Scope, at: Instant, vectors: Detail) -> Iterator[tuple[Item, bool]]:
    """Yield the items in `scope` as they were at `at`, in byte order, and whether each is a former one."""
    entries = reach(store, at).former(scope, at=at)
    entry = next(entries, None)
    for item in store.scan(scope, vectors=vectors):
        place = encode(item.prefix), encode(item.key)
        is_new = False
        while entry is not None and (found := (encode(entry.prefix), encode(entry.key))) <= place:
            is_new = is_new or found == place
            if entry.former is not None:
                yield entry.former, True
            entry = next(entries, None)
        if not is_new:
            yield item, False
    while entry is not None:
        if entry.former is not None:
            yield entry.former, True
        entry = next(entries, None)


def item_at(store: Store, prefix: str, key: str, at: Instant, detail: Detail) -> Item | None:
    """Return an item as it was at `at`; None where it was not there."""
    past = reach(store, at)
    changes = past.entries(Scope(prefix, descend=False), key=key, since=at, oldest_first=True)
    entry = next((entry for entry in changes if entry.at > at), None)
    if entry is not None:
        return entry.former
    return next(store.get(prefix, [key], vectors=detail), None)


def undoing(
    store: Store, scope: Scope, *, key: str | None, seq: int | None, at: Instant | None
) -> Iterator[Change]:
    """Yield the changes that bring items back to what they were before the entry `seq`, or at `at`.

    What is as it was then already is passed over. Vectors of a value that goes are deleted: the former value's are
    not kept.
    """
    past = reach(store, at) if at is not None else remembering(store)
    for entry in past.former(scope, seq=seq, at=at):
        if key is not None and entry.key != key:
            continue
        now = next(store.get(entry.prefix, [entry.key], vectors=Detail.SHAPE), None)
        then = entry.former
        if then is None and now is None:
            continue
        if then is not None and now is not None:
            if now.value == then.value:
                then = msgspec.structs.replace(then, vectors=now.vectors)
            if now == then:
                continue
        yield Change(now, then)


def prune(target: Recording, now: Instant, retain_minutes: float | None = None) -> int:
    """Delete the entries that are older than is said, or than the store's own retention; return how many."""
    status = target.history()
    if status is None:
        return 0
    minutes = status.retain_minutes if retain_minutes is None else retain_minutes
    if minutes is None:
        return 0
    return target.prune(shift(now, -timedelta(minutes=minutes)))


def difference(before: bytes | None, after: bytes | None) -> Iterator[str]:
    """Yield what two JSON values do not have in common, a member each: `-path: old`, `+path: new`."""
    try:
        one, other = _members(before), _members(after)
    except (ValueError, RecursionError):
        one = other = None
    if one is None or other is None:
        if before != after:
            yield from (f"-{_shown(before)}",) if before is not None else ()
            yield from (f"+{_shown(after)}",) if after is not None else ()
        return
    for name in dict.fromkeys((*one, *other)):
        if name in one and name in other and equal(one[name][0], other[name][0]):
            continue
        if name in one:
            yield f"-{name}: {one[name][1]}"
        if name in other:
            yield f"+{name}: {other[name][1]}"


def _members(value: bytes | None) -> dict[str, tuple[Any, str]] | None:
    """Return an object's members, decoded exactly and as they are written; None for what is no object."""
    exact = None if value is None else decode_exact(value)
    if value is None or not isinstance(exact, dict):
        return None
    raw = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    return {name: (exact[name], _shown(bytes(text))) for name, text in raw.items()}


def _shown(value: bytes) -> str:
    return value.decode(errors="replace")


class Then:
    """A store as it was at a time, for what reads a whole store; `restored` counts items that come without vectors."""

    def __init__(self, store: Store, at: Instant) -> None:
        reach(store, at)
        self._store, self._at = store, at
        self.kind, self.address, self.capabilities = store.kind, store.address, store.capabilities
        self.lock_seconds, self.moved = store.lock_seconds, store.moved
        self.now, self.close = store.now, store.close
        self.restored = 0

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:
        """Yield each namespace that held items then."""
        for prefix, group in groupby(self.scan(scope, vectors=Detail.SHAPE), lambda item: item.prefix):
            items = list(group)
            yield Namespace(
                prefix,
                len(items),
                sum(len(item.vectors) for item in items),
                sum(item.size for item in items),
                max((item.updated_at for item in items if item.updated_at), default=None),
            )

    def scan(
        self,
        scope: Scope,
        *,
        after: Position | None = None,
        values: bool = True,  # noqa: ARG002 (they come all the same)
        vectors: Detail = Detail.NONE,
        keep: Callable[[bytes | None], bool] | None = None,
    ) -> Iterator[Item]:
        """Yield the items as they were."""
        self.restored = 0
        for item, is_former in _as_it_was(self._store, scope, self._at, vectors):
            if after is not None and (encode(item.prefix), encode(item.key)) <= after.order:
                continue
            if keep is None or keep(item.value):
                self.restored += is_former
                yield item

    def get(self, prefix: str, keys: Sequence[str], *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield those of these items that were there."""
        for key in keys:
            item = item_at(self._store, prefix, key, self._at, vectors)
            if item is not None:
                yield item

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give itself: the past holds still."""
        yield self
