"""Commands that change a store while an agent writes to it through the real library: real processes on both sides.

No live item may be lost, no vector be left without its item, and no put of the agent's fail.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from memctl.model import EVERYTHING, Scope
from tests.agent import KEYS
from tests.contract.backends import Backend, RawItem, vector
from tests.contract.conftest import make_backend
from tests.databases import DEFAULT_KIND
from tests.invocation import ROOT, Memctl

COUNT = 1_000
"""Several of SQLite's batches."""
FADING = 800
PAST = "2026-11-01T00:00:00.000000Z"
LIVE = ("keep", "old.live", "live", "src.a", "timed")
"""The namespaces that the agent writes to."""


@contextlib.contextmanager
def agent(backend: Backend, *namespaces: str) -> Iterator[subprocess.Popen[str]]:
    """An agent at work."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.agent", backend.address, *namespaces],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        yield process
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True, slots=True)
class Story:
    """What happened: the exit codes of the commands, and what the agent tells in the end."""

    backend: Backend
    memctl: Memctl
    codes: dict[str, int]
    written: dict[str, dict[str, int]]
    errors: list[str]
    longest: float

    def stored(self, namespace: str) -> dict[str, Any]:
        """The values in a namespace by key."""
        with self.backend.open() as store:
            scope = Scope(namespace, descend=False)
            return {item.key: json.loads(item.value or b"null") for item in store.scan(scope)}

    def turns(self, namespace: str) -> dict[str, int]:
        """Which of the agent's puts each of its items in a namespace is of."""
        return {key: value["turn"] for key, value in self.stored(namespace).items() if key.startswith("k")}


