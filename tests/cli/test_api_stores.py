"""Commands on stores that are reached through an interface: a LangGraph server, and any BaseStore."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ITEMS, NAMES, PREFS
from tests.conftest import NewDatabase
from tests.invocation import Memctl
from tests.langgraph_server import LanggraphServer
from tests.relay import relay

LOST = ("--ignore", "created_at,updated_at,expiry,vectors")
"""What does not arrive in such a store, by the README's table."""


def make_memory(folder: Path) -> str:
    """An `InMemoryStore` in a module of its own; its address."""
    name = f"memory_{folder.name}"
    (folder / f"{name}.py").write_text(
        "from langgraph.store.memory import InMemoryStore\nstore = InMemoryStore()\n"
    )
    return f"python:{name}:store"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[str]:
    """An empty InMemoryStore."""
    address = make_memory(tmp_path)
    yield address
    sys.modules.pop(address.split(":")[1], None)


@pytest.fixture(params=["memory", "server"])
def there(request: pytest.FixtureRequest) -> str:
    """The address of each kind of store, which holds nothing."""
    found: Any = request.getfixturevalue(request.param)
    return found.url if isinstance(found, LanggraphServer) else str(found)


@pytest.fixture
def filled(memctl: Memctl, store: Path, there: str) -> str:
    """One that was filled from the store that everybody knows."""
    outcome = memctl("-o", "json", "migrate", store, there)
    assert outcome.code == 3, outcome.err  # vectors are left out
    report = outcome.json()
    assert (report["items"], report["vectors"], report["vectors_left_out"]) == (len(ITEMS), 0, 4)
    assert (report["rejected"], report["expiries_left_out"]) == (0, 2)
    assert "sets created_at and updated_at itself" in outcome.err
    return there


def test_reading(memctl: Memctl, filled: str) -> None:
    rows = memctl.json("-s", filled, "ls")
    assert [(".".join(row["namespace"]), row["items"]) for row in rows] == [
        ("org.acme.facts", 1),
        ("users.ana.memories", 2),
        (PREFS, 2),
        ("users.bo.prefs", 1),
    ]
    assert memctl.names("-s", filled, "ls", "users.ana", "--items") == [
        name for name in NAMES if name[0].startswith("users.ana.")
    ]
    item = memctl.json("-s", filled, "get", PREFS, "meal")
    assert item["value"] == {"value": "vegan", "tags": ["food", "travel"], "n": "9"}
    assert (item["expires_at"], item["ttl_minutes"]) == (None, None)
    assert item["created_at"] <= item["updated_at"]
    assert memctl.names("-s", filled, "search", "NAÏVE") == [("users.ana.memories", "m2")]
    assert memctl.names("-s", filled, "search", "--filter", "n>9") == [("org.acme.facts", "cadence")]
    assert len(memctl.names("-s", filled, "search", "--limit", "4")) == 4
    assert memctl.json("-s", filled, "stats")["items"] == 6
    assert "nearest: users.ana.prefs" in memctl("-s", filled, "ls", "users.ana.pref").err


def test_what_does_not_show_is_a_missing_capability(memctl: Memctl, filled: str) -> None:
    found = memctl.json("-s", filled, "info")
    assert not any(entry["present"] for entry in found["capabilities"].values())
    assert found["kind"] in ("python", "server")
    assert "through this interface" in found["capabilities"]["expiry"]["meaning"]
    assert memctl.refuse("-s", filled, "search", "--expired", code=1)["code"] == "unsupported"
    assert memctl.refuse("-s", filled, "search", "--like", PREFS, "meal", code=1)["code"] == "unsupported"
    assert memctl.refuse("-s", filled, "--schema", "x", "ls", code=2)["code"] == "usage"
    line = b'{"namespace": ["a"], "key": "k", "value": {}}'
    assert "own tables" in memctl.refuse("-s", filled, "import", "-", "--init", code=2, stdin=line)["message"]


def test_writing(memctl: Memctl, filled: str) -> None:
    memctl.json("-s", filled, "put", PREFS, "diet", '{"text": "naïve"}')
    assert memctl("-s", filled, "get", PREFS, "diet", "--value").out == '{"text":"naïve"}\n'
    memctl.json("-s", filled, "put", PREFS, "diet", '{"text": 2}')
    assert memctl("-s", filled, "get", PREFS, "diet", "--value").out == '{"text":2}\n'
    assert memctl.json("-s", filled, "rm", PREFS, "diet", "seat", "--yes")["items"] == 2
    assert memctl.names("-s", filled, "ls", PREFS, "--items") == [(PREFS, "meal")]
    assert memctl("-s", filled, "rm", PREFS, "diet", "--yes").code == 5


