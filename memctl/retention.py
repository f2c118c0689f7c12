"""A retention policy: rules in TOML, of which the first that fits an item decides what becomes of it.

    [[rule]]
    name = "unconfirmed facts"    # optional; what reports call it
    namespace = "*.facts"         # optional; a pattern of `memctl.namespaces`, descendants are covered
    filter = "confirmed=false"    # optional; a condition of `memctl.filters`, or a list of which all must hold
    keep = "7d"                   # a length of time, or "forever"
    since = "updated_at"          # what `keep` counts from: this, which is the default, or "created_at"
    keep_last = 500               # the newest so many of each exact namespace

A rule has `keep`, `keep_last` or both, and then an item goes that either gives up. `keep_last` counts the items
its rule decides that have not expired: newest `updated_at` first, then by key. What no rule fits stays, and no
rule keeps an item beyond its own expiry. Whether a filter fits a value that cannot be read nobody can tell: then
nothing is decided, not by the rules behind it either.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from memctl import filters as language
from memctl import namespaces
from memctl.errors import UsageError
from memctl.filters import Filter
from memctl.instants import parse_duration, shift
from memctl.model import Instant, Item
from memctl.namespaces import Pattern
from memctl.values import decode_exact, fault_of

FOREVER = "forever"
Since = Literal["updated_at", "created_at"]

_KEYS = ("name", "namespace", "filter", "keep", "since", "keep_last")
_REMEMBERED = 1_000
"""Namespaces of which it is known which rules may fit; items come namespace by namespace."""
_VARIABLE = re.compile(r"\{[^{}]*\}")
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of the items that it is the first to fit; `number` is its place, from 1 on.

    Without `keep` time takes nothing away, and without `keep_last` number does not.
    """

    number: int
    name: str
    pattern: Pattern | None = None
    filters: tuple[Filter, ...] = ()
    keep: timedelta | None = None
    since: Since = "updated_at"
    keep_last: int | None = None
    written: str = ""
    """What it keeps, in the words of the file: `keep 7d`."""

    def fits(self, decoded: Callable[[], Any]) -> bool | None:
        """Tell whether its filters hold for a value, asked where its namespace fits; None where that cannot be read."""
        if not self.filters:
            return True
        try:
            value = decoded()
        except (ValueError, RecursionError):
            return None
        return all(condition.matches(value) for condition in self.filters)

    def moment(self, item: Item) -> Instant | None:
        """Return the time of an item that `keep` counts from."""
        return item.updated_at if self.since == "updated_at" else item.created_at

    def end(self, item: Item) -> Instant | None:
        """Return when its time is over for an item: None for never, and where the time cannot be read."""
        moment = self.moment(item)
        return None if self.keep is None or moment is None else shift(moment, self.keep)

    @property
    def looks_at(self) -> frozenset[str]:
        """The times of an item that it decides by."""
        aged = {self.since} if self.keep is not None else set()
        return frozenset(aged | ({"updated_at"} if self.keep_last is not None else set()))


class Decision(NamedTuple):
    """Which rule is the first to fit an item, None for none; or that may fit, and `fault` is why nobody can tell."""

    rule: Rule | None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in order."""

    rules: tuple[Rule, ...]
    _near: Callable[[str], tuple[Rule, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        @lru_cache(maxsize=_REMEMBERED)
        def near(prefix: str) -> tuple[Rule, ...]:
            return tuple(rule for rule in self.rules if rule.pattern is None or rule.pattern.matches(prefix))

        object.__setattr__(self, "_near", near)

    @property
    def looks_inside(self) -> bool:
        """Whether deciding takes values."""
        return any(rule.filters for rule in self.rules)

    def decision(self, item: Item) -> Decision:
        """Return the rule that decides about an item, read with its value where `looks_inside`."""
        decoded = cache(lambda: decode_exact(item.value or b""))
        for rule in self._near(item.prefix):
            fits = rule.fits(decoded)
            if fits is None:
                fault = fault_of(item.value)
                return Decision(rule, fault.reason if fault is not None else "it cannot be read")
            if fits:
                return Decision(rule)
        return Decision(None)


def parse(text: str) -> Policy:
    """Read a policy. Raises UsageError, which names the rule and the key, and the line where that is known."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"it is no TOML: {error}") from None
    if unknown := [key for key in document if key != "rule"]:
        raise UsageError(f"unknown key {unknown[0]!r}", hint="a policy is a list of [[rule]] tables")
    tables = document.get("rule")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UsageError("it has no rules", hint="each rule begins with a line [[rule]]")
    lines = [text.count("\n", 0, found.start()) + 1 for found in _HEADER.finditer(text)]
    known = len(lines) == len(tables)  # else one of them stands in a string, or rules are written inline
    return Policy(
        tuple(
            _rule(number, table, lines[number - 1] if known else None)
            for number, table in enumerate(tables, 1)
        )
    )


def _rule(number: int, table: Mapping[str, Any], line: int | None) -> Rule:
    name = table.get("name", f"rule {number}")
    where = f"rule {number}" + (f" ({name})" if isinstance(name, str) and "name" in table else "")
    where += f", line {line}" if line is not None else ""
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}", hint=f"known: {', '.join(_KEYS)}")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{where}: name: text is expected")
    if "keep" not in table and "keep_last" not in table:
        raise UsageError(f"{where}: it keeps nothing and takes nothing", hint="keep or keep_last is missing")
    if table.get("keep") == FOREVER and "keep_last" in table:
        raise UsageError(f'{where}: keep = "forever" and keep_last exclude each other')
    keep = _parsed(where, "keep", table, _duration)
    if "since" in table and keep is None:
        raise UsageError(f"{where}: since: it says what keep counts from, and there is no length of time")
    return Rule(
        number,
        name,
        pattern=_parsed(where, "namespace", table, _pattern),
        filters=_parsed(where, "filter", table, _filters) or (),
        keep=keep,
        since=_parsed(where, "since", table, _since) or "updated_at",
        keep_last=_parsed(where, "keep_last", table, _count),
        written=", ".join(f"{key} {table[key]}" for key in ("keep", "keep_last", "since") if key in table),
    )


def _parsed(where: str, key: str, table: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
    """Read one key if it is there; say which one it was where it cannot be read."""
    if key not in table:
        return None
    try:
        return read(table[key])
    except UsageError as error:
        raise UsageError(f"{where}: {key}: {error.message}", hint=error.hint) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{value!r} is no text")
    return value


def _pattern(value: Any) -> Pattern:
    for label in _text(value).split("."):
        if label == "**" or _VARIABLE.fullmatch(label):
            raise UsageError(
                f"{value!r}: {label} would be a label of that name",
                hint="`*` is any one label, descendants are covered; a label in braces is written {{name}}",
            )
    return namespaces.parse(value)


def _filters(value: Any) -> tuple[Filter, ...]:
    given = value if isinstance(value, list) else [value]
    return tuple(condition for text in given for condition in language.parse(_text(text)))


def _duration(value: Any) -> timedelta | None:
    return None if _text(value) == FOREVER else parse_duration(value)


def _since(value: Any) -> Since:
    if value == "updated_at":
        return "updated_at"
    if value == "created_at":
        return "created_at"
    raise UsageError(f"{value!r} is neither updated_at nor created_at")


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{value!r} is no number of items")
    return value
