"""`memctl init`: LangGraph's own tables, once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memctl.archive import line_of
from tests.archive.samples import item, vector
from tests.contract.backends import DIMS
from tests.databases import Database
from tests.invocation import Memctl
from tests.writers import Index, postgres_store, sqlite_store

KEYS = {"items", "vectors", "bytes", "skipped", "rejected", "dry_run", "seconds", "created"}


def test_a_file(memctl: Memctl, tmp_path: Path) -> None:
    made, own = tmp_path / "made.db", tmp_path / "own.db"
    report = memctl.json("-s", made, "init", "--dims", str(DIMS))
    assert report.keys() >= KEYS
    assert (report["items"], report["created"], report["dry_run"]) == (0, True, False)
    with sqlite_store(own, index=Index()):
        pass
    before = made.read_bytes()
    with sqlite_store(made, index=Index()) as store:
        assert made.read_bytes() == before, "setup() found something to do"
        store.put(("a",), "k", {"text": "hello"})
        assert store.search(("a",), query="hello")[0].key == "k"
    assert memctl.json("-s", made, "info").keys() == memctl.json("-s", own, "info").keys()


def test_a_second_time(memctl: Memctl, tmp_path: Path) -> None:
    path = tmp_path / "made.db"
    memctl.json("-s", path, "init")
    before = path.read_bytes()
    assert memctl.json("-s", path, "init")["created"] is False
    assert path.read_bytes() == before
    assert "is a store already" in memctl("-s", path, "init").out


def test_a_dry_run_makes_nothing(memctl: Memctl, database: Database) -> None:
    report = memctl.json("-s", "new.db", "init", "--dry-run")
    assert (report["created"], report["dry_run"]) == (True, True)
    assert not (memctl.folder / "new.db").exists()
    memctl.json("-s", database.url, "init", "--dims", "8", "--dry-run")
    assert database.execute("SELECT to_regclass('store')") == [(None,)]


@pytest.mark.parametrize("kind", ["hnsw", "ivfflat", "flat"])
@pytest.mark.parametrize("vector_type", ["vector", "halfvec"])
def test_a_database(memctl: Memctl, database: Database, kind: str, vector_type: str) -> None:
    options = ("--dims", "8", "--index", kind, "--vector-type", vector_type, "--metric", "l2")
    assert memctl.json("-s", database.url, "init", *options)["created"] is True
    catalogue = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
    before = database.execute(catalogue)
    assert any(f"USING {kind}" in definition for (definition,) in before) is (kind != "flat")
    index = Index(kind=kind, vector_type=vector_type, metric="l2")  # type: ignore[arg-type]
    with postgres_store(database.url, index=index) as store:
        store.put(("a",), "k", {"text": "hello"})
        assert store.search(("a",), query="hello")[0].key == "k"
    assert database.execute(catalogue) == before


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--index", "hnsw"], 2),
        (["--metric", "l2"], 2),
        (["--dims", "8", "--index", "btree"], 2),
        (["--dims", "8", "--metric", "manhattan"], 2),
        (["--dims", "8", "--vector-type", "bit"], 2),
        (["--dims", "0"], 2),
        (["--dims", "2001"], 2),
        (["--dims", "4001", "--vector-type", "halfvec"], 2),
    ],
)
def test_what_cannot_be_made(memctl: Memctl, database: Database, options: list[str], code: int) -> None:
    memctl.refuse("-s", database.url, "init", *options, code=code)
    assert database.execute("SELECT to_regclass('store')") == [(None,)]


def test_a_folder_that_is_not_there(memctl: Memctl) -> None:
    memctl.refuse("-s", "none/new.db", "init", code=12)


def test_another_products_file(memctl: Memctl) -> None:
    (memctl.folder / "text.db").write_bytes(b"no database, but a text of some length")
    assert memctl.refuse("-s", "text.db", "init", code=10)["code"] == "not-a-database"


def test_vectors_for_a_file_that_has_none(memctl: Memctl, tmp_path: Path) -> None:
    made, own = tmp_path / "made.db", tmp_path / "own.db"
    memctl.json("-s", made, "init")
    for path, index in ((own, None), (own, Index())):
        with sqlite_store(path, index=index):
            pass
    before = made.read_bytes()
    assert memctl.json("-s", made, "init", "--dims", str(DIMS), "--dry-run")["created"] is True
    assert made.read_bytes() == before
    assert memctl.json("-s", made, "init", "--dims", str(DIMS))["created"] is True
    assert memctl.json("-s", made, "init", "--dims", str(DIMS))["created"] is False
    schema = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    with closing(sqlite3.connect(made)) as one, closing(sqlite3.connect(own)) as other:
        assert one.execute(schema).fetchall() == other.execute(schema).fetchall()
    before = made.read_bytes()
    with sqlite_store(made, index=Index()) as store:
        assert made.read_bytes() == before, "setup() found something to do"
        store.put(("a",), "k", {"text": "hello"})
        assert store.search(("a",), query="hello")[0].key == "k"


def test_vectors_for_a_database_that_has_none(memctl: Memctl, database: Database) -> None:
    memctl.json("-s", database.url, "init")
    assert memctl.json("-s", database.url, "init", "--dims", "8", "--dry-run")["created"] is True
    assert memctl.json("-s", database.url, "init", "--dims", "8")["created"] is True
    assert memctl.json("-s", database.url, "init", "--dims", "8")["created"] is False
    for options in (("--dims", "9"), ("--dims", "8", "--vector-type", "halfvec")):
        for rehearsal in ((), ("--dry-run",)):
            assert memctl.refuse("-s", database.url, "init", *options, *rehearsal, code=2)["code"] == "usage"
    with postgres_store(database.url, index=Index()) as store:
        store.put(("a",), "k", {"text": "hello"})
        assert store.search(("a",), query="hello")[0].key == "k"


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_an_import_brings_the_tables_of_its_vectors(
    memctl: Memctl, database: Database, tmp_path: Path, backend: str
) -> None:
    """Also into a store that has none of them, and a rehearsal knows it."""
    address = database.url if backend == "postgres" else str(tmp_path / "made.db")
    archive = tmp_path / "a.jsonl"
    archive.write_bytes(line_of(item("k", vectors=(vector("v", 1.0, 2.0),))))
    memctl.json("-s", address, "init")
    assert memctl.refuse("-s", address, "import", archive, code=1)["code"] == "rejected"
    for rehearsal in (("--dry-run",), ()):
        report = memctl.json("-s", address, "import", archive, "--init", "--dims", "2", *rehearsal)
        assert (report["items"], report["vectors"]) == (1, 1)


def test_what_a_role_may_not_do_shows_in_a_rehearsal(
    memctl: Memctl, database: Database, tmp_path: Path
) -> None:
    with postgres_store(database.url) as store:
        store.put(("a",), "k", {"n": 1})
    reader = database.reader()
    source = tmp_path / "a.jsonl"
    source.write_text('{"namespace":["a"],"key":"new","value":{}}\n')
    for command in (
        ("import", source),
        ("rm", "a", "--yes"),
        ("expire", "a", "k", "--in", "1d"),
        ("put", "a", "k", '{"n":2}'),
        ("mv", "a", "b", "--yes"),
    ):
        for rehearsal in (("--dry-run",), ()):
            outcome = memctl("-s", reader, *command, *rehearsal)
            assert outcome.code == 12, (command, rehearsal, outcome.err)
            assert "permission denied" in outcome.err
