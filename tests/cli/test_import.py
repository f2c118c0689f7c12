"""`memctl import`: what comes in, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ITEMS, NAMES, PREFS, MakeStore
from tests.contract.backends import DIMS, RawItem, SqliteBackend, vector
from tests.databases import Database
from tests.invocation import Memctl

KEYS = {"items", "vectors", "bytes", "skipped", "rejected", "dry_run", "seconds"}
BARE = b'{"namespace": ["a", "b"], "key": "k", "value": {"n": 1.0}}\n'


@pytest.fixture
def archive(memctl: Memctl, store: Path) -> Path:
    """`ITEMS` as an archive; the store that they come from is left."""
    path = memctl.folder / "archive.jsonl"
    assert memctl("-s", store, "export", "-f", path).code == 0
    return path


@pytest.fixture
def target(memctl: Memctl) -> Path:
    """An empty store."""
    path = memctl.folder / "target.db"
    assert memctl("-s", path, "init", "--dims", str(DIMS)).code == 0
    return path


def rows(path: Path, columns: str = "prefix, key, value") -> list[tuple[Any, ...]]:
    """The items as they stand in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {columns} FROM store ORDER BY prefix, key").fetchall()


def test_elements_are_counted_as_such(memctl: Memctl, target: Path) -> None:
    path = memctl.folder / "array.json"
    good, bad = BARE.strip(), b'{"namespace": ["a", "b"], "key": "z", "value": {}, "created_at": "soon"}'
    path.write_bytes(b"[" + b",\n\n\n".join([good, bad, good]) + b"]")
    error = memctl.refuse("-s", target, "import", path, code=1)
    assert "element: `created_at` is no time" in error["message"]
    assert "(element 2)" in error["message"]
    assert "the same namespace and key as another item (element 1) (element 3)" in error["message"]
    outcome = memctl("-s", target, "import", path, "--on-error", "skip")
    assert outcome.code == 3
    assert "element 2: `created_at` is no time" in outcome.err
    assert "line" not in outcome.err


class TestWhatComesIn:
    def test_an_archive(self, memctl: Memctl, store: Path, archive: Path, target: Path) -> None:
        report = memctl.json("-s", target, "import", archive)
        assert report.keys() >= KEYS
        assert (report["items"], report["vectors"], report["skipped"], report["rejected"]) == (6, 4, 0, 0)
        assert report["bytes"] == sum(len(item.value.encode()) for item in ITEMS)
        assert report["dry_run"] is False
        columns = "prefix, key, value, created_at, updated_at, expires_at, ttl_minutes"
        assert rows(target, columns) == rows(store, columns)

    def test_the_final_line_says_what_was_moved(self, memctl: Memctl, archive: Path, target: Path) -> None:
        outcome = memctl("-s", target, "import", archive)
        assert "6 items and 4 vectors imported in" in outcome.out + outcome.err
        outcome = memctl("-s", target, "import", archive)
        assert "6 there already and equal" in outcome.out + outcome.err

    def test_standard_input(self, memctl: Memctl, archive: Path, target: Path) -> None:
        octets = archive.read_bytes()
        assert memctl.json("-s", target, "import", "-", stdin=gzip.compress(octets))["items"] == 6
        assert memctl.json("-s", target, "import", "-", stdin=octets)["unchanged"] == 6

    @pytest.mark.parametrize(
        "document",
        [
            BARE,
            b'[{"namespace": "a.b", "key": "k", "value": {"n": 1.0}}]',
            b'\n{"key": "k", "value": {"n": 1.0}, "namespace": "a.b"}',
        ],
    )
    def test_bare_json(self, memctl: Memctl, target: Path, document: bytes) -> None:
        assert memctl.json("-s", target, "import", "-", stdin=document)["items"] == 1
        ((prefix, key, value),) = rows(target)
        assert (prefix, key) == ("a.b", "k")
        assert (value if isinstance(value, str) else value.decode()) == '{"n": 1.0}'
        assert memctl("-s", target, "get", "a.b", "k").code == 0

    def test_bare_lines_without_times_get_those_of_now(self, memctl: Memctl, target: Path) -> None:
        memctl.json("-s", target, "import", "-", stdin=BARE)
        assert rows(target, "created_at, updated_at") == [("2026-11-30 08:00:00", "2026-11-30 08:00:00")]

    def test_a_selection(self, memctl: Memctl, archive: Path, target: Path) -> None:
        assert (
            memctl.json("-s", target, "import", archive, "--in", "users.ana", "--filter", "n=9")["items"] == 1
        )
        assert [row[:2] for row in rows(target)] == [(PREFS, "seat")]

    def test_into_and_map(self, memctl: Memctl, archive: Path, target: Path) -> None:
        memctl.json("-s", target, "import", archive, "--map", "users.{u}.prefs=prefs.{u}", "--into", "old")
        assert [row[0] for row in rows(target)] == [
            "old.org.acme.facts", "old.prefs.ana", "old.prefs.ana", "old.prefs.bo",
            "old.users.ana.memories", "old.users.ana.memories",
        ]  # fmt: skip

    def test_without_vectors(self, memctl: Memctl, archive: Path, target: Path) -> None:
        report = memctl.json("-s", target, "import", archive, "--no-vectors", code=3)
        assert (report["items"], report["vectors"], report["vectors_left_out"]) == (6, 0, 4)


