"""pgbouncer in transaction mode in front of a test server, in two modes that show a client's mistakes.

`fresh`: every transaction gets a server connection of its own (`server_lifetime = 0`). What a client leaves
in its session (SET, LISTEN, temporary tables, cursors WITH HOLD, named prepared statements) is gone in its
next transaction.

`shared`: all clients of a database share one server connection. What one leaves in it meets the next client,
and a transaction that is held open keeps everybody else waiting.

Clients log in by password; roles made later are found by `auth_query`. Startup parameters such as `options`
are refused, as pgbouncer does unless told otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Literal

import psycopg

from tests.servers import PASSWORD, Server, Servers, UnavailableError, free_port, unprivileged

Mode = Literal["fresh", "shared"]

_CONFIGURATION = """\
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
pool_mode = transaction
auth_type = scram-sha-256
auth_file = {folder}/users
auth_user = {user}
auth_query = SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = $1
max_client_conn = 100
logfile = {folder}/log
pidfile = {folder}/pid
{mode}
"""
_MODES: dict[Mode, str] = {"fresh": "server_lifetime = 0", "shared": "default_pool_size = 1"}


def pooler(servers: Servers, server: Server, mode: Mode) -> dict[str, str]:
    """Host and port of the run's pgbouncer of that mode in front of `server`, started if it does not run yet.

    Raises `UnavailableError` where pgbouncer is not installed.
    """
    with servers.lock("pgbouncer"):
        folder = servers.owned(f"pgbouncer-{mode}-{server.remote.get('port', '5432')}")
        if not (folder / "pid").exists():
            _start(folder, server, mode)
        port = (folder / "port").read_text()
    return {"host": "127.0.0.1", "port": port}


def _start(folder: Path, server: Server, mode: Mode) -> None:
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise UnavailableError("no pgbouncer (Debian: apt-get install pgbouncer)")
    port = free_port()
    user, password = server.local["user"], server.remote.get("password", PASSWORD)
    configuration = _CONFIGURATION.format(
        host=server.local["host"], port=server.local.get("port", "5432"), listen_port=port, folder=folder,
        user=user, mode=_MODES[mode],
    )  # fmt: skip
    (folder / "ini").write_text(configuration)
    (folder / "users").write_text('"{}" "{}"\n'.format(user, password.replace('"', '""')))
    (folder / "port").write_text(str(port))
    subprocess.run(
        [program, "-q", "-d", folder / "ini"], check=True, cwd="/", stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **unprivileged(),
    )  # fmt: skip
    deadline = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(
                server.url(server.maintenance, remote=True, host="127.0.0.1", port=str(port))
            ).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()) from None
            time.sleep(0.02)
        else:
            return
