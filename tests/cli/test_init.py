"""`memctl init`: LangGraph's own tables, once."""

from __future__ import annotations

from pathlib import Path

import pytest

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
