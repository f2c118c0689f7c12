"""The command line: commands found by name and imported only when one is run."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from keyword import iskeyword
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from memctl.cli.coercion import coerce_plainly
from memctl.cli.context import Context
from memctl.cli.environment import Environment
from memctl.cli.groups import groups_of
from memctl.cli.options import global_options
from memctl.errors import MemctlError

LOOK, CHANGE, MOVE, KEEP = "Look", "Change", "Move", "Get going"

COMMANDS = {
    "ls": LOOK,
    "get": LOOK,
    "search": LOOK,
    "stats": LOOK,
    "info": LOOK,
    "put": CHANGE,
    "rm": CHANGE,
    "mv": CHANGE,
    "expire": CHANGE,
    "sweep": CHANGE,
    "policy": CHANGE,
    "forget": CHANGE,
    "doctor": CHANGE,
    "guard": CHANGE,
    "history": CHANGE,
    "log": LOOK,
    "undo": CHANGE,
    "export": MOVE,
    "import": MOVE,
    "migrate": MOVE,
    "diff": MOVE,
    "verify": MOVE,
    "init": KEEP,
    "demo": KEEP,
    "completion": KEEP,
}
"""Command name to its panel in the help. Each lives in the module of its name, as a function of that name."""


class Root(TyperGroup):
    """The group of all commands."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.commands: Any = dict.fromkeys(COMMANDS)  # their names, for Typer to suggest from

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command's module and build it."""
        return command(cmd_name) if cmd_name in COMMANDS else None

    def get_help(self, ctx: Any) -> str:
        """Return the help that stands for a missing command."""
        from memctl.cli.help import help_of

        return help_of(ctx)


app = typer.Typer(
    cls=Root,
    add_completion=False,
    add_help_option=False,  # one of the global options
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Administer the long-term memory of LangGraph agents, where it lives.",
    epilog="Start with `memctl demo`, then `memctl -s memctl-demo.db ls`.",
)
app.callback()(global_options)


@cache
def root() -> Any:
    """Return the group that parses a command line."""
    built: Any = typer.main.get_command(app)
    coerce_plainly(built.params)
    return built


@cache
def command(name: str) -> Any:
    """Return one of COMMANDS, with its parameters."""
    run = function(name)
    built = _parser(run, name)
    shared = [param for group in groups_of(run) for param in _parser(group, name).params]
    built.params = [*built.params, *shared, *root().params]
    coerce_plainly(built.params)
    return built


def _parser(run: Callable[..., None], name: str) -> Any:
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, add_help_option=False)(run)
    return typer.main.get_command(single)


def function(name: str) -> Callable[..., None]:
    """Return the function that runs one of COMMANDS; its docstring is the command's description."""
    identifier = f"{name}_" if iskeyword(name) else name
    found: Callable[..., None] = getattr(import_module(f"memctl.cli.{identifier}"), identifier)
    return found


def run(arguments: Sequence[str], environment: Environment | None = None) -> int:
    """Run one command line and return its exit code; nothing but output leaves this function."""
    context = Context(environment or Environment())
    try:
        if shell := context.environment.variables.get("_MEMCTL_COMPLETE"):
            from memctl.cli.candidates import write_candidates

            write_candidates(context, shell, arguments)
        else:
            with root().make_context("memctl", list(arguments), obj=context) as invocation:
                root().invoke(invocation)
        context.environment.stdout.flush()
    except typer.Exit as given:
        context.outcomes.add(given.exit_code)
    except MemctlError as error:
        context.outcomes.add(error.exit_code)
        _report(context, error.code, error.message, error.hint)
    except TyperException as error:
        context.outcomes.add(error.exit_code)
        _report_usage(context, arguments, error)
    except (KeyboardInterrupt, typer.Abort):
        context.outcomes.add(130)
        _report(context, "interrupted", "interrupted", None)
    except BrokenPipeError:
        context.outcomes = {141}
    except OSError as error:  # no space under standard output, or in the folder for temporary files
        context.outcomes.add(1)
        code = "no-space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "failed"
        where = f"{error.filename}: " if error.filename else ""
        _report(context, code, f"{where}{error.strerror or error}", None)
    except Exception as error:  # a fault of memctl's own
        context.outcomes.add(1)
        _report(
            context, "internal", f"internal error: {type(error).__name__}: {error}", "--debug shows where"
        )
    finally:
        context.close()
    return context.exit_code


def main() -> NoReturn:
    """Run memctl as a program. SIGTERM and SIGHUP end it as Ctrl-C does: what it was about is brought to an end."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # else nohup has it ignored
            signal.signal(number, _interrupt)
    code = run(sys.argv[1:])
    if code in (130, 141) or not _is_flushed():
        _abandon_stdout()
    sys.exit(code)


def _is_flushed() -> bool:
    """Write out what standard output still holds; tell whether that could be."""
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _interrupt(number: int, _frame: object) -> NoReturn:
    """Take a signal once; the next one ends the process where it stands."""
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


def _report(context: Context, code: str, message: str, hint: str | None) -> None:
    if context.options.get("debug"):
        import traceback

        context.say(traceback.format_exc())
    if context.speaks_json:
        import orjson

        error = {"error": {"code": code, "message": message, "hint": hint}}
        context.environment.stderr.write(orjson.dumps(error) + b"\n")
        return
    context.say(f"memctl: {message}" + (f"\n{_indented(hint)}" if hint else ""))


def _report_usage(context: Context, arguments: Sequence[str], error: TyperException) -> None:
    """Report what the parser refused; it may have stopped before it came to `-o`."""
    if type(error).__name__ == "NoArgsIsHelpError":
        context.say(error.format_message())
        return
    for given, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if given in ("-o", "--output"):
            context.options.setdefault("output", value)
        elif given.startswith("--output="):
            context.options.setdefault("output", given.partition("=")[2])
    where = getattr(getattr(error, "ctx", None), "command_path", "memctl")
    _report(context, "usage", error.format_message(), f"see `{where} --help`")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _abandon_stdout() -> None:
    """Keep the interpreter from flushing into a pipe that nobody reads: it would complain, or wait."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
