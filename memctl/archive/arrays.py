"""A JSON array as its elements, found without decoding them: strings and brackets are all that counts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memctl.archive.format import Damage, Damaged
from memctl.archive.sources import LONGEST_OCTETS, Read

_BLANKS = b" \t\n\r"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{\[]|[}\]]|"', re.DOTALL).finditer
_SCALAR = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^][{},"\s]+', re.DOTALL).match


def elements_of(start: bytes, read: Read) -> Iterator[bytes]:
    """Yield the text of each element of an array. Raises Damaged where the array itself is broken."""
    return _Elements(start.lstrip(_BLANKS)[1:], read).run()


class _Elements:
    """The array behind its opening bracket."""

    def __init__(self, text: bytes, read: Read) -> None:
        self._text = text
        self._read = read
        self._count = 0

    def run(self) -> Iterator[bytes]:
        """Yield element after element, and check what stands between them and behind."""
        mark = self._peek()
        while mark != b"]":
            element = self._element()
            self._count += 1
            yield element
            mark = self._peek()
            if mark == b",":
                self._text = self._text[1:]
                mark = self._peek()
                if mark == b"]":
                    raise self._broken("a comma before the closing bracket")
            elif mark not in (b"]", b""):
                raise self._broken("a comma or the closing bracket is missing")
            if not mark:
                break
        if not mark:
            raise self._broken("the array ends in the middle")
        self._text = self._text[1:]
        if self._peek():
            raise self._broken("something follows the array")

    def _peek(self) -> bytes:
        """Return the next octet that is no white space; empty at the end."""
        self._text = self._text.lstrip(_BLANKS)
        while not self._text:
            chunk = self._read()
            if not chunk:
                return b""
            self._text = chunk.lstrip(_BLANKS)
        return self._text[:1]

    def _element(self) -> bytes:
        """Take the element that begins here, reading on as far as it takes."""
        while True:
            end = self._end_of_element()
            if end:
                element, self._text = self._text[:end], self._text[end:]
                return element
            if len(self._text) > LONGEST_OCTETS:
                raise self._broken("an element is too long to be read")
            more = self._more(max(1, len(self._text)))
            if not more:
                if self._text[:1] in b'{["':
                    raise self._broken("the array ends in the middle")
                element, self._text = self._text.rstrip(_BLANKS), b""
                return element
            self._text += more

    def _end_of_element(self) -> int:
        """Return where the element ends, 0 if that is not in sight."""
        if self._text[:1] not in (b"{", b"["):
            scalar = _SCALAR(self._text)
            if scalar is None and self._text[:1] != b'"':
                raise self._broken("an element is missing")
            return scalar.end() if scalar and scalar.end() < len(self._text) else 0
        depth = 0
        for token in _TOKEN(self._text):
            mark = token[0]
            if mark in (b"{", b"["):
                depth += 1
            elif mark in (b"}", b"]"):
                depth -= 1
                if not depth:
                    return token.end()
            elif mark == b'"':
                return 0
        return 0

    def _more(self, least: int) -> bytes:
        """Read as much again as is held, so that looking once more stays linear."""
        chunks: list[bytes] = []
        while least > 0 and (chunk := self._read()):
            chunks.append(chunk)
            least -= len(chunk)
        return b"".join(chunks)

    def _broken(self, reason: str) -> Damaged:
        place = self._count + 1
        return Damaged(Damage(reason, place, place, unit="element"))
