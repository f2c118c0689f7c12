"""Which texts of a value an index embeds, and under what names it keeps the vectors.

The rules are those of `get_text_at_path` and `tokenize_path` in `langgraph-checkpoint` 4.3.2: fields joined
with dots, `[0]`, `[-1]`, `[*]`, `*`, `{a,b.c}`, and `$` for the whole document. One text under a path is kept
as `path`, several as `path.0`, `path.1` and so on.
"""

from __future__ import annotations

import json
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
    return any(_found(value, reading) is not None for reading in _readings(field))


def gives_the_same(old: Any, new: Any, field: str) -> bool:
    """Tell whether indexing two decoded values gives the same text under this name, whatever the name means.

    Of the whole document that is told by nobody but who compares the documents: not here.
    """
    if field == WHOLE:
        return False
    texts = [_text(_found(old, reading)) for reading in _readings(field)]
    same = texts == [_text(_found(new, reading)) for reading in _readings(field)]
    return same and any(text is not None for text in texts)


@lru_cache(maxsize=1 << 12)
def _readings(field: str) -> tuple[Reading, ...]:
    """Return what a vector's name can mean: `a.0` is the key `0` of `a`, or the first of several texts at `a`."""
    readings: list[Reading] = [(_tokens(field), None)]
    if match := _NUMBERED.fullmatch(field):
        readings.append((_tokens(match[1]), int(match[2])))
    return tuple(readings)


def _tokens(path: str) -> tuple[str, ...]:
    return () if path == WHOLE else tuple(_TOKEN.findall(path))


def _found(value: Any, reading: Reading) -> Any:
    """Return the part of a value that a name stands for, None where there is none of that name."""
    tokens, place = reading
    nodes = _nodes(value, tokens, 0)
    if place is None:
        return nodes[0] if len(nodes) == 1 else None
    return nodes[place] if len(nodes) > 1 and place < len(nodes) else None


def _text(node: Any) -> str | None:
    """Return what is embedded of a part; None for none."""
    if isinstance(node, dict | list):
        return json.dumps(node, sort_keys=True)
    return None if node is None else str(node)


def _nodes(node: Any, tokens: tuple[str, ...], at: int) -> list[Any]:
    """Return the parts under a path that have a text."""
    if at == len(tokens):
        return [] if node is None else [node]
    step = tokens[at]
    if step == "*":
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return [found for part in inner for found in _nodes(part, tokens, at + 1)]
    if step[0] == "[":
        return _elements(node, step[1:-1], tokens, at)
    if step[0] == "{":
        return _several(node, step[1:-1])
    if isinstance(node, dict) and step in node:
        return _nodes(node[step], tokens, at + 1)
    return []


def _elements(node: Any, index: str, tokens: tuple[str, ...], at: int) -> list[Any]:
    if not isinstance(node, list):
        return []
    if index == "*":
        return [found for part in node for found in _nodes(part, tokens, at + 1)]
    try:
        return _nodes(node[int(index)], tokens, at + 1)
    except (ValueError, IndexError):
        return []


def _several(node: Any, fields: str) -> list[Any]:
    """Return the fields of `{a,b.c}` that are there and not null."""
    if not isinstance(node, dict):
        return []
    found: list[Any] = []
    for field in fields.split(","):
        part: Any = node
        tokens = _tokens(field.strip())
        for token in tokens:
            part = part.get(token) if isinstance(part, dict) else None
        if tokens and part is not None:
            found.append(part)
    return found
