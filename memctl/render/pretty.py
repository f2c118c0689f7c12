"""JSON text laid out for people: nothing is decoded, so every number and every order stays as stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from memctl.render.text import escape_json

Span = tuple[str, str]
"""A style's name and text in it."""

_WORD = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++|"', re.DOTALL)
_INDENT = 2
_LITERALS = {"true", "false", "null"}


def layout(text: str, width: int) -> Iterator[list[Span]]:
    """Yield the lines of JSON text, indented; what fits `width` stays on one line, what does not is not cut.

    Styles are `name`, `string`, `number`, `literal` and `mark`. Hidden characters are escaped as JSON does,
    any other is shown as itself. Text that is no JSON comes out with other white space, but whole.
    """
    line: list[Span] = []
    nested: list[str] = []  # brackets open over several lines
    flat: list[str] = []  # brackets open within this line
    naming = False
    for match in _WORD.finditer(text):
        word = match[0]
        if word in "{[":
            inside = _INDENT * len(nested) + sum(len(part) for _, part in line[1:])
            if flat or _fits(text, match.start(), width - inside):
                flat.append(word)
                line.append(("mark", word))
            else:
                nested.append(word)
                yield [*line, ("mark", word)]
                line = [_margin(nested)]
            naming = word == "{"
        elif word in "}]":
            if flat:
                flat.pop()
            else:
                if line and line[-1][1].strip():
                    yield line
                if nested:
                    nested.pop()
                line = [_margin(nested)]
            line.append(("mark", word))
            naming = False
        elif word == ",":
            naming = (flat or nested or [""])[-1] == "{"
            if flat:
                line.append(("mark", ", "))
            else:
                yield [*line, ("mark", ",")]
                line = [_margin(nested)]
        elif word == ":":
            line.append(("mark", ": "))
            naming = False
        else:
            line.append(_scalar(word, naming))
    if line:
        yield line


def _margin(nested: list[str]) -> Span:
    return "mark", " " * (_INDENT * len(nested))


def _fits(text: str, start: int, room: int) -> bool:
    """Whether the object or array that begins at `start` has room on one line; looks no further than that."""
    depth = size = 0
    for match in _WORD.finditer(text, start, start + 4 * max(room, 0)):
        word = match[0]
        size += len(word) + (word in ",:")
        if size > room:
            return False
        if word in "{[":
            depth += 1
        elif word in "}]":
            depth -= 1
            if depth == 0:
                return True
    return False


def _scalar(word: str, naming: bool) -> Span:
    if word[0] == '"':
        return "name" if naming else "string", escape_json(_unescaped(word))
    return "literal" if word in _LITERALS else "number", escape_json(word)


def _unescaped(word: str) -> str:
    r"""Spell a string with as few escapes as JSON allows: `\u00e9` is a letter."""
    if "\\" not in word:
        return word
    try:
        return json.dumps(json.loads(word), ensure_ascii=False)
    except ValueError:
        return word
