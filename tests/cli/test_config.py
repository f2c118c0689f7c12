"""Where a store and the other settings come from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import MakeStore
from tests.contract.backends import RawItem
from tests.databases import Database
from tests.invocation import Memctl
from tests.servers import PASSWORD
from tests.writers import postgres_store


@pytest.fixture
def stores(make_store: MakeStore, tmp_path: Path) -> Path:
    """A folder with `one.db`, `two.db` and `three.db`, whose only namespaces are `one`, `two` and `three`."""
    for name in ("one", "two", "three"):
        shutil.move(make_store([RawItem(name, "k")]), tmp_path / f"{name}.db")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def which(memctl: Memctl, *arguments: str | Path, **variables: str) -> str:
    """Which store a command line means."""
    [row] = memctl.json(*arguments, "ls", variables=variables)
    [name] = row["namespace"]
    return str(name)


class TestPrecedence:
    def test_the_option_then_the_variable_then_the_files(self, memctl: Memctl, stores: Path) -> None:
        write(
            stores / ".config/memctl/config.toml", 'default = "mine"\n[stores.mine]\nurl = "../../three.db"'
        )
        assert which(memctl) == "three"
        write(stores / "memctl.toml", 'default = "dev"\n[stores.dev]\nurl = "two.db"')
        assert which(memctl) == "two"
        assert which(memctl, MEMCTL_STORE="one.db") == "one"
        assert which(memctl, "-s", "three.db", MEMCTL_STORE="one.db") == "three"
        assert which(memctl, "-s", "dev", MEMCTL_STORE="one.db") == "two"
        assert which(memctl, "-s", "mine") == "three"
        assert which(memctl, MEMCTL_STORE="mine") == "three"

    def test_an_empty_variable_is_none(self, memctl: Memctl, stores: Path) -> None:
        assert memctl("ls", variables={"MEMCTL_STORE": ""}).code == 2
        write(stores / "memctl.toml", 'default = "one.db"')
        assert which(memctl, MEMCTL_STORE="") == "one"

    def test_xdg_config_home(self, memctl: Memctl, stores: Path) -> None:
        write(stores / "elsewhere/memctl/config.toml", f'default = "x"\n[stores.x]\nurl = "{stores}/two.db"')
        assert which(memctl, XDG_CONFIG_HOME=str(stores / "elsewhere")) == "two"
        assert memctl("ls").code == 2

    def test_a_name_beats_a_file(self, memctl: Memctl, stores: Path) -> None:
        shutil.copy(stores / "one.db", stores / "dev")
        assert which(memctl, "-s", "dev") == "one"
        write(stores / "memctl.toml", '[stores.dev]\nurl = "two.db"')
        assert which(memctl, "-s", "dev") == "two"
        assert which(memctl, "-s", "./dev") == "one"
        assert which(memctl, "-s", stores / "dev") == "one"
        assert which(memctl, "-s", "sqlite:///dev") == "one"

    def test_the_nearest_definition_of_a_name_counts(self, memctl: Memctl, stores: Path) -> None:
        write(stores / ".config/memctl/config.toml", f'[stores.dev]\nurl = "{stores}/three.db"')
        assert which(memctl, "-s", "dev") == "three"
        write(stores / "memctl.toml", '[stores.dev]\nurl = "two.db"')
        assert which(memctl, "-s", "dev") == "two"

    def test_a_default_may_be_an_address(self, memctl: Memctl, stores: Path) -> None:
        write(stores / "memctl.toml", 'default = "./one.db"')
        assert which(memctl) == "one"
        write(stores / "memctl.toml", 'default = "sqlite:///two.db"')
        assert which(memctl) == "two"

    def test_paths_in_a_file_are_relative_to_it(self, memctl: Memctl, stores: Path) -> None:
        write(
            stores / ".config/memctl/config.toml",
            'default = "../../one.db"\n[stores.x]\nurl = "../../two.db"',
        )
        assert which(memctl) == "one"
        assert which(memctl, "-s", "x") == "two"

    def test_home_is_understood(self, memctl: Memctl, stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(stores))
        assert which(memctl, "-s", "~/one.db") == "one"
        write(stores / "memctl.toml", '[stores.dev]\nurl = "~/two.db"')
        assert which(memctl, "-s", "dev") == "two"


class TestFiles:
    @pytest.mark.parametrize(
        "text",
        [
            "default = ",
            "default = 3",
            'stores = "x"',
            '[stores.dev]\nurl = 3',
            "[stores.dev]",
            '[stores.dev]\nurl = "x.db"\npassword = "x"',
            '[stores.dev]\nurl = "redis://x"',
            "\xff",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("path", ["memctl.toml", ".config/memctl/config.toml"])
    def test_a_broken_file_is_named(self, memctl: Memctl, stores: Path, text: str, path: str) -> None:
        write(stores / path, "")
        (stores / path).write_bytes(text.encode("latin-1"))
        error = memctl.refuse("-s", "dev", "ls", code=2)
        assert path in error["message"]

    def test_a_default_that_is_defined_nowhere_is_a_path(self, memctl: Memctl, stores: Path) -> None:
        write(stores / "memctl.toml", 'default = "dev"')
        assert memctl.refuse("ls", code=10)["code"] == "missing"

    def test_python_addresses_come_from_the_users_own_file_only(self, memctl: Memctl, stores: Path) -> None:
        """They run code, and `./memctl.toml` may be anybody's."""
        write(
            stores / "evil.py",
            f"import pathlib\npathlib.Path({str(stores / 'was here')!r}).touch()\nstore = None\n",
        )
        for text in (
            'default = "dev"\n[stores.dev]\nurl = "python:evil:store"',
            'default = "python:evil:store"',
            'default = "PYTHON:evil:store"',
        ):
            write(stores / "memctl.toml", text)
            error = memctl.refuse("ls", code=2)
            assert "memctl.toml" in error["message"]
            assert "code" in error["message"]
            assert "-s" in error["hint"]
        assert not (stores / "was here").exists()
        (stores / "memctl.toml").unlink()
        write(stores / ".config/memctl/config.toml", '[stores.dev]\nurl = "python:evil:store"')
        assert "memctl.toml" not in memctl("-s", "dev", "ls").err
        assert (stores / "was here").exists()

    def test_passwords_in_a_file_are_not_shown(self, memctl: Memctl, stores: Path, closed_port: int) -> None:
        for url in (
            f"postgresql://me:{PASSWORD}@h/x",
            f"host=127.0.0.1 port={closed_port} user=me password='{PASSWORD}'",
            f"mysql://me:{PASSWORD}@h/x",
            f"sqlite://me:{PASSWORD}",
        ):
            write(stores / "memctl.toml", f'default = "dev"\n[stores.dev]\nurl = "{url}"')
            assert memctl("--debug", "ls").code in (2, 13)

    def test_schema_and_table(self, memctl: Memctl, stores: Path, database: Database) -> None:
        for schema in ("one", "two"):
            with postgres_store(database.url, schema=schema) as store:
                store.put((schema,), "k", {"n": 1})
        text = f'[stores.{{0}}]\nurl = "{database.url}"\nschema = "{{0}}"\ntable = "store"\n'
        write(stores / "memctl.toml", 'default = "two"\n' + text.format("one") + text.format("two"))
        assert which(memctl) == "two"
        assert which(memctl, "-s", "one") == "one"
        assert (
            which(
                memctl,
                "-s",
                f"{database.url}&schema=one" if "?" in database.url else f"{database.url}?schema=one",
            )
            == "one"
        )
        assert which(memctl, "-s", "one", MEMCTL_SCHEMA="two") == "one"
        assert which(memctl, "-s", database.url, MEMCTL_SCHEMA="two") == "two"


