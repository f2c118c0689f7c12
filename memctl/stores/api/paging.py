"""Reading all that begins with some labels, page by page, where pages move under writes.

A store of this kind is read by offset: whoever writes or deletes meanwhile shifts what has not been read
yet, so that an item comes twice or is passed over. Each page therefore begins with the last item of the page
before; and the end is read first, so that how many there are is known before most of them are read, and is
asked again afterwards. High offsets are asked for rarely: each one costs the store as much as counting so far.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from memctl.stores.api.interface import Found, Interface, Labels

PAGE_OCTETS = 4 * 1024 * 1024
PAGE_ROWS = 5_000
FIRST_ROWS = 50
_GROWTH = 40

Page = list[Found]
Ask = Callable[[int, int], Callable[[], Page]]
"""Asks for a page, by limit and offset, which may then be on its way for a while."""


class Paging:
    """One reader of what begins with `labels`; it may read several times."""

    def __init__(self, interface: Interface, labels: Labels) -> None:
        self._interface, self._labels = interface, labels
        self.moved = False
        """Whether somebody was seen to write while this read."""
        self.is_torn = False
        """Whether the last reading may have passed something over."""
        self.count = 0
        """How many the last reading found."""
        self._knows_offsets = True

    def read(self) -> Iterator[Found]:
        """Yield all of them, in no order, some perhaps twice."""
        self.is_torn = False
        with self._ahead() as ask:
            start = ask(FIRST_ROWS, 0)()
            yield from start
            self.count = len(start)
            if start and (following := self._search(1, len(start))):
                self._knows_offsets = not _is_same(following[0], start[0])
                yield from self._rest(ask, start) if self._knows_offsets else self._all(start)
        if not self.holds(self.count) or (start and not _is_unchanged(start[0], self._search(1, 0))):
            self.moved = True
        self.moved = self.moved or self.is_torn

    def holds(self, count: int) -> bool:
        """Tell whether there are exactly so many now."""
        first = max(0, count - 1) if self._knows_offsets else 0
        return len(self._search(count - first + 1, first)) == count - first

    def exceeds(self, count: int) -> bool:
        """Tell whether there are more than that now."""
        first = count if self._knows_offsets else 0
        return len(self._search(count - first + 1, first)) > count - first

    def _rest(self, ask: Ask, start: Page) -> Iterator[Found]:
        """Yield what comes behind the first page: the end, and then what is before it."""
        offset, limit = len(start), _rows(start, FIRST_ROWS * _GROWTH)
        late, found = self._near_the_end(offset)
        self.count = yield from self._run(ask, limit, late, last=start[-1] if late == offset else None)
        if found is not None:
            yield from self._run(ask, limit, offset, last=start[-1], stop=late, behind=found)

    def _all(self, start: Page) -> Iterator[Found]:
        """Yield everything from a store that pays no heed to offsets: in one page, however large that has to be."""
        page, limit = start, len(start)
        while len(page) >= limit:
            limit = max(PAGE_ROWS, 4 * limit)
            page = self._search(limit, 0)
        self.count = len(page)
        yield from page

    def _near_the_end(self, offset: int) -> tuple[int, Found | None]:
        """Return an offset at which there is one, and which; `offset` and None where the end is that near."""
        late, found = offset, None
        ahead = max(PAGE_ROWS, 2 * offset)
        while there := self._search(1, ahead):
            late, found = ahead, there[0]
            ahead *= 2
        return late, found

    def _run(
        self,
        ask: Ask,
        limit: int,
        offset: int,
        *,
        last: Found | None,
        stop: int | None = None,
        behind: Found | None = None,
    ) -> Generator[Found, None, int]:
        """Yield what is from `offset` on, to the end or to `stop`; return the offset where that was.

        `last` is what has to come before it, and `behind` what has to stand at `stop`; where one does not, the
        reading is torn.
        """
        page = self._next(ask, limit, offset, last, stop)()
        while True:
            if last is not None:
                if page and _is_same(page[0], last):
                    del page[0]
                else:
                    self.is_torn = True
                    offset -= 1  # where this page really begins
            if stop is not None and offset + len(page) > stop:
                self.is_torn = self.is_torn or behind is None or not _is_same(page[stop - offset], behind)
                yield from page[: stop - offset]
                return stop
            if not page:
                self.is_torn = self.is_torn or stop is not None
                return offset
            offset, last, limit = offset + len(page), page[-1], _rows(page, limit * _GROWTH)
            following = self._next(ask, limit, offset, last, stop)
            yield from page
            page = following()

    @staticmethod
    def _next(ask: Ask, limit: int, offset: int, last: Found | None, stop: int | None) -> Callable[[], Page]:
        overlap = 0 if last is None else 1
        wanted = limit if stop is None else min(limit, stop - offset + 1)
        return ask(wanted + overlap, offset - overlap)

    @contextmanager
    def _ahead(self) -> Iterator[Ask]:
        """Give what asks for pages; where that may be done elsewhere, one comes while another one is used."""
        if self._interface.concurrency == 1:
            yield lambda limit, offset: lambda: self._search(limit, offset)
            return
        with ThreadPoolExecutor(1) as pool:
            yield lambda limit, offset: pool.submit(self._search, limit, offset).result

    def _search(self, limit: int, offset: int) -> Page:
        return self._interface.search(self._labels, limit=limit, offset=offset)


def _rows(page: Sequence[Found], most: int) -> int:
    """How many rows like these a page should have."""
    octets = sum(len(found.value or b"") for found in page) // len(page) + 1
    return max(1, min(PAGE_ROWS, most, PAGE_OCTETS // octets))


def _is_same(one: Found, other: Found) -> bool:
    return one.key == other.key and one.labels == other.labels


def _is_unchanged(first: Found, now: Page) -> bool:
    """Tell whether what was first still is, which in most stores is what was written last."""
    return bool(now) and _is_same(first, now[0]) and first.updated_at == now[0].updated_at
