"""Which items a command means: the same options on every command that selects."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from memctl.blocks import Columnar, Piece
from memctl.errors import UsageError
from memctl.filters import Filter
from memctl.instants import backwards, parse_time
from memctl.model import EVERYTHING, Detail, Instant, Item, Scope, encode
from memctl.namespaces import Pattern
from memctl.sorting import sort
from memctl.values import decode_exact, decode_quick, strings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memctl.store import Store

Expiry = Literal["expired", "live"]


@dataclass(frozen=True, slots=True)
class Selection:
    """A condition on items. Everything given must hold; nothing given is every item.

    `now` decides `expiry`: an item is expired from its `expires_at` on. `window` is what `first` leaves.
    """

    pattern: Pattern | None = None
    text: TextMatch | None = None
    filters: tuple[Filter, ...] = ()
    since: Instant | None = None
    until: Instant | None = None
    by: Literal["updated_at", "created_at"] = "updated_at"
    expiry: Expiry | None = None
    now: Instant = ""
    window: Window | None = None

    @property
    def scope(self) -> Scope:
        """The key range to read."""
        return self.pattern.scope if self.pattern else EVERYTHING

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it: no namespace but `*`, which every one fits, and no condition."""
        anywhere = self.pattern is None or (self.pattern.labels == (None,) and self.pattern.descend)
        return anywhere and self.is_unconditional

    @property
    def is_unconditional(self) -> bool:
        """Whether it selects by namespace alone."""
        return not (self.text or self.filters or self.since or self.until or self.expiry or self.window)

    def select(self, store: Store, *, values: bool = True, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield the selected items of a store in its order; values come along when deciding takes them."""
        looks_inside = bool(self.text or self.filters)
        found = store.scan(
            self.scope,
            values=values or looks_inside,
            vectors=vectors,
            keep=self._keeps if looks_inside else None,
        )
        return found if self._is_scope else filter(self._fits, found)

    def pieces(self, store: Store, *, vectors: Detail = Detail.NONE) -> Iterator[Piece]:
        """Yield the selected items with their values, in blocks where the store has some and nothing is left out."""
        if self._is_scope and isinstance(store, Columnar):
            return store.blocks(self.scope, vectors=vectors)
        return iter((self.select(store, vectors=vectors),))

    @property
    def _is_scope(self) -> bool:
        """Whether the scope decides, and there is nothing to filter."""
        return self.is_unconditional and (self.pattern is None or self.pattern.is_literal)

    def matches(self, item: Item) -> bool:
        """Decide about an item that is at hand."""
        return self._fits(item) and self._keeps(item.value)

    def _keeps(self, value: bytes | None) -> bool:
        """Decide by the value alone. One that cannot be read fits no condition on it."""
        if self.text and not self.text.matches(value):
            return False
        return not self.filters or self._passes_filters(value)

    def _fits(self, item: Item) -> bool:
        """Decide by everything but the value. A time that cannot be read fits no condition on it."""
        if self.pattern and not self.pattern.matches(item.prefix):
            return False
        if self.expiry and (self.expiry == "expired") != is_expired(item, self.now):
            return False
        if self.since or self.until:
            moment = item.updated_at if self.by == "updated_at" else item.created_at
            if moment is None or (self.since and moment < self.since) or (self.until and moment > self.until):
                return False
        return self.window is None or self.window.holds(item)

    def _passes_filters(self, value: bytes | None) -> bool:
        try:
            decoded = decode_exact(value or b"")
        except (ValueError, RecursionError):
            return False
        return all(condition.matches(decoded) for condition in self.filters)

    def first(
        self, items: Callable[[Selection], Iterable[Item]], order: Order, limit: int | None, offset: int = 0
    ) -> Selection:
        """Return what selects, of what this does, `limit` items in that order behind the first `offset`.

        `items` reads what a selection selects; it is read once, and its values are not looked at.
        """
        key = key_of(order, self.by)
        until = None if limit is None else offset + limit
        found = islice(sort(map(key, items(self)), key=lambda place: place, limit=until), offset, None)
        first = next(found, None)
        last = deque(found, maxlen=1) or [first]
        return replace(self, window=Window(key, first, last[0]))


Order = Literal["newest", "oldest", "name", "bytes"]
ORDERS: tuple[Order, ...] = ("newest", "oldest", "name", "bytes")


@dataclass(frozen=True, slots=True)
class Window:
    """The items from one to another of an order; none at all where there is no first."""

    key: Callable[[Item], Any]
    first: Any
    last: Any

    def holds(self, item: Item) -> bool:
        """Tell whether an item has its place between the two."""
        return self.first is not None and bool(self.first <= self.key(item) <= self.last)


def key_of(order: Order, by: str) -> Callable[[Item], Any]:
    """Return what to sort items by; ties go by namespace and key.

    `newest` and `oldest` mean the time `by`, `updated_at` or `created_at`; what has none comes last.
    """

    def name(item: Item) -> tuple[bytes, bytes]:
        return encode(item.prefix), encode(item.key)

    def moment(item: Item) -> str | None:
        return item.updated_at if by == "updated_at" else item.created_at

    match order:
        case "name":
            return name
        case "bytes":
            return lambda item: (-item.size, name(item))
        case "oldest":
            return lambda item: (moment(item) or "~", name(item))
        case "newest":
            return lambda item: (backwards(moment(item)), name(item))


def is_expired(item: Item, now: Instant) -> bool:
    """Tell whether an item's expiry has come."""
    return item.expires_at is not None and item.expires_at <= now


class TextMatch:
    """A case-folded substring, or a regular expression, in any decoded string of a value.

    Whatever the JSON escaping: where the text holds no backslash its strings stand in it as they are, and
    looking at it as a whole first rules out most values without decoding them.
    """

    def __init__(self, text: str, *, regex: bool = False) -> None:
        self._needle = text.casefold()
        self._pattern: re.Pattern[str] | None = None
        if regex:
            try:
                self._pattern = re.compile(text)
            except re.error as error:
                raise UsageError(f"{text!r} is no regular expression: {error}") from None

    def matches(self, value: bytes | None) -> bool:
        """Decide for one value's JSON text."""
        if value is None or not self._may_match(value):
            return False
        try:
            decoded: Any = decode_quick(value)
        except (ValueError, RecursionError):
            return False
        if self._pattern:
            return any(map(self._pattern.search, strings(decoded)))
        return any(self._needle in text.casefold() for text in strings(decoded))

    def _may_match(self, value: bytes) -> bool:
        if self._pattern or b"\\" in value:
            return True
        return self._needle in value.decode("utf-8", "replace").casefold()


def parse_bounds(since: str | None, until: str | None, now: Instant) -> tuple[Instant | None, Instant | None]:
    """Read `--since` and `--until`. Raises UsageError, also when nothing can lie between them."""
    start = parse_time(since, now) if since else None
    end = parse_time(until, now) if until else None
    if start and end and start > end:
        raise UsageError(f"--since {since} is later than --until {until}")
    return start, end
