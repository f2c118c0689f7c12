"""The documentation is run: every command of the README's tour, in order, in a folder of its own."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from memctl import __version__
from memctl.cli.app import COMMANDS
from memctl.render import FORMATS
from tests.invocation import Memctl

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
TOUR = [line[2:] for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL) for line in block.splitlines()
        if line.startswith("$ ")]  # fmt: skip

PARTLY = 3
"""The demo holds rows that cannot be decoded."""
EXPECTED = {
    "get acme.ana.facts dier": 5,
    "doctor": 4,
    "doctor --check stale-vectors": 4,
    "gone.jsonl --yes": 4,
}


def test_the_tour(memctl: Memctl) -> None:
    assert len(TOUR) > 12
    assert memctl("demo").code == 0
    for line in TOUR:
        program, *arguments = shlex.split(line)
        assert program == "memctl"
        outcome = memctl(*arguments)
        expected = next((code for end, code in EXPECTED.items() if line.endswith(end)), None)
        assert outcome.code in ((0, PARTLY) if expected is None else (expected,)), (line, outcome.err)
        assert "Traceback" not in outcome.err


def test_what_the_tour_shows(memctl: Memctl) -> None:
    """The output that does not depend on the day stands there as it comes."""
    memctl("demo")
    for command in ("search kestrel --since 30d -o name", "search --filter confirmed=false -o name"):
        shown = README.partition(f"$ memctl -s memctl-demo.db {command}\n")[2]
        out = memctl("-s", "memctl-demo.db", *shlex.split(command)).out
        assert shown.startswith(out), command
    error = memctl("-s", "memctl-demo.db", "get", "acme.ana.facts", "dier").err
    assert error in README


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_listed(name: str) -> None:
    assert re.search(rf"`[^`]*\b{name}\b", README), name


def test_every_format_is_listed() -> None:
    assert "|".join(FORMATS) in README


def test_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "langgraph-memctl"
    assert "[Unreleased]" in (ROOT / "CHANGELOG.md").read_text("utf-8") or __version__ in (
        ROOT / "CHANGELOG.md"
    ).read_text("utf-8")
