"""`memctl export`: archives, arrays and reports; whole files or none; snapshots of stores in use."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

from memctl.archive import PARTS, Line, read
from memctl.archive import verify as check
from tests.cli.conftest import ITEMS, NAMES, PREFS, MakeStore
from tests.conftest import NewDatabase
from tests.contract.backends import DIMS, PostgresBackend, RawItem, SqliteBackend, WalBackend, vector
from tests.invocation import NOW, Memctl, exact


def lines_of(octets: bytes) -> list[Line]:
    """The lines of an archive that is good."""
    assert check(read(io.BytesIO(octets))).is_good
    return list(read(io.BytesIO(octets)))


def names_of(octets: bytes) -> list[tuple[str, str]]:
    """What an archive holds."""
    return [(line.item.prefix, line.item.key) for line in lines_of(octets) if line.item]


def header_of(octets: bytes) -> dict[str, Any]:
    """The first line of an archive."""
    found: dict[str, Any] = json.loads(octets.splitlines()[0])
    return found


def exported(memctl: Memctl, store: Path | str, *arguments: str, code: int = 0) -> bytes:
    """The archive that a command writes to standard output."""
    outcome = memctl("-s", store, "export", *arguments)
    assert outcome.code == code, outcome.err
    return outcome.stdout


class TestArchive:
    def test_everything_in_every_part(self, memctl: Memctl, store: Path) -> None:
        octets = exported(memctl, store)
        for line, original in zip(lines_of(octets), ITEMS, strict=True):
            item = line.item
            assert item is not None
            assert (item.prefix, item.key, item.value) == (
                original.prefix,
                original.key,
                original.value.encode(),
            )
            assert (item.created_at, item.updated_at) == (original.created_at, original.updated_at)
            assert (item.expires_at, item.ttl_minutes) == (original.expires_at, original.ttl_minutes)
            assert [(each.field, each.embedding) for each in item.vectors] == [
                (each.field, each.octets) for each in original.vectors
            ]
            assert line.parts == set(PARTS)

    def test_the_header(self, memctl: Memctl, store: Path) -> None:
        assert header_of(exported(memctl, store)) == {
            "memctl_archive": 1,
            "source": "sqlite",
            "created": "2026-11-30T08:00:00.000000Z",
            "dims": DIMS,
            "vector_type": "vector",
            "scope": [],
            "items": len(ITEMS),
            "vectors": 4,
            "missing": [],
        }

    def test_without_vectors(self, memctl: Memctl, store: Path) -> None:
        octets = exported(memctl, store, "--no-vectors")
        header = header_of(octets)
        assert (header["vectors"], header["dims"], header["missing"]) == (0, None, ["vectors"])
        assert b'"vectors":[' not in octets.split(b"\n", 1)[1]
        assert "4 vectors left out" in memctl("-s", store, "export", "--no-vectors").err

    def test_a_store_that_lacks_expiry_and_vectors(self, memctl: Memctl, make_store: MakeStore) -> None:
        octets = exported(memctl, make_store([RawItem("a", "k")], expiry=False, vectors=False))
        assert header_of(octets)["missing"] == ["vectors", "vector-times", "expiry"]
        assert [line.parts for line in lines_of(octets)] == [{"value", "created_at", "updated_at"}]

    def test_a_store_that_holds_nothing(self, memctl: Memctl, make_store: MakeStore) -> None:
        octets = exported(memctl, make_store([]))
        assert (header_of(octets)["items"], lines_of(octets)) == (0, [])

    def test_orphans_are_counted_and_left_out(self, memctl: Memctl, store: Path) -> None:
        backend = SqliteBackend(store.parent)
        backend.orphan(PREFS, "gone", vector("text"), vector("tags[*]"))
        octets = exported(memctl, store)
        assert header_of(octets)["vectors"] == 4
        assert (PREFS, "gone") not in names_of(octets)
        assert "2 orphaned vectors left out" in memctl("-s", store, "export").err

    def test_what_cannot_be_decoded_travels_as_it_is(self, memctl: Memctl, make_store: MakeStore) -> None:
        store = make_store([RawItem("a", "bad", '{"half'), RawItem("a", "good"), RawItem("a", "list", "[1]")])
        backend = SqliteBackend(store.parent)
        backend.set_time("expires_at", "1796024563", "good")
        backend.execute("INSERT INTO store (prefix, key, value) VALUES ('b', CAST(x'ff' AS TEXT), x'7b7d')")
        outcome = memctl("-s", store, "export")
        assert outcome.code == 3
        assert "3 items could not be decoded in full" in outcome.err
        found = {line.item.key: line.item for line in lines_of(outcome.stdout) if line.item}
        assert found["bad"].value == b'{"half'
        assert found["list"].value == b"[1]"
        assert found["\udcff"].value == b"{}"
        assert [(problem.part, problem.raw) for problem in found["good"].problems] == [
            ("expires_at", 1796024563)
        ]
        assert found["good"].expires_at == "2026-11-30T07:42:43.000000Z"

    @pytest.mark.parametrize("column", ["created_at", "updated_at", "expires_at"])
    @pytest.mark.parametrize("sql", list(SqliteBackend.odd_times))
    def test_odd_times_come_back_as_the_cell_they_were(
        self, memctl: Memctl, make_store: MakeStore, column: str, sql: str
    ) -> None:
        store = make_store([RawItem("a", "k")])
        backend = SqliteBackend(store.parent)
        backend.set_time(column, sql, "k")
        [(kind, cell)] = backend.execute(f"SELECT typeof({column}), {column} FROM store")
        outcome = memctl("-s", store, "export")
        [line] = lines_of(outcome.stdout)
        assert line.item is not None
        raw = next((problem.raw for problem in line.item.problems if problem.part == column), None)
        _, is_odd = SqliteBackend.odd_times[sql]
        assert raw == (cell if is_odd else None)
        assert outcome.code == (3 if is_odd and cell is not None else 0)
        assert kind == {bytes: "blob", str: "text", int: "integer", float: "real"}.get(type(raw), kind)


class TestSelecting:
    def test_a_namespace_with_its_descendants(self, memctl: Memctl, store: Path) -> None:
        octets = exported(memctl, store, "users.ana")
        assert names_of(octets) == [name for name in NAMES if name[0].startswith("users.ana.")]
        header = header_of(octets)
        assert (header["scope"], header["items"], header["vectors"]) == (["users", "ana"], 4, 4)
        assert "filtered" not in header

    def test_a_wildcard(self, memctl: Memctl, store: Path) -> None:
        octets = exported(memctl, store, "users.*.prefs")
        assert names_of(octets) == [name for name in NAMES if name[0].endswith(".prefs")]
        assert (header_of(octets)["scope"], header_of(octets)["items"]) == (["users", "*", "prefs"], 3)

    @pytest.mark.parametrize(
        ("arguments", "keys"),
        [
            (("--text", "aisle"), ["seat"]),
            (("--filter", "n=10"), ["cadence"]),
            (("--expired",), ["cadence"]),
            (("users.ana", "--live", "--since", "2026-11-30T07:00:04Z"), ["m1", "seat"]),
            (("--filter", "n=999"), []),
        ],
    )
    def test_conditions(
        self, memctl: Memctl, store: Path, arguments: tuple[str, ...], keys: list[str]
    ) -> None:
        octets = exported(memctl, store, *arguments)
        assert [key for _, key in names_of(octets)] == keys
        assert header_of(octets)["filtered"] is True
        assert header_of(octets)["items"] == len(keys)

    def test_a_literal_namespace_that_holds_nothing(
        self, memctl: Memctl, store: Path, tmp_path: Path
    ) -> None:
        memctl.refuse("-s", store, "export", "users.nobody", "-f", "out.jsonl", code=5)
        assert not (tmp_path / "out.jsonl").exists()
        assert names_of(exported(memctl, store, "*.nobody")) == []

    @pytest.mark.parametrize(
        "arguments", [("--format", "xml"), ("--expired", "--live"), ("--format", "json", "-o", "markdown")]
    )
    def test_what_makes_no_sense(self, memctl: Memctl, store: Path, arguments: tuple[str, ...]) -> None:
        assert memctl("-s", store, "export", *arguments).code == 2


class TestFiles:
    def test_a_file_and_the_last_line(self, memctl: Memctl, store: Path, tmp_path: Path) -> None:
        outcome = memctl("-s", store, "export", "-f", "out.jsonl")
        assert outcome.code == 0
        assert outcome.stdout == b""
        assert outcome.err.startswith("6 items and 4 vectors (")
        assert "exported in" in outcome.err
        assert "to out.jsonl" in outcome.err
        assert "writers waited at most" in outcome.err
        assert names_of((tmp_path / "out.jsonl").read_bytes()) == NAMES
        assert memctl("-q", "-s", store, "export", "-f", "other.jsonl").err == ""

    def test_the_object_for_programs(self, memctl: Memctl, store: Path) -> None:
        found = memctl.json("-s", store, "export", "-f", "out.jsonl")
        assert {
            "items": 6,
            "vectors": 4,
            "skipped": 0,
            "rejected": 0,
            "dry_run": False,
        }.items() <= found.items()
        assert found.keys() >= {"bytes", "seconds", "orphans", "lock_seconds", "file"}

    def test_compressed_by_suffix(self, memctl: Memctl, store: Path, tmp_path: Path) -> None:
        plain = exported(memctl, store)
        memctl("-s", store, "export", "-f", "out.jsonl.gz")
        memctl("-s", store, "export", "-f", "out.jsonl.zst")
        assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()) == plain
        packed = (tmp_path / "out.jsonl.zst").read_bytes()
        assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == plain

    def test_an_existing_file_is_kept(self, memctl: Memctl, store: Path, tmp_path: Path) -> None:
        (tmp_path / "out.jsonl").write_text("mine")
        error = memctl.refuse("-s", store, "export", "-f", "out.jsonl", code=1)
        assert error["code"] == "exists"
        assert (tmp_path / "out.jsonl").read_text() == "mine"
        assert memctl("-s", store, "export", "-f", "out.jsonl", "--overwrite").code == 0
        assert names_of((tmp_path / "out.jsonl").read_bytes()) == NAMES

    def test_a_folder_that_is_not_there(self, memctl: Memctl, store: Path) -> None:
        assert memctl.refuse("-s", store, "export", "-f", "no/out.jsonl", code=1)["code"] == "no-folder"

    def test_a_dry_run_writes_nothing(self, memctl: Memctl, store: Path, tmp_path: Path) -> None:
        before = sorted(os.listdir(tmp_path))
        outcome = memctl("-n", "-s", store, "export", "-f", "out.jsonl")
        assert outcome.code == 0
        assert "6 items and 4 vectors (2.5 kB) would be exported" in outcome.err
        assert sorted(os.listdir(tmp_path)) == before

    def test_a_dash_is_standard_output(self, memctl: Memctl, store: Path) -> None:
        assert names_of(exported(memctl, store, "-f", "-")) == NAMES

    def test_progress_on_a_terminal_only(self, memctl: Memctl, store: Path) -> None:
        assert "exporting" in memctl("-s", store, "export", "-f", "a.jsonl", terminal=True, width=80).err
        assert "exporting" not in memctl("-s", store, "export", "-f", "b.jsonl").err


class TestOtherForms:
    def test_one_json_array(self, memctl: Memctl, store: Path) -> None:
        rows = exact(exported(memctl, store, "users.ana", "--format", "json"))
        assert [(".".join(row["namespace"]), row["key"]) for row in rows] == [
            name for name in NAMES if name[0].startswith("users.ana")
        ]
        assert all("vectors" in row for row in rows)
        octets = exported(memctl, store, "--format", "json", "--no-vectors")
        assert not any("vectors" in row for row in exact(octets))
        assert [line.item and line.item.key for line in read(io.BytesIO(octets))] == [key for _, key in NAMES]

    def test_damaged_items_count_in_an_array_too(self, memctl: Memctl, make_store: MakeStore) -> None:
        [row] = exact(exported(memctl, make_store([RawItem("a", "k", "{")]), "--format", "json", code=3))
        assert row["problems"]

    def test_a_report_of_what_is_held(self, memctl: Memctl, store: Path, tmp_path: Path) -> None:
        text = exported(memctl, store, "users.ana", "-o", "markdown").decode()
        assert text.startswith("**What is remembered under users.ana**\n")
        assert "| as of | 2026-11-30T08:00:00.000000Z |" in text
        for item in ITEMS:
            is_hers = item.prefix.startswith("users.ana")
            assert (f"## {item.prefix} / {item.key}\n" in text) is is_hers
        assert "Ana prefers an aisle seat" in text
        memctl("-s", store, "export", "users.ana", "-o", "markdown", "-f", "ana.md")
        assert (tmp_path / "ana.md").read_text() == text

    def test_a_report_says_that_it_is_not_everything(self, memctl: Memctl, store: Path) -> None:
        assert "not everything" in exported(memctl, store, "--live", "-o", "markdown").decode()


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A store in rollback-journal mode whose export takes a while."""
    backend = SqliteBackend(tmp_path)
    backend.create()
    value = json.dumps({"text": "x" * 800})
    backend.insert(RawItem(f"n{n % 50:02}", f"{n:06}", value, vectors=(vector("t"),)) for n in range(20_000))
    return backend.path


