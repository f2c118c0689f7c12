"""The layers of the design: who may import whom, told by the imports in the source, lazy ones included."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import memctl

PACKAGE = Path(memctl.__file__).parent
MODULES = {
    ".".join(("memctl", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
DRIVERS = ("sqlite3", "psycopg", "psycopg_pool", "sqlite_utils", "pysqlite3", "httpx", "requests")
INTERFACE = ("typer", "click", "rich", "tabulate", "memctl.cli", "memctl.render")
AGENTS = ("langgraph", "langgraph_sdk", "langchain", "langchain_core", "langmem", "wordllama", "numpy")
FOUNDATION = ("memctl.model", "memctl.errors")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, at the top or inside a function; `TYPE_CHECKING` blocks excepted."""
    pending: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            assert node.module
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in MODULES else node.module
        pending.extend(ast.iter_child_nodes(node))


def is_in(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of these, or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def offences(modules: Iterable[str], *forbidden: str) -> list[tuple[str, str]]:
    """What these modules import of what they may not: pairs of both."""
    return [
        (module, name) for module in modules for name in imported(MODULES[module]) if is_in(name, forbidden)
    ]


def of(*packages: str) -> list[str]:
    """The modules in these packages."""
    found = [name for name in MODULES if is_in(name, packages)]
    assert found, packages
    return found


OPERATIONS = [
    name
    for name in MODULES
    if not is_in(name, ("memctl.cli", "memctl.render", "memctl.stores", "memctl.__main__"))
]
"""Everything between the command line and the stores, and what both stand on."""


def test_there_are_modules_in_every_layer() -> None:
    for name in ("memctl.cli.ls", "memctl.render.json", "memctl.stores.sqlite", "memctl.stores.postgres.store",
                 "memctl.store", "memctl.model", "memctl.listing"):  # fmt: skip
        assert name in MODULES
    assert {"memctl.filters", "memctl.selection", "memctl.similarity", "memctl.nearest"} <= set(OPERATIONS)


def test_the_check_sees_lazy_imports(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import psycopg\n"
        "def f():\n    if 1:\n        import sqlite3\n        from memctl import listing\n"
    )
    assert sorted(imported(source)) == ["memctl.listing", "sqlite3", "typing"]


def test_operations_know_no_interface_no_driver_and_no_store() -> None:
    assert offences(OPERATIONS, *INTERFACE, *DRIVERS, "memctl.stores") == []


def test_the_foundation_stands_on_nothing() -> None:
    others = [name for name in MODULES if name not in ("memctl", *FOUNDATION)]
    assert offences(FOUNDATION, *others) == []
    assert offences(["memctl.store"], *(name for name in others if name != "memctl.store")) == []


def test_stores_know_nothing_of_the_interface() -> None:
    assert offences(of("memctl.stores"), *INTERFACE, *AGENTS) == []


def test_stores_know_nothing_of_each_other() -> None:
    families = ("memctl.stores.sqlite", "memctl.stores.postgres", "memctl.stores.api")
    for own in families:
        assert offences(of(own), *(family for family in families if family != own)) == []


def test_output_formats_know_no_store_and_no_command() -> None:
    stores = ("memctl.stores", "memctl.store")
    assert offences(of("memctl.render"), "memctl.cli", "typer", "click", *stores, *DRIVERS) == []


def test_the_command_line_knows_no_driver_and_no_concrete_store() -> None:
    """`memctl.stores` picks the module of an address; only `demo`, which makes a file of its own, names one."""
    concrete = {".".join(module.split(".")[:3]) for module, _ in offences(of("memctl.stores"), *DRIVERS)}
    assert {"memctl.stores.sqlite", "memctl.stores.postgres", "memctl.stores.api"} <= concrete
    makers = {("memctl.cli.demo", "memctl.stores.demo")}
    assert set(offences(of("memctl.cli"), *DRIVERS, *concrete)) - makers == set()


def test_only_the_context_opens_stores() -> None:
    openers = {
        name for name in MODULES if name != "memctl.stores" and "memctl.stores" in imported(MODULES[name])
    }
    assert openers == {"memctl.cli.context"}


def test_agents_packages_are_imported_for_embedders_only() -> None:
    assert {module for module, _ in offences(MODULES, *AGENTS)} == {"memctl.embedders"}


def test_there_is_no_module_of_odds_and_ends() -> None:
    assert {name.rpartition(".")[2] for name in MODULES} & {
        "utils",
        "util",
        "helpers",
        "common",
        "misc",
    } == set()
