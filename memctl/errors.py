"""Everything that can go wrong, each with the exit code a script can rely on.

A command raises one of these and nothing else for conditions that a user can meet; `code` is the stable
word of `{"error": {"code", "message", "hint"}}`, `hint` names the way out.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_PRECEDENCE = (130, 141, 2, 12, 13, 11, 10, 1, 5, 4, 3)
"""When several exit codes apply, the first of these is the one that is returned."""


def most_severe(codes: set[int]) -> int:
    """Return the exit code that stands for all of `codes`; 0 when there are none."""
    return next((code for code in EXIT_PRECEDENCE if code in codes), 0)


class MemctlError(Exception):
    """Failed: nothing, or not all, was done."""

    exit_code: ClassVar[int] = 1
    default_code: ClassVar[str] = "failed"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.default_code


class UsageError(MemctlError):
    """The command line does not say what to do, or a refusal for want of `--yes` or `--all`."""

    exit_code = 2
    default_code = "usage"


class Unsupported(MemctlError):
    """This store lacks the capability that the command needs."""

    default_code = "unsupported"


class NothingThere(MemctlError):
    """A literal namespace or key that holds nothing."""

    exit_code = 5
    default_code = "not-found"


class NoStore(MemctlError):
    """There is no LangGraph store at that address; `code` tells what is there instead."""

    exit_code = 10
    default_code = "no-store"


class Busy(MemctlError):
    """The store is locked by someone else, or in need of recovery."""

    exit_code = 11
    default_code = "busy"


class Refused(MemctlError):
    """Authentication failed, a permission is missing, or a folder cannot be written."""

    exit_code = 12
    default_code = "refused"


class Unreachable(MemctlError):
    """The server does not answer: refused connection, unknown host, timeout."""

    exit_code = 13
    default_code = "unreachable"
