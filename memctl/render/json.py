"""JSON and JSON Lines: exact, whatever a store holds. `orjson.Fragment` passes through as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from memctl.render import Column, Report, Row, Target
from memctl.render.text import escape_json, repair
from memctl.render.writer import Writer
from memctl.values import one_line


def encode(value: Any, *, option: int | None = None) -> bytes:
    """Return a value as JSON. Integers stay integers at any size; a lone surrogate becomes U+FFFD."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        return orjson.dumps(_storable(value), option=option)


def _storable(value: Any) -> Any:
    """Return what orjson can write in place of what it refuses: lone surrogates, integers past 64 bits."""
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, int) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    if isinstance(value, Mapping):
        return {repair(str(name)): _storable(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(part) for part in value]
    return value


def _guard(target: Target) -> Callable[[bytes], bytes]:
    """Return what keeps JSON on a terminal from moving its cursor, by escapes that mean the same."""
    return _escape if target.is_terminal else bytes


def _escape(octets: bytes) -> bytes:
    return "\n".join(map(escape_json, octets.decode("utf-8", "replace").split("\n"))).encode()


class Json:
    """One array with a row on each line, or one object.

    A row's values are the stored text, but for line breaks between tokens, which become spaces.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        guard = _guard(self._target)
        with Writer(self._target.stream) as out:
            before = b"[\n"
            for row in rows:
                out.write(before, guard(one_line(encode(row))))
                before = b",\n"
            out.write(b"[]\n" if before == b"[\n" else b"\n]\n")

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        if not single:
            return self.rows(columns, rows)
        for row in rows:
            self._object(row)
        return None

    def report(self, report: Report) -> None:
        self._object(report.data)

    def _object(self, data: Row) -> None:
        """Write one object: on one line for programs, indented for people; Fragments stay as they are."""
        octets = encode(data, option=orjson.OPT_INDENT_2 if self._target.is_terminal else None)
        with Writer(self._target.stream) as out:
            out.write(_guard(self._target)(octets), b"\n")


class JsonLines:
    """One object a line."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, tree: bool = False) -> None:
        guard = _guard(self._target)
        with Writer(self._target.stream) as out:
            for row in rows:
                out.write(guard(one_line(encode(row))), b"\n")

    def items(self, columns: Sequence[Column], rows: Iterable[Row], *, single: bool = False) -> None:
        self.rows(columns, rows)

    def report(self, report: Report) -> None:
        self.rows((), [report.data])
