"""`memctl forget`: what its receipt claims is checked against the octets of the file."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from memctl.errors import Busy
from tests.cli.conftest import ITEMS, MakeStore
from tests.contract.backends import RawItem, vector
from tests.databases import Database
from tests.invocation import Memctl, exact
from tests.writers import Index, postgres_store, sqlite_store

SECRET = "peregrine-falcon"
"""A word that stands in everything that is the subject's, keys and values."""


@contextmanager
def driver(path: Path) -> Iterator[Any]:
    """A connection whose `secure_delete` is off, as the library's indexed stores have it."""
    with closing(importlib.import_module("pysqlite3").connect(str(path), isolation_level=None)) as connection:
        assert connection.execute("PRAGMA secure_delete").fetchone() == (0,)
        yield connection


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody who reads; by the SQLite that memctl uses, since two in one process do not see each other's locks."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM store").fetchone()
        yield connection


@pytest.fixture(params=["delete", "wal"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store by the real library: the subject's items, rewritten and deleted ones, and somebody else's."""
    path = tmp_path / "agent.db"
    with sqlite_store(path, index=Index(text_fields=["text"]), wal=request.param == "wal") as store:
        store.conn.execute("PRAGMA synchronous = OFF")  # a hundred puts need not wait for the disk
        for number in range(60):
            text = f"{SECRET} number {number} " + "lorem ipsum " * 30
            store.put(("users", "bo", "facts"), f"{SECRET}-{number:02}", {"text": text})
            store.put(("users", "bo_2", "facts"), f"k-{number:02}", {"text": f"heron {number}"})
        for number in range(20):  # gone, with vectors and octets left behind
            store.delete(("users", "bo", "facts"), f"{SECRET}-{number:02}")
        for number in range(20, 40):  # rewritten, the older text and vector left behind
            value = {"text": f"{SECRET} anew {number}"}
            store.put(("users", "bo", "facts"), f"{SECRET}-{number:02}", value, index=False)
    return path


def octets(path: Path) -> bytes:
    """All that is in the file and in what stands beside it."""
    return b"".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")))


def test_no_octet_is_left_where_the_receipt_says_so(memctl: Memctl, written: Path) -> None:
    before = octets(written)
    assert before.count(SECRET.encode()) > 100
    with driver(written) as connection:
        embeddings = connection.execute("SELECT embedding FROM store_vectors WHERE prefix = 'users.bo.facts'")
        vectors = [row[0] for row in embeddings]
        others = connection.execute("SELECT * FROM store WHERE prefix = 'users.bo_2.facts'").fetchall()
    receipt = memctl.json("-s", written, "forget", "users.bo", "--yes")
    after = octets(written)
    assert receipt["bytes_erased"] is True
    assert SECRET.encode() not in after
    assert not any(embedding in after for embedding in vectors)
    assert len(vectors) == receipt["vectors"] + receipt["orphans"] == 60
    assert (receipt["items"], receipt["orphans"]) == (40, 20)
    siblings = receipt["stores"][0]["siblings"]
    assert siblings["unchanged"] is True
    assert siblings["digest_before"] == siblings["digest_after"]
    assert (siblings["scopes"], siblings["namespaces"], siblings["items_after"]) == ([["users"]], 1, 60)
    with driver(written) as connection:
        assert connection.execute("SELECT * FROM store").fetchall() == others
        assert connection.execute("SELECT count(*) FROM store_vectors").fetchone() == (60,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_digest_is_over_the_names(memctl: Memctl, written: Path) -> None:
    receipt = memctl.json("-s", written, "forget", "users.bo", "--yes")
    names = [f"users.bo.facts\t{SECRET}-{number:02}\n" for number in range(60)]  # those of orphans, too
    digest = hashlib.sha256(bytes.fromhex(receipt["digest"]["salt"]) + "".join(names).encode())
    assert receipt["digest"]["value"] == digest.hexdigest()
    assert SECRET not in json.dumps(receipt, default=str)
    again = memctl.json("-s", written, "forget", "users.bo_2", "--yes")
    assert again["digest"]["salt"] != receipt["digest"]["salt"]


def test_an_open_reader_keeps_octets_and_is_told(memctl: Memctl, written: Path) -> None:
    is_wal = written.read_bytes()[18] == 2
    with reading(written) as reader:
        if not is_wal:  # no commit gets past a reader, and nothing is done
            error = memctl.refuse("-s", written, "--timeout", "0.3", "forget", "users.bo", "--yes", code=11)
            assert error["code"] == "busy"
            assert reader.execute("SELECT count(*) FROM store WHERE prefix GLOB 'users.bo.*'").fetchone() == (
                40,
            )
            return
        receipt = memctl.json("-s", written, "--timeout", "0.3", "forget", "users.bo", "--yes", code=3)
        assert receipt["bytes_erased"] is False
        assert "another connection still reads" in receipt["stores"][0]["why_not"][0]
        assert SECRET.encode() in octets(written)
    outcome = memctl("-o", "json", "-s", written, "forget", "users.bo", "--yes")
    assert outcome.code == 5  # nothing is stored there any more
    assert outcome.json()["bytes_erased"] is True
    assert "no octet is left of what was deleted earlier" in outcome.err
    assert SECRET.encode() not in octets(written)


def test_a_reader_that_comes_after_the_deleting_keeps_a_file_from_being_written_anew(
    memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.sqlite import erasing

    scrub = erasing.scrub

    def disturbed(writer: Any) -> tuple[str, ...]:
        with reading(store):
            return scrub(writer)

    monkeypatch.setattr(erasing, "scrub", disturbed)
    options = ("-s", store, "--timeout", "0.2", "forget", "users.ana", "--yes")
    receipt = memctl.json(*options, code=3)
    assert (receipt["items"], receipt["bytes_erased"]) == (4, False)
    assert "VACUUM needs store.db for itself" in receipt["stores"][0]["why_not"][0]


def test_a_dry_run_lists_and_changes_nothing(memctl: Memctl, make_store: MakeStore) -> None:
    items = [
        RawItem("users.bo.facts", "a", vectors=(vector("$"),)),
        RawItem("users.al.facts", "bo", '{"n": 1}'),
        RawItem("users.al.facts", "friend", '{"text": "met BO today"}'),
        RawItem("users.al.facts", "bottle", '{"text": "the hobo"}'),
        RawItem("prefs.bo", "a"),
        RawItem("users.bo_2", "a"),
    ]
    path = make_store(items)
    before = path.read_bytes()
    receipt = memctl.json("-s", path, "forget", "users.bo", "--dry-run")
    assert (receipt["items"], receipt["vectors"], receipt["dry_run"]) == (1, 1, True)
    assert (receipt["bytes_erased"], receipt["digest"]) == (False, None)
    assert [(".".join(row["namespace"]), row["key"], row["where"]) for row in receipt["mentioned"]] == [
        ("prefs.bo", "a", ["namespace"]),
        ("users.al.facts", "bo", ["key"]),
        ("users.al.facts", "friend", ["value"]),
    ]
    assert receipt["mentions"] == 3
    outcome = memctl("-s", path, "forget", "users.bo", "--dry-run")
    assert "leaves users.bo_2" in outcome.err
    assert "Named elsewhere, and left: 3" in outcome.out
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_mentions_are_listed_and_stay(memctl: Memctl, store: Path) -> None:
    receipt = memctl.json("-s", store, "forget", "users.bo", "--mentions", "FINTECH", "--yes")
    assert [(row["key"], row["where"]) for row in receipt["mentioned"]] == [("m1", ["value"])]
    assert receipt["mentions"] == 1
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT count(*) FROM store").fetchone() == (len(ITEMS) - 1,)


def test_every_store_that_is_named(memctl: Memctl, tmp_path: Path) -> None:
    paths = [tmp_path / "one.db", tmp_path / "two.db", tmp_path / "three.db"]
    for path in paths:
        with sqlite_store(path) as agent:
            agent.put(("users", "bo"), "a", {"text": SECRET})
            if path is not paths[2]:
                agent.put(("users", "al"), "a", {"text": "stays"})
    twice = ("-s", paths[0].name)  # the same in other words
    receipt = memctl.json(
        "-s", paths[0], *twice, "-s", paths[1], "forget", "users.bo", "--yes", "--receipt", "r.json"
    )
    assert receipt["items"] == 2
    assert (receipt["mentions"], receipt["mentioned"]) == (None, None)  # nobody has looked
    assert [(each["store"], each["items"], each["bytes_erased"]) for each in receipt["stores"]] == [
        (str(paths[0]), 1, True),
        (str(paths[1]), 1, True),
    ]
    assert exact((tmp_path / "r.json").read_bytes()) == receipt
    assert [SECRET.encode() in octets(path) for path in paths] == [False, False, True]
    options = ("-s", paths[2], "forget", "users.bo", "--yes", "--receipt", "r.json")
    assert memctl.refuse(*options, code=2)["code"] == "exists"


def test_it_asks(memctl: Memctl, store: Path) -> None:
    before = store.read_bytes()
    assert memctl.refuse("-s", store, "forget", "users.ana", code=2)["code"] == "needs-yes"
    assert memctl("-s", store, "forget", "users.ana", typed=b"n\n").code == 1
    assert store.read_bytes() == before
    assert memctl("-s", store, "forget", "users.ana", typed=b"yes\n").code == 0


def test_everything_needs_all(memctl: Memctl, store: Path) -> None:
    assert memctl.refuse("-s", store, "forget", "*", "--yes", code=2)["code"] == "needs-all"
    assert memctl.json("-s", store, "forget", "*", "--all", "--yes")["items"] == len(ITEMS)


def test_a_subject_that_nobody_knows(memctl: Memctl, store: Path) -> None:
    for options in (("--dry-run",), ("--yes",)):
        outcome = memctl("-s", store, "forget", "users.nobody", *options)
        assert outcome.code == 5
        assert "nothing is stored under users.nobody" in outcome.err
        assert memctl("-s", store, "forget", "nobody.*", *options).code == 0
    assert 'nothing is stored under ""' in memctl("-s", store, "forget", "", "--dry-run").err


def test_one_of_two_that_nobody_knows(memctl: Memctl, store: Path) -> None:
    outcome = memctl("-o", "json", "-s", store, "forget", "users.bo", "users.anna", "--yes")
    assert (outcome.code, outcome.json()["items"]) == (5, 1)
    assert "nothing is stored under users.anna\n  nearest: users.ana" in outcome.err


def test_an_empty_text_is_no_mention(memctl: Memctl, store: Path) -> None:
    options = ("-s", store, "forget", "users.bo", "--mentions", "", "--yes")
    assert memctl.refuse(*options, code=2)["code"] == "usage"


def test_what_is_left_in_history_alone(memctl: Memctl, store: Path) -> None:
    assert memctl("-s", store, "history", "on").code == 0
    assert memctl("-s", store, "rm", "users.bo.prefs", "--yes").code == 0
    outcome = memctl("-o", "json", "-s", store, "forget", "users.bo", "--dry-run")
    assert outcome.code == 0
    assert "nothing is stored" not in outcome.err
    assert "1 in its history" in outcome.err
    receipt = memctl.json("-s", store, "forget", "users.bo", "--yes")
    assert [each["stores"][0]["history"] for each in (outcome.json(), receipt)] == [1, 1]
    assert memctl("-s", store, "forget", "users.bo", "--dry-run").code == 5


def test_by_pattern_in_several_namespaces(memctl: Memctl, store: Path) -> None:
    receipt = memctl.json("-s", store, "forget", "*.ana.memories", "org", "users.ana.memories", "--yes")
    assert [(".".join(row["namespace"]), row["items"]) for row in receipt["stores"][0]["namespaces"]] == [
        ("org.acme.facts", 1),
        ("users.ana.memories", 2),
    ]
    assert receipt["stores"][0]["siblings"]["scopes"] == [[]]
    assert receipt["stores"][0]["siblings"]["items_after"] == 3


def test_siblings_that_changed_meanwhile_are_told(
    memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.sqlite.writer import SqliteWriter

    apply = SqliteWriter.apply

    def beside(self: SqliteWriter, changes: Any) -> Any:
        with closing(sqlite3.connect(store)) as agent, agent:
            agent.execute("UPDATE store SET value = x'7b7d' WHERE prefix = 'users.bo.prefs'")
        return apply(self, changes)

    monkeypatch.setattr(SqliteWriter, "apply", beside)
    siblings = memctl.json("-s", store, "forget", "users.ana", "--yes")["stores"][0]["siblings"]
    assert (siblings["unchanged"], siblings["changed"]) == (False, 1)
    assert siblings["changed_namespaces"] == [["users", "bo", "prefs"]]


def test_what_an_agent_writes_there_meanwhile_goes_too(
    memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.sqlite.writer import SqliteWriter

    apply, writes = SqliteWriter.apply, iter(range(3))

    def beside(self: SqliteWriter, changes: Any) -> Any:
        if (number := next(writes, None)) is not None:
            with sqlite_store(store) as agent:
                agent.put(("users", "ana", "memories"), "m1", {"text": f"again {number}"})
                agent.put(("users", "ana", "aaa"), f"new-{number}", {"text": "new"})
        return apply(self, changes)

    monkeypatch.setattr(SqliteWriter, "apply", beside)
    receipt = memctl.json("-s", store, "forget", "users.ana", "--yes")
    assert (receipt["items"], receipt["skipped"]) == (7, 0)
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT count(*) FROM store WHERE prefix GLOB 'users.ana*'").fetchone() == (
            0,
        )
        assert connection.execute("SELECT count(*) FROM store_vectors").fetchone() == (0,)


def test_interrupted_halfway_it_can_be_run_again(
    memctl: Memctl, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.sqlite.writer import SqliteWriter

    path = make_store(RawItem("users.bo", f"{n:03}", vectors=(vector("$"),)) for n in range(120))
    apply, calls = SqliteWriter.apply, []

    def interrupted(self: SqliteWriter, changes: Any) -> Any:
        calls.append(len(changes))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return apply(self, changes)

    monkeypatch.setattr(SqliteWriter, "apply", interrupted)
    outcome = memctl("-o", "json", "-s", path, "forget", "users.bo", "--yes", "--receipt", "r.json")
    assert outcome.code == 130
    assert f"{calls[0]} items erased until then: interrupted" in outcome.err
    receipt = exact((memctl.folder / "r.json").read_bytes())
    assert receipt == outcome.json()
    assert (receipt["items"], receipt["vectors"], receipt["bytes_erased"]) == (calls[0], calls[0], False)
    assert (receipt["stores"][0]["why_not"], receipt["stores"][0]["siblings"]) == (["interrupted"], None)
    with closing(sqlite3.connect(path)) as connection:
        left = connection.execute(
            "SELECT count(*), (SELECT count(*) FROM store_vectors) FROM store"
        ).fetchone()
    assert left == (120 - calls[0], 120 - calls[0])
    monkeypatch.setattr(SqliteWriter, "apply", apply)
    receipt = memctl.json("-s", path, "forget", "users.bo", "--yes", "--receipt", "again.json")
    assert (receipt["items"], receipt["bytes_erased"]) == (120 - calls[0], True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_midst_of_a_commit_waits_for_its_end(
    memctl: Memctl, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    from memctl.stores.sqlite.writer import SqliteWriter

    path = make_store(RawItem("users.bo", f"{n:03}") for n in range(120))
    apply, handler = SqliteWriter.apply, signal.getsignal(number)

    def signalled(self: SqliteWriter, changes: Any) -> Any:
        left = apply(self, changes)
        os.kill(os.getpid(), number)  # done, and nobody has counted it yet
        return left

    monkeypatch.setattr(SqliteWriter, "apply", signalled)
    receipt = memctl.json("-s", path, "forget", "users.bo", "--yes", code=130)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM store").fetchone() == (120 - receipt["items"],)
    assert receipt["stores"][0]["why_not"] == ["interrupted"]
    assert signal.getsignal(number) is handler


def test_no_store_is_touched_where_one_is_locked(memctl: Memctl, tmp_path: Path) -> None:
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    for path in paths:
        with sqlite_store(path) as agent:
            agent.put(("users", "bo"), "a", {"text": SECRET})
    before = paths[0].read_bytes()
    options = ("-s", paths[0], "-s", paths[1], "--timeout", "0.2", "forget", "users.bo", "--yes")
    with closing(sqlite3.connect(paths[1], isolation_level=None)) as agent:
        agent.execute("BEGIN IMMEDIATE")
        assert memctl.refuse(*options, code=11)["code"] == "busy"
    assert paths[0].read_bytes() == before


def test_a_store_that_fails_after_another_is_told_in_the_receipt(
    memctl: Memctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.sqlite.writer import SqliteWriter

    paths = [tmp_path / f"{name}.db" for name in ("one", "two", "three")]
    for path in paths:
        with sqlite_store(path) as agent:
            agent.put(("users", "bo"), "a", {"text": SECRET})
    apply = SqliteWriter.apply

    def locked(self: SqliteWriter, changes: Any) -> Any:
        if self.path == paths[1]:
            raise Busy("two.db is locked by another process")
        return apply(self, changes)

    monkeypatch.setattr(SqliteWriter, "apply", locked)
    stores = (part for path in paths for part in ("-s", path))
    outcome = memctl("-o", "json", *stores, "forget", "users.bo", "--yes", "--receipt", "r.json")
    assert (outcome.code, outcome.error["code"]) == (11, "busy")
    receipt = outcome.json()
    assert exact((tmp_path / "r.json").read_bytes()) == receipt
    assert (receipt["items"], receipt["bytes_erased"]) == (1, False)
    assert [(each["items"], each["bytes_erased"], each["why_not"]) for each in receipt["stores"]] == [
        (1, True, []),
        (0, False, ["two.db is locked by another process"]),
        (0, False, ["it was not reached"]),
    ]


def test_no_space_to_write_the_file_anew(
    memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl.stores.sqlite import connect
    from memctl.stores.sqlite.looking import Connection

    class Full(Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "VACUUM":
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *parameters)

    monkeypatch.setattr(connect, "connection_class", lambda: Full)
    receipt = memctl.json("-s", store, "forget", "users.ana", "--yes", code=3)
    assert (receipt["items"], receipt["bytes_erased"]) == (4, False)
    [reason] = receipt["stores"][0]["why_not"]
    assert reason == f"VACUUM did not get through: {store}: database or disk is full"


def test_a_receipt_that_cannot_be_written_is_shown_all_the_same(
    memctl: Memctl, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memctl import archive

    def full(_path: Path) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive, "new_file", full)
    outcome = memctl("-o", "json", "-s", store, "forget", "users.bo", "--yes", "--receipt", "r.json")
    assert (outcome.code, outcome.json()["items"]) == (1, 1)
    assert "the receipt could not be written to r.json: No space left on device" in outcome.err


def test_a_role_that_may_not_delete(memctl: Memctl, database: Database) -> None:
    with postgres_store(database.url) as agent:
        agent.put(("users", "bo"), "a", {"text": SECRET})
    options = ("-s", database.role("USAGE ON SCHEMA public", "SELECT, UPDATE ON store"), "forget", "users.bo")
    outcome = memctl("-o", "json", *options, "--dry-run")
    assert (outcome.code, outcome.json()["items"]) == (12, 1)
    assert "no DELETE on table store" in outcome.err
    assert memctl.refuse(*options, "--yes", code=12)["code"] == "refused"
    allowed = database.role("USAGE ON SCHEMA public", "SELECT, DELETE ON store")
    assert memctl("-s", allowed, "forget", "users.bo", "--dry-run").code == 0
    assert memctl.json("-s", allowed, "forget", "users.bo", "--yes")["items"] == 1
