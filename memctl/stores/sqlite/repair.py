"""Repairing a SQLite file where no single item is concerned, see `store.Repairable`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memctl.errors import Busy, MemctlError
from memctl.model import Item
from memctl.store import Ailment
from memctl.stores.sqlite.changing import place_of
from memctl.stores.sqlite.connect import translated
from memctl.stores.sqlite.schema import LEDGER, MIGRATIONS, VECTOR_LEDGER, VECTOR_MIGRATIONS

if TYPE_CHECKING:
    from memctl.stores.sqlite.writer import SqliteWriter

_PURGE = """DELETE FROM "{table}_vectors" WHERE {at} AND NOT EXISTS (SELECT 1 FROM "{table}" WHERE {at})"""
_READER = "somebody still reads from the WAL"
_THERE_ALREADY = ("already exists", "duplicate column name")


def purge(writer: SqliteWriter, orphans: Sequence[Item]) -> int:
    """Delete the vectors of names that still have no item; return how many."""
    gone = 0
    with writer._writing():
        for orphan in orphans:
            at, place = place_of(orphan)
            gone += writer._writer.execute(writer._sql(_PURGE, at=at), (*place, *place)).rowcount
    return gone


def cure(writer: SqliteWriter, ailment: Ailment) -> str | None:
    """Do what an ailment's remedy says; return why not where that cannot be."""
    kind, _, detail = ailment.code.partition(":")
    ledger, _, versions = detail.partition(":")
    match kind:
        case "free-pages":
            vacuum(writer)
        case "wal":
            return _checkpoint(writer)
        case "unrecorded":
            _record(writer, ledger, [int(version) for version in versions.split(",")])
        case "absent":
            _migrate(writer, ledger, int(versions))
        case _:
            return "memctl knows no repair for it"
    return None


def vacuum(writer: SqliteWriter) -> int:
    """Rebuild the file without its free pages; return by how many octets it is shorter.

    Raises Busy where a reader keeps the new file in the WAL: then the old one is as long as it was.
    """
    connection = writer._writer
    with translated(writer.path):
        _let_go(writer)
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        before = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute("VACUUM")
        is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # never without a WAL
        if is_busy:
            raise Busy(f"{writer.path.name} is rebuilt, but {_READER}")
        after = connection.execute("PRAGMA page_count").fetchone()[0]
    return int(max(before - after, 0) * page)


def _checkpoint(writer: SqliteWriter) -> str | None:
    with translated(writer.path):
        _let_go(writer)
        is_busy, *_ = writer._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return f"{_READER}; end that reader and try again" if is_busy else None


def _let_go(writer: SqliteWriter) -> None:
    """End the snapshot that this store itself reads: it would keep the WAL from being emptied."""
    if writer._connection.in_transaction:
        writer._connection.execute("COMMIT")


def _record(writer: SqliteWriter, ledger: str, versions: Sequence[int]) -> None:
    with writer._writing():
        there = "SELECT 1 FROM sqlite_master WHERE name = ?"
        if writer._writer.execute(there, (ledger,)).fetchone() is None:
            statement = VECTOR_LEDGER if ledger == "vector_migrations" else LEDGER
            writer._writer.execute(statement.replace("store_migrations", f'"{ledger}"'))
        rows = [(version,) for version in versions]
        writer._writer.executemany(f'INSERT OR IGNORE INTO "{ledger}" (v) VALUES (?)', rows)


def _migrate(writer: SqliteWriter, ledger: str, version: int) -> None:
    """Run one of the library's own migrations, unless somebody was quicker."""
    statements = MIGRATIONS if ledger == "store_migrations" else VECTOR_MIGRATIONS
    try:
        with writer._writing():
            writer._writer.execute(statements[version])
    except MemctlError as error:
        cause = error.__cause__
        if not isinstance(cause, sqlite3.OperationalError) or not any(
            words in str(cause) for words in _THERE_ALREADY
        ):
            raise
