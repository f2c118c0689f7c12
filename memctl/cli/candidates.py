"""What may stand at the cursor: memctl's answers to a shell's TAB.

The scripts of `completion` set `_MEMCTL_COMPLETE` to the shell's name and pass, from bash, the line up to the
cursor as it was typed and the end of it that bash would replace; from zsh and fish the words before the
cursor and, as it was typed, the one at the cursor.

The first line of the answer is `words`, or `files` where a path may stand as well. Each further line is a
colon and a candidate, for zsh and fish with a TAB and its meaning. A store that cannot be read has no candidates.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any

from memctl.cli.app import COMMANDS, root
from memctl.cli.commandline import Line, continued, split, unquoted
from memctl.errors import MemctlError

if TYPE_CHECKING:
    from memctl.cli.context import Context
    from memctl.store import Store

PATIENCE = 1.0
"""Seconds that a store is waited for, and after which it is asked for no more names."""
LOOKED_AT = 2_000
"""Namespaces, or keys, that are looked at."""
STRIDE = 500
"""Items of one namespace that are read before the next one is looked up instead."""

_STORES = ("STORE", "SRC", "DST", "A", "B")
_OPENED = ("sqlite", "postgres", "cockroach")
"""Schemes that TAB opens. `python:` runs code."""
_PAST_KEYS = "\U0010ffff"
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")

Candidate = tuple[str, str]
"""A word, and what it means if that is worth saying."""


def write_candidates(context: Context, shell: str, arguments: Sequence[str]) -> None:
    """Answer the script of a shell on standard output."""
    if shell == "bash":
        typed, end = arguments
        (_, *words), raw = split(typed)
    else:
        *words, raw = arguments
    takes_files, found = candidates(context, Line.read(words), unquoted(raw))
    lines = ["files" if takes_files else "words"]
    for word, meaning in found:
        if not _UNPRINTABLE.search(word):
            lines.append(f":{continued(word, raw, end)}" if shell == "bash" else f":{word}\t{meaning}")
    context.write("\n".join(lines).encode() + b"\n")


def candidates(context: Context, line: Line, typed: str) -> tuple[bool, list[Candidate]]:
    """Return whether a path may stand after `line`, and what else may that begins as `typed` does."""
    if line.option is not None:
        return _values(context, line, line.option, line.index, typed)
    if typed.startswith("-") and not line.only_arguments:
        name, joint, value = typed.partition("=")
        option = line.find(name) if joint else None
        if option is None or option.is_flag:
            return False, _options(line, typed)
        takes_files, found = _values(context, line, option, 0, value)
        return takes_files, [(f"{name}={word}", meaning) for word, meaning in found]
    if line.command is root():
        return False, _commands(typed)
    if line.argument is not None:
        return _values(context, line, line.argument, 0, typed)
    return False, []


def _commands(typed: str) -> list[Candidate]:
    from memctl.cli.help import summary

    return [(name, summary(name)) for name in COMMANDS if name.startswith(typed)]


def _options(line: Line, typed: str) -> list[Candidate]:
    return [
        (name, param.help or "")
        for param in line.params
        if param.param_type_name == "option" and (param.multiple or param.name not in line.values)
        for name in param.opts
        if name.startswith(typed)
    ]


def _values(context: Context, line: Line, param: Any, index: int, typed: str) -> tuple[bool, list[Candidate]]:
    """Return what may be the value of a parameter: its metavar says what is expected."""
    places = (param.metavar or "").replace("...", "").replace("…", "").split() or [""]
    place = places[min(index, len(places) - 1)]
    words: list[str]
    if place in ("NS", "KEY"):
        words = _names(context, line, param, place, typed)
    elif place in _STORES:
        words = _store_names(context)
    else:
        words = [item.value for item in param.shell_complete(_no_context(line), typed)]
    takes_files = "FILE" in place or place in _STORES
    return takes_files, [(word, "") for word in words if word.startswith(typed)]


def _no_context(line: Line) -> Any:
    import typer

    return typer.Context(line.command, resilient_parsing=True)


def _store_names(context: Context) -> list[str]:
    try:
        return list(dict.fromkeys(name for config in context.configs for name in config.stores))
    except MemctlError:
        return []


def _names(context: Context, line: Line, param: Any, place: str, typed: str) -> list[str]:
    """Return namespaces or keys of the store that the line names; none where it cannot be read in time."""
    from memctl import namespaces

    _adopt(context, line)
    until = monotonic() + PATIENCE
    try:
        if context.address().scheme not in _OPENED:
            return []
        if place == "NS":
            found = _namespaces(context.open(), typed, with_ancestors=not _expects_keys(line, param))
        else:
            ns = line.values[param.name][-1] if line.option else line.argument_called("NS") or ""
            found = _keys(context.open(), namespaces.parse_exact(ns), typed)
        in_time = takewhile(lambda _: monotonic() < until, islice(found, LOOKED_AT))
        names = list(dict.fromkeys(in_time))
    except MemctlError:
        return []
    return names if place == "NS" else [name for name in names if name not in line.arguments]


def _adopt(context: Context, line: Line) -> None:
    """Let the context know the global options of the line, as running it would."""
    for name, given in line.values.items():
        context.options[name] = given[-1] if given else True
    store = line.argument_called("SRC") or line.argument_called("A")
    named = [store] if store else line.values.get("store", [])
    context.options["store"] = list(map(os.path.expandvars, named))
    context.options["timeout"] = str(PATIENCE)


def _expects_keys(line: Line, param: Any) -> bool:
    """Whether a key follows the namespace: it then has to hold items itself."""
    beside = [param] if param.param_type_name == "option" else line.params
    return any("KEY" in (each.metavar or "") for each in beside)


def _namespaces(store: Store, typed: str, *, with_ancestors: bool) -> Iterator[str]:
    """Yield the namespaces that begin as `typed` does, in byte order."""
    from memctl.model import EVERYTHING, Position, shown
    from memctl.namespaces import show

    start = re.split(r"[*{\\]", typed, maxsplit=1)[0]  # what follows may be spelled unlike it is stored
    after: Position | None = Position(start, "")
    while after:
        rest, after = store.scan(EVERYTHING, after=after, values=False), None
        last, read = None, 0
        for item in rest:
            if not item.prefix.startswith(start):
                return
            if item.prefix == last:
                read += 1
                if read == STRIDE:
                    after = Position(item.prefix, _PAST_KEYS)
                    break
                continue
            last, read = item.prefix, 0
            labels = shown(item.prefix).split(".")
            for depth in range(1 if with_ancestors else len(labels), len(labels) + 1):
                yield show(".".join(labels[:depth]))


def _keys(store: Store, prefix: str, typed: str) -> Iterator[str]:
    """Yield the keys of a namespace that begin so, in byte order."""
    from memctl.model import Position, Scope

    later = store.scan(Scope(prefix, descend=False), after=Position(prefix, typed), values=False)
    for item in chain(store.get(prefix, [typed]), later):
        if not item.key.startswith(typed):
            return
        yield item.key
