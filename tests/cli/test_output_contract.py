"""What leaves the program: streams, formats, exact JSON, and processes that end as a shell expects."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memctl.render import FORMATS
from tests.cli.conftest import ITEMS, NAMES, PREFS, MakeStore
from tests.contract.backends import RawItem, in_order
from tests.databases import Database
from tests.invocation import Memctl

LISTINGS = (["ls"], ["ls", "--items"], ["ls", "--tree"], ["search"], ["search", "--like", PREFS, "meal"],
            ["get", PREFS, "meal", "seat"])  # fmt: skip
REPORTS = (["stats"], ["info"], ["search", "--count"])
HOSTILE = in_order(
    [
        RawItem("a", "[bold]x[/bold]", '{"text": "[red]red[/red] :smile: \\u001b[31m"}'),
        RawItem("a\x1b[2J", "k\r\n\tk", '{"text": "\\u202eevil\\u0007"}'),
        RawItem("a|b", "`code` *x* _y_ <b>", '{"text": "a|b\\n| --- |"}'),
        RawItem('a,"b"', "=1+1", '{"text": "x,\\"y\\",\\nz"}'),
        RawItem("日本", "🙂\u200d", '{"text": "\\u2028"}'),
        RawItem(" ", "", '{"n": 123456789012345678901234567890.10}'),
    ]
)


@pytest.fixture
def hostile(make_store: MakeStore) -> Path:
    """A store full of what a terminal, a table or a spreadsheet would take for its own."""
    return make_store(HOSTILE)


class TestFormats:
    @pytest.mark.parametrize("output", FORMATS)
    @pytest.mark.parametrize("command", LISTINGS, ids=" ".join)
    def test_listings(self, memctl: Memctl, store: Path, command: list[str], output: str) -> None:
        outcome = memctl("-s", store, "-o", output, "-q", *command)
        assert outcome.code == 0, outcome.err
        assert outcome.err == ""
        assert outcome.out.endswith("\n")

    @pytest.mark.parametrize("output", [name for name in FORMATS if name != "name"])
    @pytest.mark.parametrize("command", REPORTS, ids=" ".join)
    def test_reports(self, memctl: Memctl, store: Path, command: list[str], output: str) -> None:
        outcome = memctl("-s", store, "-o", output, *command)
        assert outcome.code == 0, outcome.err
        assert outcome.out.endswith("\n")

    @pytest.mark.parametrize("command", REPORTS, ids=" ".join)
    def test_a_report_has_no_names(self, memctl: Memctl, store: Path, command: list[str]) -> None:
        assert memctl("-s", store, "-o", "name", *command).code == 2

    @pytest.mark.parametrize("command", LISTINGS, ids=" ".join)
    def test_json_is_one_array_and_jsonl_its_rows(
        self, memctl: Memctl, store: Path, command: list[str]
    ) -> None:
        rows = json.loads(memctl("-s", store, "-o", "json", *command).stdout)
        lines = memctl("-s", store, "-o", "jsonl", *command).lines
        assert [json.loads(line) for line in lines] == rows
        assert isinstance(rows, list)

    @pytest.mark.parametrize("command", REPORTS, ids=" ".join)
    def test_json_of_a_report_is_one_object(self, memctl: Memctl, store: Path, command: list[str]) -> None:
        assert isinstance(memctl.json("-s", store, *command), dict)

    def test_csv_and_tsv(self, memctl: Memctl, store: Path, hostile: Path) -> None:
        for items, path in ((HOSTILE, hostile),):
            text = memctl("-s", path, "-o", "csv", "search", "--order", "name").out
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            assert [row["key"] for row in rows] == [item.key for item in items]
            assert [row["value"] for row in rows] == [item.value for item in items]
            lines = memctl("-s", path, "-o", "tsv", "search", "--order", "name").lines
            assert len(lines) == len(items) + 1
            assert {line.count("\t") for line in lines} == {lines[0].count("\t")}

    @pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
    @pytest.mark.parametrize("output", ["table", "markdown"])
    @pytest.mark.parametrize(
        "command", [["ls"], ["ls", "--tree"], ["ls", "--items"], ["search"], ["stats"], ["get", "--from", "-"]],
        ids=" ".join,
    )  # fmt: skip
    def test_human_output_is_harmless(
        self, memctl: Memctl, hostile: Path, command: list[str], output: str, terminal: bool
    ) -> None:
        names = memctl("-s", hostile, "-o", "name", "ls", "--items").stdout
        outcome = memctl(
            "-s", hostile, "-o", output, "--no-color", *command, stdin=names, terminal=terminal, width=100
        )
        assert outcome.code == 0, outcome.err
        for text in (outcome.out, outcome.err):
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]", text)
        if output == "table" and command[0] in ("search", "get"):
            assert "[bold]x[/bold]" in outcome.out
            if not terminal:
                assert "[red]red[/red] :smile:" in outcome.out
                assert "123456789012345678901234567890.10" in outcome.out

    def test_errors_are_harmless(self, memctl: Memctl, hostile: Path) -> None:
        for arguments in (
            ["get", "a\x1b[2J", "\x1b[31m"],
            ["ls", "\x1b]0;x\x07"],
            ["search", "--filter", "\x1b[2J"],
        ):
            outcome = memctl("-s", hostile, *arguments)
            assert outcome.code in (2, 5)
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", outcome.err), outcome.err

    def test_a_pipe_is_full_width(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store([RawItem("a" * 300, "k" * 300, json.dumps({"text": "x" * 5000}))])
        assert "x" * 5000 in memctl("-s", store, "search", width=40).out
        assert "a" * 300 in memctl("-s", store, "ls", width=40).out
        lines = memctl("-s", store, "ls", "--items", "--no-color", terminal=True, width=60).lines
        assert max(map(len, lines)) <= 60

    def test_quiet_and_notes(self, memctl: Memctl, store: Path) -> None:
        """Notes go to stderr and never into data; warnings stay with --quiet."""
        ask = ("-s", store, "search", "--like", PREFS, "meal")
        assert memctl(*ask).err == ""
        assert memctl("-q", "-s", store, "get", PREFS, "nothing").err


class TestDebug:
    """`--debug` tells the statements, and never a value."""

    def check(self, memctl: Memctl, address: str | Path) -> None:
        for command in (
            ["ls", "users.ana"],
            ["get", PREFS, "meal", "--vectors"],
            ["search", "vegan", "--in", "users.ana.prefs", "--vectors"],
        ):
            outcome = memctl("-s", address, "--debug", "-o", "name", *command)
            assert outcome.code == 0
            statements = [line for line in outcome.err.splitlines() if line.startswith("sql: ")]
            assert [line for line in statements if "SELECT" in line and "store" in line]
            for value in ("users.ana", "prefs", "meal", "vegan"):
                assert value not in outcome.err
            assert memctl("-s", address, "-o", "name", *command).err == ""

    def test_sqlite(self, memctl: Memctl, store: Path) -> None:
        self.check(memctl, store)

    def test_postgres(self, memctl: Memctl, postgres_sample: Database) -> None:
        self.check(memctl, postgres_sample.tcp_url)


class TestJson:
    def test_timestamps(self, memctl: Memctl, store: Path) -> None:
        instant = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
        for row in memctl.json("-s", store, "search"):
            assert instant.fullmatch(row["created_at"])
            assert instant.fullmatch(row["updated_at"])
            assert row["expires_at"] is None or instant.fullmatch(row["expires_at"])

    def test_count_and_stats_and_ls_agree(self, memctl: Memctl, store: Path) -> None:
        counted = memctl.json("-s", store, "search", "--count")["count"]
        assert counted == sum(row["items"] for row in memctl.json("-s", store, "ls")) == len(ITEMS)
        assert memctl.json("-s", store, "stats")["items"] == counted

    def test_errors_are_one_object_on_stderr(self, memctl: Memctl, store: Path) -> None:
        for output in ("json", "jsonl"):
            outcome = memctl("-s", store, "-o", output, "get", "no", "such")
            assert outcome.code == 5
            assert outcome.stderr.count(b"\n") == 1
            assert outcome.error["code"] == "not-found"
        for arguments in (
            ["-o", "json", "ls", "--nonsense"],
            ["ls", "--nonsense", "-o", "json"],
            ["ls", "--limit", "x", "--output=json"],
        ):
            assert memctl("-s", store, *arguments).error["code"] == "usage"


class TestProcesses:
    """As a shell sees them."""

    def test_exit_codes(self, memctl: Memctl, store: Path) -> None:
        assert memctl.process("-s", store, "ls", "-o", "name").out == "\n".join(
            dict.fromkeys(prefix for prefix, _ in NAMES)
        ) + "\n"  # fmt: skip
        assert memctl.process("-s", store, "get", "no", "such").code == 5
        assert memctl.process("-s", "missing.db", "ls").code == 10
        assert memctl.process("ls").code == 2
        outcome = memctl.process("--version")
        assert (outcome.code, outcome.err) == (0, "")
        assert re.fullmatch(r"memctl \d+\.\d+\.\d+\S*\n", outcome.out)
        assert memctl.process("--help").code == 0
        assert memctl.process("get", "--help").code == 0

    def test_names_through_a_pipe(self, memctl: Memctl, store: Path) -> None:
        names = memctl.process("-s", store, "-o", "name", "search", "seat").stdout
        outcome = memctl.process(
            "-o", "name", "get", "--from", "-", stdin=names, variables={"MEMCTL_STORE": str(store)}
        )
        assert (outcome.code, outcome.stdout) == (0, names)

    @pytest.mark.parametrize("output", ["table", "json", "jsonl", "csv", "name", "markdown"])
    def test_a_reader_that_goes_away(self, memctl: Memctl, make_store: MakeStore, output: str) -> None:
        text = json.dumps({"t": "x" * 400})
        store = make_store(RawItem("a" * 200, f"{number:05}", text) for number in range(2_000))
        with subprocess.Popen(
            memctl.command("-s", store, "-o", output, "search"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=memctl.environment(), cwd=memctl.folder,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(30) == 141

    def test_a_reader_that_was_never_there(self, memctl: Memctl, store: Path) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        for arguments in (
            ["ls"],
            ["info"],
            ["get", PREFS, "seat", "--value"],
            ["--version"],
            ["--help"],
            ["completion", "bash"],
        ):
            done = subprocess.run(
                memctl.command("-s", store, *arguments), stdout=writing, stderr=subprocess.PIPE,
                env=memctl.environment(), cwd=memctl.folder,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (141, b""), arguments
        os.close(writing)

    def test_ctrl_c(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store(
            RawItem("a", f"{number:05}", json.dumps({"t": "x" * 2000})) for number in range(2_000)
        )
        before = store.read_bytes()
        with subprocess.Popen(
            memctl.command("-s", store, "-o", "jsonl", "search"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=memctl.environment(), cwd=memctl.folder,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(10)  # it is in the middle of its output, and nobody reads on
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert json.loads(process.stderr.read())["error"]["code"] == "interrupted"
        assert store.read_bytes() == before

    def test_ctrl_c_while_it_waits(self, memctl: Memctl, silent_port: int) -> None:
        with subprocess.Popen(
            memctl.command("-s", f"postgresql://me@127.0.0.1:{silent_port}/x", "--timeout", "60", "ls"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=memctl.environment(), cwd=memctl.folder,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert b"Traceback" not in process.stderr.read()


FORBIDDEN = ("psycopg", "psycopg_binary", "sqlite_utils", "numpy", "langgraph", "langchain", "langchain_core",
             "wordllama",
             "tabulate", "rich")  # fmt: skip


class TestStartUp:
    """Start-up is part of the interface: what is imported is looked at in a real process."""

    def modules(self, memctl: Memctl, *arguments: str | Path, **variables: str) -> set[str]:
        script = (
            "import sys\nfrom memctl.cli.app import run\ncode = run(sys.argv[1:])\nsys.stdout.flush()\n"
            "print(' '.join({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\nsys.exit(code)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True, text=True, env=memctl.environment(variables), cwd=memctl.folder, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return set(done.stderr.splitlines()[-1].split())

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--version"],
            ["completion", "bash"],
            ["completion", "zsh"],
            ["get", PREFS, "seat", "-o", "json"],
            ["get", PREFS, "seat", "--value"],
            ["get", PREFS, "meal", "--vectors", "-o", "jsonl"],
            ["ls", "-o", "json"],
            ["ls", "-o", "name"],
            ["search", "seat", "-o", "jsonl"],
            ["search", "--like", PREFS, "meal", "-o", "csv"],
        ],
        ids=" ".join,
    )
    def test_nothing_heavy(self, memctl: Memctl, store: Path, arguments: list[str]) -> None:
        loaded = self.modules(memctl, "-s", store, *arguments)
        assert not loaded & set(FORBIDDEN)

    def test_a_small_table_may_take_tabulate_but_no_driver(self, memctl: Memctl, store: Path) -> None:
        for arguments in (["ls"], ["get", PREFS, "seat"], ["ls", "--items"]):
            assert not self.modules(memctl, "-s", store, *arguments) & (set(FORBIDDEN) - {"tabulate"})

    def test_completion_of_words(self, memctl: Memctl, store: Path) -> None:
        """Also of namespaces and keys, for which the store is opened."""
        for words in (["l"], ["ls", "--s"], ["-s", store, "get", ""], ["-s", store, "get", PREFS, "s"]):
            assert not self.modules(memctl, *words, _MEMCTL_COMPLETE="zsh") & set(FORBIDDEN)

    @pytest.mark.parametrize("arguments", [["--help"], ["search", "--help"]], ids=" ".join)
    def test_help_takes_rich_at_most(self, memctl: Memctl, arguments: list[str]) -> None:
        assert not self.modules(memctl, *arguments) & (set(FORBIDDEN) - {"rich"})

    def test_agents_packages_are_imported_for_nothing(self, memctl: Memctl, store: Path) -> None:
        for arguments in (["stats"], ["info"], ["search"], ["ls", "--tree"]):
            loaded = self.modules(memctl, "-s", store, *arguments)
            assert not {name for name in loaded if name.startswith(("langgraph", "langchain", "langmem"))}
            assert not loaded & {"psycopg", "numpy"}