class TestConflicts:
    @pytest.fixture
    def other(self, memctl: Memctl, archive: Path, target: Path) -> Path:
        """The target holds everything, one item of it changed and newer."""
        memctl.json("-s", target, "import", archive)
        backend = SqliteBackend(target.parent)
        backend.path = target
        backend.execute(
            "UPDATE store SET value = '{\"value\": \"mine\"}', updated_at = '2026-12-01 00:00:00' WHERE key = 'meal'"
        )
        return target

    def mine(self, target: Path) -> bool:
        return any(row[2] == '{"value": "mine"}' for row in rows(target))

    def test_fail(self, memctl: Memctl, archive: Path, other: Path) -> None:
        before = other.read_bytes()
        error = memctl.refuse("-s", other, "import", archive, code=1)
        assert error["code"] == "conflict"
        assert f"{PREFS} 'meal'" in error["message"]
        assert other.read_bytes() == before

    def test_skip(self, memctl: Memctl, archive: Path, other: Path) -> None:
        report = memctl.json("-s", other, "import", archive, "--on-conflict", "skip")
        assert (report["items"], report["skipped"], report["unchanged"]) == (0, 1, 5)
        assert self.mine(other)

    def test_newer_leaves_what_is_newer(self, memctl: Memctl, archive: Path, other: Path) -> None:
        report = memctl.json("-s", other, "import", archive, "--on-conflict", "newer")
        assert (report["items"], report["skipped"]) == (0, 1)
        assert self.mine(other)

    @pytest.mark.parametrize("rule", ["overwrite", "newer"])
    def test_overwriting_needs_yes(self, memctl: Memctl, archive: Path, other: Path, rule: str) -> None:
        backend = SqliteBackend(other.parent)
        backend.path = other
        backend.execute("UPDATE store SET updated_at = '2020-01-01 00:00:00' WHERE key = 'meal'")
        before = other.read_bytes()
        error = memctl.refuse("-s", other, "import", archive, "--on-conflict", rule, code=2)
        assert error["code"] == "needs-yes"
        assert other.read_bytes() == before
        report = memctl.json("-s", other, "import", archive, "--on-conflict", rule, "--yes")
        assert (report["items"], report["overwritten"], report["unchanged"]) == (1, 1, 5)
        assert not self.mine(other)
        assert memctl("diff", archive, other).code == 0

    def test_equal_items_never_need_it(self, memctl: Memctl, archive: Path, target: Path) -> None:
        memctl.json("-s", target, "import", archive)
        before = target.read_bytes()
        assert memctl.json("-s", target, "import", archive, "--on-conflict", "overwrite")["items"] == 0
        assert target.read_bytes() == before


GOOD = b'{"namespace":["a"],"key":"%d","value":{"n":1}}\n'
BAD_LINES = [
    (b"{", "no valid JSON"),
    (b'{"namespace":["a"],"key":"k"}', "`value` is missing"),
    (b'{"namespace":["a"],"value":{}}', "`key`"),
    (b'{"key":"k","value":{}}', "`namespace`"),
    (b'{"namespace":["a",1],"key":"k","value":{}}', "namespace"),
    (b'{"namespace":["a.b"],"key":"k","value":{}}', "namespace"),
    (b'{"namespace":[],"key":"k","value":{}}', "namespace"),
    (b'{"namespace":["a",""],"key":"k","value":{}}', "label is empty"),
    (b'{"namespace":["langgraph"],"key":"k","value":{}}', "reserved"),
    (b'{"namespace":["a"],"key":1,"value":{}}', "key"),
    (b'{"namespace":["a"],"key":"k","value":[1]}', "value"),
    (b'{"namespace":["a"],"key":"k","value":{"n":NaN}}', ""),
    (b'{"namespace":["a"],"key":"k","value":{},"created_at":"yesterday"}', "created_at"),
    (b'{"namespace":["a"],"key":"k","value":{},"ttl_minutes":"x"}', "ttl_minutes"),
    (b'{"namespace":["a"],"key":"k","value":{},"vectors":[{"field":"t","embedding":"!"}]}', "embedding"),
    (b'{"namespace":["a"],"key":"1","value":{"n":2}}', "the same namespace and key as another item (line 1)"),
    (b'{"namespace":["a"],"key":"k","value":{"t":"\xff"}}', ""),
]  # fmt: skip


