"""Write `man/` and `completions/`: `python -m tests.tools.generate`, or `--check` whether they are current."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from memctl import __version__
from memctl.cli import help as parts
from memctl.cli.app import COMMANDS, command, root
from memctl.cli.completion import script
from tests.tools import manual
from tests.tools.roff import Page

HERE = Path(__file__).resolve().parents[2]
SCRIPTS = {"completions/memctl.bash": "bash", "completions/_memctl": "zsh", "completions/memctl.fish": "fish"}
_SHOWN = 40


def generated() -> dict[str, str]:
    """Return every generated file: its path in the repository, and what it has to hold."""
    pages = {"man/memctl.1": _manual(), **{f"man/memctl-{name}.1": _page(name) for name in COMMANDS}}
    return {**{path: script(shell) for path, shell in SCRIPTS.items()}, **pages}


def differences(folder: Path = HERE) -> Iterator[str]:
    """Yield, as lines of a unified diff, where the files in `folder` are not what they have to be."""
    wanted = generated()
    present = {
        str(path.relative_to(folder)): path.read_text("utf-8")
        for name in ("completions", "man")
        for path in (folder / name).glob("*")
    }
    for path in sorted(wanted.keys() | present.keys()):
        before, after = (source.get(path, "").splitlines() for source in (present, wanted))
        yield from difflib.unified_diff(before, after, path, f"{path} (generated)", lineterm="", n=1)


def write(folder: Path = HERE) -> None:
    """Make the files in `folder` what they have to be; what is generated no more goes."""
    wanted = generated()
    for name in ("completions", "man"):
        (folder / name).mkdir(exist_ok=True)
        for path in (folder / name).glob("*"):
            if str(path.relative_to(folder)) not in wanted:
                path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, "utf-8")


def _manual() -> str:
    page = _new_page("memctl")
    page.title("memctl", "administer the long-term memory of LangGraph agents")
    page.synopsis(parts.usage(root()))
    page.heading("DESCRIPTION")
    for paragraph in manual.DESCRIPTION:
        page.paragraph(paragraph)
    page.heading("COMMANDS")
    for panel in dict.fromkeys(COMMANDS.values()):
        page.subheading(panel)
        page.terms(
            (f"`memctl-{name}`(1)", parts.summary(name) + ".") for name in COMMANDS if COMMANDS[name] == panel
        )
    page.heading("OPTIONS")
    page.params(map(parts.entry, parts.global_options(root())))
    for section in manual.SECTIONS:
        page.section(section)
    _see_also(page, [f"memctl-{name}" for name in COMMANDS])
    return page.text


def _page(name: str) -> str:
    this = command(name)
    description, examples = parts.described(this.help)
    summary = parts.summary(name)
    page = _new_page(f"memctl-{name}")
    page.title(f"memctl-{name}", summary[:1].lower() + summary[1:])
    page.synopsis(parts.usage(this))
    page.heading("DESCRIPTION")
    for paragraph in description:
        page.paragraph(paragraph)
    for title, params in (
        ("ARGUMENTS", parts.arguments(this)),
        ("OPTIONS", parts.options(this)),
        ("GLOBAL OPTIONS", parts.global_options(this)),
    ):
        if params:
            page.heading(title)
            page.params(map(parts.entry, params))
    page.heading("EXIT STATUS")
    page.paragraph(manual.EXIT_STATUS_IN_SHORT)
    if examples:
        page.heading("EXAMPLES")
        page.code("\n".join(examples))
    related = [other for other in COMMANDS if COMMANDS[other] == COMMANDS[name] and other != name]
    _see_also(page, ["memctl", *(f"memctl-{other}" for other in related)])
    return page.text


def _new_page(name: str) -> Page:
    commands = [root(), *map(command, COMMANDS)]
    spellings = (parts.placeholder(param) for each in commands for param in each.params if param.metavar)
    words = {word for spelling in spellings for word in re.findall("[A-Z]{2,}", spelling)}
    return Page(name, __version__, places=words)


def _see_also(page: Page, names: list[str]) -> None:
    page.heading("SEE ALSO")
    page.paragraph(", ".join(f"`{name}`(1)" for name in sorted(names)))


def main() -> int:
    """Write the files, or with `--check` return 1 when they are not current."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.generate", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit with 1 when a file is not current"
    )
    if not parser.parse_args().check:
        write()
        return 0
    found = list(differences())
    for line in found[:_SHOWN]:
        print(line)
    if len(found) > _SHOWN:
        print(f"... and {len(found) - _SHOWN} more lines")
    if found:
        print("Not current: run `python -m tests.tools.generate`.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