class TestVariables:
    def test_output(self, memctl: Memctl, stores: Path) -> None:
        assert memctl("-s", "one.db", "ls", variables={"MEMCTL_OUTPUT": "name"}).out == "one\n"
        assert (
            memctl("-s", "one.db", "-o", "tsv", "ls", variables={"MEMCTL_OUTPUT": "name"})
            .lines[0]
            .startswith("name")
        )
        assert memctl("-s", "no", "ls", variables={"MEMCTL_OUTPUT": "json"}).error["code"] == "missing"
        assert memctl("-s", "one.db", "ls", variables={"MEMCTL_OUTPUT": "yaml"}).code == 2

    @pytest.mark.parametrize("timeout", ["x", "0", "-1", "nan", "inf", ""])
    def test_timeout(self, memctl: Memctl, stores: Path, timeout: str) -> None:
        code = 2 if timeout else 0
        assert memctl("-s", "one.db", "ls", variables={"MEMCTL_TIMEOUT": timeout}).code == code
        assert memctl("-s", "one.db", "--timeout", timeout, "ls").code == 2

    def test_colour(self, memctl: Memctl, stores: Path) -> None:
        def is_coloured(*options: str, **variables: str) -> bool:
            outcome = memctl("-s", "one.db", *options, "ls", terminal=True, width=100, variables=variables)
            assert outcome.code == 0
            return "\x1b[" in outcome.out

        assert is_coloured()
        assert is_coloured(NO_COLOR="")
        assert not is_coloured(NO_COLOR="1")
        assert not is_coloured(MEMCTL_NO_COLOR="1")
        assert not is_coloured(TERM="dumb")
        assert not is_coloured("--no-color")
        assert "\x1b" not in memctl("-s", "one.db", "ls").out

    def test_yes_and_all_are_never_read(self, memctl: Memctl, stores: Path) -> None:
        from memctl.cli.context import Context
        from memctl.cli.environment import Environment

        context = Context(Environment(variables={"MEMCTL_YES": "1", "MEMCTL_ALL": "1"}))
        assert "yes" not in context.options
        assert "all" not in context.options


