"""Leaving nothing of what was deleted in a SQLite file, and telling where that cannot be, see `store.Erasing`.

A DELETE leaves the octets in free space until something else is written there, `secure_delete` or not: pages that
were emptied earlier, by whoever had it off (`pysqlite3` has), still hold theirs. VACUUM writes the file anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memctl.errors import Busy
from memctl.stores.sqlite.connect import is_wal, translated

if TYPE_CHECKING:
    from memctl.stores.sqlite.writer import SqliteWriter

UNREACHABLE = (
    "backups and copies of the file, and snapshots of its disk",
    "archives and exports, those that memctl wrote among them",
    "journals and temporary files that SQLite has unlinked: their blocks stay on the disk until they are reused",
    "checkpoints and other tables in the same file: the threads in which it was said",
)


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
    if is_wal(path):
        with translated(path):
            is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            left.append(f"another connection still reads what stands in {path.name} and {path.name}-wal")
    for suffix in ("-journal", "-wal"):
        beside = path.with_name(path.name + suffix)
        if not left and beside.exists() and beside.stat().st_size:
            left.append(f"{beside.name} is not empty: somebody else is writing")
    return tuple(left)
