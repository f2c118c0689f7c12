"""Items as lines of an archive: every member, and everything odd that a store may hold.

Nothing here is quick; `writer` has a way of its own for the items that have nothing odd about them.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import orjson

from memctl.model import Item, Problem, Vector, encode, is_clean, shown
from memctl.values import fault_of, one_line

TIMES = ("created_at", "updated_at")
EXPIRY = ("expires_at", "ttl_minutes")
_NAMES = {"namespace": "prefix", "key": "key"}


class Spelling:
    """How an archive of `source` spells items, without what is `missing` from it."""

    def __init__(self, source: str, missing: frozenset[str]) -> None:
        self._text_type = "text" if source == "sqlite" else "timestamptz"
        self._columns = (
            *(() if "timestamps" in missing else TIMES),
            *(() if "expiry" in missing else EXPIRY),
        )
        self._has_vectors = "vectors" not in missing
        self._vector_columns = () if "vector-times" in missing else TIMES

    def line(self, item: Item, *, vectors_only: bool = False) -> tuple[bytes, bool]:
        """Return an item's line with its line feed, and whether part of it had to travel as it is stored."""
        line = dict(self._members(item, vectors_only))
        is_raw = any(name.endswith(("_raw", "_base64")) for name in line)
        is_raw = is_raw or any(map(is_odd, line.get("vectors", ())))
        return one_line(orjson.dumps(line)) + b"\n", is_raw

    def _members(self, item: Item, vectors_only: bool) -> Iterator[tuple[str, Any]]:
        problems = {problem.part: problem for problem in item.problems}
        yield "namespace", shown(item.prefix).split(".")
        yield "key", shown(item.key)
        if vectors_only:
            yield "vectors_only", True
        else:
            yield _value(item.value)
            for column in self._columns:
                yield column, getattr(item, column)
        if self._has_vectors or vectors_only:
            yield "vectors", [self.vector(vector) for vector in item.vectors]
        for part, name in _NAMES.items():
            text = item.prefix if part == "namespace" else item.key
            if part in problems and isinstance(problems[part].raw, bytes):
                yield f"{name}_raw", self._cell(problems[part])
            elif not is_clean(text):
                yield f"{name}_base64", _base64(encode(text))
        if not vectors_only:
            yield from self._raw_cells(problems, self._columns)

    def vector(self, vector: Vector) -> dict[str, Any]:
        """Return a vector's members."""
        members: dict[str, Any] = {
            "field": shown(vector.field),
            "embedding": None if vector.embedding is None else _base64(vector.embedding),
        }
        members |= {column: getattr(vector, column) for column in self._vector_columns}
        if not is_clean(vector.field):
            members["field_base64"] = _base64(encode(vector.field))
        problems = {problem.part: problem for problem in vector.problems}
        members |= self._raw_cells(problems, (*self._vector_columns, "embedding"))
        return members

    def _raw_cells(self, problems: dict[str, Problem], columns: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for column in columns:
            problem = problems.get(column)
            if problem is None or problem.raw is None:
                continue
            if column != "embedding" or not isinstance(problem.raw, bytes):  # else it travels as it is
                yield f"{column}_raw", self._cell(problem)

    def _cell(self, problem: Problem) -> dict[str, Any]:
        raw = problem.raw
        match raw:
            case bytes():
                cell: dict[str, Any] = {"type": "blob", "value": _base64(raw)}
            case str():
                named = {"value": raw} if is_clean(raw) else {"base64": _base64(encode(raw))}
                cell = {"type": self._text_type, **named}
            case float():
                cell = {"type": "real", "value": raw if math.isfinite(raw) else str(raw)}
            case _:
                cell = {"type": "integer", "value": raw}
        return {**cell, "reason": problem.reason}


def line_of(item: Item) -> bytes:
    """Return an item's line in an archive that misses nothing, with its line feed."""
    return Spelling("sqlite", frozenset()).line(item)[0]


def _value(value: bytes | None) -> tuple[str, Any]:
    if value is None:
        return "value_base64", None
    fault = fault_of(value)
    if fault and not fault.is_json:
        return "value_base64", _base64(value)
    return "value", orjson.Fragment(value.strip(b" \t\n\r"))


def is_odd(vector: dict[str, Any]) -> bool:
    """Tell whether a vector's members hold something as it is stored."""
    return any(name.endswith(("_raw", "_base64")) for name in vector)


def _base64(octets: bytes) -> str:
    return b64encode(octets).decode("ascii")
