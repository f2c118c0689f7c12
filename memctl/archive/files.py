"""Files that are there whole or not at all: written beside their name, synced, renamed."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from memctl.errors import MemctlError, Refused

if TYPE_CHECKING:
    from typing_extensions import Buffer

_GZIP_LEVEL = 6
_SQLITE = b"SQLite format 3\0"
_HASTENED_OCTETS = 16 * 1024 * 1024


@contextmanager
def new_file(path: Path, *, overwrite: bool = False, keep: bool = False) -> Iterator[BinaryIO]:
    """Give a stream whose octets are the file `path` once the `with` block is left, and not before.

    `.gz` and `.zst` compress. After an error, Ctrl-C included, nothing is left; a process that is killed leaves
    a hidden `.part` file and nothing under the final name. What is no file, such as a pipe, is written to
    directly. Raises MemctlError for a file that exists, unless it may be overwritten.

    With `keep`, what is there after an error gets the name all the same: it may be the last copy.
    """
    check(path, overwrite=overwrite)
    if path.exists() and not path.is_file():
        with _translated(path), path.open("wb") as device, _compressed(path, device) as stream:
            yield stream
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with _translated(path):
            with io.BufferedWriter(_Hastening(part, "xb")) as file:
                with _compressed(path, cast(BinaryIO, file)) as stream:
                    yield stream
                file.flush()
                os.fsync(file.fileno())
            publish(part, path, overwrite=overwrite)
    finally:
        if keep and part.exists() and not _is_same(part, path):
            with suppress(MemctlError, OSError):
                _rename(part, path, overwrite)
        if not keep or _is_same(part, path):
            part.unlink(missing_ok=True)


class _Hastening(io.FileIO):
    """A file whose octets are on their way to the disk while more are written, so that syncing is short."""

    _start = _octets = 0

    def write(self, octets: Buffer, /) -> int:
        """Write what can be written at once."""
        written = super().write(octets)
        self._octets += written
        if self._octets >= _HASTENED_OCTETS and hasattr(os, "posix_fadvise"):
            # Linux begins to write out what is dirty, and drops nothing that is.
            os.posix_fadvise(self.fileno(), self._start, self._octets, os.POSIX_FADV_DONTNEED)
            self._start, self._octets = self._start + self._octets, 0
        return written


def check(path: Path, *, overwrite: bool) -> None:
    """Raise MemctlError where `new_file` would before anything is written."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise MemctlError(f"there is no folder {path.parent}", code="no-folder") from None
        return
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise MemctlError(f"{path} is a folder", code="exists")
    if stat.S_ISREG(mode) and not overwrite:
        raise _exists(path)


def refuse_database(path: Path) -> None:
    """Raise MemctlError where a SQLite database would be replaced.

    To be called before any is opened: closing a file takes away the locks that a process has on it.
    """
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            raise MemctlError(
                f"{path} is a SQLite database, which no archive replaces", hint="another name", code="exists"
            )


def _exists(path: Path) -> MemctlError:
    return MemctlError(f"{path} exists already", hint="another name, or --overwrite", code="exists")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def publish(part: Path, path: Path, *, overwrite: bool = False) -> None:
    """Give a finished file, which is on the disk, its name. Raises MemctlError where there is another one."""
    _rename(part, path, overwrite)
    _sync_folder(path.parent)


def _rename(part: Path, path: Path, overwrite: bool) -> None:
    if overwrite:
        part.replace(path)
        return
    try:
        path.hardlink_to(part)  # unlike a rename, it does not replace a file that came meanwhile
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # file systems without hard links
        if path.exists():
            raise _exists(path) from None
        part.rename(path)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every file system lets a folder be synced
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _compressed(path: Path, file: BinaryIO) -> Iterator[BinaryIO]:
    """Give what compresses into `file` as the suffix says."""
    if path.suffix == ".gz":
        import gzip

        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as stream:
            yield cast(BinaryIO, stream)
    elif path.suffix == ".zst":
        with _zstd(file) as stream:
            yield cast(BinaryIO, stream)
    else:
        yield file


def _zstd(file: BinaryIO) -> Any:
    with suppress(ImportError):
        from compression import zstd  # type: ignore[import-not-found,unused-ignore] # from Python 3.14 on

        return zstd.ZstdFile(file, "wb")
    try:
        import zstandard
    except ImportError:
        raise MemctlError(
            "compressing by zstd takes a package",
            hint="pip install 'langgraph-memctl[zstd]', or a name that ends in .gz",
            code="no-zstd",
        ) from None
    return zstandard.ZstdCompressor().stream_writer(file, closefd=False)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into memctl's errors."""
    try:
        yield
    except (BrokenPipeError, FileExistsError):
        raise
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise Refused(f"{path} cannot be written: {error.strerror}") from None
        code = "no-space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "failed"
        raise MemctlError(f"{path} cannot be written: {error.strerror}", code=code) from None