class TestRefused:
    @pytest.mark.parametrize(("line", "reason"), BAD_LINES)
    def test_a_bad_line_is_named_and_nothing_written(
        self, memctl: Memctl, target: Path, line: bytes, reason: str
    ) -> None:
        document = GOOD % 1 + GOOD % 2 + line + b"\n" + GOOD % 3
        before = target.read_bytes()
        error = memctl.refuse("-s", target, "import", "-", stdin=document, code=1)
        assert "line 3" in error["message"]
        assert reason in error["message"]
        assert target.read_bytes() == before

    @pytest.mark.parametrize(("line", "reason"), BAD_LINES)
    def test_the_rest_comes_in_when_asked(
        self, memctl: Memctl, target: Path, line: bytes, reason: str
    ) -> None:
        document = GOOD % 1 + GOOD % 2 + line + b"\n" + GOOD % 3
        outcome = memctl(
            "-s",
            target,
            "import",
            "-",
            "-o",
            "json",
            "--on-error",
            "skip",
            "--rejects",
            "rejects",
            stdin=document,
        )
        assert outcome.code == 3, outcome.err
        assert (outcome.json()["items"], outcome.json()["rejected"]) == (3, 1)
        assert "line 3: " in outcome.err
        assert reason in outcome.err
        assert [row[1] for row in rows(target)] == ["1", "2", "3"]
        assert (memctl.folder / "rejects").read_bytes().splitlines()[0][:6] == line[:6]

    def test_binary_data(self, memctl: Memctl, target: Path) -> None:
        document = GOOD % 1 + b"\x00\x01\x02\n"
        assert "binary" in memctl.refuse("-s", target, "import", "-", stdin=document, code=1)["message"]
        assert rows(target) == []

    def test_raw_takes_what_the_library_refuses(self, memctl: Memctl, target: Path) -> None:
        document = b'{"namespace":["langgraph",""],"key":"","value":[1]}\n'
        assert memctl.json("-s", target, "import", "-", "--raw", stdin=document)["items"] == 1
        assert [row[:2] for row in rows(target)] == [("langgraph.", "")]

    def test_an_existing_file_of_rejects(self, memctl: Memctl, archive: Path, target: Path) -> None:
        error = memctl.refuse("-s", target, "import", archive, "--rejects", archive, code=2)
        assert "exists already" in error["message"]
        assert rows(target) == []

    @pytest.mark.parametrize(("damage", "line"), [("truncated", "line 8"), ("edited", "line")])
    def test_a_damaged_archive(
        self, memctl: Memctl, archive: Path, target: Path, damage: str, line: str
    ) -> None:
        octets = archive.read_bytes()
        damaged = (
            octets[: octets.rindex(b"\n", 0, -1) - 20]
            if damage == "truncated"
            else octets.replace(b"vegan", b"meaty")
        )
        before = target.read_bytes()
        error = memctl.refuse("-s", target, "import", "-", stdin=damaged, code=1)
        assert line in error["message"]
        assert target.read_bytes() == before

    @pytest.mark.parametrize("options", [["--dry-run"], []])
    def test_no_file_is_made_for_a_refused_import(self, memctl: Memctl, options: list[str]) -> None:
        memctl.refuse("-s", "new.db", "import", "-", "--init", *options, stdin=b'{"key":1}\n', code=1)
        assert list(memctl.folder.iterdir()) == []

    def test_a_line_of_many_megabytes(self, memctl: Memctl, target: Path) -> None:
        text = "x" * 20_000_000
        line = json.dumps({"namespace": ["a"], "key": "k", "value": {"text": text}}).encode()
        assert memctl.json("-s", target, "import", "-", stdin=line)["bytes"] > 20_000_000
        error = memctl.refuse("-s", target, "import", "-", stdin=b"{" + b"x" * 20_000_000, code=1)
        assert "line 1" in error["message"]
        assert len(error["message"]) < 1_000

    @pytest.mark.parametrize(
        "options",
        [
            ["--on-conflict", "merge"],
            ["--on-error", "ignore"],
            ["--round-ttl", "down"],
            ["--dims", "8"],
            ["--init", "--no-vectors", "--index", "hnsw"],
            ["--init", "--dims", "8", "--index", "btree"],
            ["--map", "a"],
            ["--map", "{a}=b"],
            ["--into", "*"],
        ],
    )
    def test_usage(self, memctl: Memctl, archive: Path, target: Path, options: list[str]) -> None:
        memctl.refuse("-s", target, "import", archive, *options, code=2)
        assert rows(target) == []

    def test_a_file_that_is_not_there(self, memctl: Memctl, target: Path) -> None:
        assert "none.jsonl" in memctl.refuse("-s", target, "import", "none.jsonl", code=2)["message"]

    def test_no_store(self, memctl: Memctl, archive: Path) -> None:
        assert memctl.refuse("-s", "none.db", "import", archive, code=10)["code"] == "missing"
        assert not (memctl.folder / "none.db").exists()


