"""A database of its own for each test, copied from a template in some 30 ms, with pgvector in it.

Kinds of database (`KINDS`): `pg16` and `pg18` (C.UTF-8, which sorts by bytes) and `en_US` (PostgreSQL 18,
sorted by the rules of en_US.UTF-8); with `MEMCTL_TEST_POSTGRES_URL` they are `external` and `external_en_US`.

`python -m tests.databases [KIND]` starts a server by hand, prints the addresses of a fresh database (socket,
TCP, pgbouncer) and waits for Ctrl-C.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.pgbouncer import Mode, pooler
from tests.servers import EXTERNAL_URL, PASSWORD, Server, Servers, UnavailableError, address


@dataclass(frozen=True, slots=True)
class Kind:
    """On which server a database lies, and by which locale it sorts ("" is the server's own)."""

    major: int
    locale: str = ""


_OWN = {"pg16": Kind(16), "pg18": Kind(18), "en_US": Kind(18, "en_US.UTF-8")}
_EXTERNAL = {"external": Kind(0), "external_en_US": Kind(0, "en_US.UTF-8")}
_KINDS = _EXTERNAL if EXTERNAL_URL else _OWN
#: What a test that is to run everywhere is parametrised with.
KINDS = tuple(_KINDS)
#: Of those, enough to meet every server and every way of sorting once.
EACH_SERVER = KINDS if EXTERNAL_URL else ("pg16", "en_US")
#: The kind of database that a test gets when it does not care: the newest server's.
DEFAULT_KIND = "external" if EXTERNAL_URL else "pg18"


@dataclass(slots=True)
class Database:
    """One empty database, until its context ends."""

    kind: str
    name: str
    server: Server
    servers: Servers
    roles: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The superuser's address: a Unix socket and no password (own servers)."""
        return self.server.url(self.name)

    @property
    def tcp_url(self) -> str:
        """The superuser's address over TCP, with a password in it (own servers: `servers.PASSWORD`)."""
        return self.server.url(self.name, remote=True)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A superuser's connection in autocommit mode."""
        return self.server.connect(self.name)

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows, if any, of SQL run as superuser on its own connection; without parameters, of a script."""
        with self.connect() as connection:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def load(self, dump: Path) -> None:
        """Run an SQL dump of pg_dump 18, whatever this server's version."""
        script = dump.read_text()
        if self.execute("SELECT current_setting('transaction_timeout', true)") == [(None,)]:
            script = script.replace("SET transaction_timeout = 0;\n", "")
        self.execute(script)

    def role(self, *grants: str, **settings: str) -> str:
        """The address, over TCP and with a password, of a new role that may log in and has these grants only.

        A grant is what stands between GRANT and TO: `USAGE ON SCHEMA public`. Settings become the role's own:
        `default_transaction_read_only="on"`. Tables must exist before `ON ALL TABLES` covers them.
        """
        name = f"{self.name}_r{len(self.roles)}"
        self.roles.append(name)
        role = sql.Identifier(name)
        statements = [sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(PASSWORD))]
        statements += [sql.SQL("GRANT {} TO {}").format(sql.SQL(grant), role) for grant in grants]
        statements += [
            sql.SQL("ALTER ROLE {} SET {} = {}").format(role, sql.Identifier(setting), sql.Literal(value))
            for setting, value in settings.items()
        ]
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)
        return self.server.url(self.name, user=name, remote=True)

    def reader(self, schema: str = "public", **settings: str) -> str:
        """The address of a new role that may read every table that now is in `schema`, and nothing else."""
        return self.role(f"USAGE ON SCHEMA {schema}", f"SELECT ON ALL TABLES IN SCHEMA {schema}", **settings)

    def configure(self, **settings: str) -> None:
        """`ALTER DATABASE … SET`: what every new connection starts with."""
        for setting, value in settings.items():
            parts = sql.Identifier(self.name), sql.Identifier(setting), sql.Literal(value)
            with self.connect() as connection:
                connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(*parts))

    def pooled(self, url: str = "", *, mode: Mode = "fresh") -> str:
        """The address of that role (default: the superuser) in this database through pgbouncer.

        Raises `UnavailableError` where pgbouncer is not installed.
        """
        parameters = conninfo_to_dict(url or self.tcp_url)
        port = pooler(self.servers, self.server, mode)
        return address({name: str(value) for name, value in parameters.items()} | port)


