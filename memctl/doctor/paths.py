"""Which texts of a value an index embeds, and under what names it keeps the vectors.

The rules are those of `get_text_at_path` and `tokenize_path` in `langgraph-checkpoint` 4.3.2: fields joined
with dots, `[0]`, `[-1]`, `[*]`, `*`, `{a,b.c}`, and `$` for the whole document. One text under a path is kept
as `path`, several as `path.0`, `path.1` and so on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(r"\[[^\]]*\]?|\{[^}]*\}?|[^.\[{]+")
_NUMBERED = re.compile(r"(.+)\.(0|[1-9]\d*)")
WHOLE = "$"

Reading = tuple[tuple[str, ...], int | None]
"""The tokens of a path, and the place among several texts, None for the only one."""


def produces(value: Any, field: str) -> bool:
    """Tell whether indexing a decoded value can give a vector of this name."""
    if field == WHOLE:
        return True
    for tokens, place in _readings(field):
        count = _texts(value, tokens, 0)
        if count == 1 if place is None else count > 1 and place < count:
            return True
    return False


@lru_cache(maxsize=1 << 12)
def _readings(field: str) -> tuple[Reading, ...]:
    """Return what a vector's name can mean: `a.0` is the key `0` of `a`, or the first of several texts at `a`."""
    readings: list[Reading] = [(_tokens(field), None)]
    if match := _NUMBERED.fullmatch(field):
        readings.append((_tokens(match[1]), int(match[2])))
    return tuple(readings)


def _tokens(path: str) -> tuple[str, ...]:
    return () if path == WHOLE else tuple(_TOKEN.findall(path))


def _texts(node: Any, tokens: tuple[str, ...], at: int) -> int:
    """Count the texts under a path."""
    if at == len(tokens):
        return int(node is not None)
    step = tokens[at]
    if step == "*":
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return sum(_texts(part, tokens, at + 1) for part in inner)
    if step[0] == "[":
        return _elements(node, step[1:-1], tokens, at)
    if step[0] == "{":
        return _several(node, step[1:-1])
    if isinstance(node, dict) and step in node:
        return _texts(node[step], tokens, at + 1)
    return 0


def _elements(node: Any, index: str, tokens: tuple[str, ...], at: int) -> int:
    if not isinstance(node, list):
        return 0
    if index == "*":
        return sum(_texts(part, tokens, at + 1) for part in node)
    try:
        place = int(index)
        return _texts(node[place], tokens, at + 1)
    except (ValueError, IndexError):
        return 0


def _several(node: Any, fields: str) -> int:
    """Count the fields of `{a,b.c}` that are there and not null."""
    if not isinstance(node, dict):
        return 0
    count = 0
    for field in fields.split(","):
        part: Any = node
        tokens = _tokens(field.strip())
        for token in tokens:
            part = part.get(token) if isinstance(part, dict) else None
        count += bool(tokens) and part is not None
    return count
