"""memctl run inside a test: the real command line in an environment that the test owns.

    memctl("-s", path, "ls")            -> Outcome, whatever the exit code
    memctl.json("-s", path, "ls")       -> what `-o json` printed, after the exit code was checked
    memctl.process("-s", path, "ls")    -> the same in a process of its own

JSON is read exactly: numbers with a fraction or an exponent are `Decimal`s. No outcome may hold a password of
the test servers, in clear or percent-encoded: that is checked each time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memctl.cli.app import run
from memctl.cli.environment import Environment
from tests.servers import PASSWORD

ROOT = Path(__file__).parent.parent
#: Between the expiries of the stores in `tests/data/`.
NOW = datetime(2026, 11, 30, 8, 0, 0, tzinfo=UTC)
_SECRETS = (PASSWORD, quote(PASSWORD), quote(PASSWORD, safe=""))

Argument = str | Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one invocation left: its exit code and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Standard output as text."""
        return self.stdout.decode()

    @property
    def err(self) -> str:
        """Standard error as text."""
        return self.stderr.decode()

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.split("\n")[:-1]

    def json(self) -> Any:
        """Standard output as JSON."""
        return exact(self.stdout)

    @property
    def error(self) -> dict[str, Any]:
        """The error object that stderr ends with; its shape is checked."""
        document = json.loads(self.stderr.splitlines()[-1])
        assert document.keys() == {"error"}
        error = document["error"]
        assert error.keys() == {"code", "message", "hint"}
        assert isinstance(error["code"], str)
        assert isinstance(error["message"], str)
        assert error["hint"] is None or isinstance(error["hint"], str)
        return error


class Terminal(BytesIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


@dataclass(slots=True)
class Memctl:
    """memctl in one folder, with these variables and this clock."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    now: datetime = NOW

    def __call__(
        self,
        *arguments: Argument,
        stdin: bytes = b"",
        typed: bytes | None = None,
        terminal: bool = False,
        width: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run one command line. With `terminal` both streams are one, `width` columns wide.

        What is `typed` comes from a terminal, unlike `stdin`.
        """
        stream = Terminal if terminal else BytesIO
        stdout, stderr = stream(), stream()
        code = run(
            [str(argument) for argument in arguments],
            Environment(
                stdin=BytesIO(stdin) if typed is None else Terminal(typed),
                stdout=stdout,
                stderr=stderr,
                variables={"HOME": str(self.folder), **self.variables, **(variables or {})},
                folder=self.folder,
                clock=lambda: self.now,
                width=width,
            ),
        )
        return _without_secrets(Outcome(code, stdout.getvalue(), stderr.getvalue()))

    def json(self, *arguments: Argument, code: int = 0, **rest: Any) -> Any:
        """Return what `-o json` prints, the exit code being as expected."""
        outcome = self("-o", "json", *arguments, **rest)
        assert outcome.code == code, outcome.err
        return outcome.json()

    def names(self, *arguments: Argument, code: int = 0, **rest: Any) -> list[tuple[str, ...]]:
        """Return what `-o name` prints, split at tabs and still escaped."""
        outcome = self("-o", "name", *arguments, **rest)
        assert outcome.code == code, outcome.err
        return [tuple(line.split("\t")) for line in outcome.lines]

    def refuse(self, *arguments: Argument, code: int, **rest: Any) -> dict[str, Any]:
        """Return the error object of a command that fails so; nothing may stand on stdout."""
        outcome = self("-o", "json", *arguments, **rest)
        assert outcome.code == code, (outcome.out, outcome.err)
        assert not outcome.stdout
        return outcome.error

    def process(
        self, *arguments: Argument, stdin: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run `python -m memctl` to its end."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env=self.environment(variables),
            cwd=self.folder,
            timeout=120,
        )
        return _without_secrets(Outcome(done.returncode, done.stdout, done.stderr))

    def command(self, *arguments: Argument) -> list[str]:
        """What starts memctl as a process."""
        return [sys.executable, "-m", "memctl", *map(str, arguments)]

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of such a process: little more than the way to the package."""
        inherited = {
            name: os.environ[name] for name in ("PATH", "COVERAGE_PROCESS_START") if name in os.environ
        }
        return {
            **inherited,
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            **self.variables,
            **(variables or {}),
        }


def exact(text: bytes | str) -> Any:
    """Decode JSON without losing a digit."""
    return json.loads(text, parse_float=Decimal)


def _without_secrets(outcome: Outcome) -> Outcome:
    shown = (outcome.stdout + outcome.stderr).decode("utf-8", "replace")
    assert not any(secret in shown for secret in _SECRETS), "a password was shown"
    return outcome
