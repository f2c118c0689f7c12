"""Leaving nothing of what was deleted in a SQLite file, and telling where that cannot be, see `store.Erasing`.

A DELETE leaves the octets in free space until something else is written there, `secure_delete` or not: pages that
were emptied earlier, by whoever had it off (`pysqlite3` has), still hold theirs. VACUUM writes the file anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from memctl.errors import Busy, MemctlError, Refused
from memctl.stores.sqlite.connect import is_wal, translated

if TYPE_CHECKING:
    from memctl.stores.sqlite.writer import SqliteWriter

UNREACHABLE = (
    "backups and copies of the file, and snapshots of its disk",
    "archives and exports, those that memctl wrote among them",
    "journals and temporary files that SQLite has unlinked: their blocks stay on the disk until they are reused",
    "checkpoints and other tables in the same file: the threads in which it was said",
)


def check_writable(path: Path) -> None:
    """Raise Refused where the file may not be written, or a journal not be made beside it."""
    needs_folder = not is_wal(path)  # what a WAL needs is there, or could not even be read
    if not os.access(path, os.W_OK) or (needs_folder and not os.access(path.parent, os.W_OK)):
        raise Refused(f"{path} cannot be written", hint="check the permissions of file and folder")


def check_unlocked(writer: SqliteWriter) -> None:
    """Take for a moment the lock that a commit takes. Raises Busy or Refused."""
    writer.release()  # or it would wait for itself
    with translated(writer.path):
        writer._writer.execute("BEGIN EXCLUSIVE")
        writer._writer.execute("ROLLBACK")


def secure(writer: SqliteWriter) -> None:
    """Have deleted content overwritten with zeros."""
    with translated(writer.path):
        writer._writer.execute("PRAGMA secure_delete = ON").fetchone()


def scrub(writer: SqliteWriter) -> tuple[str, ...]:
    """Write the file anew, and empty the WAL; return why something may be left."""
    path, connection = writer.path, writer._writer
    writer.release()
    left: list[str] = []
    try:
        with translated(path):
            connection.execute("VACUUM")
    except Busy:
        left.append(
            f"VACUUM needs {path.name} for itself, and another connection is reading it or writing to it"
        )
    except MemctlError as error:  # no space, most of all: it takes as much again
        left.append(f"VACUUM did not get through: {error.message}")
    if is_wal(path):
        try:
            with translated(path):
                is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except MemctlError as error:
            left.append(f"the WAL was not emptied: {error.message}")
        else:
            if is_busy:
                left.append(f"another connection still reads what stands in {path.name} and {path.name}-wal")
    for suffix in ("-journal", "-wal"):
        beside = path.with_name(path.name + suffix)
        if not left and beside.exists() and beside.stat().st_size:
            left.append(f"{beside.name} is not empty: somebody else is writing")
    return tuple(left)
