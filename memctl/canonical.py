"""JSON in one spelling: what means the same becomes the same octets, at any depth and of any precision.

Decoders give up some thousand levels deep, and on exponents of twenty digits; a text that is only compared need
not be decoded. This is ten times slower than they are, and for what they refuse.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:([\[\]{},:])"
    r'|("[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")'
    r"|(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?"
    r"|(true|false|null))"
).match
_BLANKS = re.compile(r"[ \t\n\r]*").fullmatch
_LONG_OCTETS = 64
"""What is longer stands by its hash in what it is part of: else each level would repeat all below it."""
_WHOLE_DIGITS = 4_000
"""Python converts no more digits to a number."""


def canonical(value: bytes) -> bytes | None:
    """Return JSON as octets that equal those of another spelling of it; None for what is no JSON.

    Numbers go by value, objects by their members whatever the order; of repeated members the last counts.
    """
    try:
        return _canonical(value.decode())
    except ValueError:
        return None


def _canonical(text: str) -> bytes:
    """Raises ValueError for what is no JSON."""
    pending: list[tuple[_Array | _Object, str]] = []
    last, place = "", 0
    while found := _TOKEN(text, place):
        place = found.end()
        mark = found[1] or ""
        if mark in ("]", "}"):
            if not pending or last == "," or pending[-1][0].end != mark:
                break
            ended, before = pending.pop()
            part, last = ended.closed(last), before
        elif mark in ("[", "{"):
            pending.append((_Array() if mark == "[" else _Object(), last))
            last = mark
            continue
        elif mark:
            if not pending or not pending[-1][0].goes_on(last, mark):
                break
            last = mark
            continue
        else:
            part = _scalar(found)
        if not pending:
            if _BLANKS(text, place):
                return part
            break
        pending[-1][0].add(part if len(part) <= _LONG_OCTETS else b"#" + sha256(part).digest(), last)
        last = "part"
    raise ValueError(f"no valid JSON at character {place + 1:,}")


class _Array:
    """An array whose end is not in sight."""

    end = "]"

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def goes_on(self, last: str, mark: str) -> bool:
        """Tell whether a comma or a colon may stand here."""
        return mark == "," and last == "part"

    def add(self, part: bytes, last: str) -> None:
        """Take an element. Raises ValueError where none may stand."""
        _refuse(last == "part")
        self._parts.append(part)

    def closed(self, last: str) -> bytes:  # noqa: ARG002 an array may end wherever it may go on
        """Return all of it."""
        return b"[%b]" % b",".join(self._parts)


class _Object:
    """An object whose end is not in sight."""

    end = "}"

    def __init__(self) -> None:
        self._members: dict[bytes, bytes] = {}
        self._name: bytes | None = None

    def goes_on(self, last: str, mark: str) -> bool:
        """Tell whether a comma or a colon may stand here."""
        return last == "part" and (mark == ":") is (self._name is not None)

    def add(self, part: bytes, last: str) -> None:
        """Take a name or what it names. Raises ValueError where neither may stand."""
        if self._name is None:
            _refuse(last == "part" or part[:1] not in (b'"', b"#"))
            self._name = part
        else:
            _refuse(last != ":")
            self._members[self._name], self._name = part, None

    def closed(self, last: str) -> bytes:
        """Return all of it. Raises ValueError after a name."""
        _refuse(self._name is not None or last == ":")
        return b"{%b}" % b",".join(b"%b:%b" % member for member in sorted(self._members.items()))


def _refuse(is_wrong: bool) -> None:
    if is_wrong:
        raise ValueError("something is missing")


def _scalar(found: re.Match[str]) -> bytes:
    if found[2]:
        return json.dumps(json.loads(found[2])).encode()
    if found[7]:
        return found[7].encode()
    digits = found[4] + (found[5] or "")
    exponent = found[6] or "0"
    if len(exponent) > _WHOLE_DIGITS:
        return found[0].strip().lower().encode()  # no two spellings of this need be known as one
    power = int(exponent) - len(found[5] or "")
    shortened = digits.rstrip("0")
    power += len(digits) - len(shortened)
    significant = shortened.lstrip("0")
    return f"{found[3]}{significant}e{power}".encode() if significant else b"0"
