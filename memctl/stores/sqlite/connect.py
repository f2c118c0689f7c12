"""Opening a SQLite file so that nothing in it, or beside it, changes.

A rollback-journal file is opened `mode=ro`. A WAL file at rest is opened read-write under `query_only`, the
only handle that removes the `-wal` and `-shm` it had to make; beside a live agent, whose files are there
already, `mode=ro` again, because a read-write handle that closes last would checkpoint into the main file.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from memctl.errors import Busy, MemctlError, NoStore, Refused
from memctl.stores.sqlite.looking import Connection, first_octets

_MAGIC = b"SQLite format 3\0"
_WAL_VERSION = 2


def is_wal(path: Path) -> bool:
    """Tell from a database's header whether it is in WAL mode."""
    return first_octets(path, 20)[18:20] == bytes((_WAL_VERSION, _WAL_VERSION))


def connect(path: Path, *, timeout: float, immutable: bool = False) -> sqlite3.Connection:
    """Return a connection that cannot write. Raises NoStore, Refused or Busy; creates nothing.

    `timeout` is how long a lock is waited for, in seconds. `immutable` is for media at rest: no lock is taken
    and no file made, and nothing may write meanwhile.
    """
    _check_file(path)
    if immutable:
        if _holds_data(_beside(path, "-wal")) or _holds_data(_beside(path, "-journal")):
            raise MemctlError(
                f"{path} is not at rest: its last commits are still in {path.name}-wal or {path.name}-journal",
                hint="leave --immutable out, or let the application close the file first",
                code="not-at-rest",
            )
        mode = "mode=ro&immutable=1"
    elif is_wal(path) and not _beside(path, "-wal").exists():
        if not os.access(path.parent, os.W_OK) or not os.access(path, os.W_OK):
            raise Refused(
                f"{path} is in WAL mode, which needs a writable folder even to read",
                hint="if nothing writes to it, read it as it lies: --immutable",
                code="read-only-folder",
            )
        mode = "mode=rw"
    else:
        mode = "mode=ro"
    with translated(path):
        connection: Connection = sqlite3.connect(
            _uri(path, mode),
            factory=connection_class(),
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.uses(path)
        try:
            connection.execute("PRAGMA query_only = 1")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
    return connection


def _uri(path: Path, parameters: str) -> str:
    """Spell a path as SQLite takes it; two slashes at its beginning would be those before a host."""
    return f"file:/{quote(os.fsencode(path.absolute()).lstrip(b'/'))}?{parameters}"


def connection_class() -> type[Connection]:
    """Return the class of connection to open: one that logs, where anybody listens."""
    if "logging" not in sys.modules:  # nobody does, and importing it costs a tenth of the start-up
        return Connection
    from memctl.stores.sqlite.logged import Logged, is_wanted

    return Logged if is_wanted() else Connection


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into memctl's, each with its exit code and the way out."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(path, error) from error


def _translate(path: Path, error: sqlite3.Error) -> MemctlError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name in ("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY", "SQLITE_BUSY_RECOVERY"):
        return Busy(
            f"{path} was left by a crash in the middle of a commit and needs recovery",
            hint="the next application that opens it for writing recovers it; memctl does not do so in silence",
            code="needs-recovery",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Busy(f"{path} is locked by another process", hint="wait longer with --timeout SECONDS")
    if name == "SQLITE_NOTADB":
        return NoStore(f"{path} is no SQLite database", code="not-a-database")
    if name.startswith("SQLITE_CORRUPT"):
        return MemctlError(
            f"{path} is damaged: {error}",
            hint="restore a backup, or save what can be read with `sqlite3 FILE .recover`",
            code="corrupt",
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_AUTH")):
        return Refused(f"{path} cannot be opened: {error}", hint="check the permissions of file and folder")
    return MemctlError(f"{path}: {error}")


def _check_file(path: Path) -> None:
    """Raise for whatever is no SQLite database before SQLite gets to create one."""
    try:
        head = first_octets(path, len(_MAGIC))
    except FileNotFoundError:
        raise NoStore(
            f"there is no file {path}",
            hint="check the path; `memctl demo` makes a sample store",
            code="missing",
        ) from None
    except IsADirectoryError:
        raise NoStore(f"{path} is a folder, not a database", code="not-a-database") from None
    except NotADirectoryError:
        raise NoStore(f"there is no file {path}: a part of the path is no folder", code="missing") from None
    except PermissionError:
        raise Refused(f"{path} may not be read", hint="check the permissions of file and folder") from None
    except OSError as error:
        raise NoStore(f"{path} cannot be opened: {error.strerror}", code="missing") from None
    if not head:
        raise NoStore(
            f"{path} is an empty file", hint="an agent that opens it makes a store of it", code="empty"
        )
    if head != _MAGIC:
        raise NoStore(f"{path} is no SQLite database", code="not-a-database")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _holds_data(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def connect_to_write(path: Path, *, timeout: float) -> sqlite3.Connection:
    """Return a connection that can write to an existing database. Raises NoStore, Refused or Busy."""
    _check_file(path)
    with translated(path):
        connection: Connection = sqlite3.connect(
            _uri(path, "mode=rw"),
            factory=connection_class(),
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.uses(path)
        return connection
