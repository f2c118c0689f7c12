"""`memctl rm`: what it covers, when it asks, and what stays if it is stopped."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ITEMS, NAMES, PREFS, MakeStore
from tests.contract.backends import RawItem, vector
from tests.invocation import Memctl

KEYS = {"items", "vectors", "bytes", "skipped", "rejected", "dry_run", "seconds"}


def left(memctl: Memctl, store: Path) -> list[tuple[str, ...]]:
    return memctl.names("-s", store, "ls", "--items")


class TestAsking:
    @pytest.mark.parametrize("arguments", [(PREFS, "seat"), ("users", "--recursive"), ("--expired",)])
    def test_without_a_terminal_it_needs_yes(
        self, memctl: Memctl, store: Path, arguments: tuple[str, ...]
    ) -> None:
        before = store.read_bytes()
        assert memctl.refuse("-s", store, "rm", *arguments, code=2)["code"] == "needs-yes"
        assert store.read_bytes() == before

    def test_on_a_terminal_it_asks(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from memctl.cli.environment import Environment

        monkeypatch.setattr(Environment, "is_terminal", lambda _self, _stream: True)
        for answer in (b"n\n", b"\n", b""):
            outcome = memctl("-s", store, "rm", PREFS, stdin=answer)
            assert outcome.code == 1
            assert "2 items and 3 vectors will be deleted" in outcome.err
            assert memctl("-s", store, "get", PREFS, "seat").code == 0
        assert memctl("-s", store, "rm", PREFS, stdin=b"y\n").code == 0
        assert memctl("-s", store, "get", PREFS, "seat").code == 5

    def test_where_no_store_is_none_is_made(self, memctl: Memctl) -> None:
        for arguments in (
            ("rm", "a"),
            ("mv", "a", "b"),
            ("expire", "a", "--in", "1d"),
            ("put", "a", "k", "{}"),
        ):
            assert memctl.refuse("-s", "nowhere.db", *arguments, "--yes", code=10)["code"] == "missing"
        assert list(memctl.folder.iterdir()) == []

    def test_everything_needs_all_even_with_yes(self, memctl: Memctl, store: Path) -> None:
        for arguments in ((), ("*",), ("*", "--recursive"), ("*.*", "--recursive")):
            assert memctl.refuse("-s", store, "rm", *arguments, "--yes", code=2)["code"] == "needs-all"
        assert memctl.refuse("-s", store, "rm", "", "--yes", code=5)["code"] == "not-found"
        assert len(left(memctl, store)) == len(ITEMS)
        assert memctl.json("-s", store, "rm", "*", "--recursive", "--all", "--yes")["items"] == len(ITEMS)

    def test_what_the_environment_says_is_no_yes(self, memctl: Memctl, store: Path) -> None:
        variables = {"MEMCTL_YES": "1", "MEMCTL_ALL": "1"}
        assert memctl.refuse("-s", store, "rm", "--all", code=2, variables=variables)["code"] == "needs-yes"
        assert memctl.refuse("-s", store, "rm", "-y", code=2, variables=variables)["code"] == "needs-all"

    def test_what_makes_no_sense_together(self, memctl: Memctl, store: Path) -> None:
        for arguments in (
            ("--from", "-", PREFS), ("--from", "-", "--recursive"), ("--from", "-", "--expired"),
            (PREFS, "seat", "--recursive"), (PREFS, "seat", "--text", "a"), ("users.*", "seat"),
        ):  # fmt: skip
            assert memctl.refuse("-s", store, "rm", *arguments, "--yes", code=2)["code"] == "usage"
        assert memctl("-o", "name", "-s", store, "rm", PREFS, "--yes").code == 2
        assert len(left(memctl, store)) == len(ITEMS)


class TestWhatItCovers:
    def test_it_says_first_what_stays(self, memctl: Memctl, make_store: MakeStore) -> None:
        names = ("users.bo", "users.bo.prefs", "users.bo-x.y", "users.bo_2.prefs", "users.boris", "users.c")
        store = make_store(RawItem(name, "k", vectors=(vector("$"),)) for name in names)
        outcome = memctl("-s", store, "rm", "users.bo", "--dry-run")
        assert outcome.code == 0
        assert "covers 1 item and 1 vector (8 B) in users.bo\n" in outcome.err
        assert "leaves 1 item in 1 namespace below it (--recursive)\n" in outcome.err
        assert "leaves users.bo-x, users.bo_2, users.boris: " in outcome.err
        outcome = memctl("-s", store, "rm", "users.bo", "--recursive", "--dry-run")
        assert "covers 2 items and 2 vectors" in outcome.err
        assert "below it" not in outcome.err

    def test_a_rehearsal_needs_no_right_to_write(self, memctl: Memctl, store: Path) -> None:
        before = store.read_bytes()
        report = memctl.json("-s", store, "rm", "users", "--recursive", "--dry-run", "--save", "x.jsonl")
        assert report.keys() >= KEYS
        assert (report["items"], report["vectors"], report["dry_run"]) == (5, 4, True)
        assert store.read_bytes() == before
        assert [path.name for path in memctl.folder.iterdir()] == [store.name]

    def test_names_come_back_as_they_were_written(self, memctl: Memctl, make_store: MakeStore) -> None:
        odd = [RawItem("a", "tab\tand\nline"), RawItem("*", "k"), RawItem("{x}", "\\n"), RawItem("a..b", "")]
        store = make_store([*odd, RawItem("a", "stays")])
        names = memctl("-o", "name", "-s", store, "search", "--filter", "n=1").stdout
        (memctl.folder / "names").write_bytes(
            b"\n".join(line for line in names.split(b"\n") if b"stays" not in line)
        )
        assert memctl.json("-s", store, "rm", "--from", "names", "--yes")["items"] == 4
        assert left(memctl, store) == [("a", "stays")]


class TestExitCodes:
    def test_nothing_there(self, memctl: Memctl, store: Path) -> None:
        assert memctl.refuse("-s", store, "rm", "users.cy", "--yes", code=5)["code"] == "not-found"
        error = memctl.refuse("-s", store, "rm", "users", "--yes", code=5)
        assert "5 items in 3 namespaces below it: --recursive" in (error["hint"] or "")
        for arguments in (
            (PREFS, "nothing"), ("users.*.cars",), (PREFS, "--filter", "n=77"), ("--text", "nowhere"),
        ):  # fmt: skip
            for rehearsal in ((), ("--dry-run",)):
                assert memctl.json("-s", store, "rm", *arguments, "--yes", *rehearsal, code=5)["items"] == 0
        assert len(left(memctl, store)) == len(ITEMS)

    def test_a_busy_file(self, memctl: Memctl, store: Path) -> None:
        import sqlite3

        other = sqlite3.connect(store, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        error = memctl.refuse("-s", store, "--timeout", "0.1", "rm", PREFS, "--yes", code=11)
        assert error["code"] == "busy"
        other.execute("COMMIT")
        other.close()
        assert memctl.json("-s", store, "rm", PREFS, "--yes")["items"] == 2


class TestSaving:
    def test_a_file_that_exists_is_refused(self, memctl: Memctl, store: Path) -> None:
        (memctl.folder / "there").write_text("x")
        for rehearsal in ((), ("--dry-run",)):
            arguments = ("rm", PREFS, "--yes", "--save", "there", *rehearsal)
            assert memctl.refuse("-s", store, *arguments, code=2)["code"] == "exists"
        assert len(left(memctl, store)) == len(ITEMS)
        assert (memctl.folder / "there").read_text() == "x"

    def test_interrupted_it_holds_what_is_gone(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from memctl.stores.sqlite.writer import SqliteWriter

        real, calls = SqliteWriter.apply, []
        monkeypatch.setattr(
            SqliteWriter, "batch_rows", property(lambda _self: 2, lambda _self, _rows: None), raising=False
        )

        def apply(self: Any, changes: Any) -> Any:
            calls.append(changes)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return real(self, changes)

        monkeypatch.setattr(SqliteWriter, "apply", apply)
        outcome = memctl("-s", store, "rm", "users", "--recursive", "--yes", "--save", "kept.jsonl.gz")
        assert outcome.code == 130
        assert "2 items deleted until then" in outcome.err
        assert len(left(memctl, store)) == 4
        monkeypatch.undo()
        assert memctl("verify", "kept.jsonl.gz").code == 0
        assert memctl.json("-s", store, "import", "kept.jsonl.gz")["items"] == 2
        assert [tuple(name) for name in left(memctl, store)] == NAMES

    def test_nothing_gone_no_file(self, memctl: Memctl, store: Path) -> None:
        memctl.json("-s", store, "rm", PREFS, "nothing", "--yes", "--save", "kept.jsonl", code=5)
        assert not (memctl.folder / "kept.jsonl").exists()

    def test_what_was_overtaken_is_kept_as_it_went(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first item is written by somebody else between reading and deleting, so it is kept twice."""
        from memctl.stores.sqlite.writer import SqliteWriter

        real, calls = SqliteWriter.apply, []

        def apply(self: Any, changes: Any) -> Any:
            if not calls:
                self._writer.execute("UPDATE store SET value = '{\"n\": 99}' WHERE key = 'meal'")
            calls.append(changes)
            return real(self, changes)

        monkeypatch.setattr(SqliteWriter, "apply", apply)
        report = memctl.json("-s", store, "rm", PREFS, "--yes", "--save", "kept.jsonl")
        assert (report["items"], report["skipped"], len(calls)) == (2, 0, 2)
        assert memctl("verify", "kept.jsonl").code == 0
        lines = [json.loads(line) for line in (memctl.folder / "kept.jsonl").read_text().splitlines()]
        assert [(line["key"], line["value"].get("n")) for line in lines[1:-1]] == [("meal", 99), ("seat", 9)]

    def test_a_selection_leaves_what_no_longer_fits(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from memctl.stores.sqlite.writer import SqliteWriter

        real = SqliteWriter.apply

        def apply(self: Any, changes: Any) -> Any:
            self._writer.execute("UPDATE store SET value = '{\"n\": 10}' WHERE key = 'seat'")
            return real(self, changes)

        monkeypatch.setattr(SqliteWriter, "apply", apply)
        memctl.json("-s", store, "rm", PREFS, "--filter", "n=9", "--yes", code=5)
        assert len(left(memctl, store)) == len(ITEMS)

    @pytest.mark.parametrize("held", [1, 1 << 20])
    def test_what_takes_a_look_inside_is_read_once(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch, held: int
    ) -> None:
        """What was told and confirmed is what goes, also by way of a file; to be kept, it has to be read again."""
        from memctl import choosing
        from memctl.selection import Selection

        real, calls = Selection.select, []

        def select(self: Any, *arguments: Any, **rest: Any) -> Any:
            calls.append(self)
            return real(self, *arguments, **rest)

        monkeypatch.setattr(choosing, "HELD_OCTETS", held)
        monkeypatch.setattr(Selection, "select", select)
        report = memctl.json("-s", store, "rm", "users", "--recursive", "--text", "a", "--yes")
        assert (report["items"], report["vectors"], len(calls)) == (3, 3, 1)
        calls.clear()
        memctl.json("-s", store, "rm", "--text", "reporting", "--yes", "--save", "kept.jsonl")
        assert len(calls) == 2
        assert len(left(memctl, store)) == 2

    def test_what_has_expired_is_looked_up(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from memctl.selection import Selection

        monkeypatch.delattr(Selection, "select")
        assert (
            memctl.json("-s", store, "rm", "--expired", "--until", "2026-11-30", "--yes", code=5)["items"]
            == 0
        )
        assert memctl.json("-s", store, "rm", "--expired", "--yes")["items"] == 1
        assert len(left(memctl, store)) == len(ITEMS) - 1

    def test_a_full_disk_loses_nothing(
        self, memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What went with the first batch is under the name, though the archive has no end."""
        from memctl.archive import files
        from memctl.stores.sqlite.writer import SqliteWriter

        two = property(lambda _self: 2, lambda _self, _rows: None)
        monkeypatch.setattr(SqliteWriter, "batch_rows", two, raising=False)
        real, written = files._Hastening.write, []

        def write(self: Any, octets: Any) -> int:
            if len(written) >= 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(octets)
            return real(self, octets)

        monkeypatch.setattr(files._Hastening, "write", write)
        error = memctl.refuse(
            "-s", store, "rm", "users", "--recursive", "--yes", "--save", "kept.jsonl", code=1
        )
        assert error["code"] == "no-space"
        gone = set(NAMES) - {tuple(name) for name in left(memctl, store)}
        lines = [json.loads(line) for line in (memctl.folder / "kept.jsonl").read_text().splitlines()]
        kept = {(".".join(line["namespace"]), line["key"]) for line in lines[1:]}
        assert gone
        assert gone <= kept
        assert [path.name for path in memctl.folder.glob(".*.part")] == []