def test_an_archive_goes_out_and_comes_back(memctl: Memctl, filled: str) -> None:
    assert (
        "6 items and 0 vectors (1.5 kB) would be exported" in memctl("-s", filled, "export", "--dry-run").err
    )
    outcome = memctl("-s", filled, "export", "-f", "out.jsonl.gz")
    assert outcome.code == 0, outcome.err
    assert "changed meanwhile" not in outcome.err
    assert memctl("verify", "out.jsonl.gz").code == 0
    assert memctl("diff", "out.jsonl.gz", filled).code == 0
    memctl("-s", filled, "export", "-f", "out.jsonl")
    header, *lines = map(json.loads, (memctl.folder / "out.jsonl").read_bytes().splitlines())
    assert header["missing"] == ["vectors", "vector-times", "expiry"]
    assert [(".".join(line["namespace"]), line["key"]) for line in lines[:-1]] == NAMES
    assert memctl.json("-s", filled, "rm", "--all", "--yes")["items"] == 6
    assert memctl.json("-s", filled, "import", "out.jsonl")["items"] == 6
    report = memctl.json("-s", filled, "import", "out.jsonl")
    assert (report["items"], report["unchanged"]) == (0, 6)
    assert memctl("diff", "out.jsonl", filled, *LOST).code == 0


def test_conflicts(memctl: Memctl, filled: str) -> None:
    line = json.dumps({"namespace": PREFS, "key": "seat", "value": {"value": "window"}})
    (memctl.folder / "in.jsonl").write_text(line + "\n")
    assert memctl.refuse("-s", filled, "import", "in.jsonl", code=1)["code"] == "conflict"
    assert memctl.json("-s", filled, "import", "in.jsonl", "--on-conflict", "skip")["skipped"] == 1
    changed = memctl.json("-s", filled, "import", "in.jsonl", "--on-conflict", "overwrite", "--yes")
    assert (changed["items"], changed["overwritten"]) == (1, 1)
    assert memctl("-s", filled, "get", PREFS, "seat", "--value").out == '{"value":"window"}\n'


