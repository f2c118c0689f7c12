"""What is typed becomes text, whole numbers and paths, without pydantic."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run as run_process

import pytest

from memctl.cli.app import COMMANDS, command, root
from memctl.cli.coercion import Plain
from tests.invocation import Memctl


def test_numbers(memctl: Memctl, store: Path) -> None:
    assert len(memctl.json("-s", store, "ls", "--limit", "2")) == 2
    assert memctl.json("-s", store, "ls", "--limit", "0") == []
    assert len(memctl.json("-s", store, "ls", "--limit= 1")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "--limit", "many"], "--limit': 'many' is no whole number"),
        (["ls", "--limit", "1.0"], "--limit': '1.0' is no whole number"),
        (["ls", "--limit", ""], "--limit': '' is no whole number"),
        (["ls", "--limit", "-1"], "--limit': -1 is less than 0"),
        (["ls", "--depth", "0"], "--depth': 0 is less than 1"),
    ],
)
def test_what_is_no_number_is_a_usage_error(memctl: Memctl, arguments: list[str], message: str) -> None:
    error = memctl.refuse(*arguments, code=2)
    assert message in error["message"]
    assert error["code"] == "usage"


def test_several_values(memctl: Memctl, store: Path) -> None:
    found = memctl.names("-s", store, "search", "--filter", "text~aisle", "--filter", "n=9")
    assert found == [("users.ana.prefs", "seat")]
    assert len(memctl.json("-s", store, "get", "users.ana.prefs", "seat", "meal")) == 2
    assert memctl.names("-s", store, "search", "--like", "users.ana.prefs", "seat", "--limit", "1")
    assert memctl.refuse("search", "--like", "users.ana.prefs", code=2)


def test_a_path(memctl: Memctl) -> None:
    assert memctl("demo", "-q").code == 0
    assert memctl("demo", "other.db", "-q").code == 0
    assert (memctl.folder / "memctl-demo.db").exists()
    assert (memctl.folder / "other.db").exists()


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_no_parameter_is_left_to_pydantic(name: str | None) -> None:
    for param in (command(name) if name else root()).params:
        if not getattr(param, "is_flag", False):
            assert isinstance(param._runtime_param, Plain), param.name


def test_a_command_runs_without_pydantic(memctl: Memctl, store: Path) -> None:
    program = (
        "import sys; from memctl.cli.app import run; code = run(sys.argv[1:]); "
        "print(code, 'pydantic' in sys.modules, file=sys.stderr)"
    )
    done = run_process(
        [sys.executable, "-c", program, "-s", store, "search", "aisle", "--limit", "3"],
        capture_output=True,
        text=True,
        env=memctl.environment(),
        check=True,
    )
    assert done.stderr == "0 False\n"
    assert "seat" in done.stdout
