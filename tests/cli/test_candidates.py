"""What TAB offers: commands, options, values, files, stores, namespaces and keys."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memctl.cli import candidates
from memctl.cli.app import COMMANDS
from memctl.cli.commandline import Line, continued, split, unquoted
from tests.cli.conftest import ITEMS, NAMES, MakeStore
from tests.contract.backends import RawItem
from tests.databases import Database
from tests.invocation import Memctl
from tests.writers import SAMPLE

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
SLOWLY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMESPACES = list(dict.fromkeys(prefix for prefix, _ in NAMES))


class Tab:
    """TAB as zsh asks for it: the words of a line, the last one unfinished."""

    def __init__(self, memctl: Memctl) -> None:
        self.memctl = memctl

    def __call__(self, *words: str | Path, shell: str = "zsh") -> list[str]:
        """The candidates without their meanings."""
        return [line[1:].partition("\t")[0] for line in self.answer(*words, shell=shell)[1:]]

    def answer(self, *words: str | Path, shell: str = "zsh") -> list[str]:
        """The lines of the answer."""
        outcome = self.memctl(*words, variables={"_MEMCTL_COMPLETE": shell})
        assert (outcome.code, outcome.stderr) == (0, b"")
        return outcome.lines

    def takes_files(self, *words: str | Path) -> bool:
        return self.answer(*words)[0] == "files"


@pytest.fixture
def tab(memctl: Memctl) -> Tab:
    return Tab(memctl)


def test_commands_with_their_meanings(tab: Tab) -> None:
    assert tab("") == list(COMMANDS)
    assert tab.answer("ls") == ["words", ":ls\tList namespaces"]
    assert tab("-s", "x", "-q", "l") == [name for name in COMMANDS if name.startswith("l")]
    assert tab("nonsense") == []
    assert tab("nonsense", "") == []


def test_options_that_were_not_given_yet(tab: Tab) -> None:
    assert set(tab("--s")) == {"--store", "--schema"}
    assert {"--sort", "--suffix", "--store", "--schema"} == set(tab("ls", "--s"))
    assert "--sort" not in tab("ls", "--sort", "name", "--")
    assert "--filter" in tab("search", "--filter", "a=1", "--"), "it may be repeated"
    assert tab("ls", "--", "--s") == []
    assert "-o" in tab("ls", "-")


@pytest.mark.parametrize(
    "words", [["-o", "j"], ["ls", "--output", "j"], ["-qo", "j"], ["ls", "-q", "--no-color", "-o", "j"]]
)
def test_values(tab: Tab, words: list[str]) -> None:
    assert tab(*words) == ["json", "jsonl"]


def test_a_value_in_one_word_with_its_option(tab: Tab) -> None:
    assert tab("ls", "--output=j") == ["--output=json", "--output=jsonl"]
    assert tab("ls", "--sort=n") == ["--sort=name", "--sort=newest"]
    assert tab("ls", "--tree=") == []


def test_where_files_are_expected(tab: Tab) -> None:
    assert tab.takes_files("-s", "")
    assert tab.takes_files("ls", "--store=")
    assert tab.takes_files("demo", "")
    assert tab.takes_files("get", "--from", "")
    assert not tab.takes_files("ls", "")
    assert not tab.takes_files("ls", "-o", "")
    assert not tab.takes_files("")


def test_configured_stores(tab: Tab) -> None:
    (tab.memctl.folder / "memctl.toml").write_text(
        '[stores.dev]\nurl = "a.db"\n[stores.prod]\nurl = "b.db"\n'
    )
    assert tab("-s", "") == ["dev", "prod"]
    assert tab("ls", "--store=p") == ["--store=prod"]
    (tab.memctl.folder / "memctl.toml").write_text("broken")
    assert tab("-s", "") == []


def test_namespaces_and_their_ancestors(tab: Tab, store: Path) -> None:
    every = tab("-s", store, "ls", "")
    assert set(NAMESPACES) < set(every)
    assert {"org", "org.acme", "users", "users.ana", "users.bo"} == set(every) - set(NAMESPACES)
    assert tab("-s", store, "ls", "users.a") == ["users.ana", "users.ana.memories", "users.ana.prefs"]
    assert tab("ls", "-s", store, "nothing") == []
    assert tab("search", "--in", "org", "-s", store, "x", "") == [], "TEXT was given"
    assert tab("search", "-s", store, "--in", "org.") == ["org.acme", "org.acme.facts"]


def test_namespaces_that_hold_items_where_a_key_follows(tab: Tab, store: Path) -> None:
    assert tab("get", "-s", store, "") == NAMESPACES
    assert tab("search", "-s", store, "--like", "users.b") == ["users.bo.prefs"]


def test_keys(tab: Tab, store: Path) -> None:
    assert tab("-s", store, "get", "users.ana.prefs", "") == ["meal", "seat"]
    assert tab("-s", store, "get", "users.ana.prefs", "me") == ["meal"]
    assert tab("-s", store, "get", "users.ana.prefs", "meal") == ["meal"]
    assert tab("-s", store, "get", "users.ana.prefs", "meal", "") == ["seat"]
    assert tab("-s", store, "search", "--like", "users.ana.memories", "m") == ["m1", "m2"]
    assert tab("-s", store, "get", "users.*.prefs", "") == []
    assert tab("-s", store, "get", "nothing", "") == []


def test_the_store_is_found_as_the_command_finds_it(tab: Tab, store: Path) -> None:
    tab.memctl.variables["MEMCTL_STORE"] = str(store)
    assert tab("get", "") == NAMESPACES
    assert tab("get", "-s", "missing.db", "") == []
    tab.memctl.variables.clear()
    (tab.memctl.folder / "memctl.toml").write_text(f'default = "dev"\n[stores.dev]\nurl = "{store}"\n')
    assert tab("get", "") == NAMESPACES


def test_the_first_of_two_stores_has_the_namespaces(tab: Tab, store: Path) -> None:
    assert "users.ana.prefs" in tab("diff", store, "other.db", "users.ana.")


def test_postgres(tab: Tab, postgres_sample: Database) -> None:
    namespaces = list(dict.fromkeys(".".join(namespace) for namespace, _ in SAMPLE))
    assert tab("get", "-s", postgres_sample.url, "") == namespaces
    keys = [key for namespace, key in SAMPLE if ".".join(namespace) == namespaces[0]]
    assert tab("get", "-s", postgres_sample.url, namespaces[0], "") == keys


def test_no_store_that_cannot_be_asked_has_names(tab: Tab, silent_port: int, closed_port: int) -> None:
    (tab.memctl.folder / "text.db").write_text("no database")
    for address in (
        "missing.db",
        "text.db",
        f"postgresql://me@127.0.0.1:{closed_port}/x",
        f"postgresql://me@127.0.0.1:{silent_port}/x",
        "nonsense://",
    ):
        assert tab("-s", address, "ls", "") == []


def test_no_code_runs(tab: Tab) -> None:
    (tab.memctl.folder / "trap.py").write_text("raise SystemExit('ran')")
    assert tab("-s", "python:trap:store", "ls", "") == []


def test_a_large_namespace_is_passed_over(
    tab: Tab, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "STRIDE", 3)
    items = [RawItem(prefix, f"k{index:04}", "{}") for prefix in ("a", "b.c", "d") for index in range(5_000)]
    assert tab("-s", make_store(items), "ls", "") == ["a", "b", "b.c", "d"]


def test_only_so_many_are_looked_at(tab: Tab, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "LOOKED_AT", 10)
    path = make_store(RawItem(f"n{index:03}", "k", "{}") for index in range(100))
    assert tab("-s", path, "get", "") == [f"n{index:03}" for index in range(10)]
    assert tab("-s", path, "get", "n05") == [f"n05{index}" for index in range(10)]


def test_namespaces_are_spelled_as_they_are_typed(tab: Tab, make_store: MakeStore) -> None:
    path = make_store(
        RawItem(prefix, "k", "{}") for prefix in ("a.*", "a.{x}", "a..b", "new\nline", "tab\there")
    )
    assert tab("-s", path, "get", "") == [r"a.\*", "a..b", "a.{{x}}"]
    assert tab("-s", path, "get", r"a.\\") == [r"a.\*"]
    assert tab("-s", path, "get", "a.{{") == ["a.{{x}}"]


def bash(memctl: Memctl, line: str, word: str) -> list[str]:
    return Tab(memctl)(line, word, shell="bash")


def test_bash_words_are_quoted_as_they_are_typed(memctl: Memctl, make_store: MakeStore) -> None:
    path = make_store(RawItem("n", key, "{}") for key in ("it's", 'say "$1"', "two words"))
    line = f"memctl -s {path} get n "
    assert bash(memctl, line, "") == [r"it\'s", r"say\ \"\$1\"", r"two\ words"]
    assert bash(memctl, f"{line}two\\ w", "two\\ w") == [r"two\ words"]
    assert bash(memctl, f'{line}"say', "say") == [r"say \"\$1\""]
    assert bash(memctl, f"{line}'it", "it") == [r"it'\''s"]


def test_bash_replaces_only_what_follows_its_own_word_break(memctl: Memctl, make_store: MakeStore) -> None:
    path = make_store([RawItem("mail:ana@example.com", "k", "{}")])
    assert bash(memctl, f"memctl -s {path} get mail:a", "a") == ["ana@example.com"]
    assert bash(memctl, f"memctl -s {path} get mail:", "") == ["ana@example.com"]
    assert bash(memctl, "memctl ls --output=", "") == bash(memctl, "memctl ls -o ", "")


@SLOWLY
@given(st.lists(TEXT))
def test_a_quoted_line_is_split_into_its_words(words: list[str]) -> None:
    assert split(f"  {shlex.join(words)} ") == (words, "")
    assert split(f"{shlex.join(words)} us\N{NO-BREAK SPACE}x") == (words, "us\N{NO-BREAK SPACE}x")


@SLOWLY
@given(TEXT, st.integers(0, 9), st.sampled_from(["", "'", '"']))
def test_what_bash_inserts_makes_the_candidate(word: str, length: int, quote: str) -> None:
    """Whatever was typed of it, quoted or not."""
    begun = quote + continued(word[:length], quote, "")
    assert unquoted(begun) == word[:length]
    assert unquoted(begun + continued(word, begun, "") + quote) == word


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_bash_reads_what_it_inserts_as_the_candidate(quote: str) -> None:
    word = "".join(map(chr, range(32, 127))) + "äöü $HOME `id` \\\\ it's"
    line = quote + continued(word, quote, "") + quote
    done = subprocess.run(["bash", "--norc", "-c", f"printf %s {line}"], capture_output=True, check=True)
    assert done.stdout.decode() == word


def test_a_line_is_understood_as_far_as_it_goes() -> None:
    line = Line.read(["-qs", "x.db", "get", "-ojson", "ns", "--", "-k"])
    assert line.command.name == "get"
    assert line.values == {"quiet": [], "store": ["x.db"], "output": ["json"]}
    assert line.arguments == ["ns", "-k"]
    assert line.argument_called("NS") == "ns"
    assert Line.read(["search", "--like", "ns"]).option.name == "like"
    assert Line.read(["search", "--like", "ns"]).index == 1
    assert Line.read(["--unknown", "ls"]).command.name == "ls"


def test_nothing_is_changed(tab: Tab, store: Path) -> None:
    before = store.read_bytes(), sorted(store.parent.iterdir())
    assert len(tab("-s", store, "get", "")) == len({item.prefix for item in ITEMS})
    assert (store.read_bytes(), sorted(store.parent.iterdir())) == before