class TestTarget:
    def test_a_dry_run_writes_and_creates_nothing(self, memctl: Memctl, archive: Path, target: Path) -> None:
        before = target.read_bytes()
        report = memctl.json("-s", target, "import", archive, "--dry-run")
        assert (report["items"], report["vectors"], report["dry_run"]) == (6, 4, True)
        assert target.read_bytes() == before
        report = memctl.json("-s", "new.db", "import", archive, "--init", "--dry-run")
        assert report["items"] == 6
        assert not (memctl.folder / "new.db").exists()

    def test_a_dry_run_on_postgres(self, memctl: Memctl, archive: Path, database: Database) -> None:
        outcome = memctl("-s", database.url, "import", archive, "--init", "--dry-run", "--round-ttl", "up")
        assert outcome.code == 0, outcome.err
        assert database.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'store%'") == [(0,)]

    def test_what_only_the_server_can_tell_is_found_before_a_row_is_written(
        self, memctl: Memctl, database: Database
    ) -> None:
        """A number past numeric, for example; it takes no table to ask."""
        document = GOOD % 1 + b'{"namespace":["a"],"key":"2","value":{"n":1e999999}}\n'
        error = memctl.refuse("-s", database.url, "import", "-", "--init", stdin=document, code=1)
        assert "numeric" in error["message"]
        assert database.execute("SELECT to_regclass('store')") == [(None,)]

    def test_a_target_without_vectors(self, memctl: Memctl, archive: Path) -> None:
        target = memctl.folder / "plain.db"
        assert memctl("-s", target, "init").code == 0
        error = memctl.refuse("-s", target, "import", archive, code=1)
        assert "vectors: the store has no vector tables" in error["message"]
        report = memctl.json("-s", target, "import", archive, "--drop-vectors", code=3)
        assert (report["items"], report["vectors_left_out"]) == (6, 4)

    def test_other_dims_on_postgres(self, memctl: Memctl, database: Database, make_store: MakeStore) -> None:
        source = make_store(
            [RawItem("a", "k", vectors=(vector("t", dims=4),)), RawItem("a", "l", vectors=(vector("t"),))]
        )
        memctl("-s", source, "export", "-f", "a.jsonl")
        assert memctl("-s", database.url, "init", "--dims", "8").code == 0
        error = memctl.refuse("-s", database.url, "import", "a.jsonl", code=1)
        assert "not of the column's 8 dims" in error["message"]
        assert memctl.json("-s", database.url, "import", "a.jsonl", "--drop-vectors", code=3)["vectors"] == 1

    def test_busy(self, memctl: Memctl, archive: Path, target: Path) -> None:
        with closing(sqlite3.connect(target, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            error = memctl.refuse("-s", target, "import", archive, "--timeout", "0.2", code=11)
        assert error["code"] == "busy"
        assert rows(target) == []

    def test_a_file_in_need_of_recovery(self, memctl: Memctl, archive: Path, target: Path) -> None:
        """What a killed writer had begun is rolled back, but not by a dry run."""
        hot, journal = memctl.folder / "hot.db", memctl.folder / "hot.db-journal"
        with closing(sqlite3.connect(target, isolation_level=None)) as killed:
            killed.execute("PRAGMA cache_size = 2")
            killed.execute("BEGIN")
            killed.executemany(
                "INSERT INTO store (prefix, key, value) VALUES ('a', ?, '{}')",
                ((f"{n:0999}",) for n in range(500)),
            )
            shutil.copy(target, hot)
            shutil.copy(f"{target}-journal", journal)
            killed.execute("ROLLBACK")
        before = hot.read_bytes(), journal.read_bytes()
        error = memctl.refuse("-s", hot, "import", archive, "--dry-run", code=11)
        assert error["code"] == "needs-recovery"
        assert (hot.read_bytes(), journal.read_bytes()) == before
        outcome = memctl("-s", hot, "import", archive)
        assert outcome.code == 0
        assert "a commit that a crash had cut short was rolled back" in outcome.err
        assert f"{len(ITEMS)} items" in outcome.out
        assert [row[:2] for row in rows(hot)] == NAMES

    def test_a_store_that_only_the_folder_names_is_told(
        self, memctl: Memctl, archive: Path, target: Path
    ) -> None:
        (memctl.folder / "memctl.toml").write_text(f'default = "mine"\n[stores.mine]\nurl = "{target}"\n')
        outcome = memctl("import", archive)
        assert outcome.code == 0, outcome.err
        assert "writing to the store that" in outcome.err
        assert "memctl.toml names" in outcome.err
        assert "memctl.toml" not in memctl("-s", target, "import", archive).err
