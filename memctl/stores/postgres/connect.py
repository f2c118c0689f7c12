"""The way to a PostgreSQL server: its address, and one read-only transaction on it.

Everything happens in a single REPEATABLE READ READ ONLY transaction, with settings made by `set_config(…,
true)`, which end with it. So it works as a read-only role, on a hot standby and through pgbouncer in
transaction mode, which hands the session to somebody else after each transaction and refuses `options=`.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import ByteaBinaryLoader

from memctl import instants, model
from memctl.errors import MemctlError
from memctl.model import Instant
from memctl.stores.postgres import failures
from memctl.stores.postgres.streams import Copied, Stream

_LOG = logging.getLogger(__name__)

Row = tuple[Any, ...]
Query = sql.SQL | sql.Composed
Parameters = Sequence[object] | Mapping[str, object]

BEGIN = """
SELECT now(), set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true),
       set_config('search_path', '', true), set_config('lock_timeout', %s, true),
       set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '0', true),
       set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')) / 1024, 32768)::text, true)
"""
"""As pg_dump does, a long read or a pager that waits for its reader is not cut off; a lock is not waited for
longer than asked. Every name is qualified, so an empty search_path keeps other people's functions out. With
32 MB for a sort or a hash, namespaces are counted without sorting the values; the usual 4 MB do not do."""
NO_TRANSACTION_TIMEOUT = "SELECT set_config('transaction_timeout', '0', true)"
"""The same for the whole transaction; PostgreSQL 17 and later."""
IMPORT = "SET TRANSACTION SNAPSHOT {snapshot}"
DECLARE = "DECLARE {name} NO SCROLL CURSOR WITHOUT HOLD FOR "
FETCH = "FETCH FORWARD {size} FROM {name}"
CLOSE = "CLOSE {name}"
CLIENT_ENCODING = "SELECT set_config('client_encoding', %s, true)"

_DEFAULTS = {
    "application_name": "memctl",
    # A server that vanishes without a word is noticed after a minute, not after two hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_CHUNK = 1000
"""Rows of a stream that libpq hands over at once, where it can (libpq 17)."""


class IsCockroach(MemctlError):
    """The server speaks PostgreSQL's protocol and is CockroachDB, which has a module of its own."""


def is_cockroach(connection: psycopg.Connection[Row]) -> bool:
    """Tell whether the server is CockroachDB, which says so as it greets."""
    return bool(connection.info.parameter_status("crdb_version"))


def refuse_cockroach(connection: psycopg.Connection[Row], address: str) -> None:
    """Close a connection to CockroachDB. Raises IsCockroach then."""
    if is_cockroach(connection):
        connection.close()
        raise IsCockroach(f"{address} is CockroachDB")


