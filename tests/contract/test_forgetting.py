"""`forget` on every kind of store: all that is the subject's goes, nothing else does, and what is left is told."""

from __future__ import annotations

import pytest

from memctl.store import Capability, Erasing, Examined, Repairable
from tests.contract.backends import Backend, RawItem, in_order, vector
from tests.contract.test_apply import check, writing
from tests.invocation import Memctl

BO = in_order(
    [
        RawItem("users.bo", "profile", '{"name": "Bo"}'),
        RawItem("users.bo.facts", "a", '{"n": 1}', vectors=(vector("$"), vector("text"))),
        RawItem("users.bo.facts", "b", '{"n": 2}', expires_at="2020-01-01T00:00:00.000000Z", ttl_minutes=5),
    ]
)
OTHERS = in_order(
    [
        RawItem("users.al", "a", '{"text": "a friend of Bo"}', vectors=(vector("$"),)),
        RawItem("users.bo_2.facts", "a", vectors=(vector("$"),)),
        RawItem("users.bob", "a"),
        RawItem("users", "bo.facts"),
        RawItem("prefs.bo", "a"),
    ]
)


@pytest.fixture
def filled(backend: Backend) -> Backend:
    backend.create()
    backend.insert([*OTHERS, *BO])
    return backend


def test_a_subject_goes_and_nobody_else(filled: Backend, memctl: Memctl) -> None:
    forget = ("-s", filled.address, "forget", "users.bo")
    rehearsed = memctl.json(*forget, "--dry-run")
    assert [(".".join(row["namespace"]), row["where"]) for row in rehearsed["mentioned"]] == [
        ("prefs.bo", ["namespace"]),
        ("users", ["key"]),
        ("users.al", ["value"]),
    ]
    check(filled, in_order([*OTHERS, *BO]))
    receipt = memctl.json(*forget, "--yes")
    check(filled, OTHERS)
    for one in (rehearsed, receipt):
        assert (one["items"], one["vectors"], one["orphans"], one["skipped"]) == (3, 2, 0, 0)
    [found] = receipt["stores"]
    siblings = found["siblings"]
    assert (siblings["unchanged"], siblings["scopes"], siblings["namespaces"]) == (True, [["users"]], 4)
    assert (siblings["items_before"], siblings["items_after"], siblings["vectors_after"]) == (4, 4, 2)
    assert bool(found["why_not"]) is not found["bytes_erased"]


def test_vectors_left_behind_go_too(filled: Backend, memctl: Memctl) -> None:
    if not filled.can(Capability.VECTORS):
        pytest.fail("a backend can keep vectors")
    filled.orphan("users.bo.facts", "gone", vector("$"), vector("text"))
    filled.orphan("users.bo_2.facts", "gone", vector("$"))
    with writing(filled) as target:
        can_purge = isinstance(target, Examined) and isinstance(target, Repairable)
    receipt = memctl.json("-s", filled.address, "forget", "users.bo", "--yes")
    _, vectors = filled.tables
    if can_purge:
        assert receipt["orphans"] == 2
        left = filled.execute(f"SELECT prefix FROM {vectors} WHERE prefix LIKE 'users.bo.%'")
        assert left == []
        assert len(filled.execute(f"SELECT prefix FROM {vectors} WHERE prefix LIKE 'users.bo_2%'")) == 2
    else:
        assert receipt["orphans"] == 0


def test_a_store_says_whether_it_overwrites(filled: Backend, memctl: Memctl) -> None:
    with writing(filled) as target:
        can_overwrite = isinstance(target, Erasing) and target.overwrites
    receipt = memctl.json("-s", filled.address, "forget", "users.bo", "--yes")
    assert receipt["bytes_erased"] is can_overwrite
    [found] = receipt["stores"]
    assert all(isinstance(reason, str) and reason for reason in found["why_not"])
    if can_overwrite:
        assert found["why_not"] == []
        assert found["cannot_reach"]


def test_nobody_of_that_name(filled: Backend, memctl: Memctl) -> None:
    outcome = memctl("-s", filled.address, "forget", "users.b", "--yes")
    assert outcome.code == 5
    check(filled, in_order([*OTHERS, *BO]))
