"""Values: the JSON text of an item, carried as it is and decoded only where somebody looks inside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import orjson

from memctl.model import Item, Problem, shown

_RAW = msgspec.json.Decoder(msgspec.Raw)
_BLANK = b" \t\n\r"


class Fault(NamedTuple):
    """What is wrong with a value's text, and whether it can still stand in a JSON document."""

    reason: str
    is_json: bool


def inspect(item: Item) -> tuple[Problem, ...]:
    """Return everything that is wrong with an item: what decoding its rows met, and its value.

    A value has to be valid JSON in UTF-8 and an object; the library raises on anything else
    (`langgraph-checkpoint-postgres 3.2.0`) or hands it on (`langgraph-checkpoint-sqlite 3.1.2`).
    """
    problems = item.problems
    if item.vectors:
        problems += tuple(
            Problem("vectors", f"{shown(vector.field)}: {problem.part}: {problem.reason}", problem.raw)
            for vector in item.vectors
            for problem in vector.problems
        )
    fault = fault_of(item.value)
    return problems if fault is None else (*problems, Problem("value", fault.reason, item.value))


def fault_of(value: bytes | None) -> Fault | None:
    """Return what is wrong with a value's text, or None; half a microsecond for a common one."""
    if value is None:
        return Fault("null", is_json=False)
    try:
        _RAW.decode(value)
        if not value.isascii():
            value.decode()
    except UnicodeDecodeError:
        return Fault("invalid UTF-8", is_json=False)
    except RecursionError:
        return Fault("nested too deeply to be read", is_json=False)
    except msgspec.DecodeError as error:
        return _second_opinion(value, error)
    if value.lstrip(_BLANK)[:1] != b"{":
        return Fault("not an object", is_json=True)
    return None


def _second_opinion(value: bytes, error: msgspec.DecodeError) -> Fault:
    """Tell an escaped lone surrogate, which JSON's grammar allows and decoders refuse, from bad JSON."""
    try:
        decode_exact(value)
    except UnicodeDecodeError:
        return Fault("invalid UTF-8", is_json=False)
    except (ValueError, RecursionError):
        return Fault(f"no valid JSON: {str(error).removeprefix('JSON is malformed: ')}", is_json=False)
    return Fault("an escaped lone surrogate", is_json=True)


def one_line(value: bytes) -> bytes:
    """Return valid JSON text without line breaks, which can only be white space between tokens."""
    if b"\n" in value or b"\r" in value:
        return value.replace(b"\r", b" ").replace(b"\n", b" ")
    return value


def decode_exact(value: bytes) -> Any:
    """Decode valid JSON with every number as an exact Decimal. Raises ValueError or RecursionError.

    Of repeated keys the last one counts, as in LangGraph's own decoder and in jsonb.
    """
    try:
        return _EXACT.decode(value.decode())
    except ArithmeticError:
        raise ValueError("a number whose exponent is past what can be counted with") from None


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a decoded value, at any depth; an object's keys are no part of its text."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def decode_quick(value: bytes) -> Any:
    """Decode valid JSON where numbers do not matter: those past 64 bits come out rounded. Raises ValueError."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return decode_exact(value)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_EXACT = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse_constant)
