"""Addresses of PostgreSQL servers: what is read, what is shown, and what a failed connection says."""

from __future__ import annotations

import psycopg
import pytest

from memctl.errors import Busy, MemctlError, NoStore, Refused, Unreachable, UsageError
from memctl.stores.postgres import connect, failures

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("conninfo", "address"),
    [
        ("postgresql://ana:hunter2@db.internal:5433/agents", "postgresql://ana@db.internal:5433/agents"),
        ("host=db user=ana password=hunter2 dbname=agents", "postgresql://ana@db/agents"),
        ("service=prod password=hunter2", "postgresql:///?service=prod"),
        ("postgresql://ana@/agents?host=/run/pg&port=6", "postgresql://ana@/agents?host=/run/pg&port=6"),
        ("postgresql://[::1]:5433/a?sslpassword=hunter2", "postgresql://[::1]:5433/a"),
        ("postgresql://a%40b:hunter2@h/x%2Fy", "postgresql://a%40b@h/x%2Fy"),
        ("postgresql://h1,h2:5433/a?target_session_attrs=any", "postgresql://h1,h2:5433/a"),
    ],
)
def test_address_shows_known_parts_only(conninfo: str, address: str) -> None:
    assert connect.render(connect.parse(conninfo)) == address


@pytest.mark.parametrize(
    "conninfo",
    [
        "postgresql://ana:hun@ter2@h/d",
        "postgresql://ana:hun/hunter2@h/d",
        "postgresql://ana:12/hunter2@h/d",
        "postgresql//ana:hunter2@h/d",
        "postgresql://ana:hunter2%zz@h/d",
        "postgresql://h/d?passwrd=hunter2",
        "host=h pass word=hunter2",
        "postgresql://ana:hunter2@h:hunter2/d",
        "postgresql://ana:hunter2@h:99999/d",
        "host='unclosed password=hunter2",
    ],
)
def test_malformed_address_is_not_echoed(conninfo: str) -> None:
    with pytest.raises(UsageError) as caught:
        connect.parse(conninfo)
    assert SECRET not in caught.value.message
    assert "ter2" not in f"{caught.value.message}{caught.value.hint}"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ('… failed: FATAL:  password authentication failed for user "ana"', Refused, "refused"),
        ('… failed: FATAL:  no pg_hba.conf entry for host "10.0.0.1"', Refused, "refused"),
        ("… failed: fe_sendauth: no password supplied", Refused, "refused"),
        ('… failed: FATAL:  permission denied for database "agents"', Refused, "refused"),
        ("… failed: server does not support SSL, but SSL was required", Refused, "refused"),
        ('… failed: FATAL:  database "agents" does not exist', NoStore, "no-database"),
        ("… failed: FATAL:  no such database: agents", NoStore, "no-database"),
        ("… failed: FATAL:  sorry, too many clients already", Busy, "busy"),
        ("… failed: FATAL:  the database system is starting up", Busy, "busy"),
        ("… failed: Connection refused\n\tIs the server running?", Unreachable, "unreachable"),
        (
            "failed to resolve host 'x.invalid': [Errno -2] Name or service not known",
            Unreachable,
            "unreachable",
        ),
        ('connection is bad: definition of service "x" not found', UsageError, "usage"),
        ('connection is bad: invalid sslmode value: "hunter2"', UsageError, "usage"),
        ("… failed: FATAL:  unsupported startup parameter: options", UsageError, "usage"),
        (
            "connection failed: Multiple connection attempts failed. All failures were:\n"
            "- host: 'a', port: 1, hostaddr: '::1': Connection refused\n"
            "- host: 'b', port: 2, hostaddr: '::1': FATAL:  password authentication failed for user \"ana\"",
            Refused,
            "refused",
        ),
    ],
)
def test_failed_connection(text: str, kind: type[MemctlError], code: str) -> None:
    preamble = 'connection failed: connection to server at "10.0.0.9", port 5432 failed:'
    error = failures.connecting(
        psycopg.OperationalError(text.replace("… failed:", preamble)), "postgresql://h/"
    )
    assert type(error) is kind
    assert error.code == code
    assert SECRET not in error.message
    assert preamble not in error.message


def test_timeout() -> None:
    error = failures.connecting(
        psycopg.errors.ConnectionTimeout("connection timeout expired"), "postgresql://h/"
    )
    assert type(error) is Unreachable
