"""The stores of one run: made when a comparison first asks for them, kept to the end or beyond.

Made by children (`make_store`, `server`), so that this process stays small.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .harness import ROOT, Command, program, run

PLACEHOLDER = "DATABASE"
"""Stands in the address that the server prints where the name of a database goes."""


@dataclass(slots=True)
class Workshop:
    """`folder` holds the files of the run; stores found there are taken as they are.

    `items` overrides the number of items that a group would take. `major` is the version of PostgreSQL to run
    as well, or None.
    """

    folder: Path
    items: int | None = None
    order: str = "written"
    major: int | None = None
    write: Callable[[str], object] = print
    _template: str | None = None
    _databases: set[str] = field(default_factory=set)
    _exit: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Workshop":
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def count(self, default: int) -> int:
        """How many items a group takes."""
        return default if self.items is None else self.items

    def sqlite(self, items: int, *, journal: str = "delete", namespaces: int | None = None) -> Path:
        """A SQLite store, in the page cache."""
        spread = "" if namespaces is None else f"-in-{namespaces}"
        path = self.folder / f"store-{items}{spread}-{self.order}-{journal}.db"
        if not path.exists():
            options = ["--items", str(items), "--journal", journal, "--order", self.order]
            if namespaces is not None:
                options += ["--namespaces", str(namespaces)]
            unfinished = path.with_suffix(".part")
            unfinished.unlink(missing_ok=True)
            self._make(program("make_store", "sqlite", unfinished, *options))
            unfinished.rename(path)
        warm(path)
        return path

    def copy(self, source: Path, name: str) -> Path:
        """A copy of a file that is not in use, under another name in the folder.

        It is on the disk: else the first that syncs it, perhaps an agent that puts, would wait for all of it.
        """
        target = self.folder / name
        remove(target)
        shutil.copyfile(source, target)
        with target.open("rb+") as file:
            os.fsync(file.fileno())
        return target

    def empty_file(self, path: Path) -> None:
        """A SQLite store without an item, in place of whatever was there."""
        remove(path)
        self._make(program("make_store", "sqlite", path, "--items", "0"), quiet=True)

    def postgres(self, items: int, *, index: str = "flat") -> str:
        """The address of a database with a store; analysed, and vacuumed."""
        name = f"store_{items}_{index}"
        if name not in self._databases:
            address = self.fresh(name)
            options = ["--items", str(items), "--index", index, "--order", self.order]
            self._make(program("make_store", "postgres", address, *options))
            self._databases.add(name)
        return self.address(name)

    def clone(self, items: int, name: str) -> str:
        """The address of a database with a copy of a store, which replaces one of that name."""
        self.postgres(items)
        self._psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._psql(f"CREATE DATABASE {name} TEMPLATE store_{items}_flat")
        return self.address(name)

    def fresh(self, name: str) -> str:
        """The address of an empty database, which replaces one of that name."""
        self._psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._psql(f"CREATE DATABASE {name}")
        return self.address(name)

    def fresh_store(self, name: str) -> str:
        """The address of a database with LangGraph's tables, without a row and without a vector index."""
        address = self.fresh(name)
        self._make(program("make_store", "postgres", address, "--items", "0"), quiet=True)
        return address

    def langgraph(self) -> "LanggraphServer":
        """A LangGraph server, which ends when it is closed."""
        argv = [sys.executable, "-m", "tests.benchmarks.serving", "server"]
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True, bufsize=1
        )
        self._exit.enter_context(process)
        return LanggraphServer(process)

    def address(self, name: str) -> str:
        """The address of that database, there or not; starts the server."""
        if self._template is None:
            self._template = self._start()
        return self._template.replace(PLACEHOLDER, name)

    def _start(self) -> str:
        argv = [sys.executable, "-m", "tests.benchmarks.server", str(self.major)]
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True, bufsize=1
        )
        self._exit.enter_context(process)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError("the PostgreSQL server did not start")
        return address

    def _psql(self, statement: str) -> None:
        self._make(Command(("psql", "-X", "-q", self.address("postgres"), "-c", statement)), quiet=True)

    def _make(self, command: Command, *, quiet: bool = False) -> None:
        output = self.folder / "make.out"
        sample = run(command, output)
        if sample.code:
            raise RuntimeError(f"{' '.join(map(str, command.argv))}: {sample.said}")
        if not quiet:
            self.write(f"  made {output.read_text().strip()}")


class LanggraphServer:
    """A LangGraph server in a process of its own, always at the same address."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = self._answer()

    def renew(self) -> None:
        """Put a new server in its place, which holds nothing."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._answer()

    def close(self) -> None:
        """Stop it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        url = self._process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the LangGraph server did not start")
        return url


def remove(path: Path) -> None:
    """Removes a file, and what SQLite may have left beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def warm(path: Path) -> None:
    """Reads a file once, so that whoever comes first does not pay for the disk."""
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass
