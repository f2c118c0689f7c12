"""The manual pages and the completion scripts: current, complete, and working."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memctl import __version__
from memctl.cli.app import COMMANDS, command
from memctl.errors import EXIT_PRECEDENCE
from tests.invocation import ROOT, Memctl
from tests.tools import generate
from tests.writers import SAMPLE

PAGES = [ROOT / "man" / "memctl.1", *(ROOT / "man" / f"memctl-{name}.1" for name in COMMANDS)]


def shown(page: Path) -> str:
    """The text of a page without its markup, as it would be read."""
    text = re.sub(r"\\f[BIRP]|\\&", "", page.read_text("utf-8"))
    return text.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(ti", "~").replace(r"\e", "\\")


def spellings(params: list[Any]) -> list[str]:
    return [name for param in params for name in param.opts if param.param_type_name == "option"]


def test_the_files_are_current() -> None:
    assert list(generate.differences()) == []


def test_a_stale_missing_or_left_over_file_is_found_and_put_right(tmp_path: Path) -> None:
    generate.write(tmp_path)
    assert list(generate.differences(tmp_path)) == []
    (tmp_path / "man" / "memctl.1").write_text("stale\n")
    (tmp_path / "man" / "memctl-gone.1").write_text("left over\n")
    (tmp_path / "completions" / "_memctl").unlink()
    lines = "\n".join(generate.differences(tmp_path))
    assert "-stale" in lines
    assert "-left over" in lines
    assert "+#compdef memctl" in lines
    generate.write(tmp_path)
    assert list(generate.differences(tmp_path)) == []
    assert not (tmp_path / "man" / "memctl-gone.1").exists()


def test_generating_twice_gives_the_same() -> None:
    assert generate.generated() == generate.generated()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_sections_in_order(page: Path) -> None:
    text = page.read_text("utf-8")
    first, *_ = text.splitlines()
    assert first.startswith('.TH "MEMCTL')
    assert f'"memctl {__version__}"' in first
    sections = re.findall(r'^\.SH "(.+)"$', text, re.MULTILINE)
    assert sections[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert sections[-1] == "SEE ALSO"
    assert "EXIT STATUS" in sections
    assert len(set(sections)) == len(sections)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_sound_roff(page: Path) -> None:
    """No request that is none, no font left open, no text that a formatter would take for a request."""
    known = {".TH", ".SH", ".SS", ".PP", ".TP", ".RS", ".RE", ".nf", ".fi", ".nh", ".ad"}
    text = page.read_text("utf-8")
    assert text.isascii()
    for line in text.splitlines():
        assert not line.startswith("'")
        assert line == line.rstrip()
        if line.startswith("."):
            assert line.split()[0] in known
    assert len(re.findall(r"\\f[BI]", text)) == text.count(r"\fR")
    assert text.count(".nf\n") == text.count(".fi\n")
    assert not re.search(r"\\(?!f[BIR]|-|&|e|\((?:aq|ti|ga|ha)|\[u[0-9A-F]{4,}\])", text)
    if groff := shutil.which("groff"):
        done = subprocess.run([groff, "-man", "-ww", "-Tutf8", "-z", page], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_names_every_argument_and_option(name: str) -> None:
    text = shown(ROOT / "man" / f"memctl-{name}.1")
    terms = re.findall(r"^\.TP\n(.+)$", text, re.MULTILINE)
    spelled = {word for term in terms for word in re.findall(r"(?<!\S)--?[\w-]+", term)}
    assert spelled == set(spellings(command(name).params))
    for param in command(name).params:
        if param.help:
            assert re.sub(r"[`…]", "", param.help).split()[0].rstrip(".,:") in text


def test_the_manual_lists_every_command_and_global_option() -> None:
    text = shown(PAGES[0])
    for name in COMMANDS:
        assert f"\nmemctl-{name}(1)\n" in text
    for name in ("--store", "--output", "--dry-run", "--yes", "--timeout", "--version", "--help"):
        assert re.search(rf"^\.TP\n.*{name}\b", text, re.MULTILINE)


def test_the_manual_explains_every_exit_code() -> None:
    codes = shown(PAGES[0]).partition('.SH "EXIT STATUS"')[2].partition(".SH")[0]
    listed = {
        int(code)
        for term in re.findall(r"^\.TP\n([\d, ]+)$", codes, re.MULTILINE)
        for code in term.split(", ")
    }
    assert listed == {0, *EXIT_PRECEDENCE}
    assert ", ".join(map(str, EXIT_PRECEDENCE)) in codes.replace("\n", " ")


def test_the_package_is_told_where_the_files_go() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    shared = text.partition("[tool.hatch.build.targets.wheel.shared-data]\n")[2].partition("\n\n")[0]
    pairs = dict(re.findall(r'^"(.+)" = "(.+)"$', shared, re.MULTILINE))
    assert pairs == {
        "man": "share/man/man1",
        "completions/memctl.bash": "share/bash-completion/completions/memctl",
        "completions/_memctl": "share/zsh/site-functions/_memctl",
        "completions/memctl.fish": "share/fish/vendor_completions.d/memctl.fish",
    }
    assert all((ROOT / path).exists() for path in pairs)


@pytest.mark.parametrize(("path", "shell"), generate.SCRIPTS.items())
def test_completion_prints_the_script(memctl: Memctl, path: str, shell: str) -> None:
    assert memctl("completion", shell).out == (ROOT / path).read_text("utf-8")


def test_zsh_finds_its_script_by_the_first_line() -> None:
    assert (ROOT / "completions" / "_memctl").read_text("utf-8").startswith("#compdef memctl\n")


class Bash:
    """A bash that has read the script, with memctl on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "bin" / "memctl"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memctl "$@"\n')
        program.chmod(0o755)

    def complete(self, line: str, word: str) -> list[str]:
        """COMPREPLY with the cursor at the end of `line`, where bash would replace `word`."""
        script = f"source '{ROOT}/completions/memctl.bash'\n" + (
            'COMP_LINE=$1 COMP_POINT=${#1}\n_memctl memctl "$2" ""\nprintf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", script, "bash", line, word],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "HOME": str(self.folder),
            },
            check=True,
            timeout=60,
        )
        return done.stdout.removesuffix("\n").split("\n") if done.stdout.strip("\n") else []


