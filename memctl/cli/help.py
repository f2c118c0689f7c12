"""The help: what a command does, its arguments and options, laid out for people.

Written without Rich, whose import would cost more than everything else `--help` does. The man pages are made
of the same pieces.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from memctl.cli.options import PANEL

if TYPE_CHECKING:
    import typer

    from memctl.cli.context import Context

_WIDEST = 100
_COLUMN = 26
"""Where descriptions begin; a longer name has its own line."""
_BOLD, _CYAN, _PLAIN = "\033[1m", "\033[36m", "\033[0m"

Entry = tuple[str, str]
"""A name, as it is typed, and what it means."""


def write_help(ctx: typer.Context) -> None:
    """Write the help of the command that `ctx` is about to standard output."""
    context: Context = ctx.obj
    width = context.environment.columns()
    text = help_of(ctx, width=width, has_color=context.has_color(context.environment.stdout))
    context.write(text.encode() + b"\n")


def help_of(ctx: Any, *, width: int = 80, has_color: bool = False) -> str:
    """Return the help of the command that `ctx` is about."""
    from memctl.cli.app import COMMANDS, root

    page = _Page(min(width, _WIDEST), has_color)
    command = ctx.command
    description, examples = described(command.help)
    page.usage(usage(command))
    page.prose(description)
    if command is root():
        for panel in dict.fromkeys(COMMANDS.values()):
            page.entries(panel, [(name, summary(name)) for name in COMMANDS if COMMANDS[name] == panel])
    page.entries("Arguments", map(entry, arguments(command)))
    page.entries("Options", map(entry, options(command)))
    page.entries(f"{PANEL}, before or after the command", map(entry, global_options(command)))
    if examples:
        page.verbatim("Examples", examples)
    if command.epilog:
        page.prose([command.epilog])
    return page.text


def summary(name: str) -> str:
    """Return what a command does in a few words: its description up to the first `:`, `;` or full stop."""
    from memctl.cli.app import function

    text = (inspect.getdoc(function(name)) or "").replace("\n", " ")
    return re.split(r"[:;]|\.(?: |$)", text, maxsplit=1)[0]


def described(docstring: str | None) -> tuple[list[str], list[str]]:
    """Split a description into its paragraphs and the lines of its examples, which a last part `Examples:` holds."""
    text, _, examples = inspect.cleandoc(docstring or "").partition("Examples:\n")
    paragraphs = [paragraph.replace("\n", " ") for paragraph in text.strip().split("\n\n") if paragraph]
    return paragraphs, textwrap.dedent(examples).strip("\n").splitlines()


def usage(command: Any) -> str:
    """Return the synopsis of a command."""
    from memctl.cli.app import root

    if command is root():
        return "memctl [-s STORE] COMMAND [ARGUMENT…]"
    words = ["memctl", command.name, *(["[OPTIONS]"] if options(command) else [])]
    for param in arguments(command):
        word = placeholder(param)
        words.append(word if param.required else f"[{word}]")
    return " ".join(words)


def arguments(command: Any) -> list[Any]:
    """Return a command's arguments, in order."""
    return [param for param in command.params if param.param_type_name == "argument" and not param.hidden]


def options(command: Any) -> list[Any]:
    """Return a command's own options."""
    return [param for param in _options(command) if param.rich_help_panel != PANEL]


def global_options(command: Any) -> list[Any]:
    """Return the options that every command takes."""
    return [param for param in _options(command) if param.rich_help_panel == PANEL]


def _options(command: Any) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "option" and not param.hidden]


def entry(param: Any) -> Entry:
    """Return how an argument or option is typed, and what it means."""
    if param.param_type_name == "argument":
        return placeholder(param), meaning(param)
    names = sorted(param.opts, key=len)
    word = "" if param.is_flag else f" {placeholder(param)}"
    return ", ".join(names + param.secondary_opts) + word, meaning(param)


def placeholder(param: Any) -> str:
    """Return the word that stands for a parameter's value, `KEY…` where several may follow."""
    word = param.metavar or param.name.upper()
    return word.replace("...", "…") if param.nargs != -1 or word.endswith(("...", "…")) else f"{word}…"


def meaning(param: Any) -> str:
    """Return the explanation of a parameter, with its default and whether it may be repeated."""
    text = param.help or ""
    if param.show_default and param.default not in (None, False, "", (), []):
        text += f" [default: {param.default}]"
    if param.param_type_name == "option" and param.multiple and param.rich_help_panel != PANEL:
        text += " [may be repeated]"
    return text


class _Page:
    """Paragraphs and sections, every line within the width, all meanings in one column."""

    def __init__(self, width: int, has_color: bool) -> None:
        self._width = width
        self._has_color = has_color
        self._parts: list[str | tuple[str, list[Entry]]] = []

    @property
    def text(self) -> str:
        """All of it, without a newline at the end."""
        names = [name for part in self._parts if not isinstance(part, str) for name, _ in part[1]]
        column = min(_COLUMN, max(map(len, names), default=0) + 4)
        return "\n\n".join(
            part if isinstance(part, str) else "\n".join(self._section(*part, column)) for part in self._parts
        )

    def usage(self, text: str) -> None:
        """Add the line that says how the command is typed."""
        self._parts.append(f"{self._styled(_BOLD, 'Usage:')} {text}")

    def prose(self, paragraphs: Iterable[str]) -> None:
        """Add paragraphs."""
        self._parts += ["\n".join(_wrapped(paragraph, self._width)) for paragraph in paragraphs]

    def verbatim(self, title: str, lines: Iterable[str]) -> None:
        """Add a section of lines that stay as they are."""
        indented = (f"  {line}".rstrip() for line in lines)
        self._parts.append("\n".join((self._styled(_BOLD, f"{title}:"), *indented)))

    def entries(self, title: str, entries: Iterable[Entry]) -> None:
        """Add a section of names and their meanings; nothing where there are none."""
        if found := list(entries):
            self._parts.append((title, found))

    def _section(self, title: str, entries: list[Entry], column: int) -> Iterator[str]:
        yield self._styled(_BOLD, f"{title}:")
        for name, text in entries:
            first, *rest = _wrapped(text, max(20, self._width - column))
            if len(name) > column - 4:
                yield "  " + self._styled(_CYAN, name)
                rest.insert(0, first)
            else:
                yield f"  {self._styled(_CYAN, name)}{' ' * (column - 2 - len(name))}{first}".rstrip()
            for line in rest:
                yield " " * column + line

    def _styled(self, style: str, text: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._has_color else text


def _wrapped(text: str, width: int) -> list[str]:
    """Break a paragraph into lines, never within `code` or [a remark]."""
    whole = re.sub(r"`[^`]*`|\[[^]]*\]", lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines] or [""]
