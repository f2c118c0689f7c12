"""Several processes, one moment, one order."""

from __future__ import annotations

import contextlib
import multiprocessing
from pathlib import Path

import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.errors import MemctlError
from memctl.model import EVERYTHING, Detail, Scope
from memctl.store import Batch, Splittable
from memctl.stores import open_moment, parallel
from memctl.stores.parallel import Parallel
from memctl.stores.postgres.writer import PostgresWriter
from tests.archive.samples import item, vector
from tests.databases import Database
from tests.invocation import NOW, Memctl
from tests.writers import postgres_store

COUNT = 95


@pytest.fixture
def address(database: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of `COUNT` items in two namespaces, to be read in ranges of ten."""
    from memctl.store import Setup

    monkeypatch.setattr(parallel, "RANGE_ROWS", 10)
    setup = Setup(dims=2, index="flat")
    with contextlib.closing(
        stores.open_writer(parse(database.url), timeout=5, clock=lambda: NOW, setup=setup)
    ) as target:
        target.write(
            Batch(
                new=[
                    item(
                        f"{number:03}",
                        prefix="a" if number < 50 else "b",
                        vectors=(vector("t", 1, number),) * (number % 3 == 0),
                    )
                    for number in range(COUNT)
                ]
            )
        )
    return database.url


@contextlib.contextmanager
def shared_out(address: str, jobs: int):  # type: ignore[no-untyped-def]
    store = stores.open_store(parse(address), timeout=5, clock=lambda: NOW)
    with contextlib.closing(store):
        yield store, Parallel(store, parse(address), jobs=jobs, timeout=5, open_at=open_moment)


def test_it_is_what_one_process_reads(address: str, database: Database) -> None:
    with shared_out(address, 3) as (alone, together):
        assert isinstance(alone, Splittable)
        database.execute("DELETE FROM store WHERE key > '050'")  # after the moment
        expected = list(alone.scan(EVERYTHING, vectors=Detail.FULL))
        assert len(expected) == COUNT
        assert list(together.scan(EVERYTHING, vectors=Detail.FULL)) == expected
        kept = list(together.scan(Scope("b"), keep=lambda value: value is not None))
        assert kept == list(alone.scan(Scope("b")))
        assert list(together.scan(Scope("nothing"))) == []
    assert multiprocessing.active_children() == []


def test_what_is_odd_comes_too(address: str, database: Database) -> None:
    database.execute("UPDATE store SET created_at = 'infinity' WHERE key = '042'")
    with shared_out(address, 2) as (alone, together):
        assert list(together.scan(EVERYTHING)) == list(alone.scan(EVERYTHING))


def test_left_early_it_leaves_no_process(address: str) -> None:
    with shared_out(address, 2) as (_, together):
        scan = together.scan(EVERYTHING)
        assert next(scan).key == "000"
        scan.close()
        assert multiprocessing.active_children() == []


def test_the_fault_of_one_is_everybodys(address: str, database: Database) -> None:
    with shared_out(address, 2) as (alone, together):
        list(alone.scan(Scope("a"), values=False))
        role = database.role("SELECT ON store")
        broken = Parallel(alone, parse(role), jobs=2, timeout=5, open_at=open_moment)
        with pytest.raises(MemctlError) as caught:
            list(broken.scan(EVERYTHING, vectors=Detail.FULL))
        assert caught.value.exit_code in (12, 13)
        assert together.count(EVERYTHING).items == COUNT


class TestCommands:
    def test_export_migrate_diff(self, address: str, memctl: Memctl, tmp_path: Path) -> None:
        assert memctl("-s", address, "export", "-f", "one.jsonl").code == 0
        assert memctl("-s", address, "export", "-f", "two.jsonl", "--jobs", "2").code == 0
        one, two = ((tmp_path / name).read_bytes().splitlines() for name in ("one.jsonl", "two.jsonl"))
        assert one[1:-1] == two[1:-1]
        assert memctl("verify", "two.jsonl").code == 0
        assert memctl("diff", address, "one.jsonl", "--jobs", "2").code == 0
        assert memctl("migrate", address, "copy.db", "--init", "--jobs", "2", "--verify").code == 0

    def test_where_it_does_nothing(self, memctl: Memctl, tmp_path: Path) -> None:
        memctl("demo", "x.db")
        outcome = memctl("-s", "x.db", "export", "-f", "x.jsonl", "--jobs", "2")
        assert "--jobs is for servers" in outcome.err
        assert memctl("-s", "x.db", "export", "-f", "y.jsonl", "--jobs", "0").code == 2
        assert not (tmp_path / "y.jsonl").exists()

    def test_a_store_with_little_in_it(self, memctl: Memctl, database: Database) -> None:
        with postgres_store(database.url) as store:
            store.put(("a",), "k", {"n": 1})
        assert memctl("-s", database.url, "export", "-f", "x.jsonl", "--jobs", "4").code == 0

    def test_import_over_several_connections(
        self, address: str, memctl: Memctl, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(PostgresWriter, "batch_rows", 10)
        assert memctl("-s", address, "export", "-f", "all.jsonl").code == 0
        before = memctl.json("-s", address, "ls")
        database.execute("DELETE FROM store WHERE key < '080'")
        assert memctl.json("-s", address, "import", "all.jsonl", "--jobs", "3")["items"] == 80
        assert memctl.json("-s", address, "ls") == before
        assert memctl("diff", address, "all.jsonl").code == 0

    def test_what_one_of_them_cannot_write_is_told(
        self, address: str, memctl: Memctl, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(PostgresWriter, "batch_rows", 10)
        assert memctl("-s", address, "export", "-f", "all.jsonl").code == 0
        database.execute(
            "DELETE FROM store; CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF NEW.key = '042' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER no BEFORE INSERT ON store FOR EACH ROW EXECUTE FUNCTION no()"
        )
        outcome = memctl("-s", address, "import", "all.jsonl", "--jobs", "3")
        assert outcome.code == 1
        assert "not this one" in outcome.err
        database.execute("DROP TRIGGER no ON store")
        assert memctl("-s", address, "import", "all.jsonl", "--jobs", "3").code == 0
        assert memctl("diff", address, "all.jsonl").code == 0