def test_what_cannot_be_held_is_found_before_anything_is_written(memctl: Memctl, there: str) -> None:
    lines = [
        {"namespace": ["a"], "key": "good", "value": {"n": 1}},
        {"namespace": ["a", ""], "key": "k", "value": {"n": 1}},
        {"namespace": ["a"], "key": "list", "value": [1]},
    ]
    (memctl.folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    error = memctl.refuse("-s", there, "import", "in.jsonl", "--raw", code=1)
    assert "an empty label" in error["message"]
    assert "not an object" in error["message"]
    assert memctl.json("-s", there, "ls") == []
    report = memctl.json("-s", there, "import", "in.jsonl", "--raw", "--on-error", "skip", code=3)
    assert (report["items"], report["rejected"]) == (1, 2)


@pytest.fixture
def databases_of_sql(memctl: Memctl, store: Path, new_database: NewDatabase) -> dict[str, str]:
    """A store in each kind of database, all of which hold the same."""
    url = new_database().url
    layout = f"cockroachdb://{url.partition('://')[2]}{'&' if '?' in url else '?'}schema=agents"
    found = {"sqlite": str(store), "postgres": new_database().url, "cockroach": layout}
    for address in (found["postgres"], layout):
        assert memctl("migrate", store, address, "--init", "--round-ttl", "up", "--index", "flat").code == 0
    return found


def test_migrating_between_every_pair(
    memctl: Memctl, databases_of_sql: dict[str, str], memory: str, server: LanggraphServer
) -> None:
    """Afterwards only that differs which is said to be lost, and nothing on the way back."""
    count = len(ITEMS)
    assert memctl("-s", databases_of_sql["cockroach"], "export", "-f", "all.jsonl").code == 0
    for narrow, other in ((memory, server.url), (server.url, memory)):
        for database in databases_of_sql.values():
            outcome = memctl("-o", "json", "migrate", database, narrow, "--verify")
            assert outcome.code == 3, outcome.err  # vectors are left out
            assert "verified: 6 items are equal in every part that was to come: value" in outcome.err
            parts = {part for row in memctl.json("diff", database, narrow, code=4) for part in row["parts"]}
            assert parts == {"created_at", "updated_at", "expires_at", "ttl_minutes", "vectors"}
            assert memctl("diff", database, narrow, *LOST).code == 0
            assert memctl.json("migrate", database, narrow, code=0)["unchanged"] == count
            assert memctl("-s", database, "rm", "--all", "--yes").code == 0
            assert memctl.json("migrate", narrow, database, "--verify")["items"] == count
            assert memctl("diff", narrow, database).code == 0
            assert memctl("-s", narrow, "rm", "--all", "--yes").code == 0
        refill = databases_of_sql["sqlite"]
        assert memctl.json("migrate", refill, narrow)["items"] == count
        assert memctl.json("migrate", narrow, other, "--verify")["items"] == count
        assert memctl("diff", narrow, other, *LOST).code == 0
        for address in (narrow, other, *databases_of_sql.values()):
            assert memctl("-s", address, "rm", "--all", "--yes").code == 0
        for database in databases_of_sql.values():
            assert memctl.json("-s", database, "import", "all.jsonl", "--round-ttl", "up")["items"] == count


def test_a_server_that_is_gone_in_the_middle_leaves_no_file(memctl: Memctl, server: LanggraphServer) -> None:
    text = "x" * 100_000
    for number in range(60):
        server.put(["a"], f"k{number}", {"text": text})
    with relay(server.url, 3_000_000) as between:
        error = memctl.refuse("-s", between.url, "--timeout", "0.5", "export", "-f", "out.jsonl", code=1)
        assert between.is_broken
    assert error["code"] == "connection-lost"
    assert list(memctl.folder.iterdir()) == []


def test_a_server_is_none(memctl: Memctl, closed_port: int, silent_port: int) -> None:
    for port in (closed_port, silent_port):
        error = memctl.refuse("-s", f"http://127.0.0.1:{port}", "--timeout", "0.3", "ls", code=13)
        assert error["code"] == "unreachable"
    assert memctl.refuse("-s", "http://u:s3cret@[", "ls", code=2)["code"] == "usage"


def test_requests_are_traced_without_their_content(memctl: Memctl, server: LanggraphServer) -> None:
    server.put(["a"], "k", {"secret": "hunter2"})
    key = {"LANGGRAPH_API_KEY": "lsv2_key"}
    outcome = memctl("-s", server.url, "--debug", "get", "a", "k", variables=key)
    assert outcome.code == 0
    assert "http: GET store/items" in outcome.err
    assert "lsv2_key" not in outcome.out + outcome.err
    assert "hunter2" not in outcome.err


def test_code_is_named_by_its_user_alone(memctl: Memctl, memory: str) -> None:
    config = f'default = "x"\n[stores.x]\nurl = "{memory}"\n'
    (memctl.folder / "memctl.toml").write_text(config)
    assert "runs code" in memctl.refuse("ls", code=2)["message"]
    assert memctl.json("-s", memory, "ls") == []
    assert memctl.json("ls", variables={"MEMCTL_STORE": memory}) == []
    own = memctl.folder / "config" / "memctl"
    own.mkdir(parents=True)
    shutil.move(memctl.folder / "memctl.toml", own / "config.toml")
    assert memctl.json("ls", variables={"XDG_CONFIG_HOME": str(own.parent)}) == []


def test_modules_in_this_folder_come_first(memctl: Memctl, memory: str) -> None:
    """As with `python -m`, whatever folder memctl was installed in."""
    outcome = memctl.process("-s", memory, "-o", "json", "ls")
    assert (outcome.code, outcome.out) == (0, "[]\n"), outcome.err


RESTLESS = """\
from langgraph.store.memory import InMemoryStore
print("made by hand")

class Restless(InMemoryStore):
    asked = 0
    def search(self, *arguments, **options):
        print("asked")
        self.asked += 1
        if self.asked == 2:
            self.delete(("a",), "k1")
        return super().search(*arguments, **options)

def store():
    store = Restless()
    for number in range(9):
        store.put(("a",), f"k{number}", {"n": number})
    return store
"""


def test_a_store_that_changes_while_it_is_read_is_said_to(memctl: Memctl) -> None:
    """And what its code prints is no part of the output."""
    (memctl.folder / "restless_here.py").write_text(RESTLESS)
    address = "python:restless_here:store"
    for command in (("-s", address, "ls"), ("diff", address, address, *LOST)):
        outcome = memctl.process("-o", "json", *command)
        assert outcome.code == 0, outcome.err
        assert "changed meanwhile" in outcome.err
        assert isinstance(outcome.json(), list)
        assert outcome.err.count("asked") > 2


DYNAMO = """\
import contextlib
from moto import mock_aws
from langgraph_store_dynamodb import DynamoDBStore

@contextlib.contextmanager
def store():
    with mock_aws():
        store = DynamoDBStore("memories", region_name="eu-west-1")
        for number in range(63):
            store.put(("users", f"u{number % 7}"), f"k{number}", {"n": number, "price": 1.5})
        yield store
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_store_by_somebody_else(memctl: Memctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """langgraph-store-dynamodb, on moto's DynamoDB in this process."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    (memctl.folder / "dynamo_here.py").write_text(DYNAMO)
    address = "python:dynamo_here:store"
    memctl.json("migrate", address, "copy.db", "--init")
    rows = memctl.json("-s", "copy.db", "ls")
    assert [(row["namespace"][1], row["items"]) for row in rows] == [(f"u{number}", 9) for number in range(7)]
    report = memctl.json("migrate", "copy.db", address)
    assert (report["items"], report["unchanged"]) == (0, 63)
