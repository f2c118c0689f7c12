"""What no agent could have written into a value, or can read in it, beyond what JSON's grammar refuses.

No store's library writes a number that is infinite as a double. `langgraph-checkpoint-sqlite` 3.1.2 writes and
reads with orjson, and so does `langgraph-sdk` 0.4.14: that refuses whole numbers past 64 bits, too, and what is
nested too deeply; one such item in a file breaks every read of it, and every search of its namespace.
`langgraph-checkpoint-postgres` 3.2.0 leaves both to Python's own json, which takes them.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import orjson

_WITH_ORJSON = ("sqlite", "server")
"""Kinds of stores."""
_LEAST, _MOST = -(2**63), 2**64 - 1
_DEEPEST = 254
"""Objects and lists inside one another that orjson writes, the outermost among them."""
_LENGTH = 20
"""A whole number that is written with fewer characters is within 64 bits, one with more is not."""

_SHOWN = 40
"""Characters of the path of what is too deep."""


class Illegible(NamedTuple):
    """A part of a value and why it is one: `path` is `a.b[0]`, empty for the value as a whole."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


def illegible(value: bytes, kind: str | None = None) -> Illegible | None:
    """Return the first part of a JSON object's text that an agent's put into a store of this kind would refuse.

    Without a kind that is what would be refused whatever the store.
    """
    is_strict = kind in _WITH_ORJSON
    try:
        decoded = (_STRICT if is_strict else _LENIENT).decode(value.decode())
    except RecursionError:
        return Illegible("", _TOO_DEEP if is_strict else "nested too deeply to be read")
    found = _look(decoded, _DEEPEST if is_strict else None)
    if found is not None or not is_strict:
        return found
    try:
        orjson.dumps(orjson.loads(value))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as error:  # in a member that is repeated later on
        return Illegible("", f"LangGraph cannot read it: {error}")
    return None


_TOO_DEEP = f"nested deeper than {_DEEPEST} levels, which LangGraph cannot write"


class _Refused(NamedTuple):
    """Stands for a number."""

    reason: str


def _whole(text: str) -> Any:
    if len(text) < _LENGTH or (len(text) == _LENGTH and _LEAST <= int(text) <= _MOST):
        return None
    return _Refused("a whole number past 64 bits, which LangGraph cannot write")


def _broken(text: str) -> Any:
    return (
        None
        if math.isfinite(float(text))
        else _Refused("a number past what a double holds, infinite to an agent")
    )


_STRICT = json.JSONDecoder(parse_int=_whole, parse_float=_broken)
_LENIENT = json.JSONDecoder(parse_int=lambda _text: None, parse_float=_broken)


def _look(root: Any, deepest: int | None) -> Illegible | None:
    """Go through a value whose numbers are None or refused, in its order."""
    pending: list[tuple[Any, str, int]] = [(root, "", 1)]
    while pending:
        node, path, depth = pending.pop()
        if isinstance(node, _Refused):
            return Illegible(path, node.reason)
        if deepest is not None and depth > deepest and isinstance(node, dict | list):
            return Illegible(f"{path[:_SHOWN]}…", _TOO_DEEP)
        if isinstance(node, dict):
            inner = [(part, f"{path}.{name}" if path else name, depth + 1) for name, part in node.items()]
        elif isinstance(node, list):
            inner = [(part, f"{path}[{place}]", depth + 1) for place, part in enumerate(node)]
        else:
            continue
        pending.extend(reversed(inner))
    return None
