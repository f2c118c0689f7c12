"""A store that is reached through the methods of `BaseStore` alone; read side.

It has no order, no count and no snapshot, and shows neither expiry nor vectors. All that begins with the
labels of a scope is read page by page and sorted through a temporary file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import cached_property
from itertools import groupby, takewhile
from typing import TypeVar

import msgspec

from memctl.errors import MemctlError
from memctl.instants import from_datetime
from memctl.model import Detail, Instant, Item, Namespace, Position, Scope, is_clean
from memctl.store import Capability, Store
from memctl.stores.api.decode import item_of
from memctl.stores.api.gathered import Gathered
from memctl.stores.api.interface import Interface, Labels
from memctl.stores.api.paging import Paging

Given = TypeVar("Given")
Result = TypeVar("Result")

READINGS = 4
"""How often a part of a store is read at most, where it does not hold still."""
KEYS_AT_ONCE = 500


class ApiStore:
    """A store behind an `Interface`."""

    capabilities: frozenset[Capability] = frozenset()
    lock_seconds = 0.0
    lost = frozenset({"created_at", "updated_at", "expires_at", "ttl_minutes", "vectors"})
    """See `memctl.store.Narrow`."""

    def __init__(self, interface: Interface, *, clock: Callable[[], datetime]) -> None:
        self._interface = interface
        self._clock = clock
        self.kind = interface.kind
        self.address = interface.address
        self.moved = False
        self._last: tuple[Labels, bool, Gathered] | None = None
        self._files = ExitStack()
        self._size: int | None = None
        """How many items there are in all, as they were counted last."""

    @cached_property
    def _now(self) -> Instant:
        return from_datetime(self._clock())

    def now(self) -> Instant:
        """Return the time of the clock this store was opened with: the interface tells none."""
        return self._now

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:
        """Yield each namespace's totals in byte order; all items are read for that."""
        for prefix, group in groupby(self.scan(scope, values=False), lambda item: item.prefix):
            items = octets = 0
            newest: Instant | None = None
            for item in group:
                items, octets = items + 1, octets + item.size
                newest = max(filter(None, (newest, item.updated_at)), default=None)
            yield Namespace(prefix, items, 0, octets, newest)

    def scan(
        self,
        scope: Scope,
        *,
        after: Position | None = None,
        values: bool = True,
        vectors: Detail = Detail.NONE,  # noqa: ARG002 there are none to be seen
        keep: Callable[[bytes | None], bool] | None = None,
    ) -> Iterator[Item]:
        """Yield the items in byte order; all that begins as `scope` does is read before the first one.

        With `after` it goes on in what the scan before has read, where that covers it.
        """
        labels = _labels_of(scope)
        gathered = self._read_before(labels, values) if after is not None else None
        for item in (gathered or self._gather(labels, values)).after(after):
            if not _covers(scope, item.prefix) or (keep is not None and not keep(item.value)):
                continue
            yield item if values or item.value is None else msgspec.structs.replace(item, value=None)

    def get(
        self,
        prefix: str,
        keys: Sequence[str],
        *,
        vectors: Detail = Detail.NONE,  # noqa: ARG002
    ) -> Iterator[Item]:
        """Yield the items under `keys` that exist; names that no `get` takes are looked for by searching."""
        labels = tuple(prefix.split("."))
        if not all(can_be_asked_for(prefix, key) for key in keys):
            found = {item.key: item for item in self.scan(Scope(prefix, descend=False))}
            yield from (found[key] for key in keys if key in found)
            return
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = self._each(
                lambda key: self._interface.get(labels, key), keys[start : start + KEYS_AT_ONCE]
            )
            yield from (item_of(each) for each in some if each is not None)

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give this store: nothing holds it still, so `moved` is all that can be said."""
        yield self

    def close(self) -> None:
        """Let go of the store and of what was read."""
        self._last = None
        self._files.close()
        self._interface.close()

    def _read_before(self, labels: Labels, values: bool) -> Gathered | None:
        if self._last is not None:
            known, has_values, gathered = self._last
            if known == labels[: len(known)] and (has_values or not values):
                return gathered
        return None

    def _gather(self, labels: Labels, values: bool) -> Gathered:
        """Read what begins with `labels`, again where that may have passed something over."""
        paging = Paging(self._interface, labels)

        def is_whole(gathered: Gathered) -> bool:
            return not paging.is_torn and gathered.count >= paging.count

        gathered = self._read(paging, values)
        for _ in range(READINGS - 1):
            if is_whole(gathered):
                break
            with closing(gathered) as before:
                gathered = self._read(paging, values, before)
        self._files.callback(gathered.close)
        self.moved = self.moved or paging.moved
        if not is_whole(gathered) and paging.exceeds(gathered.count):
            raise MemctlError(
                f"{self.address}: only {gathered.count:,} items could be reached, and there are more:"
                " their order changes from page to page",
                hint="try again when fewer items have the same updated_at, or nobody writes",
                code="unstable-paging",
            )
        self._last = (labels, values, gathered)
        self._size = None if labels else paging.count
        return gathered

    def _read(self, paging: Paging, values: bool, before: Gathered | None = None) -> Gathered:
        def items() -> Iterator[Item]:
            if before is not None:
                yield from before
            for found in paging.read():
                yield item_of(found, values=values)

        return Gathered(items())

    def _each(self, call: Callable[[Given], Result], arguments: Sequence[Given]) -> list[Result]:
        """Make one call for each argument, as many at a time as the store takes; the answers are in order.

        The first error is raised when no call is under way any more.
        """
        if self._interface.concurrency == 1 or len(arguments) < 2:
            return list(map(call, arguments))
        with ThreadPoolExecutor(min(self._interface.concurrency, len(arguments))) as pool:
            waiting = [pool.submit(call, argument) for argument in arguments]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _labels_of(scope: Scope) -> Labels:
    """Return the labels to search by: as many as a search takes."""
    return tuple(takewhile(_is_plain, scope.prefix.split("."))) if scope.prefix is not None else ()


def can_be_asked_for(prefix: str, key: str) -> bool:
    """Tell whether a `get` takes this name."""
    return all(map(_is_plain, (*prefix.split("."), key)))


def _is_plain(name: str) -> bool:
    """Tell whether a label or key is one that the library's calls take."""
    return bool(name) and "\0" not in name and is_clean(name)


def _covers(scope: Scope, prefix: str) -> bool:
    if scope.prefix is None or prefix == scope.prefix:
        return True
    return scope.descend and prefix.startswith(f"{scope.prefix}.")
