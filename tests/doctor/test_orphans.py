"""Orphaned vectors are found whole, however short the time is for which a file may be read at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from memctl.model import EVERYTHING, Detail, Scope
from memctl.store import Examined
from memctl.stores.sqlite import examine
from memctl.stores.sqlite import store as sqlite
from tests.contract.backends import Backend, RawItem, SqliteBackend, WalBackend, vector

NAMES = [
    ("a", "k"),
    ("a.b", "k"),
    ("a.b", "l"),
    ("a-b", "k"),
    ("a/b", "k"),
    ("é", "ü"),
    ("", ""),
    ("z", "\0"),
]


@pytest.fixture(params=[SqliteBackend, WalBackend])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    backend = request.param(tmp_path)
    backend.create()
    backend.insert(RawItem(prefix, f"{key}-kept", vectors=(vector("text"),)) for prefix, key in NAMES)
    for prefix, key in NAMES:
        backend.orphan(prefix, key, vector("text"), vector("tags[*].0"), vector("tags[*].1"))
    return backend


@pytest.mark.parametrize("is_hurried", [False, True])
@pytest.mark.parametrize("detail", [Detail.SHAPE, Detail.FULL])
def test_all_of_them_in_byte_order(
    backend: Backend, is_hurried: bool, detail: Detail, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_hurried:
        monkeypatch.setattr(sqlite, "HOLD", 1e-9)
        monkeypatch.setattr(examine, "MARK", 1)
        monkeypatch.setattr(examine, "PREFIXES", 2)
    with backend.open() as store:
        assert isinstance(store, Examined)
        found = list(store.orphans(EVERYTHING, detail=detail))
        assert [(item.prefix, item.key) for item in found] == sorted(
            NAMES, key=lambda name: (name[0].encode(), name[1].encode())
        )
        for item in found:
            assert [each.field for each in item.vectors] == ["tags[*].0", "tags[*].1", "text"]
            assert all((each.embedding is None) == (detail is Detail.SHAPE) for each in item.vectors)
            assert (item.value, item.created_at, item.problems) == (None, None, ())
        below = [(item.prefix, item.key) for item in store.orphans(Scope("a"), detail=detail)]
        assert below == [("a", "k"), ("a.b", "k"), ("a.b", "l")]
        assert list(store.prefixes(EVERYTHING)) == sorted({name for name, _ in NAMES}, key=str.encode)
        assert list(store.prefixes(Scope("a"))) == ["a", "a.b"]
