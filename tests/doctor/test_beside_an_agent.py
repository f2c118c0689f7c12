"""Repairs while an agent writes through the real library, in a process of its own, under the very names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memctl.model import Detail, Scope
from tests.agent import KEYS
from tests.contract.backends import RawItem, vector
from tests.contract.conftest import make_backend
from tests.doctor.damages import POSTGRES, SQLITE
from tests.invocation import Memctl
from tests.test_concurrency import agent

COUNT = 600
PAST = "2026-11-01T00:00:00.000000Z"
OLDER = "2026-10-01T00:00:00.000000Z"
FIXES = "orphaned-vectors,expired-unswept,stale-vectors"


@pytest.mark.parametrize("name", [SQLITE, POSTGRES])
def test_no_live_item_is_harmed(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    memctl = Memctl(tmp_path)
    with make_backend(name, tmp_path, lambda: request.getfixturevalue("databases")) as backend:
        backend.create()
        keys = [*(f"x{n:05}" for n in range(COUNT)), *(f"k{n:02}" for n in range(KEYS))]
        old = vector("text")
        backend.insert(
            RawItem("fading", key, expires_at=PAST, ttl_minutes=60, vectors=(old,)) for key in keys
        )
        backend.insert(
            RawItem("rewritten", key, '{"text": "new"}', OLDER, PAST, vectors=(vector("tags[*].3"),))
            for key in keys
        )
        for key in keys[-KEYS - 200 :]:
            backend.orphan("reborn", key, old)
        with agent(backend, "fading", "rewritten", "reborn") as writer:
            command = ("-s", backend.address, "-o", "json", "doctor", "--fix", FIXES, "--yes")
            reports = [memctl.process(*command, "--save", f"gone-{n}.jsonl") for n in range(2)]
            out, err = writer.communicate(timeout=60)
            assert writer.returncode == 0, err
        told = json.loads(out)
        assert told["errors"] == []
        assert told["longest"] < 5, "the library gives up after five seconds"
        assert {report.code for report in reports} <= {3, 4}, [report.err for report in reports]
        assert memctl("verify", "gone-0.jsonl").code == 0

        with backend.open() as store:
            for namespace, written in told["written"].items():
                items = {item.key: item for item in store.scan(Scope(namespace), vectors=Detail.SHAPE)}
                for key, turn in written.items():
                    assert json.loads(items[key].value or b"")["turn"] == turn
                    fields = [found.field for found in items[key].vectors if "[" not in found.field]
                    assert fields == ["text"], (namespace, key)
                left = [key for key in items if key.startswith("x")]
                assert len(left) == (COUNT if namespace == "rewritten" else 0)
                assert not any(items[key].vectors for key in left)
        ((orphans,),) = backend.execute(
            "SELECT count(*) FROM store_vectors AS v WHERE NOT EXISTS"
            " (SELECT 1 FROM store AS s WHERE s.prefix = v.prefix AND s.key = v.key)"
        )
        assert orphans == 0