@pytest.fixture
def bash(tmp_path: Path) -> Bash:
    return Bash(tmp_path)


def test_bash_takes_the_script() -> None:
    subprocess.run(["bash", "-n", ROOT / "completions" / "memctl.bash"], check=True)


def test_bash_registers_the_function() -> None:
    script = f"source '{ROOT}/completions/memctl.bash'; complete -p memctl"
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert "-F _memctl memctl" in done.stdout


def test_bash_completes_commands(bash: Bash) -> None:
    assert bash.complete("memctl ", "") == list(COMMANDS)
    assert bash.complete("memctl l", "l") == [name for name in COMMANDS if name.startswith("l")]


def test_bash_completes_options_after_global_options(bash: Bash) -> None:
    assert {"--sort", "--suffix", "--schema"} <= set(bash.complete("memctl -s x ls --s", "--s"))


def test_bash_completes_values(bash: Bash) -> None:
    formats = ["table", "json", "jsonl", "csv", "tsv", "markdown", "name"]
    assert bash.complete("memctl ls -o ", "") == formats
    assert bash.complete("memctl -o j", "j") == ["json", "jsonl"]
    assert bash.complete("memctl ls --output=j", "j") == ["json", "jsonl"]


def test_bash_completes_what_the_store_holds(bash: Bash, sqlite_sample: Path) -> None:
    namespace, _ = next(iter(SAMPLE))
    prefix = ".".join(namespace)
    assert prefix in bash.complete(f"memctl -s {sqlite_sample} ls {prefix[:2]}", prefix[:2])
    keys = [key for each, key in SAMPLE if each == namespace]
    assert bash.complete(f"memctl get -s {sqlite_sample} {prefix} ", "") == keys


def test_bash_completes_files(bash: Bash) -> None:
    (bash.folder / "agent.db").touch()
    assert bash.complete("memctl -s a", "a") == ["agent.db"]


def test_bash_hears_of_no_error(bash: Bash) -> None:
    assert bash.complete("memctl -s missing.db ls ", "") == []
    assert bash.complete("memctl nonsense --", "--") == []
