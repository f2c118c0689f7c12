"""The SQLite store, write side: exact copies in short transactions."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from time import perf_counter

from memctl.blocks import Block
from memctl.errors import Busy, UsageError
from memctl.model import Instant, Item, Position, Scope, encode
from memctl.store import Ailment, Batch, Bulk, Capability, Change, Right, Setup
from memctl.stores.sqlite import erasing, wholesale
from memctl.stores.sqlite import schema as tables
from memctl.stores.sqlite.changing import INSERT, INSERT_VECTOR, Changing, bound_by_name, place_of
from memctl.stores.sqlite.connect import connect_to_write, translated
from memctl.stores.sqlite.encode import (
    Cell,
    block_columns,
    block_vector_cells,
    item_cells,
    name_of,
    vector_cells,
)
from memctl.stores.sqlite.history import History
from memctl.stores.sqlite.store import SqliteStore

_UPDATE = """UPDATE "{table}" SET value = :value, created_at = :created_at, updated_at = :updated_at{expiry_sets}
WHERE prefix = {prefix} AND key = {key}{condition}"""
_OLDER = " AND coalesce(updated_at < :updated_at, 1)"
_DELETE_VECTORS = 'DELETE FROM "{table}_vectors" WHERE prefix = {prefix} AND key = {key}'
_EXISTS = 'SELECT 1 FROM "{table}" WHERE {at}'
_LOAD = """INSERT INTO "{table}" (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
VALUES {rows} ON CONFLICT DO NOTHING"""
_LOAD_VECTORS = """INSERT INTO "{table}_vectors" (prefix, key, field_name, embedding, created_at, updated_at)
VALUES {rows}"""
_ROW, _VECTOR_ROW = "(?, ?, ?, ?, ?, ?, ?)", "(?, ?, CAST(? AS TEXT), ?, ?, ?)"
_LOADED_ROWS = 4_000
"""How many rows a statement loads at most: a hundredth of a second's work."""


class SqliteWriter(SqliteStore):
    """A store in a SQLite file, opened for writing.

    A file that an agent may have open is written in batches of `batch_rows` with `pause` seconds between
    them, because SQLite's busy handler starves whoever competes with back-to-back transactions. A file that
    was made here has no agent yet and is loaded at full speed.
    """

    worked = 0.0
    _least_commit = math.inf
    overwrites = True
    has_recovered = False
    """Whether a commit that a crash had cut short was rolled back when the file was opened."""
    unreachable = erasing.UNREACHABLE

    def __init__(
        self,
        path: Path,
        *,
        table: str = "store",
        timeout: float = 10.0,
        clock: Callable[[], datetime],
        setup: Setup | None = None,
    ) -> None:
        self._fresh = setup is not None and _create(path, setup, timeout)
        self.batch_rows, self.pause = (_LOADED_ROWS, 0.0) if self._fresh else (500, 0.02)
        try:
            super().__init__(path, table=table, timeout=timeout, clock=clock)
        except Busy as error:
            if error.code != "needs-recovery":
                raise
            _recover(path, timeout)
            self.has_recovered = True
            super().__init__(path, table=table, timeout=timeout, clock=clock)
        self._writer = connect_to_write(path, timeout=timeout)
        if self._fresh:
            # Safe against a kill, which leaves what was written with the kernel; `finish` syncs.
            self._writer.execute("PRAGMA synchronous = OFF")
        # Expiries come in no order: their index should not go out and in again with every few of them. And what a
        # batch changes should stay here to its end: to make room halfway, SQLite locks all others out and syncs.
        self._writer.execute("PRAGMA cache_size = -16384")
        expiry = ("expires_at", "ttl_minutes") if Capability.EXPIRY in self.capabilities else ()
        self._names |= {
            "expiry_columns": "".join(f", {name}" for name in expiry),
            "expiry_values": "".join(f", :{name}" for name in expiry),
            "expiry_sets": "".join(f", {name} = :{name}" for name in expiry),
        }
        self._writer.text_factory = bytes
        self._changing = Changing(
            self._writer, self._sql, has_vectors=self.has_vectors, has_expiry=bool(expiry)
        )

    def close(self) -> None:
        """Close both connections, the writing one first."""
        if hasattr(self, "_writer"):
            self._writer.close()
        super().close()

    def write(self, batch: Batch) -> tuple[Position, ...]:
        """Write a batch in one transaction that took its lock at the start."""
        with self._writing():
            new, there = self._absent(batch.new) if not self._insert(batch.new) else (batch.new, ())
            if there:
                self._insert(new)
            changed, newer = self._update(batch)
            self._replace_vectors([*new, *changed])
        return tuple(Position(item.prefix, item.key) for item in (*there, *newer))

    @property
    def loads(self) -> bool:
        """Whether this file was made here, and there is nothing yet that could be in the way."""
        return self._fresh

    def holds(self, block: Block) -> bool:
        """Tell whether there are tables for a block."""
        return self.has_vectors or not block.vectors

    def load(self, blocks: Sequence[Block]) -> bool:
        """Insert all items of some blocks, or none of them."""
        rows = sum(map(len, blocks))
        with self._writing():
            before = self._writer.total_changes
            cells: list[Cell] = []
            for block in blocks:
                cells += _by_row(block_columns(block))
            self._load(_LOAD, _ROW, cells)
            if self._writer.total_changes - before < rows:
                self._writer.execute("ROLLBACK")
                return False
            for_vectors = map(block_vector_cells, blocks)
            self._load(
                _LOAD_VECTORS, _VECTOR_ROW, list(chain.from_iterable(chain.from_iterable(for_vectors)))
            )
        return True

    def _load(self, statement: str, row: str, cells: list[Cell]) -> None:
        """Insert rows, many by one statement: it is while one runs that other threads have the interpreter.

        Of the last ones as many as a power of two, so that there are few statements to be kept prepared.
        """
        width = row.count("?")
        most = min(_LOADED_ROWS, self._writer.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // width)
        start, rows = 0, len(cells) // width
        while start < rows:
            left = rows - start
            count = most if left >= most else 1 << left.bit_length() - 1
            sql = self._sql(statement, rows=", ".join([row] * count))
            self._writer.execute(sql, cells[start * width : (start + count) * width])
            start += count

    def interrupt(self) -> None:
        """Break off the statement that another thread may be in; its transaction is rolled back there."""
        self._writer.interrupt()

    def apply(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Carry out changes in one transaction that took its lock at the start."""
        self.release()  # a snapshot held meanwhile would keep every change in the WAL
        with self._writing():
            return self._changing.apply(changes)

    def remove(self, scope: Scope, rows: Callable[[], int], octets: int) -> Iterator[Bulk]:
        """Delete all items of a scope, a transaction a batch."""
        return wholesale.remove(self, scope, rows, octets)

    def rename(self, scope: Scope, new: str, rows: Callable[[], int], octets: int) -> Iterator[Bulk]:
        """Give a namespace and its descendants another name, a transaction a batch."""
        return wholesale.rename(self, scope, new, rows, octets)

    def purge(self, orphans: Sequence[Item]) -> int:
        """Delete vectors without an item in one transaction."""
        from memctl.stores.sqlite.repair import purge

        return purge(self, orphans)

    def cure(self, ailment: Ailment) -> str | None:
        """Do what an ailment's remedy says."""
        from memctl.stores.sqlite.repair import cure

        return cure(self, ailment)

    def record(self, scope: str | None, retain_minutes: float | None) -> None:
        """Switch history on in one transaction."""
        with self._writing():
            self._recorded.switch_on(scope, retain_minutes, self.now())

    def stop_recording(self, *, drop: bool) -> None:
        """Switch history off in one transaction."""
        with self._writing():
            self._recorded.switch_off(drop=drop)

    def prune(self, until: Instant) -> int:
        """Delete what was recorded up to `until`, in one transaction."""
        with self._writing():
            return self._recorded.prune(until)

    def unremember(self, scope: Scope) -> int:
        """Delete all that was recorded of a scope, in one transaction."""
        with self._writing():
            return self._recorded.forget(scope) if self._recorded.status() is not None else 0

    def install_guards(self, rules: Sequence[str]) -> None:
        """Install rules of the guard in one transaction."""
        from memctl.stores.sqlite.guard import install

        with self._writing():
            install(self._writer, self.table, rules, has_vectors=self.has_vectors)

    def remove_guards(self, rules: Sequence[str]) -> None:
        """Remove rules of the guard in one transaction."""
        from memctl.stores.sqlite.guard import remove

        with self._writing():
            remove(self._writer, self.table, rules)

    def vacuum(self) -> int:
        """Rebuild the file without its free pages."""
        from memctl.stores.sqlite.repair import vacuum

        return vacuum(self)

    def check_writing(self, *rights: Right) -> None:
        """Raise Refused or Busy where nothing can be written now."""
        super().check_writing(*rights)
        erasing.check_unlocked(self)

    def secure(self) -> None:
        """Have what is deleted from now on overwritten."""
        erasing.secure(self)

    def scrub(self) -> tuple[str, ...]:
        """Overwrite what was deleted so far; return why something of it may be left."""
        return erasing.scrub(self)

    def finish(self) -> None:
        """Bring a file that was made here to the disk."""
        if self._fresh:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    @cached_property
    def _recorded(self) -> History:
        return History(self._writer, self.table, self._sql, expiry=Capability.EXPIRY in self.capabilities)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the write lock, and commit; `worked` is how long, but for what every commit takes on this disk."""
        with translated(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            began = perf_counter()
            try:
                yield
                done = perf_counter()
                if self._writer.in_transaction:
                    self._writer.execute("COMMIT")
                committed = perf_counter()
                self._least_commit = min(self._least_commit, committed - done)
                self.worked = committed - began - self._least_commit
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def _insert(self, items: Sequence[Item]) -> bool:
        """Insert all items or none: false when one of them is there already."""
        self._writer.execute("SAVEPOINT batch")
        before = self._writer.total_changes
        for names, alike in groupby(items, bound_by_name):
            self._writer.executemany(self._sql(INSERT, **names), map(item_cells, alike))
        if self._writer.total_changes - before >= len(items):
            self._writer.execute("RELEASE batch")
            return True
        self._writer.execute("ROLLBACK TO batch")
        self._writer.execute("RELEASE batch")
        return False

    def _absent(self, items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """Split items into those that are not there and those that are."""
        absent: list[Item] = []
        there: list[Item] = []
        for item in items:
            at, place = place_of(item)
            found = self._writer.execute(self._sql(_EXISTS, at=at), place).fetchone()
            (there if found else absent).append(item)
        return absent, there

    def _update(self, batch: Batch) -> tuple[list[Item], list[Item]]:
        """Update items; return those that were, and those that had become newer meanwhile."""
        condition = _OLDER if batch.only_older else ""
        done: list[Item] = []
        newer: list[Item] = []
        for item in batch.changed:
            sql = self._sql(_UPDATE, condition=condition, **bound_by_name(item))
            cursor = self._writer.execute(sql, item_cells(item))
            (done if cursor.rowcount else newer).append(item)
        return done, newer

    def _replace_vectors(self, items: Sequence[Item]) -> None:
        """Make the items' vectors exactly these: an orphan or a stale one under the same key goes."""
        if not self.has_vectors:
            return
        for (prefix, key), some in groupby(items, _name_sql):
            names, alike = {"prefix": prefix, "key": key}, list(some)
            if not self._fresh:
                keys = ((encode(item.prefix), encode(item.key)) for item in alike)
                self._writer.executemany(self._sql(_DELETE_VECTORS, **names), keys)
            rows = (vector_cells(item, vector) for item in alike for vector in item.vectors)
            self._writer.executemany(self._sql(INSERT_VECTOR, **names), rows)


def _name_sql(item: Item) -> tuple[str, str]:
    prefix, key = name_of(item)
    return prefix.sql, key.sql


def _by_row(columns: Sequence[Sequence[Cell]]) -> list[Cell]:
    """Return the cells of columns of one length, row after row."""
    width = len(columns)
    cells: list[Cell] = [None] * (width * len(columns[0]))
    for place, column in enumerate(columns):
        cells[place::width] = column
    return cells


def _create(path: Path, setup: Setup, timeout: float) -> bool:
    """Make the tables where there are none, those of vectors too; true when the file was made here."""
    with translated(path):
        connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        try:
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if "store" in there:
                if setup.dims is not None and "store_vectors" not in there:
                    tables.add_vectors(connection)
                return False
            tables.create(connection, vectors=setup.dims is not None)
        finally:
            connection.close()
    return True


def _recover(path: Path, timeout: float) -> None:
    """Roll back what a writer that was killed had begun, as SQLite does for the next one to write."""
    with translated(path), closing(connect_to_write(path, timeout=timeout)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def open_sqlite_writer(
    target: str,
    *,
    schema: str | None,
    table: str | None,
    timeout: float,
    clock: Callable[[], datetime],
    setup: Setup | None = None,
) -> SqliteWriter:
    """Open the file `target` for writing. Raises UsageError for a schema, which SQLite does not have."""
    if schema is not None:
        raise UsageError("a SQLite file has no schemas", hint="leave --schema out")
    return SqliteWriter(Path(target), table=table or "store", timeout=timeout, clock=clock, setup=setup)