@dataclass(slots=True)
class Databases:
    """Makes databases on the run's servers. One a process; close it at the end."""

    servers: Servers
    _connections: dict[int, psycopg.Connection[tuple[Any, ...]]] = field(default_factory=dict)

    @contextlib.contextmanager
    def new(self, kind: str = DEFAULT_KIND, *, vector: bool = True) -> Iterator[Database]:
        """An empty database of that kind, dropped at the end whoever is connected; with or without pgvector.

        Raises `UnavailableError` where the machine lacks the locale.
        """
        wanted = _KINDS[kind]
        server = self.servers.get(wanted.major)
        admin = self._admin(wanted.major, server)
        database = Database(kind, f"{self._family}_{uuid.uuid4().hex[:12]}", server, self.servers)
        template = self._template(admin, server, wanted, vector=vector)
        create = "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy"
        admin.execute(sql.SQL(create).format(sql.Identifier(database.name), sql.Identifier(template)))
        try:
            yield database
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database.name)))
            for role in database.roles:
                admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))

    def close(self) -> None:
        """Close the connections that made the databases."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def sweep(self) -> None:
        """Drop what the run left on an external server: templates, and what a killed process left."""
        if EXTERNAL_URL:
            admin = self._admin(0, self.servers.get(0))
            left = admin.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [self._family]
            )
            for (name,) in left.fetchall():
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    @property
    def _family(self) -> str:
        """What the names of this run's databases begin with."""
        return "memctl_" + self.servers.folder.name.rpartition("-")[2].lower()

    def _admin(self, major: int, server: Server) -> psycopg.Connection[tuple[Any, ...]]:
        if major not in self._connections:
            self._connections[major] = server.connect()
        return self._connections[major]

    def _template(
        self, admin: psycopg.Connection[tuple[Any, ...]], server: Server, kind: Kind, *, vector: bool
    ) -> str:
        """The name of the database to copy, made by whichever process of the run needs it first."""
        parts = [self._family, "template", "vector" if vector else "", kind.locale[:5].lower()]
        name = "_".join(filter(None, parts))
        with self.servers.lock("template"):
            if not admin.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchall():
                draft = sql.Identifier(f"{name}_draft")
                admin.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(draft))
                self._create_template(admin, draft, kind.locale)
                if vector:
                    with server.connect(f"{name}_draft") as connection:
                        connection.execute("CREATE EXTENSION vector")
                admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(draft, sql.Identifier(name)))
        return name

    def _create_template(
        self, admin: psycopg.Connection[tuple[Any, ...]], name: sql.Identifier, locale: str
    ) -> None:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name)
        if locale:
            create += sql.SQL(" LOCALE {}").format(sql.Literal(locale))
            if not EXTERNAL_URL:
                self.servers.add_locale(locale)
        try:
            admin.execute(create)
        except psycopg.errors.WrongObjectType as error:
            raise UnavailableError(f"the server does not know the locale {locale}: {error}") from error


def main(kind: str = DEFAULT_KIND) -> None:
    """Start a server by hand."""
    with Servers.run() as servers, contextlib.closing(Databases(servers)) as databases:
        with databases.new(kind) as database, contextlib.suppress(KeyboardInterrupt):
            print(database.url, database.tcp_url, database.pooled(), sep="\n", flush=True)
            signal.pause()
        databases.sweep()


if __name__ == "__main__":
    main(*sys.argv[1:])
