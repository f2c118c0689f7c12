"""The SQLite store, as `langgraph-checkpoint-sqlite` 2.0.8 to 3.1.2 write it; read side.

In WAL mode a command reads one snapshot. In rollback-journal mode, which is what the library leaves a file
in, an open read transaction makes the agent's next put fail after five seconds; there, key ranges are read in
transactions of some `HOLD` seconds, an item and its vectors in the same one.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from memctl.blocks import Piece
from memctl.errors import NoStore, UsageError
from memctl.guard import Guard
from memctl.history import Entry, Operation, Status
from memctl.instants import from_datetime
from memctl.model import Detail, Instant, Item, Namespace, Position, Problem, Scope, Vector, encode
from memctl.store import Ailment, Capability, Count, Description, Right, Store
from memctl.stores.sqlite import columns
from memctl.stores.sqlite.connect import connect, is_wal, translated
from memctl.stores.sqlite.copy import copy
from memctl.stores.sqlite.decode import (
    Odd,
    instant_of,
    item_of,
    items_of,
    owner_of,
    prefix_of,
    vector_of,
)
from memctl.stores.sqlite.history import History
from memctl.stores.sqlite.ranges import Bound, Cut, Part, parts_of

HOLD = 0.02
"""Seconds after which a read transaction in rollback-journal mode is brought to its end."""
PAGE_OCTETS = 4 * 1024 * 1024
_ROW_OCTETS = 1_000
"""What a row takes beside its value, roughly."""
_KEYS_AT_ONCE = 500
_CLOCK_EVERY = 64 * 1024
"""Octets after which it is time to look at the clock, where that matters."""
_FEWEST, _MOST = 500, 100_000

_SIZE = "CASE typeof(value) WHEN 'blob' THEN length(value) ELSE length(CAST(value AS BLOB)) END"
_BLOBS = """CASE WHEN prefix >= x'' OR key >= x'' OR created_at >= x'' OR updated_at >= x'' OR {expires_at} >= x''
OR {ttl_minutes} >= x'' THEN (prefix >= x'') + 2 * (key >= x'') + 4 * ifnull(created_at >= x'', 0)
+ 8 * ifnull(updated_at >= x'', 0) + 16 * ifnull({expires_at} >= x'', 0) + 32 * ifnull({ttl_minutes} >= x'', 0)
ELSE 0 END"""  # every BLOB sorts behind all text; see decode.item_of

_ITEMS = """SELECT prefix, key, {value}, created_at, updated_at, {expires_at}, {ttl_minutes}, {blobs}
FROM "{table}" WHERE {where}"""
_OCTETS = "CASE WHEN typeof(embedding) = 'blob' THEN length(embedding) WHEN embedding IS NOT NULL THEN -1 END"
_IN_ORDER = " ORDER BY prefix, key"
_VECTOR_BLOBS = """CASE WHEN v.prefix >= x'' OR v.key >= x'' OR v.created_at >= x'' OR v.updated_at >= x''
THEN (v.prefix >= x'') + 2 * (v.key >= x'') + 4 * ifnull(v.created_at >= x'', 0) + 8 * ifnull(v.updated_at >= x'', 0)
ELSE 0 END"""  # see decode.vector_of
_VECTORS = """SELECT prefix, key, field_name, {embedding}, {octets}, created_at, updated_at, {vector_blobs}
FROM "{table}_vectors" AS v WHERE {where}
AND EXISTS (SELECT 1 FROM "{table}" AS s WHERE s.prefix = v.prefix AND s.key = v.key)
ORDER BY prefix, key, field_name"""
_GROUPS = """SELECT prefix, count(*), sum({size}), max(updated_at),
count(*) - total(updated_at GLOB '????-??-?? ??:??:??')
FROM "{table}" WHERE {where} GROUP BY prefix ORDER BY prefix"""
_VECTOR_GROUPS = """SELECT prefix, count(*) FROM "{table}_vectors" AS v WHERE {where}
AND EXISTS (SELECT 1 FROM "{table}" AS s WHERE s.prefix = v.prefix AND s.key = v.key)
GROUP BY prefix ORDER BY prefix"""
_COUNT = """SELECT count(*) FROM "{table}" WHERE {where}"""
_COUNT_VECTORS = """SELECT count(*), total(EXISTS
(SELECT 1 FROM "{table}" AS s WHERE s.prefix = v.prefix AND s.key = v.key))
FROM "{table}_vectors" AS v WHERE {where}"""
_TIMES = """SELECT DISTINCT updated_at FROM "{table}" WHERE {where} AND prefix = CAST(? AS TEXT)"""
_CUT = 'SELECT prefix, key, {blobs} FROM "{table}" WHERE {where} ORDER BY prefix, key LIMIT 1 OFFSET ?'


class SqliteStore:
    """A store in a SQLite file, opened so that it cannot be changed."""

    kind = "sqlite"

    def __init__(
        self,
        path: Path,
        *,
        table: str = "store",
        timeout: float = 10.0,
        clock: Callable[[], datetime],
        immutable: bool = False,
    ) -> None:
        self.path = path
        self.address = str(path)
        self.moved = False
        self.lock_seconds = 0.0
        self._clock = clock
        self._connection = connect(path, timeout=timeout, immutable=immutable)
        self._connection.text_factory = bytes
        self._snapshot = immutable or is_wal(path)
        self._version: int | None = None
        try:
            with translated(path):
                self._locate(table)
        except BaseException:
            self.close()
            raise

    def _locate(self, table: str) -> None:
        """Find the tables and what they have; raise NoStore for anything that is no LangGraph store."""
        names = {row[0].decode() for row in self._connection.execute("SELECT name FROM sqlite_master")}
        columns = self._columns(table)
        if not columns:
            held = ", ".join(sorted(name for name in names if not name.startswith("sqlite_"))) or "nothing"
            raise NoStore(
                f"{self.path} is a database without a LangGraph store: it has no table {table!r}",
                hint=f"it holds {held}",
                code="no-tables",
            )
        if not {"prefix", "key", "value", "created_at", "updated_at"} <= columns:
            raise NoStore(
                f"the table {table!r} in {self.path} is not LangGraph's: its columns are "
                + ", ".join(sorted(columns)),
                code="foreign-tables",
            )
        self.table = table
        self.has_vectors = f"{table}_vectors" in names
        found = set()
        if {"expires_at", "ttl_minutes"} <= columns:
            found.add(Capability.EXPIRY)
        if self.has_vectors:
            found |= {Capability.VECTORS, Capability.VECTOR_TIMES}
        if self._snapshot:
            found.add(Capability.SNAPSHOT)
        self.capabilities = frozenset(found | {Capability.TIMES, Capability.RAW_TEXT})
        expiry = {name: name if name in columns else "NULL" for name in ("expires_at", "ttl_minutes")}
        self._names = {
            "table": table.replace('"', '""'),
            "size": _SIZE,
            "octets": _OCTETS,
            "blobs": _BLOBS.format_map(expiry),
            "vector_blobs": _VECTOR_BLOBS,
            **expiry,
        }

    def _columns(self, table: str) -> set[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {row[0].decode() for row in rows}

    @cached_property
    def _history(self) -> History:
        return History(self._connection, self.table, self._sql, expiry=Capability.EXPIRY in self.capabilities)

    @cached_property
    def _now(self) -> Instant:
        return from_datetime(self._clock())

    def now(self) -> Instant:
        """Return the time of the clock this store was opened with: a file has none of its own."""
        return self._now

    def close(self) -> None:
        """Close the file; SQLite then removes what it had to make beside it."""
        self._connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Give this store in WAL mode; else a copy that lives as long as the context."""
        if self._snapshot:
            yield self
            return
        with TemporaryDirectory(prefix="memctl-") as folder:
            path = Path(folder, self.path.name)
            with translated(self.path), closing(sqlite3.connect(path)) as target:
                waited = copy(self._connection, target)
            store = SqliteStore(path, table=self.table, clock=self._clock, immutable=True)
            store.address = self.address
            store.lock_seconds = waited
            with closing(store):
                yield store

    def unholdable(self, item: Item) -> tuple[Problem, ...]:
        """Return what this file has no column for; text and values of any kind fit."""
        found: list[Problem] = []
        if item.vectors and not self.has_vectors:
            found.append(Problem("vectors", "the store has no vector tables"))
        if Capability.EXPIRY not in self.capabilities:
            reason = "the store has no TTL columns"
            if item.expires_at is not None:
                found.append(Problem("expires_at", reason))
            if item.ttl_minutes is not None:
                found.append(Problem("ttl_minutes", reason))
        return tuple(found)

    def history(self) -> Status | None:
        """Return how history stands."""
        with translated(self.path), self._transaction():
            return self._history.status()

    def entries(
        self,
        scope: Scope,
        *,
        key: str | None = None,
        after: int = 0,
        since: Instant | None = None,
        operations: Sequence[Operation] = (),
        oldest_first: bool = False,
    ) -> Iterator[Entry]:
        """Yield recorded changes, the newest first."""
        with translated(self.path):
            yield from self._history.entries(
                scope, key=key, after=after, since=since, operations=operations, oldest_first=oldest_first
            )

    def former(self, scope: Scope, *, seq: int | None = None, at: Instant | None = None) -> Iterator[Entry]:
        """Yield what items were before the first change that counts."""
        with translated(self.path):
            yield from self._history.former(scope, seq=seq, at=at)

    def guards(self) -> tuple[Guard, ...]:
        """Return how each rule of the guard stands."""
        from memctl.stores.sqlite.guard import guards

        with translated(self.path), self._transaction():
            return guards(self._connection, self.table, has_vectors=self.has_vectors)

    def describe(self) -> Description:
        """Return the live schema, the journal mode and the sizes."""
        from memctl.stores.sqlite.describe import describe

        with translated(self.path), self._transaction():
            return describe(self)

    def expiring(self, scope: Scope, until: Instant, *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield the items whose expiry has come, in byte order; a snapshot that was held ends with it."""
        from memctl.stores.sqlite.expiring import expiring

        return expiring(self, scope, until, vectors)

    def release(self) -> None:
        """End the snapshot that is held, if any: what is read from now on is of a later moment."""
        if self._connection.in_transaction:
            with translated(self.path):
                self._connection.execute("COMMIT")

    def check_writing(self, *_rights: Right) -> None:
        """Raise Refused where the file or its folder cannot be written."""
        from memctl.stores.sqlite.erasing import check_writable

        check_writable(self.path)

    def orphans(self, scope: Scope, *, detail: Detail = Detail.SHAPE) -> Iterator[Item]:
        """Yield the vectors that have no item."""
        from memctl.stores.sqlite.examine import orphans

        return orphans(self, scope, detail)

    def prefixes(self, scope: Scope) -> Iterator[str]:
        """Yield each namespace that directly holds items, from the index alone."""
        from memctl.stores.sqlite.examine import prefixes

        return prefixes(self, scope)

    def ailments(self, *, thorough: bool) -> Iterator[Ailment]:
        """Yield what is wrong with the file as such."""
        from memctl.stores.sqlite.health import ailments

        return ailments(self, thorough=thorough)

    def schema_faults(self) -> Iterator[Ailment]:
        """Yield where the schema is not what the library would have made."""
        from memctl.stores.sqlite.health import schema_faults

        return schema_faults(self)

    def keeps_threads(self) -> bool:
        """Tell whether a checkpointer has its tables in this file."""
        from memctl.stores.sqlite.threads import keeps_threads

        return keeps_threads(self)

    def threads(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of these threads the checkpointer still has."""
        from memctl.stores.sqlite.threads import threads

        return threads(self, names)

    def namespaces(self, scope: Scope) -> Iterator[Namespace]:
        """Yield each namespace's totals in byte order."""
        with translated(self.path):
            yield from _summed(self._whole_groups(scope) if self._snapshot else self._sliced_groups(scope))

    def count(self, scope: Scope) -> Count:
        """Count items, vectors and orphans from the indexes."""
        items = vectors = held = 0
        with self._transaction():
            for part in parts_of(scope):
                where, parameters = part.condition
                items += self._connection.execute(self._sql(_COUNT, where=where), parameters).fetchone()[0]
                if self.has_vectors:
                    sql = self._sql(_COUNT_VECTORS, where=where)
                    found, owned = self._connection.execute(sql, parameters).fetchone()
                    vectors, held = vectors + found, held + int(owned)
        return Count(items, held, vectors - held)

    def scan(
        self,
        scope: Scope,
        *,
        after: Position | None = None,
        values: bool = True,
        vectors: Detail = Detail.NONE,
        keep: Callable[[bytes | None], bool] | None = None,
    ) -> Iterator[Item]:
        """Yield the items in byte order, page by page."""
        pending = list(reversed(parts_of(scope, after)))
        while pending:
            part = pending.pop()
            with self._transaction():
                rows, sides, cut = self._page(part, values, vectors)
            yield from items_of(rows if keep is None else [row for row in rows if keep(row[2])], sides)
            if cut:
                pending.extend(reversed(part.after(cut)))

    def blocks(self, scope: Scope, *, vectors: Detail = Detail.NONE) -> Iterator[Piece]:
        """Yield the items in byte order, in blocks where this is a snapshot."""
        if not self._snapshot:
            yield self.scan(scope, vectors=vectors)
            return
        pending = list(reversed(parts_of(scope)))
        while pending:
            part = pending.pop()
            rest: tuple[Part, ...] = (part,)
            where, parameters = part.condition
            try:
                with self._transaction():
                    items = self._connection.execute(self._sql(columns.ITEMS, where=where), parameters)
                    beside = self._vector_rows(where, parameters, vectors)
                    for block in columns.blocks_of(self._connection, items, beside):
                        yield block
                        end = Cut(Bound(encode(block.prefixes[-1])), Bound(encode(block.keys[-1])))
                        rest = part.after(end)
            except Odd:
                first, *others = rest
                pending.extend(reversed(others))
                with self._transaction():
                    rows, sides, cut = self._page(first, True, vectors)
                yield items_of(rows, sides)
                if cut:
                    pending.extend(reversed(first.after(cut)))

    def get(self, prefix: str, keys: Sequence[str], *, vectors: Detail = Detail.NONE) -> Iterator[Item]:
        """Yield the items under `keys` that exist."""
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            batch = [encode(key) for key in keys[start : start + _KEYS_AT_ONCE]]
            where = f"prefix = CAST(? AS TEXT) AND key IN ({', '.join(['CAST(? AS TEXT)'] * len(batch))})"
            with self._transaction():
                sql = self._sql(_ITEMS, value="value, 0", where=where)
                rows = {row[1]: row for row in self._connection.execute(sql, (encode(prefix), *batch))}
                sides = _grouped(self._vector_rows(where, (encode(prefix), *batch), vectors))
            yield from (
                item_of(rows[key], sides.get(owner_of(rows[key]), ())) for key in batch if key in rows
            )

    def _sql(self, template: str, **parts: str) -> str:
        return template.format_map({**self._names, **parts})

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Hold one read transaction: a short one in rollback-journal mode, else one for the whole command."""
        with translated(self.path):
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN")
            if not self._snapshot:
                version = self._connection.execute("PRAGMA data_version").fetchone()[0]
                self.moved = self.moved or self._version not in (None, version)
                self._version = version
            try:
                yield
            finally:
                if not self._snapshot and self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    def _page(
        self, part: Part, values: bool, vectors: Detail
    ) -> tuple[list[tuple[Any, ...]], dict[Any, tuple[Vector, ...]], Cut | None]:
        """Read the first items of a part, their vectors, and where the next page begins, if there is one."""
        where, parameters = part.condition
        value = "value, 0" if values else f"NULL, {_SIZE}"
        sql = self._sql(_ITEMS + _IN_ORDER, value=value, where=where)
        until = math.inf if self._snapshot else perf_counter() + HOLD
        step = PAGE_OCTETS if self._snapshot else min(_CLOCK_EVERY, PAGE_OCTETS)
        rows: list[tuple[Any, ...]] = []
        held, look = 0, step
        more = False
        cursor = self._connection.execute(sql, parameters)
        for row in cursor:
            rows.append(row)
            held += len(row[2] or b"") + _ROW_OCTETS
            if held >= look:
                more = held >= PAGE_OCTETS or perf_counter() > until
                if more:
                    break
                look = held + step
        cursor.close()
        if not rows or vectors is Detail.NONE:
            return rows, {}, _cut(rows[-1]) if more else None
        sides, complete = self._vectors(part, rows, vectors)
        if complete < len(rows):
            del rows[complete:]
            more = True
        return rows, sides, _cut(rows[-1]) if more else None

    def _vectors(
        self, part: Part, rows: list[tuple[Any, ...]], detail: Detail
    ) -> tuple[dict[Any, tuple[Vector, ...]], int]:
        """Read the vectors of a page's items; return how many of the items are complete with them."""
        until = math.inf if self._snapshot else perf_counter() + HOLD
        sides: dict[Any, list[Vector]] = defaultdict(list)
        held = 0
        last: tuple[Any, ...] | None = None
        for slice_ in part.upto(_cut(rows[-1])):
            for row in self._vector_rows(*slice_.condition, detail):
                owner = owner_of(row)
                late = held >= PAGE_OCTETS or perf_counter() > until
                if late and owner != last and last is not None:
                    place = next(index for index, item in enumerate(rows) if owner_of(item) == last)
                    return {key: tuple(found) for key, found in sides.items()}, place + 1
                sides[owner].append(vector_of(row))
                held += max(row[4], 0) if row[3] is not None else 0
                last = owner
        return {key: tuple(found) for key, found in sides.items()}, len(rows)

    def _vector_rows(
        self, where: str, parameters: tuple[bytes, ...], detail: Detail
    ) -> Iterator[tuple[Any, ...]]:
        if detail is Detail.NONE or not self.has_vectors:
            return iter(())
        embedding = "embedding" if detail is Detail.FULL else "NULL"
        return iter(
            self._connection.execute(self._sql(_VECTORS, embedding=embedding, where=where), parameters)
        )

    def _whole_groups(self, scope: Scope) -> Iterator[Namespace]:
        with self._transaction():
            for part in parts_of(scope):
                yield from self._groups(part)

    def _sliced_groups(self, scope: Scope) -> Iterator[Namespace]:
        """Aggregate as many rows at a time as fit into `HOLD`; a namespace may come in several pieces."""
        pending = list(reversed(parts_of(scope)))
        rows = _FEWEST
        while pending:
            part = pending.pop()
            started = perf_counter()
            with self._transaction():
                cut = self._cut_after(part, rows)
                found = [
                    group for piece in (part.upto(cut) if cut else (part,)) for group in self._groups(piece)
                ]
            if cut:
                pending.extend(reversed(part.after(cut)))
                rows = max(_FEWEST, min(_MOST, int(rows * min(2.0, HOLD / (perf_counter() - started)))))
            yield from found

    def _cut_after(self, part: Part, rows: int) -> Cut | None:
        where, parameters = part.condition
        row = self._connection.execute(self._sql(_CUT, where=where), (*parameters, rows)).fetchone()
        return row and _cut(row)

    def _groups(self, part: Part) -> Iterator[Namespace]:
        where, parameters = part.condition
        vectors: Iterator[tuple[Any, ...]] = iter(())
        if self.has_vectors:
            vectors = iter(self._connection.execute(self._sql(_VECTOR_GROUPS, where=where), parameters))
        side = next(vectors, None)
        groups = self._connection.execute(self._sql(_GROUPS, where=where), parameters)
        for cell, items, octets, newest, odd in groups:
            count = 0
            while side is not None and side[0] <= cell:
                count = side[1] if side[0] == cell else 0
                side = next(vectors, None)
            latest = self._latest(part, cell) if odd else instant_of(newest)[0]
            yield Namespace(prefix_of(cell)[0], items, count, octets, latest)

    def _latest(self, part: Part, prefix: bytes) -> Instant | None:
        """Compare instants where the spellings differ and text would compare wrongly."""
        where, parameters = part.condition
        cells = self._connection.execute(self._sql(_TIMES, where=where), (*parameters, prefix))
        return max((instant for (cell,) in cells if (instant := instant_of(cell)[0])), default=None)


def open_sqlite(
    target: str,
    *,
    schema: str | None,
    table: str | None,
    timeout: float,
    clock: Callable[[], datetime],
    immutable: bool = False,
) -> SqliteStore:
    """Open the file `target`. Raises UsageError for a schema, which SQLite does not have."""
    if schema is not None:
        raise UsageError("a SQLite file has no schemas", hint="leave --schema out")
    return SqliteStore(
        Path(target), table=table or "store", timeout=timeout, clock=clock, immutable=immutable
    )


def _cut(row: Sequence[Any]) -> Cut:
    blobs = row[-1]
    return Cut(Bound(row[0], bool(blobs & 1)), Bound(row[1], bool(blobs & 2)))


def _grouped(rows: Iterator[tuple[Any, ...]]) -> dict[Any, tuple[Vector, ...]]:
    return {owner: tuple(map(vector_of, group)) for owner, group in groupby(rows, owner_of)}


def _summed(pieces: Iterator[Namespace]) -> Iterator[Namespace]:
    """Put together what the pieces of one namespace hold; they follow one another."""
    for prefix, group in groupby(pieces, lambda piece: piece.prefix):
        items = vectors = octets = 0
        newest: Instant | None = None
        for piece in group:
            items, vectors, octets = items + piece.items, vectors + piece.vectors, octets + piece.octets
            newest = max(filter(None, (newest, piece.newest)), default=None)
        yield Namespace(prefix, items, vectors, octets, newest)
