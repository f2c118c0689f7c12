"""The filter language of `--filter`: `PATH OP VALUE`, or LangGraph's own JSON.

It is evaluated here and not in SQL, so that it means the same on every backend: numbers compare as exact
decimals, strings by code point, `true` is no number, and a missing path is not null.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from memctl.errors import UsageError
from memctl.values import decode_exact

_OPERATOR = re.compile(r"\s*(!=|!~|>=|<=|=|>|<|~)\s*")
_BARE = re.compile(r'[^.\[\]"=!<>~\s](?:[^.\[\]"=!<>~]*[^.\[\]"=!<>~\s])?')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_ELEMENT = re.compile(r"\[(-?\d+)\]")
_LANGGRAPH: Final = {"$eq": "=", "$ne": "!=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_HINT = """write for example 'confirmed=false', 'n>=9', 'tags[0]=food', '"a.b"=1' or '{"kind": "Memory"}'"""


class Missing:
    """What a path that leads nowhere finds; null is something else."""


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on a decoded value (`values.decode_exact`)."""

    path: tuple[str | int, ...]
    op: str
    operand: Any

    def matches(self, value: Any) -> bool:
        """Decide; only `!=` and `!~` hold for a missing path."""
        found = _follow(value, self.path)
        match self.op:
            case "=":
                return equal(found, self.operand)
            case "!=":
                return not equal(found, self.operand)
            case "~":
                return _contains(found, self.operand)
            case "!~":
                return not _contains(found, self.operand)
        return _comparable(found, self.operand) and _ORDER[self.op](found, self.operand)


def parse(text: str) -> tuple[Filter, ...]:
    """Read one `--filter`; all of what is returned must hold. Raises UsageError."""
    if text.lstrip().startswith("{"):
        return _parse_langgraph(text)
    path, end = _parse_path(text)
    found = _OPERATOR.match(text, end)
    if not path or not found:
        raise UsageError(f"{text!r} is no filter", hint=_HINT)
    written = text[found.end() :]
    operand = written if found[1] in ("~", "!~") else _literal(written)
    return (Filter(path, found[1], operand),)


def equal(a: Any, b: Any) -> bool:
    """JSON equality: numbers by value, booleans never equal to numbers, objects whatever their order."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and bool(a == b)


def _comparable(a: Any, b: Any) -> bool:
    return (isinstance(a, Decimal) and isinstance(b, Decimal)) or (isinstance(a, str) and isinstance(b, str))


def _contains(found: Any, needle: str) -> bool:
    folded = needle.casefold()
    candidates = found if isinstance(found, list) else [found]
    return any(isinstance(text, str) and folded in text.casefold() for text in candidates)


def _follow(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, int):
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                return MISSING
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return MISSING
    return value


def _parse_path(text: str) -> tuple[tuple[str | int, ...], int]:
    steps: list[str | int] = []
    at = len(text) - len(text.lstrip())
    while True:
        if quoted := _QUOTED.match(text, at):
            try:
                steps.append(json.loads(quoted[0]))
            except ValueError:
                raise UsageError(f"{quoted[0]} is no JSON string, in the filter {text!r}") from None
            at = quoted.end()
        elif bare := _BARE.match(text, at):
            steps.append(bare[0])
            at = bare.end()
        else:
            raise UsageError(f"{text!r} is no filter: a key is expected at character {at + 1}", hint=_HINT)
        while element := _ELEMENT.match(text, at):
            steps.append(int(element[1]))
            at = element.end()
        if not text.startswith(".", at):
            return tuple(steps), at
        at += 1


def _literal(written: str) -> Any:
    try:
        return decode_exact(written.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return written


def _parse_langgraph(text: str) -> tuple[Filter, ...]:
    try:
        document = decode_exact(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the filter {text!r} begins like JSON and is none: {error}") from None
    filters: list[Filter] = []
    for key, condition in document.items():
        operators = (
            [name for name in condition if name.startswith("$")] if isinstance(condition, dict) else []
        )
        if not operators:
            filters.append(Filter((key,), "=", condition))
            continue
        for name, operand in condition.items():
            if name not in _LANGGRAPH:
                raise UsageError(
                    f"{name!r} is no operator of LangGraph's filters", hint=f"known: {' '.join(_LANGGRAPH)}"
                )
            filters.append(Filter((key,), _LANGGRAPH[name], operand))
    return tuple(filters)
