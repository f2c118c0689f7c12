"""What stands in one cell: exact text for programs and pipes, escaped wherever people read it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from memctl.namespaces import show
from memctl.render import Column, Kind, Row
from memctl.render.json import encode
from memctl.render.text import escape, escape_json
from memctl.values import one_line

NUMBERS = frozenset({Kind.COUNT, Kind.OCTETS, Kind.MINUTES, Kind.SCORE})
"""Kinds that are aligned to the right."""

NAMES = frozenset({Kind.NAMESPACE, Kind.KEY})
"""Kinds that together name a row."""

Cell = Callable[[Any], str]
"""Turns the value of one column into the text of its cell; null is empty."""


def json_text(value: Any) -> str:
    """Return a value as JSON text; a Fragment is that text, exactly."""
    return encode(value).decode("utf-8", "replace")


def namespace(labels: Iterable[str]) -> str:
    """Spell a namespace so that it can be pasted back."""
    return show(".".join(labels))


def stored(value: Any) -> str:
    """Return what a program reads: text as it is, numbers in full, anything else as JSON."""
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    return "" if value is None else json_text(value)


def exact(column: Column) -> Cell:
    """Return what turns a column's values into human cells on one line, without losing a digit."""
    return _EXACT.get(column.kind, _text)


def row_cells(
    columns: Iterable[Column], cell_of: Callable[[Column], Cell], *, tree: bool = False
) -> Callable[[Row], tuple[str, ...]]:
    """Return what turns a row into its cells; with `tree`, a namespace is its last label, indented."""
    cells = [
        (column.name, _tree_label if tree and column.kind is Kind.NAMESPACE else cell_of(column))
        for column in columns
    ]
    return lambda row: tuple([cell(row.get(name)) for name, cell in cells])


def _tree_label(labels: Any) -> str:
    *ancestors, last = labels
    return "  " * len(ancestors) + _named(show(last))


def vector_shapes(vectors: Iterable[Mapping[str, Any]]) -> str:
    """Name an item's vectors for people, `text (384 dims), tags[*] (384 dims)`."""
    return ", ".join(f"{escape(vector['field'])} ({_dims(vector.get('embedding'))})" for vector in vectors)


def _dims(embedding: Any) -> str:
    if embedding is None:
        return "no embedding"
    if isinstance(embedding, str):
        return f"{len(b64decode(embedding)) // 4} dims"
    return f"{len(orjson.loads(encode(embedding)))} dims"


def _text(value: Any) -> str:
    if type(value) is str:
        return escape(value)
    if type(value) is int:
        return str(value)
    if value is None:
        return ""
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return escape(", ".join(value))
    return _json(value)


def _namespace(value: Any) -> str:
    return _named(namespace(value)) if value is not None else ""


def _key(value: Any) -> str:
    return _named(value) if value is not None else ""


def _named(text: str) -> str:
    """Escape a name; the empty one has to be seen."""
    return escape(text) or '""'


def _json(value: Any) -> str:
    if value is None:
        return ""
    return escape_json(one_line(encode(value)).decode("utf-8", "replace"))


_EXACT: dict[Kind, Cell] = {Kind.NAMESPACE: _namespace, Kind.KEY: _key, Kind.JSON: _json}