@pytest.fixture(scope="module", params=["sqlite-rollback", "sqlite-wal", f"postgres-{DEFAULT_KIND}"])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One agent, and one command after the other beside it, on each kind of store."""
    folder = tmp_path_factory.mktemp("story")
    memctl = Memctl(folder)
    with make_backend(request.param, folder, lambda: request.getfixturevalue("databases")) as backend:
        backend.create()
        keys = [f"x{n:05}" for n in range(COUNT)]
        some = {key: (vector("text"),) for key in keys[::2]}
        for namespace in ("old.a", "src.a", "timed"):
            backend.insert(RawItem(namespace, key, vectors=some.get(key, ())) for key in keys)
        expired = [*keys, *(f"k{n:02}" for n in range(KEYS))]
        backend.insert(
            RawItem("live", key, expires_at=PAST, ttl_minutes=60, vectors=some.get(key, ()))
            for key in expired
        )
        with agent(backend, *LIVE) as writer:
            codes = {
                arguments[0] + arguments[2]: memctl.process("-s", backend.address, *arguments, "--yes").code
                for arguments in (
                    ("rm", "old", "--recursive"),
                    ("rm", "live", "--expired"),
                    ("mv", "src", "dst"),
                    ("expire", "timed", "--never"),
                )
            }
            out, err = writer.communicate(timeout=60)
            assert writer.returncode == 0, err
        yield Story(backend, memctl, codes, **json.loads(out))


def test_no_put_of_the_agents_fails(story: Story) -> None:
    assert story.errors == []
    assert story.longest < 2
    assert all(len(turns) == KEYS for turns in story.written.values())


def test_what_was_overtaken_is_said(story: Story) -> None:
    assert set(story.codes.values()) <= {0, 3}
    assert len(story.codes) == 4


def test_what_nobody_touched_is_whole(story: Story) -> None:
    assert story.turns("keep") == story.written["keep"]


def test_rm_leaves_nothing_but_what_came_later(story: Story) -> None:
    assert story.stored("old.a") == {}
    assert story.turns("old.live").items() <= story.written["old.live"].items()


def test_what_is_refreshed_has_not_expired(story: Story) -> None:
    assert story.turns("live") == story.written["live"]
    assert not any(key.startswith("x") for key in story.stored("live"))


def test_mv_loses_none_of_its_items(story: Story) -> None:
    old, new = story.turns("src.a"), story.turns("dst.a")
    assert sum(key.startswith("x") for key in story.stored("dst.a")) == COUNT
    for key, turn in story.written["src.a"].items():
        assert turn in (old.get(key), new.get(key)), key


def test_expire_changes_no_value(story: Story) -> None:
    assert story.turns("timed") == story.written["timed"]
    with story.backend.open() as store:
        left = [
            item.key for item in store.scan(Scope("timed")) if item.expires_at and item.key.startswith("x")
        ]
    assert left == []


def test_no_vector_is_left_alone_and_none_is_lost(story: Story) -> None:
    ((orphans,),) = story.backend.execute(
        "SELECT count(*) FROM store_vectors AS v WHERE NOT EXISTS"
        " (SELECT 1 FROM store AS s WHERE s.prefix = v.prefix AND s.key = v.key)"
    )
    assert orphans == 0
    with story.backend.open() as store:
        found = {namespace.prefix: namespace for namespace in store.namespaces(EVERYTHING)}
    for name in ("dst.a", "timed"):
        its_own = len(story.turns(name))
        assert (found[name].items, found[name].vectors) == (COUNT + its_own, COUNT // 2 + its_own)


def test_merging_at_once_loses_nothing(story: Story) -> None:
    """Several processes put into one item, each its own member."""
    story.backend.insert([RawItem("merged", "k", "{}")])
    names = [f"m{n}" for n in range(4)]
    started = [
        subprocess.Popen(
            story.memctl.command(
                "-s", story.backend.address, "put", "merged", "k", f'{{"{name}": 1}}', "--merge"
            ),
            env=story.memctl.environment(),
            cwd=story.memctl.folder,
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    assert [process.wait(timeout=60) for process in started] == [0] * len(names)
    assert story.stored("merged") == {"k": dict.fromkeys(names, 1)}


@pytest.fixture(scope="module", params=["sqlite-rollback", "sqlite-wal", f"postgres-{DEFAULT_KIND}"])
def swept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """An agent that refreshes what two sweeps at once find expired, and rewrites what a policy gives up."""
    folder = tmp_path_factory.mktemp("swept")
    memctl = Memctl(folder)
    (folder / "p.toml").write_text('[[rule]]\nnamespace = "aged"\nkeep = "1d"\n')
    with make_backend(request.param, folder, lambda: request.getfixturevalue("databases")) as backend:
        backend.create()
        keys = [*(f"x{n:05}" for n in range(FADING)), *(f"k{n:02}" for n in range(KEYS))]
        some = {key: (vector("text"),) for key in keys[::2]}
        backend.insert(
            RawItem("fading", key, expires_at=PAST, ttl_minutes=60, vectors=some.get(key, ())) for key in keys
        )
        backend.insert(
            RawItem("aged", key, created_at=PAST, updated_at=PAST, vectors=some.get(key, ())) for key in keys
        )
        with agent(backend, "fading", "aged") as writer:
            sweep = memctl.command("-s", backend.address, "-o", "json", "sweep", "--batch", "100")
            both = [
                subprocess.Popen(
                    sweep,
                    env=memctl.environment(),
                    cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                for _ in range(2)
            ]
            outs = [process.communicate(timeout=60)[0] for process in both]
            codes = {f"sweep {n}": process.returncode for n, process in enumerate(both)}
            codes["items"] = sum(json.loads(out)["items"] for out in outs)
            codes["policy"] = memctl.process(
                "-s", backend.address, "sweep", "--policy", "p.toml", "--policy-only", "--yes"
            ).code
            out, err = writer.communicate(timeout=60)
            assert writer.returncode == 0, err
        yield Story(backend, memctl, codes, **json.loads(out))


def test_sweeping_takes_what_has_expired_and_nothing_that_lives(swept: Story) -> None:
    assert swept.errors == []
    assert swept.longest < 2
    # each expired item went once, but for those that the agent was quicker to refresh
    assert FADING <= swept.codes.pop("items") <= FADING + KEYS
    assert set(swept.codes.values()) == {0}
    for namespace in ("fading", "aged"):
        assert swept.turns(namespace) == swept.written[namespace]
        assert len(swept.stored(namespace)) == KEYS
    ((vectors,),) = swept.backend.execute("SELECT count(*) FROM store_vectors")
    assert vectors == 2 * KEYS
