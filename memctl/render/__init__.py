"""Output: what commands hand over, and the formats that show it.

A command yields rows (mappings whose values are what JSON will hold) under columns that say what each one
means, or hands over one report; it never asks which format was chosen. A format is one class, reached
through `FORMATS`, and imported only when it is used.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from memctl.errors import UsageError

if TYPE_CHECKING:
    from memctl.model import Instant

Row = Mapping[str, Any]
"""A row as `-o json` shows it: instants as text, namespaces as arrays, JSON values as `orjson.Fragment`.

It may have keys beyond the columns (`problems`, `key_base64`), which only JSON shows.
"""


class Kind(enum.Enum):
    """What a column holds, which decides how people see it; JSON is the same for all."""

    TEXT = "text"
    NAMESPACE = "namespace"
    """An array of labels; shown joined and escaped so that it can be pasted back."""
    KEY = "key"
    COUNT = "count"
    OCTETS = "octets"
    INSTANT = "instant"
    MINUTES = "minutes"
    SCORE = "score"
    JSON = "json"
    """A whole value (`orjson.Fragment`, or anything JSON can hold)."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key in JSON, what it holds, and whether a narrow terminal may cut it."""

    name: str
    kind: Kind = Kind.TEXT
    flexible: bool = False
    minor: int = 0
    """How soon a narrow terminal leaves it out altogether: the highest first, 0 never."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Lines of label and text."""

    title: str
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Grid:
    """A small table inside a report."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Bars:
    """A histogram, one line a bar; `note` stands under the title."""

    title: str
    bars: Sequence[tuple[str, int]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """Lines of a mark, a name, a number and words; the mark's colour is that of its level.

    Levels are `error`, `warning`, `note` and, for what is neither good nor bad, the empty text.
    """

    title: str
    lines: Sequence[tuple[str, str, str, str, str]]
    """(level, mark, name, number, words)"""


@dataclass(frozen=True, slots=True)
class Commands:
    """Lines for a shell, shown in one piece however long they are, so that they can be copied."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure for monitoring, with a value for each set of labels."""

    name: str
    help: str
    values: Sequence[tuple[Mapping[str, str], float]]


Section = Facts | Grid | Bars | Marks | Commands


@dataclass(frozen=True, slots=True)
class Report:
    """One answer: `data` is the object that JSON shows, `sections` what people read."""

    data: Mapping[str, Any]
    sections: Sequence[Section] = field(default_factory=tuple)
    headline: str = ""
    """The one thing to see first; plain text."""
    metrics: Sequence[Metric] = ()
    """What monitoring is to know of it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a format writes, and what is on the other side of it."""

    stream: BinaryIO
    is_terminal: bool = False
    has_color: bool = False
    width: int = 80
    is_unicode: bool = True
    """Whether it can show block characters; stored text is UTF-8 in any case."""
    now: Instant | None = None
    """If given, people on a terminal also see how far away an expiry is."""


class Format(Protocol):
    """One output format. Each method writes to its target as rows arrive and holds a bounded number."""

    def __init__(self, target: Target) -> None: ...

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        """Show rows as a table or as a list; with `tree`, namespaces are indented under their ancestors."""
        ...

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        """Show items whole. `single` says that exactly one was asked for: JSON is then that object."""
        ...

    def report(self, report: Report) -> None:
        """Show one answer."""
        ...


FORMATS = {
    "table": "memctl.render.table:Table",
    "json": "memctl.render.json:Json",
    "jsonl": "memctl.render.json:JsonLines",
    "csv": "memctl.render.delimited:Csv",
    "tsv": "memctl.render.delimited:Tsv",
    "markdown": "memctl.render.markdown:Markdown",
    "name": "memctl.render.name:Name",
}
"""Format name to the class that shows it, as module:class."""

REPORT_FORMATS = {"prometheus": "memctl.render.prometheus:Prometheus"}
"""Formats that only show a report's metrics."""


def open_format(name: str, target: Target) -> Format:
    """Return the format `name` writing to `target`. Raises UsageError for a name that is none."""
    known = FORMATS | REPORT_FORMATS
    if name not in known:
        raise UsageError(f"{name!r} is no output format", hint=f"known: {', '.join(FORMATS)}")
    module, _, attribute = known[name].partition(":")
    format_class: type[Format] = getattr(import_module(module), attribute)
    return format_class(target)
