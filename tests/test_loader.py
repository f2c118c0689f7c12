"""Blocks that a second thread loads, and what becomes of them where something is in the way."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memctl.blocks import Block
from memctl.compare import PARTS, differences
from memctl.loader import Loader
from memctl.model import EVERYTHING, Detail, Item
from memctl.store import Batch, Setup
from memctl.stores.postgres.writer import PostgresWriter, open_postgres_writer
from memctl.stores.sqlite import writer as module
from memctl.stores.sqlite.writer import SqliteWriter
from memctl.transfer import Incoming, Moved, Rules, Several, transfer
from tests.archive.samples import item, many, vector
from tests.databases import Database
from tests.test_blocks import block

SETUP = Setup(2, "vector", "flat", "cosine")
NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)


class Shelf:
    """Takes blocks, and fails where it is told to."""

    loads = True

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.threads: set[str] = set()
        self.may_go_on = threading.Event()
        self.is_interrupted = False

    def holds(self, block: Block) -> bool:
        """Hold anything."""
        return bool(block)

    def load(self, blocks: Sequence[Block]) -> bool:
        """Take them when it may."""
        self.threads.add(threading.current_thread().name)
        assert self.may_go_on.wait(10)
        if self.is_interrupted:
            raise InterruptedError
        self.taken.append(sum(map(len, blocks)))
        if self.taken[-1] == 13:
            raise OSError("full")
        return self.taken[-1] != 7

    def interrupt(self) -> None:
        """Break off."""
        self.is_interrupted = True
        self.may_go_on.set()


class TestLoader:
    def test_another_thread_loads(self) -> None:
        shelf, turn = Shelf(), sys.getswitchinterval()
        with Loader(shelf) as loader:
            assert loader.settle() == ((), True)
            loader.give([block(many(3))])
            assert shelf.taken == []
            shelf.may_go_on.set()
            blocks, is_loaded = loader.settle()
            assert (len(blocks[0]), is_loaded, shelf.taken) == (3, True, [3])
            loader.give([block(many(7))])
            assert loader.settle()[1] is False
        assert threading.current_thread().name not in shelf.threads
        assert sys.getswitchinterval() == turn

    def test_its_error_comes_out_where_it_is_waited_for(self) -> None:
        shelf = Shelf()
        shelf.may_go_on.set()
        with Loader(shelf) as loader:
            loader.give([block(many(13))])
            with pytest.raises(OSError, match="full"):
                loader.settle()

    def test_it_is_broken_off_by_an_error_elsewhere(self) -> None:
        shelf = Shelf()
        with pytest.raises(KeyboardInterrupt), Loader(shelf) as loader:
            loader.give([block(many(3))])
            raise KeyboardInterrupt
        assert (shelf.is_interrupted, shelf.taken) == (True, [])


Writer = SqliteWriter | PostgresWriter


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Writer]:
    """A store that is made for what comes."""
    if request.param == "sqlite":
        made: Writer = SqliteWriter(tmp_path / "new.db", clock=lambda: NOW, setup=SETUP)
    else:
        database: Database = request.getfixturevalue("database")
        made = open_postgres_writer(database.url, schema=None, table=None, timeout=5, setup=SETUP)
    with closing(made):
        yield made


def another(target: Writer) -> Writer:
    """Open the same store once more."""
    if isinstance(target, SqliteWriter):
        return SqliteWriter(target.path, clock=lambda: NOW)
    dsn = target._transactions._connection.info.dsn
    return open_postgres_writer(dsn, schema=None, table=None, timeout=5)


def holds(target: Writer, items: Sequence[Item]) -> bool:
    """Whether just these are in it by now; a server spells JSON in its own way."""
    with closing(another(target)) as store:
        found = list(store.scan(EVERYTHING, vectors=Detail.FULL))
    names = [[(each.prefix, each.key) for each in one] for one in (found, items)]
    return names[0] == names[1] and not any(map(differences, found, items))


def bring(target: Writer, *parts: Sequence[Item] | Item) -> Moved:
    """Transfer blocks, and items between them."""
    entries = (
        Incoming(part) if isinstance(part, Item) else Several(block(part), frozenset(PARTS)) for part in parts
    )
    return transfer(entries, target, Rules(is_ordered=True), progress=lambda _count: None, judged=True)


def test_blocks_and_items_arrive_in_turn(target: Writer) -> None:
    target.batch_rows = 100
    items = many(700)
    moved = bring(target, items[:90], items[90:300], items[300], items[301], items[302:500], items[500:])
    assert (moved.items, moved.vectors) == (700, sum(len(each.vectors) for each in items))
    assert holds(target, items)


def test_what_somebody_else_wrote_meanwhile_is_left_alone(target: Writer) -> None:
    target.batch_rows = 100
    items, other = many(300), item("000150", b'{"n":-1}', vectors=(vector("text", 3.0, 4.0),))

    def entries() -> Iterator[Several]:
        yield Several(block(items[:100]), frozenset(PARTS))
        with closing(another(target)) as store:
            store.write(Batch([other]))
        yield Several(block(items[100:200]), frozenset(PARTS))
        yield Several(block(items[200:]), frozenset(PARTS))

    moved = transfer(entries(), target, Rules(is_ordered=True), progress=lambda _count: None, judged=True)
    assert (moved.items, moved.overtaken) == (299, 1)
    assert holds(target, [*items[:150], other, *items[151:]])


@pytest.mark.parametrize("count", [1, 4, 8, 15, 21])
def test_statements_of_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(module, "_LOADED_ROWS", 4)
    items = [
        item(
            f"{n:02}",
            b'{"n":%d}' % n,
            expires_at="2027-01-01T00:00:00.000001Z",
            ttl_minutes=n / 2,
            vectors=found,
        )
        for n in range(count)
        for found in [(vector("b", 1.0, n), vector("c", n, 2.0)) if n % 2 else ()]
    ]
    with closing(SqliteWriter(tmp_path / "new.db", clock=lambda: NOW, setup=SETUP)) as target:
        assert target.load([block(items[:2]), block(items[2:])] if count > 2 else [block(items)])
        assert not target.load([block([item("zz"), *items])])
        assert holds(target, items)


def test_few_variables_are_enough(tmp_path: Path) -> None:
    """As many as an old SQLite takes."""
    with closing(SqliteWriter(tmp_path / "new.db", clock=lambda: NOW, setup=SETUP)) as target:
        target._writer.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
        assert target.load([block(many(400))])
        assert holds(target, many(400))