class TestCrashes:
    def test_killed_at_any_point_there_is_no_final_file(
        self, memctl: Memctl, big: Path, tmp_path: Path
    ) -> None:
        started = time.monotonic()
        assert memctl.process("-s", big, "export", "-f", "whole.jsonl.gz").code == 0
        takes = time.monotonic() - started
        whole = names_of(gzip.decompress((tmp_path / "whole.jsonl.gz").read_bytes()))
        for _ in range(6):
            process = subprocess.Popen(
                memctl.command("-s", big, "export", "-f", "out.jsonl.gz"),
                env=memctl.environment(), cwd=tmp_path, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(random.uniform(0.1, 1.0) * takes)
            process.kill()
            process.wait()
            out = tmp_path / "out.jsonl.gz"
            if out.exists():  # it was quicker than we
                assert names_of(gzip.decompress(out.read_bytes())) == whole
                out.unlink()

    def test_interrupted_it_leaves_nothing(self, memctl: Memctl, big: Path, tmp_path: Path) -> None:
        before = sorted(os.listdir(tmp_path))
        process = subprocess.Popen(
            memctl.command("-s", big, "export", "-f", "out.jsonl.gz"),
            env=memctl.environment(), cwd=tmp_path, stderr=subprocess.PIPE,
        )  # fmt: skip
        while not any(name.endswith(".part") for name in os.listdir(tmp_path)):
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130, process.stderr and process.stderr.read()
        assert process.stderr is not None
        process.stderr.close()
        assert sorted(os.listdir(tmp_path)) == before

    def test_a_reader_that_goes_away(self, memctl: Memctl, big: Path, tmp_path: Path) -> None:
        process = subprocess.Popen(
            memctl.command("-s", big, "export"),
            env=memctl.environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1000)
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr.read() == b""
        process.stderr.close()

    def test_a_full_disk(self, memctl: Memctl, store: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full on this system")
        assert memctl.refuse("-s", store, "export", "-f", "/dev/full", code=1)["code"] == "no-space"


class TestLiveStores:
    def test_a_writer_beside_it_loses_no_put(self, memctl: Memctl, big: Path) -> None:
        backend = SqliteBackend(big.parent)
        stop, written = threading.Event(), 0
        errors: list[Exception] = []

        def put() -> None:
            nonlocal written
            try:
                with backend.agent() as store:
                    while not stop.is_set():
                        store.put(("live",), f"{written:06}", {"n": written})
                        written += 1
                        time.sleep(0.01)
            except Exception as error:
                errors.append(error)

        agent = threading.Thread(target=put)
        agent.start()
        time.sleep(0.3)
        try:
            outcome = memctl.process("-s", big, "export", "-f", "out.jsonl")
        finally:
            stop.set()
            agent.join()
        assert not errors
        assert outcome.code == 0, outcome.err
        keys = [key for prefix, key in names_of((big.parent / "out.jsonl").read_bytes()) if prefix == "live"]
        assert keys == [f"{n:06}" for n in range(len(keys))]
        with sqlite3.connect(big) as connection:
            [(held,)] = connection.execute("SELECT count(*) FROM store WHERE prefix = 'live'")
        assert held == written >= len(keys)

    def test_no_snapshot_reads_ranges_and_counts_nothing_ahead(self, memctl: Memctl, store: Path) -> None:
        octets = exported(memctl, store, "--no-snapshot")
        assert names_of(octets) == NAMES
        assert header_of(octets)["items"] is None
        assert header_of(octets)["vectors"] is None

    def test_wal_needs_no_copy(self, memctl: Memctl, tmp_path: Path) -> None:
        backend = WalBackend(tmp_path)
        backend.create()
        backend.insert(ITEMS)
        outcome = memctl("-s", backend.path, "export")
        assert names_of(outcome.stdout) == NAMES
        assert "writers waited" not in outcome.err
        assert header_of(exported(memctl, backend.path, "--no-snapshot"))["items"] == len(ITEMS)

    def test_postgres(self, memctl: Memctl, new_database: NewDatabase) -> None:
        backend = PostgresBackend(new_database())
        try:
            backend.create()
            whole = [item for item in ITEMS if item.ttl_minutes != 90.5]
            backend.insert(whole)
            octets = exported(memctl, backend.address)
        finally:
            backend.close()
        header = header_of(octets)
        assert (header["source"], header["dims"], header["vector_type"]) == ("postgres", DIMS, "vector")
        assert (header["items"], header["vectors"], header["missing"]) == (len(whole), 2, [])
        for line, original in zip(lines_of(octets), whole, strict=True):
            assert line.item is not None
            assert (line.item.prefix, line.item.key) == (original.prefix, original.key)
            assert line.item.updated_at == original.updated_at
            assert [each.embedding for each in line.item.vectors] == [
                each.octets for each in original.vectors
            ]

    def test_no_store_there(self, memctl: Memctl, tmp_path: Path) -> None:
        memctl.refuse("-s", "nothing.db", "export", "-f", "out.jsonl", code=10)
        assert os.listdir(tmp_path) == []
        assert NOW.year == 2026
