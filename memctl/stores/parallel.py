"""A store that several processes read as of one moment, and that is still one ordered stream.

The key order is cut into ranges of `RANGE_ROWS` items, which the processes take in turn. Each sends its items
by column; threads here collect what comes, up to `HELD_OCTETS` in all, and the ranges are given in their order.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection
from operator import attrgetter
from queue import Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec

from memctl.blocks import Block, Piece
from memctl.errors import Busy, MemctlError, NoStore, Refused, Unreachable
from memctl.model import Detail, Instant, Item, Position, Scope, Vector
from memctl.store import Count, Counted, Described, Description, Splittable, Store

if TYPE_CHECKING:
    from memctl.addresses import Address

RANGE_ROWS = 20_000
MESSAGE_ROWS = 500
MESSAGE_OCTETS = 1024 * 1024
HELD_OCTETS = 32 * 1024 * 1024
_BLOCK, _ITEMS, _END, _ERROR = b"B", b"I", b".", b"!"
_ERRORS = {kind.exit_code: kind for kind in (MemctlError, NoStore, Busy, Refused, Unreachable)}

_COLUMNS = ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")


class _Columns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A block as it is sent; its vectors have nothing odd about them either."""

    prefixes: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[bytes, ...]
    created_at: tuple[Instant, ...]
    updated_at: tuple[Instant, ...]
    expires_at: tuple[Instant | None, ...]
    ttl_minutes: tuple[float | None, ...]
    vectors: dict[int, list[tuple[str, int, bytes | None, Instant | None, Instant | None]]]

    def block(self) -> Block:
        """Return it as it was."""
        vectors = {place: tuple(Vector(*cells) for cells in found) for place, found in self.vectors.items()}
        return Block(
            self.prefixes,
            self.keys,
            self.values,
            self.created_at,
            self.updated_at,
            self.expires_at,
            self.ttl_minutes,
            vectors,
        )


_decode = msgspec.msgpack.Decoder(_Columns).decode
_encode = msgspec.msgpack.Encoder().encode

Open = Callable[["Address", str, float], Store]


