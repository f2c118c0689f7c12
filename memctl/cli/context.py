"""What every command works with: its settings, the stores it opens, and where its words go."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

from memctl.errors import MemctlError, Refused, UsageError, most_severe

if TYPE_CHECKING:
    from pathlib import Path

    from memctl.addresses import Address
    from memctl.cli.environment import Environment
    from memctl.config import Config
    from memctl.render import Column, Report, Row
    from memctl.store import Right, Setup, Store, Target
    from memctl.stores import Surroundings

Closes = TypeVar("Closes", bound="SupportsClose")

_DEFAULT_TIMEOUT = 10.0
_MACHINE_FORMATS = ("json", "jsonl")


class SupportsClose(Protocol):
    """Whatever has to be closed."""

    def close(self) -> object: ...


class Context:
    """One invocation of memctl: the environment, the global options given, and the outcome so far."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.options: dict[str, Any] = {}
        self.outcomes: set[int] = set()
        self._open = ExitStack()
        self._from_the_folder: set[str] = set()
        self._is_traced = False
        self._rehearsed: tuple[Store, tuple[Right, ...]] | None = None

    @property
    def exit_code(self) -> int:
        """The one exit code for all that happened."""
        return most_severe(self.outcomes)

    @property
    def output(self) -> str:
        """The output format asked for; `table` unless told otherwise."""
        return str(self._setting("output") or "table")

    @property
    def speaks_json(self) -> bool:
        """Whether errors go out as JSON too."""
        return self.output in _MACHINE_FORMATS

    @property
    def is_quiet(self) -> bool:
        """Whether notes are kept back; warnings and errors are not."""
        return bool(self.options.get("quiet"))

    @property
    def is_verbose(self) -> bool:
        """Whether what is usually left unsaid is said."""
        return bool(self.options.get("verbose"))

    @cached_property
    def timeout(self) -> float:
        """Seconds to wait for a connection or a lock. Raises UsageError."""
        given = self._setting("timeout")
        if given is None:
            return _DEFAULT_TIMEOUT
        try:
            seconds = float(given)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= 86_400:
            raise UsageError(f"--timeout {given}: a number of seconds above 0 is expected")
        return seconds

    def open(self, *, may_lag: bool = False) -> Store:
        """Open the one store that this command is about.

        With `may_lag` it is read a few seconds behind the present, and this is said, where a server does that
        without being in an agent's way.
        """
        return self.open_at(self.address(), may_lag=may_lag)

    def check_format(self) -> None:
        """Raise UsageError for an output format that is none, where nothing is shown in it perhaps."""
        self._format()

    def emit(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        """Show rows in the format asked for."""
        self._format().rows(columns, rows, tree=tree)

    def emit_items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        """Show items whole."""
        self._format().items(columns, rows, single=single)

    def emit_report(self, report: Report) -> None:
        """Show one answer."""
        self._format().report(report)

    def write(self, octets: bytes) -> None:
        """Write bytes to standard output as they are."""
        self.environment.stdout.write(octets)
        self.environment.stdout.flush()

    def note(self, text: str) -> None:
        """Say something useful on standard error, unless --quiet."""
        if not self.is_quiet:
            self.say(text)

    def warn(self, text: str, *, outcome: int | None = None) -> None:
        """Say on standard error that something is not as it should be, and let it count in the exit code."""
        if outcome is not None:
            self.outcomes.add(outcome)
        self.say(text)

    def say(self, text: str) -> None:
        """Write a line to standard error, with control characters made visible."""
        from memctl.render.text import escape, utf8

        lines = "\n".join(map(escape, text.split("\n")))
        self.environment.stderr.write(utf8(lines) + b"\n")
        self.environment.stderr.flush()

    def say_if_moved(self, store: Store) -> None:
        """Tell that what was shown is not the state of one moment, where that is so."""
        if store.moved:
            self.note("the store changed meanwhile: this is not the state of one moment")

    def counting_problems(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass rows on; in the end say how many could not be decoded in full, which makes the exit code 3."""
        damaged = 0
        parts: set[str] = set()
        for row in rows:
            if "problems" in row:
                damaged += 1
                parts.update(problem["part"] for problem in row["problems"])
            yield row
        self.warn_of_problems(damaged, parts)

    def warn_of_problems(self, damaged: int, parts: Iterable[str]) -> None:
        """Say how many items could not be decoded in full, if any, which makes the exit code 3."""
        if damaged:
            from memctl.render.units import counted

            found = counted(damaged, "item")
            self.warn(f"{found} could not be decoded in full: {', '.join(sorted(parts))}", outcome=3)

    def file(self, named: str) -> Path:
        """Return the path of a file that is named. Raises UsageError for a store's address, which is not echoed."""
        from memctl import addresses

        if not named:
            raise UsageError("the name of a file is empty")
        if addresses.parse(named).scheme != "sqlite":
            raise UsageError(
                "a file is expected here, and this is the address of a store",
                hint="-s names the store of a command; `memctl migrate SRC DST` copies from one to another",
            )
        return self.environment.folder / named

    def new_file(self, option: str, named: str) -> Path:
        """Return the path of a file that is to be made when much is done already, and cannot be done without.

        Raises UsageError for one that exists, or has no folder, and Refused where the folder cannot be written.
        """
        path = self.file(named)
        if os.path.lexists(path):
            raise UsageError(f"{option} {named}: that file exists already", code="exists")
        if not path.parent.is_dir():
            raise UsageError(f"{option} {named}: there is no folder {path.parent}", code="no-folder")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise Refused(f"{option} {named}: the folder {path.parent} cannot be written")
        return path

    def read_names(self, source: str) -> Iterator[tuple[str, str]]:
        """Yield the (namespace, key) pairs of a file, or of standard input for `-`, as `-o name` writes them."""
        if source == "-":
            lines: BinaryIO = self.environment.stdin
        else:
            try:
                lines = self._open.enter_context(self.file(source).open("rb"))
            except OSError as error:
                raise UsageError(f"{source} cannot be read: {error.strerror}") from None
        yield from names_in(lines, source)

    def close(self) -> None:
        """Close every store that was opened."""
        self._open.close()

    def _setting(self, name: str) -> Any:
        """An option given on the command line, else its MEMCTL_ variable."""
        given = self.options.get(name)
        return (
            given if given is not None else (self.environment.variables.get(f"MEMCTL_{name.upper()}") or None)
        )

    def _format(self) -> Any:
        from memctl.render import Target, open_format

        environment = self.environment
        stream = environment.stdout
        target = Target(
            stream,
            is_terminal=environment.is_terminal(stream),
            has_color=self.has_color(stream),
            width=environment.columns(),
        )
        return open_format(self.output, target)

    def has_color(self, stream: Any) -> bool:
        """Whether this stream takes colour, and colour is wanted."""
        plain = self.options.get("no_color") or self.environment.variables.get("MEMCTL_NO_COLOR")
        return not plain and self.environment.has_color(stream)

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """The configuration files that apply, the nearest first. Raises UsageError for a broken one."""
        from memctl import config

        return config.load(self.environment.folder, self.environment.variables)

    def address(self) -> Address:
        """Find the store: `-s`, else MEMCTL_STORE, else a configured default."""
        given: list[str] = self.options.get("store") or []
        if len(given) > 1:
            raise UsageError("this command takes one store", hint="give -s once")
        named = given[0] if given else self.environment.variables.get("MEMCTL_STORE")
        if named:
            address = self.resolve(named)
        elif source := next((config for config in self.configs if config.default), None):
            address = self.resolve(source.default or "", source=source)
        else:
            raise UsageError(
                "no store is named",
                hint="name one with -s FILE or -s URL, in MEMCTL_STORE, or as `default` in ./memctl.toml;\n"
                "`memctl demo` makes a sample store to look around in",
                code="no-store-named",
            )
        return address.with_defaults(self._setting("schema"), self._setting("table"))

    def addresses(self) -> list[Address]:
        """Find the stores of a command that takes several: each `-s`, or else the one that `address` finds."""
        given: list[str] = self.options.get("store") or []
        if not given:
            return [self.address()]
        schema, table = self._setting("schema"), self._setting("table")
        return [self.resolve(named).with_defaults(schema, table) for named in dict.fromkeys(given)]

    def resolve(self, named: str, *, source: Config | None = None) -> Address:
        """Return the address of a store that is named or addressed; a configured name beats a file.

        `source` is the configuration file in which it is, where it is in one.
        """
        from memctl import addresses

        if addresses.looks_like_name(named):
            for config in self.configs:
                if address := config.address(named):
                    return self._taken_from(address, config, source)
        if source:
            return self._taken_from(source.read(named, "default"), source)
        return addresses.parse(named).relative_to(self.environment.folder)

    def _taken_from(self, address: Address, *sources: Config | None) -> Address:
        """Remember where an address comes from, if that is anybody's file."""
        if any(source and not source.trusted for source in sources):
            self._from_the_folder.add(address.target)
        return address

    def open_at(self, address: Address, *, may_lag: bool = False) -> Store:
        """Open a store for reading; `may_lag` as in `open`."""
        from memctl.store import Lagging
        from memctl.stores import open_store

        self._trace()
        store = open_store(
            address,
            timeout=self.timeout,
            clock=self.environment.clock,
            immutable=bool(self.options.get("immutable")),
            as_of=self.options.get("as_of") or ("follower" if may_lag else None),
            surroundings=self._surroundings,
        )
        self._open.callback(store.close)
        if isinstance(store, Lagging) and store.age:
            self.note(f"read as it was {store.age:.1f} s ago; --as-of now reads the present")
        return self._shared_out(store, address)

    def _shared_out(self, store: Store, address: Address) -> Store:
        """With --jobs, let several processes read a store that can be read so."""
        from memctl.store import Splittable

        jobs = self.options.get("jobs", 1)
        if jobs < 1:
            raise UsageError(f"--jobs {jobs}: at least 1 is expected")
        if jobs == 1:
            return store
        if not isinstance(store, Splittable):
            self.note(f"{store.address} is read by one process: --jobs is for servers of SQL")
            return store
        from memctl.stores import open_moment
        from memctl.stores.parallel import Parallel

        scheme = "cockroach" if store.kind == "cockroach" else address.scheme
        where = replace(address, scheme=scheme)
        return Parallel(store, where, jobs=jobs, timeout=self.timeout, open_at=open_moment)

    def open_to_write(
        self, address: Address, setup: Setup | None = None, *, path: Path | None = None
    ) -> Target:
        """Open a store for writing; one that only `./memctl.toml` names is told before anything is written.

        `path` is where a file is made that is to become the one at that address.
        """
        from memctl.stores import open_writer

        self._trace()
        if address.target in self._from_the_folder:
            self.say(f"writing to the store that {self.environment.folder / 'memctl.toml'} names")
            self._from_the_folder.discard(address.target)  # told once
        if self.is_dry_run and address.scheme == "sqlite":
            self.open_at(address)  # refuses a file that opening it to write would recover
        if path is not None:
            address = replace(address, target=str(path))
        store = open_writer(
            address,
            timeout=self.timeout,
            clock=self.environment.clock,
            setup=setup,
            surroundings=self._surroundings,
        )
        self._open.callback(store.close)
        if getattr(store, "has_recovered", False):
            self.warn(f"{store.address}: a commit that a crash had cut short was rolled back")
        return store

    @property
    def _surroundings(self) -> Surroundings:
        from memctl.stores import Surroundings

        return Surroundings(self.environment.folder, self.environment.variables)

    def _trace(self) -> None:
        """With --debug, tell the statements from the first store on that is opened."""
        if self.options.get("debug") and not self._is_traced:
            from memctl.cli.tracing import told

            self._is_traced = True
            self._open.enter_context(told(self.say))

    def until_the_end(self, resource: Closes) -> Closes:
        """Close something when the command is over."""
        self._open.callback(resource.close)
        return resource

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Close what is opened inside when the block is left, and not only when the command is over."""
        outer, self._open = self._open, ExitStack()
        try:
            yield
        finally:
            self._open.close()
            self._open = outer

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be written."""
        return bool(self.options.get("dry_run"))

    def rehearse(self, store: Store, *rights: Right) -> None:
        """Remember what a real run would need to be allowed."""
        self._rehearsed = store, rights

    def would_write(self) -> None:
        """In a rehearsal that would change something, say what the real run would be refused, and let it count."""
        from memctl.store import Permitting

        if not self.is_dry_run or self._rehearsed is None:
            return
        store, rights = self._rehearsed
        if isinstance(store, Permitting):
            try:
                store.check_writing(*rights)
            except Refused as error:
                self.warn(error.message, outcome=error.exit_code)

    def confirm(self, question: str) -> None:
        """Ask before something is lost. Raises UsageError where nobody can be asked, Abort for a no."""
        if self.options.get("yes") or self.is_dry_run:
            return
        if not self.environment.is_terminal(self.environment.stdin):
            raise UsageError(f"{question} Without a terminal this needs --yes", code="needs-yes")
        self.environment.stderr.write(f"{question} [y/N] ".encode())
        self.environment.stderr.flush()
        if self.environment.stdin.readline().strip().lower() not in (b"y", b"yes"):
            raise MemctlError("nothing was changed", code="declined")


def names_in(lines: Iterable[bytes], source: str) -> Iterator[tuple[str, str]]:
    """Yield the (namespace, key) pairs that lines hold. Raises UsageError that names line and `source`."""
    from memctl.render.name import parse_name

    for number, line in enumerate(lines, 1):
        if not line.strip(b" \r\n"):  # a lone tab is a name: the empty key of the empty namespace
            continue
        try:
            yield parse_name(line)
        except UsageError as error:
            raise UsageError(f"line {number} of {source}: {error.message}", hint=error.hint) from None
