"""What psycopg and the server report, as the errors of `memctl.errors`.

Nothing a user typed into an address is repeated, because a badly quoted password can stand in any part of
it; of a server's message only the primary line is, which never holds one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as states

from memctl.errors import Busy, MemctlError, NoStore, Refused, Unreachable, UsageError

MALFORMED = "the PostgreSQL address cannot be read"
MALFORMED_HINT = (
    "write postgresql://USER@HOST:PORT/DATABASE, and percent-encode what is special in each part "
    "(@ is %40, / is %2F); better still, keep the password in PGPASSWORD, ~/.pgpass or a service"
)

_PASSWORD_HINT = "set PGPASSWORD, or put the password into ~/.pgpass or a service"  # noqa: S105
_GRANT_HINT = "memctl needs USAGE on the schema and SELECT on its tables"
_CHANGED_HINT = "the tables changed while they were read"
_STANDBY_HINT = "the standby had to go on replaying; run it again, or turn hot_standby_feedback on"

# A failed attempt to connect has no SQLSTATE, only text: libpq's, the server's or pgbouncer's own. With
# several hosts each has its line; the first rule here that fits any of them decides.
_NO_PASSWORD = re.compile(r"no password supplied|password required", re.IGNORECASE)
_AUTHENTICATION = re.compile(
    r"authentication failed|no pg_hba\.conf entry|role .* does not exist|not permitted to log in"
    r"|permission denied|no such user|SSL|certificate|GSSAPI|SASL|requires encryption",
    re.IGNORECASE,
)
_NO_DATABASE = re.compile(r"database .* does not exist|no such database|not currently accepting connections")
_NO_ROOM = re.compile(
    r"too many clients|too many connections|connection slots are reserved|no more connections allowed"
    r"|starting up|shutting down|recovery mode|not accepting connections|query_wait_timeout"
    r"|hot standby mode is disabled"
)
_BAD_SETTING = re.compile(
    r"connection is bad: (?:invalid|definition of service|service file|the combination|could not match)"
    r"|unsupported startup parameter"
)
_SERVICE = re.compile(r"definition of service")
_STARTUP_PARAMETER = re.compile(r"unsupported startup parameter")
_PREAMBLE = re.compile(
    r"^(?:- |connection failed: |connection is bad: |connection to server (?:at|on) .*? failed: |FATAL:\s+)+"
)


def connecting(error: psycopg.Error, address: str) -> MemctlError:
    """Return what a failed attempt to connect to `address` (already free of secrets) means."""
    text = str(error)
    reason = _reason(text)
    if _BAD_SETTING.search(text):
        return _bad_setting(text)
    if _NO_PASSWORD.search(text):
        return Refused(f"{address} asks for a password and none is known", hint=_PASSWORD_HINT)
    if _AUTHENTICATION.search(text):
        return Refused(f"{address} refuses the connection: {reason}")
    if _NO_DATABASE.search(text):
        return NoStore(f"{address}: {reason}", code="no-database")
    if _NO_ROOM.search(text):
        return Busy(f"{address} takes no connection now: {reason}")
    if isinstance(error, states.ConnectionTimeout):
        return Unreachable(f"{address} does not answer in time", hint="--timeout waits longer")
    return Unreachable(f"{address} cannot be reached: {reason}")


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Turn what goes wrong inside, on an open connection, into an error of `memctl.errors`."""
    try:
        yield
    except psycopg.Error as error:
        raise meaning(error, address) from error


def meaning(error: psycopg.Error, address: str) -> MemctlError:
    """Return what an error on an open connection to `address` means."""
    said = error.diag.message_primary
    match error:
        case states.InsufficientPrivilege():
            return Refused(f"{address}: {said}", hint=_GRANT_HINT)
        case states.LockNotAvailable():
            return Busy(
                f"{address}: somebody else holds a lock on the store's tables",
                hint="see pg_locks; --timeout waits longer",
            )
        case states.QueryCanceled():
            return Busy(f"{address}: {said}")
        case states.SerializationFailure():
            return Busy(f"{address}: {said}", hint=_STANDBY_HINT)
        case states.DeadlockDetected() | states.TooManyConnections() | states.CannotConnectNow():
            return Busy(f"{address}: {said}")
        case states.UndefinedTable() | states.InvalidSchemaName() | states.UndefinedColumn():
            return NoStore(f"{address}: {said}", code="no-tables", hint=_CHANGED_HINT)
        case states.ReadOnlySqlTransaction():
            return Refused(f"{address}: {said}", code="read-only")
        case states.DiskFull():
            return MemctlError(f"{address}: the server's disk is full: {said}", code="disk-full")
        case states.DataCorrupted() | states.IndexCorrupted():
            return MemctlError(f"{address}: the database is damaged: {said}", code="damaged")
    if isinstance(error, psycopg.OperationalError) and (said is None or _ends_session(error.sqlstate)):
        return MemctlError(
            f"the connection to {address} was lost: {said or _reason(str(error))}", code="connection-lost"
        )
    return MemctlError(f"{address}: {said or _reason(str(error))}", code="database")


def malformed() -> UsageError:
    """Return the error for an address that libpq cannot take apart, which is not echoed."""
    return UsageError(MALFORMED, hint=MALFORMED_HINT)


def _bad_setting(text: str) -> MemctlError:
    if _SERVICE.search(text):
        return UsageError(
            "that PostgreSQL service is defined nowhere",
            hint="services stand in ~/.pg_service.conf or in the file that PGSERVICEFILE names",
        )
    if _STARTUP_PARAMETER.search(text):
        return UsageError(
            "the pooler refuses a parameter of the address",
            hint="leave out options=…; --schema chooses the schema",
        )
    return malformed()


def _ends_session(sqlstate: str | None) -> bool:
    """Tell whether the server closes the session with this: 08… connection, 57P01… shutdown, 25P03… idle."""
    return sqlstate is None or sqlstate[:2] == "08" or sqlstate[:4] in ("57P0", "25P0")


def _reason(text: str) -> str:
    """Return the telling part of a driver's message, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    attempts = [line for line in lines if line.startswith("- ")] or lines[:1]
    return _PREAMBLE.sub("", attempts[0]) if attempts else "no reason given"
