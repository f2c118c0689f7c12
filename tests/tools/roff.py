"""Manual pages in the `man` macros of roff."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from tests.tools.manual import Code, Section, Terms

_TYPED = re.compile(r"`([^`]+)`|(?<![\w/-])(--?[a-zA-Z][\w-]*)")
_WIDTH = 78


class Page:
    """One page, built from top to bottom."""

    def __init__(self, name: str, version: str, *, places: Iterable[str]) -> None:
        """Begin a page; `places` are the words that stand for something to be filled in."""
        self._places = re.compile(rf"\b({'|'.join(map(re.escape, sorted(places)))})\b")
        self._lines = [f'.TH {_quoted(name.upper())} 1 "" {_quoted(f"memctl {version}")} "memctl manual"']
        self._lines += [".nh", ".ad l"]

    @property
    def text(self) -> str:
        """The source of the page."""
        return "\n".join(self._lines) + "\n"

    def title(self, name: str, summary: str) -> None:
        """Add the section that `apropos` reads."""
        self.heading("NAME")
        self._lines.append(rf"{_escaped(name)} \- {_escaped(summary)}")

    def heading(self, title: str) -> None:
        """Begin a section."""
        self._lines.append(f".SH {_quoted(title)}")

    def subheading(self, title: str) -> None:
        """Begin a part of a section."""
        self._lines.append(f".SS {_quoted(title)}")

    def synopsis(self, usage: str) -> None:
        """Add how the command is typed."""
        self.heading("SYNOPSIS")
        command, rest = re.fullmatch(r"([a-z -]*[a-z])(.*)", usage).groups()
        self._lines.append(rf"\fB{_escaped(command)}\fR{_spelled(rest)}")

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        if not self._lines[-1].startswith((".SH", ".SS")):
            self._lines.append(".PP")
        self._fill(text)

    def terms(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add things and what they mean."""
        for term, text in entries:
            self._lines += [".TP", _protected(self._styled(term))]
            self._fill(text)

    def params(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add arguments or options, as they are spelled, and what they mean."""
        for spelling, text in entries:
            self._lines += [".TP", _spelled(spelling)]
            self._fill(text)

    def code(self, text: str) -> None:
        """Add lines that stay as they are."""
        lines = [_protected(_escaped(line)) for line in text.strip("\n").splitlines()]
        before = [] if self._lines[-1].startswith(".SH") else [".PP"]
        self._lines += [*before, ".RS 4", ".nf", *lines, ".fi", ".RE"]

    def section(self, section: Section) -> None:
        """Add a section of the manual."""
        self.heading(section.title)
        for part in section.parts:
            if isinstance(part, Terms):
                self.terms(part.entries.items())
            elif isinstance(part, Code):
                self.code(part.text)
            else:
                self.paragraph(part)

    def _fill(self, text: str) -> None:
        """Add text that is broken into lines by whoever reads it; in the source they are short."""
        styled = self._styled(text)
        lines = textwrap.wrap(styled, _WIDTH, break_long_words=False, break_on_hyphens=False)
        self._lines += [_protected(line) for line in lines] or [r"\&"]

    def _styled(self, text: str) -> str:
        """Escape text; what is typed as it stands is bold, what stands for something else is underlined."""
        parts = []
        end = 0
        for found in _TYPED.finditer(text):
            typed = _escaped(found[1] or found[2])
            parts += [self._placed(text[end : found.start()]), rf"\fB{typed}\fR"]
            end = found.end()
        return "".join((*parts, self._placed(text[end:])))

    def _placed(self, text: str) -> str:
        return self._places.sub(r"\\fI\1\\fR", _escaped(text))


def _spelled(text: str) -> str:
    """Escape the spelling of a parameter: names are bold, and what is to be filled in is underlined."""
    return re.sub(
        r"(--?[a-z][\w-]*)|([\w|=…]+)",
        lambda found: rf"\fB{_escaped(found[1])}\fR" if found[1] else rf"\fI{_escaped(found[2])}\fR",
        text,
    ).replace("…", "...")


def _escaped(text: str) -> str:
    text = text.replace("…", "...").replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    text = text.replace("^", r"\(ha").replace("~", r"\(ti").replace("`", r"\(ga")
    return "".join(char if char.isascii() else rf"\[u{ord(char):04X}]" for char in text)


def _protected(line: str) -> str:
    """Keep a line from being read as a request."""
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'