class Parallel:
    """A `Store` whose whole scans are shared out to `jobs` processes; all else the store itself does."""

    def __init__(self, store: Store, address: Address, *, jobs: int, timeout: float, open_at: Open) -> None:
        self._store, self._address = store, address
        self._jobs, self._timeout, self._open = jobs, timeout, open_at

        self.kind, self.address = store.kind, store.address
        self.capabilities = store.capabilities
        self.lock_seconds, self.moved = store.lock_seconds, store.moved
        self.now, self.namespaces, self.get = store.now, store.namespaces, store.get
        self.close = store.close

    def count(self, scope: Scope) -> Count:
        """Count as the store does."""
        assert isinstance(self._store, Counted)
        return self._store.count(scope)

    def describe(self) -> Description:
        """Describe the store."""
        assert isinstance(self._store, Described)
        return self._store.describe()

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give itself: all that is read is of one moment."""
        yield self

    def scan(
        self,
        scope: Scope,
        *,
        after: Position | None = None,
        values: bool = True,
        vectors: Detail = Detail.NONE,
        keep: Callable[[bytes | None], bool] | None = None,
    ) -> Iterator[Item]:
        """Yield as the store does; by several processes where a scan is whole and brings values."""
        if after is not None or not values:
            yield from self._store.scan(scope, after=after, values=values, vectors=vectors, keep=keep)
            return
        for piece in self.blocks(scope, vectors=vectors):
            for item in piece.items() if isinstance(piece, Block) else piece:
                if keep is None or keep(item.value):
                    yield item

    def blocks(self, scope: Scope, *, vectors: Detail = Detail.NONE) -> Iterator[Piece]:
        """Yield what `scan` yields, by column where nothing in it is odd."""
        store = self._store
        assert isinstance(store, Splittable)
        starts = [None, *store.cuts(scope, RANGE_ROWS)]
        if len(starts) == 1:
            yield store.scan(scope, vectors=vectors)
            return
        jobs = min(self._jobs, len(starts))
        moment = store.moment()
        work = _Work(self._address, moment, self._timeout, scope, vectors, RANGE_ROWS, self._open)
        workers = [_Worker(work, starts[number::jobs], jobs) for number in range(jobs)]
        try:
            for number in range(len(starts)):
                yield from workers[number % jobs].range()
        finally:
            for worker in workers:
                worker.stop()


class _Work(msgspec.Struct, frozen=True):
    """What a process is told."""

    address: Any
    moment: str
    timeout: float
    scope: Any
    vectors: Detail
    rows: int
    open_at: Open


class _Worker:
    """A process that reads ranges, and a thread that collects what it sends."""

    def __init__(self, work: _Work, starts: Sequence[Position | None], jobs: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_read, args=(theirs, work, list(starts)), daemon=True)
        self._process.start()
        theirs.close()
        held = max(2, HELD_OCTETS // jobs // MESSAGE_OCTETS)
        self._messages: Queue[bytes] = Queue(held)
        self._stopped = False
        Thread(target=self._collect, daemon=True).start()

    def range(self) -> Iterator[Piece]:
        """Yield the pieces of its next range."""
        while (message := self._messages.get())[:1] != _END:
            kind, body = message[:1], memoryview(message)[1:]
            if kind == _BLOCK:
                yield _decode(body).block()
            elif kind == _ITEMS:
                yield iter(pickle.loads(body))  # noqa: S301 (of a process that was started here)
            else:
                raise _error(*pickle.loads(body))  # noqa: S301

    def stop(self) -> None:
        """End the process, if it has not come to its end."""
        self._stopped = True
        self._process.terminate()
        self._process.join()

    def _collect(self) -> None:
        try:
            while not self._stopped:
                self._put(self._connection.recv_bytes())
        except (EOFError, OSError):
            died = "a process that read for --jobs died", None, "failed", 1
            self._put(_ERROR + pickle.dumps(died))

    def _put(self, message: bytes) -> None:
        """Wait for room, but not for ever when nobody asks any more."""
        while not self._stopped:
            with suppress(Full):
                self._messages.put(message, timeout=0.5)
                return


def _read(connection: Connection, work: _Work, starts: Sequence[Position | None]) -> None:
    """Read ranges and send them: what a process does."""
    try:
        store = work.open_at(work.address, work.moment, work.timeout)
        try:
            for start in starts:
                rows = islice(store.scan(work.scope, after=start, vectors=work.vectors), work.rows)
                for message in _messages(rows):
                    connection.send_bytes(message)
                connection.send_bytes(_END)
        finally:
            store.close()
    except MemctlError as error:
        told = error.message, error.hint, error.code, error.exit_code
        connection.send_bytes(_ERROR + pickle.dumps(told))
    except (BrokenPipeError, KeyboardInterrupt):
        return
    finally:
        connection.close()


def _messages(items: Iterator[Item]) -> Iterator[bytes]:
    part: list[Item] = []
    octets = 0
    for item in items:
        part.append(item)
        octets += item.size + sum(4 * vector.dims for vector in item.vectors)
        if len(part) >= MESSAGE_ROWS or octets >= MESSAGE_OCTETS:
            yield _message(part)
            part, octets = [], 0
    if part:
        yield _message(part)


def _message(items: list[Item]) -> bytes:
    """Spell items by column; those with something odd about them as they are."""
    if all(_is_plain(item) for item in items):
        columns = map(list, zip(*map(attrgetter(*_COLUMNS), items), strict=True))
        vectors = {
            place: [
                (each.field, each.dims, each.embedding, each.created_at, each.updated_at)
                for each in item.vectors
            ]
            for place, item in enumerate(items)
            if item.vectors
        }
        with suppress(UnicodeEncodeError):  # text that is no UTF-8
            return _BLOCK + _encode((*columns, vectors))
    return _ITEMS + pickle.dumps(items)


def _is_plain(item: Item) -> bool:
    return not item.problems and item.value is not None and not any(each.problems for each in item.vectors)


def _error(message: str, hint: str | None, code: str, exit_code: int) -> MemctlError:
    return _ERRORS.get(exit_code, MemctlError)(message, hint=hint, code=code)