def parse(conninfo: str) -> dict[str, str]:
    """Take a libpq address apart. Raises UsageError, which does not repeat it.

    A password with an unescaped `@` or `/` would end up in the name of the host or database and be shown
    there, so an address that has them is refused.
    """
    try:
        parameters = {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    except psycopg.Error:
        raise failures.malformed() from None
    scheme, separator, rest = conninfo.partition("://")
    if separator and scheme in ("postgresql", "postgres"):
        authority, _, path = rest.partition("?")[0].partition("/")
        if authority.count("@") > 1 or "@" in path:
            raise failures.malformed()
    ports = parameters.get("port", "").split(",")
    if not all(port == "" or (port.isascii() and port.isdigit() and int(port) < 65536) for port in ports):
        raise failures.malformed()
    return parameters


def render(parameters: dict[str, str]) -> str:
    """Return the address of known parts only: user, host, port, database, service and schema."""
    user, host, port = (parameters.get(name, "") for name in ("user", "host", "port"))
    rest: dict[str, str] = {}
    if host.startswith("/"):
        rest = {"host": host} | ({"port": port} if port else {})
        host = port = ""
    rest |= {name: parameters[name] for name in ("service", "schema") if parameters.get(name)}
    authority = (f"{quote(user, safe='')}@" if user else "") + _hosts(host.split(","), port.split(","))
    query = "&".join(f"{name}={quote(value, safe='/')}" for name, value in rest.items())
    database = quote(parameters.get("dbname", ""), safe="")
    return f"postgresql://{authority}/{database}" + (f"?{query}" if query else "")


def _hosts(names: list[str], ports: list[str]) -> str:
    """Pair hosts with their ports, as a URL has them; one port is every host's."""
    pairs = zip(names, ports * len(names) if len(ports) == 1 else ports, strict=False)
    quoted = ((f"[{name}]" if ":" in name else quote(name, safe=".-_"), port) for name, port in pairs)
    return ",".join(f"{name}:{port}" if port else name for name, port in quoted)


def connect(conninfo: str, *, timeout: float) -> tuple[psycopg.Connection[Row], dict[str, str]]:
    """Connect within `timeout` seconds; return the connection and the known parts of its address, for `render`.

    Raises what `failures.connecting` makes of it.
    """
    parameters = parse(conninfo)
    # libpq counts whole seconds, two at least; what the address itself says is kept.
    patience = {"connect_timeout": max(2, math.ceil(timeout))}
    try:
        connection = psycopg.connect(
            **(_DEFAULTS | patience | parameters | {"client_encoding": "UTF8"}),  # type: ignore[arg-type]
            prepare_threshold=None,
        )
    except psycopg.Error as error:
        raise failures.connecting(error, render(parameters)) from error
    info = connection.info
    known = {"user": info.user, "host": info.host, "port": str(info.port), "dbname": info.dbname}
    return connection, known | {"service": parameters.get("service", "")}


def carry_any_text(connection: psycopg.Connection[Row]) -> None:
    """Make a connection carry text as whatever bytes a database of encoding SQL_ASCII has."""
    for dumper in (_AnyTextBinary, _AnyText):  # the last one is what `%s` takes
        connection.adapters.register_dumper(str, dumper)
    for name in ("text", "varchar", "name"):
        connection.adapters.register_loader(name, _AnyTextLoader)
        connection.adapters.register_loader(name, _AnyTextBinaryLoader)


def with_names(query: Query, parameters: Parameters) -> Query:
    """Return a query as psycopg takes it: where there are parameters, a `%` in a name is doubled."""
    if not parameters or not isinstance(query, sql.Composed):
        return query
    return sql.Composed([_doubled(part) for part in query])


def _doubled(part: sql.Composable) -> sql.Composable:
    if isinstance(part, sql.Composed):
        return sql.Composed([_doubled(inner) for inner in part])
    if not isinstance(part, sql.Identifier) or "%" not in (name := part.as_string()):
        return part
    return sql.SQL(name.replace("%", "%%"))


class Session:
    """One connection with its one transaction. The first use begins it, `close` ends it.

    `address` names the server without secrets. Rows come as tuples; `fetch` hands over text as `str`, while
    `fetch_raw`, `stream` and `batches`, made for what users store, hand over text as `bytes` and varchar as
    `str`.
    """

    def __init__(self, conninfo: str, *, timeout: float, snapshot: str | None = None) -> None:
        """Connect within `timeout` seconds, and never wait longer than that for a lock.

        `snapshot` is what another session's `pg_export_snapshot()` returned, whose transaction is still open.
        """
        self._connection, self._known = connect(conninfo, timeout=timeout)
        self.address = render(self._known)
        refuse_cockroach(self._connection, self.address)
        self._numbers = itertools.count()
        self._running: Stream | Copied | None = None
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._connection.read_only = True
        try:
            self._begin(timeout, snapshot)
        except BaseException:
            self.close()
            raise

    now: Instant
    """The server's time at the beginning of the transaction."""
    encoding: str
    """The database's encoding, as PostgreSQL names it."""

    @property
    def server_version(self) -> int:
        """The server's version as one number: 180004."""
        return self._connection.info.server_version

    def address_in(self, schema: str) -> str:
        """Return the address of a schema in this database, without secrets."""
        return render(self._known | ({} if schema == "public" else {"schema": schema}))

    def can_hold(self, text: str) -> bool:
        """Tell whether the database can hold `text` at all; what it cannot hold, it need not be asked for."""
        if "\0" in text:
            return False
        try:
            text.encode(self._codec, self._errors)
        except UnicodeEncodeError:
            return False
        return True

    def holdable(self, text: str) -> str:
        """Return the longest beginning of `text` that the database can hold."""
        if self.can_hold(text):
            return text
        length = next(end for end in range(1, len(text) + 1) if not self.can_hold(text[:end]))
        return text[: length - 1]

    def fetch(self, query: Query | str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a small result."""
        self._settle()
        with failures.translated(self.address):
            return self._connection.execute(self._compose(query, parameters), parameters or None).fetchall()

    def fetch_raw(self, query: Query, parameters: Parameters = ()) -> list[Any]:
        """Return all rows of a small result, in the types of `stream`."""
        self._settle()
        with failures.translated(self.address), self._raw_cursor() as cursor:
            return cursor.execute(self._compose(query, parameters), parameters or None).fetchall()

    def stream(self, query: Query, parameters: Parameters = ()) -> Iterator[Any]:
        """Yield the rows of one statement as they come; unlike `batches` it can be run in parallel.

        The connection carries nothing else meanwhile: when it is wanted, the rows to come are kept in memory.
        """
        self._settle()
        with failures.translated(self.address):
            cursor = self._raw_cursor()
            size = _CHUNK if psycopg.capabilities.has_stream_chunked() else 1
            rows = cursor.stream(self._compose(query, parameters), parameters or None, size=size)
            stream = self._running = Stream(rows, self.address)
        try:
            yield from stream
        finally:
            stream.wanted = False

    def batches(self, query: Query, parameters: Parameters = (), *, size: int) -> Iterator[list[Any]]:
        """Yield the rows of a query in lists of `size`, through a cursor on the server.

        Several can be open, and other statements can be run between two batches. A cursor that is not read
        to its end stays until the transaction ends.
        """
        self._settle()
        name = sql.Identifier(f"memctl_{next(self._numbers)}")
        fetch = sql.SQL(FETCH).format(name=name, size=size)
        with failures.translated(self.address):
            cursor = self._raw_cursor()
            declare = sql.SQL(DECLARE).format(name=name) + query
            cursor.execute(self._compose(declare, parameters), parameters or None)
        while True:
            self._settle()
            with failures.translated(self.address):
                rows = cursor.execute(fetch).fetchall()
                if len(rows) < size:
                    cursor.execute(sql.SQL(CLOSE).format(name=name))
            if rows:
                yield rows
            if len(rows) < size:
                return

    def copy(self, query: Query) -> Copied:
        """Start a COPY … TO STDOUT, the fastest way to read much; it takes no parameters."""
        self._settle()
        with failures.translated(self.address):
            copied = self._running = Copied(self._connection.cursor(), self._compose(query), self.address)
        return copied

    def close(self) -> None:
        """End the transaction and close the connection."""
        self._connection.close()
        self._running = None

    def _raw_cursor(self) -> psycopg.Cursor[Row]:
        cursor = self._connection.cursor(binary=True)
        cursor.adapters.register_loader("text", ByteaBinaryLoader)
        return cursor

    def _begin(self, timeout: float, snapshot: str | None) -> None:
        with failures.translated(self.address):
            if snapshot is not None:  # before anything is asked
                self._connection.execute(sql.SQL(IMPORT).format(snapshot=sql.Literal(snapshot)))
            self._be_exact()
            milliseconds = str(max(1, math.ceil(timeout * 1000)))
            ((moment, *_),) = self._connection.execute(BEGIN, [milliseconds]).fetchall()
            self.now = instants.from_datetime(moment)
            if self.server_version >= 170000:
                self._connection.execute(NO_TRANSACTION_TIMEOUT)

    def _be_exact(self) -> None:
        """Agree on an encoding in which everything that is stored can be read.

        Without a conversion in between the server checks nothing it sends. SQL_ASCII holds any bytes, and
        would refuse to send them as UTF-8.
        """
        self.encoding = self._connection.info.parameter_status("server_encoding") or "UTF8"
        self._codec, self._errors = "utf-8", "strict"
        if self.encoding == "UTF8":
            return
        self._connection.execute(CLIENT_ENCODING, [self.encoding])
        if self.encoding == "SQL_ASCII":
            self._errors = "surrogateescape"
            carry_any_text(self._connection)
        else:
            self._codec = self._connection.info.encoding  # Python's name for it
            self._connection.execute(CLIENT_ENCODING, ["UTF8"])

    def _compose(self, query: Query | str, parameters: Parameters = ()) -> Query:
        composed = sql.SQL(query) if isinstance(query, str) else with_names(query, parameters)
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s", composed.as_string(self._connection))
        return composed

    def _settle(self) -> None:
        """Make the connection free for the next statement."""
        stream, self._running = self._running, None
        if stream is not None:
            stream.settle()


class _AnyText(Dumper):
    """Text for a database of encoding SQL_ASCII: whatever bytes were there."""

    def dump(self, obj: str) -> bytes:
        return model.encode(obj)


class _AnyTextBinary(_AnyText):
    format = psycopg.pq.Format.BINARY
    oid = psycopg.postgres.types["text"].oid


class _AnyTextLoader(Loader):
    def load(self, data: psycopg.abc.Buffer) -> str:
        return model.decode(bytes(data))


class _AnyTextBinaryLoader(_AnyTextLoader):
    format = psycopg.pq.Format.BINARY
