"""`provenance`: items whose thread the checkpointer no longer keeps."""

from __future__ import annotations

import contextlib

import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.doctor import check_class, sources
from memctl.doctor.check import Settings
from memctl.doctor.finding import Level, Status
from memctl.doctor.runner import examine
from tests.contract.backends import PostgresBackend, RawItem
from tests.databases import Database
from tests.doctor.clinic import Clinic, places
from tests.doctor.damages_contents import saver_of
from tests.invocation import NOW


@pytest.fixture
def with_threads(clinic: Clinic) -> Clinic:
    saver_of(clinic.backend, "t1", "t2", "t3", deleted="t3")
    return clinic


def from_thread(key: str, source: str) -> RawItem:
    return RawItem("facts", key, f'{{"source": {source}}}')


def test_items_of_deleted_threads(with_threads: Clinic) -> None:
    with_threads.backend.insert(
        [
            from_thread("1", '"t1"'),
            from_thread("2", '"t3"'),
            from_thread("3", '"never"'),
            from_thread("4", "null"),
            from_thread("5", "17"),
            from_thread("6", '""'),
            RawItem("facts", "7", '{"fact": 1}'),
            from_thread("8", '"t3"'),
        ]
    )
    finding = with_threads.finding("provenance", source_field="source")
    assert (finding.level, finding.count) == (Level.NOTE, 3)
    assert places(finding) == [("facts", "2"), ("facts", "3"), ("facts", "8")]
    assert finding.samples[0].detail == "learnt in t3, which is gone"
    assert finding.facts == {"items_with_source": 4}


def test_threads_that_are_there(with_threads: Clinic) -> None:
    with_threads.backend.insert([from_thread("1", '"t1"'), from_thread("2", '"t2"')])
    assert with_threads.finding("provenance", source_field="source").status is Status.OK


def test_many_sources_in_small_questions(with_threads: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_ASKED_AT_ONCE", 2)
    monkeypatch.setattr(sources, "_WAITING_AT_ONCE", 3)
    monkeypatch.setattr(sources, "_REMEMBERED", 3)
    names = ["t1", "x1", "x2", "t2", "x1", "x3", "t1", "x1", "x1", "x1", "x1", "t2", "x4", "x\\u00e9", "t1"]
    with_threads.backend.insert(from_thread(f"{place:02}", f'"{name}"') for place, name in enumerate(names))
    finding = with_threads.finding("provenance", source_field="source")
    assert finding.count == sum(name.startswith("x") for name in names)
    assert places(finding) == [("facts", f"{place:02}") for place in (1, 2, 4, 5, 7)]


def test_a_nested_field(with_threads: Clinic) -> None:
    with_threads.backend.insert([RawItem("facts", "1", '{"meta": {"thread": "gone"}}')])
    assert with_threads.finding("provenance", source_field="meta.thread").count == 1


@pytest.mark.parametrize("name", ["a\\u0000b", "\\ud83d\\ude00"])
def test_names_that_no_thread_can_have(sqlite_clinic: Clinic, name: str) -> None:
    saver_of(sqlite_clinic.backend, "t1", deleted="t2")
    sqlite_clinic.backend.insert([from_thread("1", f'"{name}"')])
    assert sqlite_clinic.finding("provenance", source_field="source").count == 1


def test_what_it_takes(clinic: Clinic) -> None:
    clinic.backend.insert([from_thread("1", '"t1"')])
    assert "--source-field" in clinic.finding("provenance").message
    finding = clinic.finding("provenance", source_field="source")
    assert finding.status is Status.SKIPPED
    assert "checkpointer" in finding.message


def test_tables_that_a_role_may_not_read(database: Database) -> None:
    backend = PostgresBackend(database)
    with contextlib.closing(backend):
        backend.create(vectors=False)
        backend.insert([from_thread("1", '"gone"')])
        saver_of(backend, "t1", deleted="t2")
        own_table = ("USAGE ON SCHEMA public", "SELECT ON store")
        for grants, kept in ((own_table, False), ((*own_table, "SELECT (thread_id) ON checkpoints"), True)):
            store = stores.open_store(parse(database.role(*grants)), timeout=5, clock=lambda: NOW)
            with contextlib.closing(store):
                settings = Settings(store.now(), source_field="source")
                [finding] = examine(store, [check_class("provenance")], settings)
            assert finding.status is (Status.FOUND if kept else Status.SKIPPED), finding
