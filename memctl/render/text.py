"""Stored text where people read it: nothing in it may move the cursor, reorder the line or hide itself."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache

HIDDEN = (
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # joiners belong between letters of many scripts and inside emoji, and hide anywhere else
    "|(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])"
)
"""Characters a reader cannot see, or that change how others are seen, as a regular expression.

C0, DEL and C1 controls, line and paragraph separators, the bidirectional embeddings, overrides, isolates and
marks, zero-width and other default-ignorable characters. Variation selectors of emoji are none.
"""

LONE_SURROGATE = "[\ud800-\udfff]"

_PRINTABLE_HIDDEN = re.compile(
    "[\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\U000e0100-\U000e01ef]"
)
_UNSAFE = re.compile(f"{HIDDEN}|{LONE_SURROGATE}")
_LONE_SURROGATE = re.compile(LONE_SURROGATE)
_FIRST_ODD_WIDTH = "\u0300"
_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def escape(text: str) -> str:
    r"""Return text with every hidden character spelled out: `\n`, `\x1b`, `\u202e`."""
    if _is_safe(text):
        return text
    return _UNSAFE.sub(_spell, text)


def escape_json(text: str) -> str:
    r"""Return JSON text that means the same, with hidden characters inside strings as `\u202e`.

    White space between tokens is the caller's to keep on one line.
    """
    if _is_safe(text):
        return text
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def repair(text: str) -> str:
    """Return text that UTF-8 can hold: a lone surrogate becomes U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def utf8(text: str) -> bytes:
    """Return text as UTF-8; a lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return repair(text).encode()


def width(text: str) -> int:
    """Return how many columns a terminal gives to text without hidden characters."""
    if text.isascii() or max(text) < _FIRST_ODD_WIDTH:
        return len(text)
    return sum(map(_width, text))


@lru_cache(maxsize=8192)
def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_safe(text: str) -> bool:
    """Tell, fast, that there is nothing to escape; no answer is not yet a no."""
    return text.isprintable() and (text.isascii() or not _PRINTABLE_HIDDEN.search(text))


def _spell(match: re.Match[str]) -> str:
    character = match[0]
    point = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if 0xD800 <= point <= 0xDFFF:
        return "\ufffd"
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
