"""Store addresses: what may stand after `-s`, and how one is shown without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from memctl.errors import UsageError

Scheme = Literal["sqlite", "postgres", "cockroach", "http", "python"]

_LIBPQ_KEYS = frozenset(
    {
        "service",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "passfile",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "application_name",
        "connect_timeout",
        "target_session_attrs",
        "client_encoding",
        "options",
        "gssencmode",
        "channel_binding",
        "require_auth",
        "keepalives",
        "krbsrvname",
        "requiressl",
    }
)
_CONNINFO = re.compile(r"\s*([a-z_]+)\s*=")
_POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")
_COCKROACH = ("cockroachdb://", "cockroachdb+psycopg://")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed store address.

    `target` is what the store's module opens: a path for SQLite, a libpq connection string for Postgres and
    CockroachDB, a URL, or `module:attribute`. It may hold a password and is never shown.
    """

    scheme: Scheme
    target: str
    schema: str | None = None
    table: str | None = None

    def with_defaults(self, schema: str | None, table: str | None) -> Address:
        """Return the address with `schema` and `table` where it names none itself."""
        return replace(self, schema=self.schema or schema, table=self.table or table)

    def relative_to(self, folder: Path) -> Address:
        """Return the address with a relative SQLite path taken from `folder`, and `~` resolved."""
        if self.scheme != "sqlite":
            return self
        return replace(self, target=str(folder / Path(self.target).expanduser()))


def parse(text: str) -> Address:
    """Read a store address. Raises UsageError; a malformed address is not echoed, it may hold a password."""
    if not text:
        raise UsageError("the store's address is empty", hint="name a file or a URL, see `memctl --help`")
    if "\0" in text:
        raise UsageError("the store's address holds a NUL character")
    lowered = text.lower()
    if lowered.startswith(_POSTGRES):
        return _server("postgres", "postgresql://", text)
    if lowered.startswith(_COCKROACH):
        return _server("cockroach", "postgresql://", text)
    if lowered.startswith(("http://", "https://")):
        return Address("http", text)
    if lowered.startswith("python:"):
        return Address("python", text[len("python:") :])
    if lowered.startswith("sqlite:"):
        return _sqlite(text)
    if "://" in text:
        raise UsageError(
            f"no store speaks {text.partition('://')[0]!r}",
            hint="a path, sqlite:///path, postgresql://, cockroachdb://, https:// or python:module:attribute",
        )
    found = _CONNINFO.match(text)
    if found and found[1] in _LIBPQ_KEYS:
        return Address("postgres", text)
    return Address("sqlite", text)


def looks_like_name(text: str) -> bool:
    """Tell whether `text` could be a configured name: no scheme, no folder, no `key=value`."""
    return not re.search(r"[/=\\]|^python:|^sqlite:", text)


def is_public(text: str) -> bool:
    """Tell whether an address can be shown as it was given, because it surely holds no password."""
    if "password" in text.lower():
        return False
    userinfo, at, _ = text.partition("://")[2].rpartition("@")
    return not (at and ":" in userinfo)


def _sqlite(text: str) -> Address:
    if not text.lower().startswith("sqlite:///"):
        raise UsageError(
            "a SQLite address has three slashes and a path",
            hint="sqlite:///memory.db is relative, sqlite:////srv/memory.db absolute; a bare path will do",
        )
    path, _, query = text[len("sqlite:///") :].partition("?")
    options, rest = _take_options(query)
    if rest:
        raise UsageError(f"a SQLite address takes no option {rest[0]!r}")
    return Address("sqlite", path, **options)


def _server(scheme: Scheme, prefix: str, text: str) -> Address:
    body, question, query = text.partition("://")[2].partition("?")
    options, rest = _take_options(query)
    target = prefix + body + (question + "&".join(rest) if rest else "")
    return Address(scheme, target, **options)


def _take_options(query: str) -> tuple[dict[str, str], list[str]]:
    """Split a query into memctl's own `schema` and `table`, and what the driver is to see, as it was written."""
    ours: dict[str, str] = {}
    rest: list[str] = []
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in ("schema", "table"):
            rest.append(pair)
        elif value:
            ours[name] = unquote(value)
    return ours, rest
