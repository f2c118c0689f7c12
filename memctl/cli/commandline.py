"""A command line that is not finished: its words, and what each of them belongs to.

Typer's parser stops at what is missing and calls the options' callbacks; here nothing is checked and nothing
runs, and what cannot be understood is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memctl.cli.app import COMMANDS, command, root

_WORD = re.compile(r"""((?:[^ \t\n'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)[ \t\n]+""", re.DOTALL)
_PIECE = re.compile(r"""'([^']*)'?|"((?:[^"\\]|\\.)*)"?|\\(.)|([^'"\\]+)""", re.DOTALL)
_CLOSED = re.compile(r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\])')
_SPECIAL_IN_QUOTES = re.compile(r'([$`"\\])')
_SPECIAL = re.compile(r"([^\w@%+=:,./-])", re.ASCII)


@dataclass
class Line:
    """The words before the cursor, understood as far as they go."""

    command: Any = field(default_factory=root)
    """The command they name: the root until they name one, None where there is no such command."""
    values: dict[str, list[str]] = field(default_factory=dict)
    """The options given, by the parameter's name, each with its values; a flag has none."""
    arguments: list[str] = field(default_factory=list)
    option: Any = None
    """The option whose value stands at the cursor."""
    index: int = 0
    """Which of that option's values it is."""
    only_arguments: bool = False
    """Whether `--` was given."""

    @classmethod
    def read(cls, words: Sequence[str]) -> Line:
        """Understand the words that follow the program's name."""
        line = cls()
        for word in words:
            line._take(word)
        return line

    @property
    def params(self) -> Sequence[Any]:
        """The arguments and options of the command."""
        return self.command.params if self.command else ()

    @property
    def argument(self) -> Any:
        """The argument that stands at the cursor, None where none can."""
        params = self._argument_params
        index = len(self.arguments)
        if index < len(params):
            return params[index]
        return params[-1] if params and params[-1].nargs == -1 else None

    def argument_called(self, metavar: str) -> str | None:
        """Return what was given for the argument with that metavar."""
        pairs = zip(self._argument_params, self.arguments, strict=False)
        return next((value for param, value in pairs if param.metavar == metavar), None)

    def find(self, name: str) -> Any:
        """Return the option that is spelled so."""
        return next((param for param in self.params if name in param.opts), None)

    @property
    def _argument_params(self) -> list[Any]:
        return [param for param in self.params if param.param_type_name == "argument"]

    def _take(self, word: str) -> None:
        if self.option is not None:
            self.values[self.option.name].append(word)
            self.index += 1
            if self.index == self.option.nargs:
                self.option, self.index = None, 0
        elif word == "--" and not self.only_arguments:
            self.only_arguments = True
        elif word.startswith("-") and word != "-" and not self.only_arguments:
            self._take_option(word)
        elif self.command is root():
            self.command = command(word) if word in COMMANDS else None
        else:
            self.arguments.append(word)

    def _take_option(self, word: str) -> None:
        name, joint, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:3], word[2:])
        option = self.find(name)
        if option is None:
            return
        given = self.values.setdefault(option.name, [])
        if option.is_flag:
            if joint and not word.startswith("--"):  # several short flags in one word
                self._take_option(f"-{value}")
        elif joint:
            given.append(value)
        else:
            self.option = option


def split(typed: str) -> tuple[list[str], str]:
    """Split a line as a shell does; return the words before the last, and the last one as it was typed.

    An empty last word is one that has not been begun.
    """
    words = []
    typed = typed.lstrip(" \t\n")
    start = 0
    while found := _WORD.match(typed, start):
        words.append(unquoted(found[1]))
        start = found.end()
    return words, typed[start:]


def unquoted(raw: str) -> str:
    """Take the quotes off a word; one that is still open reaches to its end."""
    return "".join(
        _ESCAPED_IN_QUOTES.sub(r"\1", piece[2]) if piece[2] else piece[1] or piece[3] or piece[4] or ""
        for piece in _PIECE.finditer(raw)
    )


def continued(word: str, raw: str, end: str) -> str:
    """Return what takes the place of `end`, the last part of what was typed as `raw`, to make it `word`.

    It is quoted as `raw` is.
    """
    rest = word[len(unquoted(raw[: len(raw) - len(end)])) :]
    opened = re.search("['\"]", _CLOSED.sub("", raw))
    if opened is None:
        return _SPECIAL.sub(r"\\\1", rest)
    return rest.replace("'", r"'\''") if opened[0] == "'" else _SPECIAL_IN_QUOTES.sub(r"\\\1", rest)
