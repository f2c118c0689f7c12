"""What a store that is written through `put` cannot hold, told before anything is written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from math import inf
from typing import Any

from memctl.model import Item, Problem, blob_names, is_clean
from memctl.values import decode_exact, fault_of

_RESERVED = "langgraph"
_MAY_NOT_FIT = re.compile(rb"[0-9.]{16,}|[0-9][eE]")
"""Any other number has at most fifteen digits, which a float gives back as they were."""


def faults(item: Item, fault_in: Callable[[bytes], str | None]) -> Iterator[Problem]:
    """Yield what `BaseStore.put` (langgraph-checkpoint 4.3.2) refuses, and what it would not keep as it is.

    `fault_in` says why the text of an object is not kept exactly, None where it is.
    """
    if reason := _namespace_fault(item):
        yield Problem("namespace", reason)
    if reason := _key_fault(item):
        yield Problem("key", reason)
    fault = fault_of(item.value)
    if fault is not None:
        yield Problem("value", fault.reason)
    elif reason := fault_in(item.value or b""):
        yield Problem("value", reason)


def _key_fault(item: Item) -> str | None:
    if any(blob_names(item)):
        return "a BLOB, and a key is text"
    return _text_fault(item.key) or (None if item.key else "an empty key, which no get finds")


def _namespace_fault(item: Item) -> str | None:
    if any(problem.part == "namespace" for problem in item.problems):
        return "a namespace that is not its labels joined with dots"
    labels = item.prefix.split(".")
    if not all(labels):
        return "an empty label, which put refuses"
    if labels[0] == _RESERVED:
        return f"the root {_RESERVED!r}, which put refuses"
    return _text_fault(item.prefix)


def _text_fault(text: str) -> str | None:
    if not is_clean(text):
        return "invalid UTF-8"
    return "a NUL character" if "\0" in text else None


def number_fault(value: bytes, *, bits: int | None) -> str | None:
    """Say why valid JSON's numbers do not survive decoding to floats and integers, None where they do.

    Integers of more than `bits` bits (None: of any size) are decoded to floats.
    """
    if not _MAY_NOT_FIT.search(value):
        return None
    try:
        pending: list[Any] = [decode_exact(value)]
    except (ValueError, RecursionError):
        return "nested too deeply to be read"
    while pending:
        node = pending.pop()
        pending.extend(_inside(node))
        if isinstance(node, Decimal) and not _survives(node, bits):
            return "a number that no float holds exactly"
    return None


def depth_fault(value: bytes, deepest: int) -> str | None:
    """Say whether valid JSON is nested deeper than `deepest` levels."""
    if value.count(b"[") + value.count(b"{") <= deepest:
        return None
    too_deep = f"nested deeper than {deepest} levels"
    try:
        level: list[Any] = [decode_exact(value)]
    except (ValueError, RecursionError):
        return too_deep
    for _ in range(deepest + 1):
        level = [inner for node in level for inner in _inside(node)]
        if not level:
            return None
    return too_deep


def _inside(node: Any) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _survives(number: Decimal, bits: int | None) -> bool:
    if number.as_tuple().exponent == 0:  # spelt as an integer
        if bits is None:
            return len(number.as_tuple().digits) <= (sys.get_int_max_str_digits() or inf)
        if -(2 ** (bits - 1)) <= number < 2**bits:
            return True
    return Decimal(repr(float(number))) == number
