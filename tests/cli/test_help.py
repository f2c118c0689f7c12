"""The help: complete, in order, within the width, and quick to come."""

from __future__ import annotations

import re
import sys
from subprocess import run as run_process

import pytest

from memctl import __version__
from memctl.cli.app import COMMANDS, command
from memctl.cli.help import described, placeholder, summary
from tests.invocation import Memctl

HEAVY = {
    "rich",
    "sqlite3",
    "psycopg",
    "sqlite_utils",
    "numpy",
    "msgspec",
    "tabulate",
    "langgraph",
    "langchain",
}


def sections(text: str) -> dict[str, list[str]]:
    """The titles of the help, each with the names that stand under it."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if title := re.fullmatch(r"(\S[^:]*):", line):
            names = found[title[1]] = []
        elif entry := re.match(r"  (\S.*?)(?:  |$)", line):
            names.append(entry[1])
    return found


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_commands_come_first_in_their_panels(memctl: Memctl, flag: str) -> None:
    outcome = memctl(flag, width=80)
    assert (outcome.code, outcome.stderr) == (0, b"")
    found = sections(outcome.out)
    assert list(found) == [*dict.fromkeys(COMMANDS.values()), "Global options, before or after the command"]
    for panel in COMMANDS.values():
        assert found[panel] == [name for name in COMMANDS if COMMANDS[name] == panel]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_arguments_then_options_then_global_options(memctl: Memctl, name: str) -> None:
    outcome = memctl(name, "-h", width=80)
    assert (outcome.code, outcome.stderr) == (0, b"")
    assert outcome.out.startswith(f"Usage: memctl {name}")
    order = ["Arguments", "Options", "Global options, before or after the command", "Examples"]
    found = sections(outcome.out)
    assert [title for title in found if title in order] == [title for title in order if title in found]
    spelled = {
        word for names in found.values() for entry in names for word in re.findall(r"(?<!\S)--?[\w-]+", entry)
    }
    params = command(name).params
    assert {opt for param in params if param.param_type_name == "option" for opt in param.opts} <= spelled
    arguments = [placeholder(param) for param in params if param.param_type_name == "argument"]
    assert found.get("Arguments", []) == arguments
    assert "<bool>" not in outcome.out


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)], ids=" ".join)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(memctl: Memctl, arguments: list[str], width: int) -> None:
    prose = memctl(*arguments, "--help", width=width).out.partition("Examples:")[0].splitlines()[1:]
    longest = max((line for line in prose if not re.match(r"  -|  \S+$", line)), key=len)
    unbroken = re.search(r"`[^`]*`|\[[^]]*\]|\S{20,}", longest)
    assert len(longest) <= min(width, 100) or unbroken


def test_every_command_has_a_summary_that_fits_a_line_or_two() -> None:
    for name in COMMANDS:
        assert summary(name)[0].isupper()
        assert not summary(name).endswith((".", ":", ";"))
        assert len(summary(name)) <= 100


def test_colour_only_where_it_is_wanted(memctl: Memctl) -> None:
    assert "\033[" in memctl("ls", "--help", terminal=True).out
    assert "\033[" not in memctl("ls", "--help").out
    assert "\033[" not in memctl("ls", "--help", terminal=True, variables={"NO_COLOR": "1"}).out
    assert "\033[" not in memctl("--no-color", "ls", "--help", terminal=True).out


def test_no_command_at_all_is_a_usage_error_that_shows_the_help(memctl: Memctl) -> None:
    outcome = memctl()
    assert (outcome.code, outcome.stdout) == (2, b"")
    assert outcome.err == memctl("--help").out


def test_version(memctl: Memctl) -> None:
    assert memctl("--version").out == f"memctl {__version__}\n"
    assert memctl("ls", "--version").out == f"memctl {__version__}\n"


def test_examples_are_the_last_part_of_a_docstring() -> None:
    text = """Do something: well.

    More of it,
    on two lines.

    Examples:
      memctl do
      memctl do --more
    """
    assert described(text) == (
        ["Do something: well.", "More of it, on two lines."],
        ["memctl do", "memctl do --more"],
    )


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--help"], {}),
        (["search", "--help"], {}),
        (["--version"], {}),
        (["completion", "zsh"], {}),
        ([""], {"_MEMCTL_COMPLETE": "fish"}),
        (["memctl search --", "--"], {"_MEMCTL_COMPLETE": "bash"}),
        (["-s", "x.db", "ls", "-o", ""], {"_MEMCTL_COMPLETE": "zsh"}),
    ],
    ids=str,
)
def test_help_version_and_completion_import_nothing_heavy(
    memctl: Memctl, arguments: list[str], variables: dict[str, str]
) -> None:
    program = (
        "import sys; from memctl.cli.app import run; code = run(sys.argv[1:]); "
        "print(code, *{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = run_process(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=memctl.environment(variables),
        check=True,
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    assert done.stdout
    assert not HEAVY & set(modules)