class TestPlaces:
    def test_global_options_before_and_after(self, memctl: Memctl, stores: Path) -> None:
        expected = memctl("-s", "one.db", "-o", "name", "ls").stdout
        assert expected == b"one\n"
        for line in (
            ["ls", "-s", "one.db", "-o", "name"],
            ["-s", "one.db", "ls", "-o", "name"],
            ["-o", "name", "ls", "--store", "one.db"],
            ["ls", "one", "-s", "one.db", "-o", "name"],
            ["ls", "-s", "one.db", "one", "-o", "name"],
            ["--store=one.db", "--output=name", "ls"],
            ["ls", "-sone.db", "-oname"],
        ):
            assert memctl(*line).stdout == expected, line

    def test_after_the_command_wins(self, memctl: Memctl, stores: Path) -> None:
        assert memctl("-o", "json", "-s", "one.db", "ls", "-o", "name").stdout == b"one\n"

    def test_two_dashes_end_options(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store([RawItem("-o", "-s"), RawItem("--", "--")])
        assert memctl.json("-s", store, "get", "--", "-o", "-s")["key"] == "-s"
        assert memctl.json("-s", store, "get", "--", "--", "--")["key"] == "--"
        assert memctl.json("-s", store, "ls", "--", "-o")[0]["namespace"] == ["-o"]
        assert memctl.json("-s", store, "search", "--", "-o") == []

    def test_a_command_that_is_none(self, memctl: Memctl) -> None:
        outcome = memctl("-o", "json", "sl")
        assert outcome.code == 2
        assert outcome.error["code"] == "usage"
        assert memctl("serach", "x", "-o", "json").error["message"]
        assert "search" in memctl("serach").err
        assert memctl().code == 2
