"""Everything a command takes from the process around it, in one object that tests replace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import BinaryIO, cast


@dataclass(slots=True)
class Environment:
    """Streams, whether each is a terminal, the environment variables, the folder, the clock."""

    stdin: BinaryIO = field(default_factory=lambda: cast(BinaryIO, sys.stdin.buffer))
    stdout: BinaryIO = field(default_factory=lambda: cast(BinaryIO, sys.stdout.buffer))
    stderr: BinaryIO = field(default_factory=lambda: cast(BinaryIO, sys.stderr.buffer))
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path = field(default_factory=Path)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    width: int | None = None
    """Columns of the terminal; None asks it."""

    def is_terminal(self, stream: BinaryIO) -> bool:
        """Whether somebody looks at this stream."""
        return stream.isatty()

    def has_color(self, stream: BinaryIO) -> bool:
        """Whether this stream takes colour: a terminal, and neither NO_COLOR nor TERM=dumb is set."""
        return (
            self.is_terminal(stream)
            and not self.variables.get("NO_COLOR")
            and self.variables.get("TERM") != "dumb"
        )

    def columns(self) -> int:
        """The width of the terminal in characters."""
        return self.width or get_terminal_size((80, 24)).columns
