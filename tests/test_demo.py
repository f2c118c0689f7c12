"""The demo store: LangGraph's schema to the byte, memories that the library reads, and some of each fault."""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pysqlite3
import pytest
import wordllama
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from memctl.errors import MemctlError, Refused
from memctl.stores import demo
from memctl.stores.sqlite import schema as sqlite_schema

NOW = datetime(2026, 11, 30, 9, 0, 0, 250_000, tzinfo=UTC)
ROOT = Path(__file__).parents[1]

Rows = list[tuple[Any, ...]]


def surrogate_escaped(raw: bytes) -> str:
    """Decode text of which one key is no UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def embed() -> Callable[[list[str]], list[list[float]]]:
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts: [model.embed([text], norm=True)[0].tolist() for text in texts]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "demo.db"
    demo.create_demo(file, NOW)
    return file


@pytest.fixture
def rows(path: Path) -> Iterator[Callable[..., Rows]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.text_factory = surrogate_escaped
        yield lambda sql, *values: connection.execute(sql, values).fetchall()


def index(embed: Callable[[list[str]], list[list[float]]]) -> dict[str, Any]:
    head = json.loads((ROOT / "memctl" / "stores" / "demo.json").read_text("utf-8"))
    return {"dims": head["dims"], "embed": embed, "text_fields": head["text_fields"]}


@contextlib.contextmanager
def real_store(path: Path, **config: Any) -> Iterator[SqliteStore]:
    """Open the library's own store; an index needs a Python that loads extensions, hence pysqlite3."""
    with contextlib.closing(
        pysqlite3.connect(str(path), check_same_thread=False, isolation_level=None)
    ) as connection:
        store = SqliteStore(connection, **config)
        store.setup()
        yield store


# --- the schema ---------------------------------------------------------------------------------------------


def everything_in(path: Path) -> dict[str, Rows]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.text_factory = surrogate_escaped
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in tables}
        found["sqlite_master"] = connection.execute("SELECT * FROM sqlite_master").fetchall()
        found["journal"] = connection.execute("PRAGMA journal_mode").fetchall()
        return found


@pytest.mark.parametrize("vectors", [False, True])
def test_schema_is_what_the_library_leaves(tmp_path: Path, vectors: bool) -> None:
    theirs, ours = tmp_path / "theirs.db", tmp_path / "ours.db"
    config = {"index": {"dims": 4, "embed": lambda texts: [[0.0] * 4 for _ in texts]}} if vectors else {}
    with real_store(theirs, **config):
        pass
    with contextlib.closing(sqlite3.connect(ours)) as connection:
        sqlite_schema.create(connection, vectors=vectors)
    expected = everything_in(theirs)
    assert expected["store_migrations"] == [(0,), (1,), (2,), (3,), (4,)]
    assert expected.get("vector_migrations") == ([(0,)] if vectors else None)
    assert everything_in(ours) == expected


def test_checkpointer_tables_are_what_the_library_leaves(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        SqliteSaver(connection).setup()
        expected = connection.execute("SELECT * FROM sqlite_master").fetchall()
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in sqlite_schema.CHECKPOINTER:
            connection.execute(statement)
        assert connection.execute("SELECT * FROM sqlite_master").fetchall() == expected


@pytest.mark.parametrize("isolation_level", [None, "", "EXCLUSIVE"])
def test_schema_is_created_whole_or_not_at_all(isolation_level: str | None) -> None:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=isolation_level)) as connection:
        connection.execute(sqlite_schema.VECTOR_LEDGER)
        with pytest.raises(sqlite3.OperationalError, match="vector_migrations"):
            sqlite_schema.create(connection, vectors=True)
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("vector_migrations",)]
        sqlite_schema.create(connection, vectors=False)
        assert not connection.in_transaction
        assert connection.execute("SELECT count(*) FROM store_migrations").fetchone() == (5,)


# --- making the file ----------------------------------------------------------------------------------------


def test_summary_counts_the_rows(tmp_path: Path) -> None:
    summary = demo.create_demo(tmp_path / "demo.db", NOW)
    found = everything_in(tmp_path / "demo.db")
    assert summary.items == len(found["store"])
    assert summary.vectors == len(found["store_vectors"])
    assert summary.namespaces == len({row[0] for row in found["store"]})
    assert summary.users == ("ana", "bo", "chen")
    assert summary.expired == 3
    assert found["journal"] == [("delete",)]
    assert [file.name for file in tmp_path.iterdir()] == ["demo.db"]


def test_same_moment_same_bytes(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        demo.create_demo(tmp_path / name, NOW)
    # The same instant in another zone is the same moment; another moment moves every time by the difference.
    demo.create_demo(tmp_path / "c.db", NOW.astimezone(timezone(timedelta(hours=9, minutes=30))))
    demo.create_demo(tmp_path / "later.db", NOW + timedelta(days=1))
    first = (tmp_path / "a.db").read_bytes()
    assert (tmp_path / "b.db").read_bytes() == first
    assert (tmp_path / "c.db").read_bytes() == first
    age = "SELECT created_at FROM store WHERE prefix = 'acme.ana.facts' AND key = 'home'"
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as a,
        contextlib.closing(sqlite3.connect(tmp_path / "later.db")) as b,
    ):
        created = [datetime.fromisoformat(c.execute(age).fetchone()[0]) for c in (a, b)]
    assert created[1] - created[0] == timedelta(days=1)


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    file.write_bytes(b"precious")
    with pytest.raises(MemctlError) as caught:
        demo.create_demo(file, NOW)
    assert caught.value.code == "file-exists"
    assert file.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [file]


def test_a_dangling_link_is_left_alone(tmp_path: Path) -> None:
    link = tmp_path / "memory.db"
    link.symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(MemctlError, match="is there already"):
        demo.create_demo(link, NOW)
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_that_appears_meanwhile_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool
) -> None:
    file, fill = tmp_path / "memory.db", demo._fill

    def race(connection: sqlite3.Connection, *rest: Any) -> None:
        fill(connection, *rest)
        file.write_bytes(b"precious")

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(demo, "_fill", race)
    if not hard_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(MemctlError, match="is there already"):
        demo.create_demo(file, NOW)
    assert file.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [file]


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.create_demo(tmp_path / "linked.db", NOW)

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    demo.create_demo(tmp_path / "renamed.db", NOW)
    assert (tmp_path / "renamed.db").read_bytes() == (tmp_path / "linked.db").read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {"linked.db", "renamed.db"}


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "INSERT_CHECKPOINT", "INSERT INTO nowhere VALUES (?, ?, ?, ?)")
    with pytest.raises(sqlite3.OperationalError):
        demo.create_demo(tmp_path / "demo.db", NOW)
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemctlError) as missing:
        demo.create_demo(tmp_path / "nowhere" / "demo.db", NOW)
    assert missing.value.code == "no-folder"
    assert not (tmp_path / "nowhere").exists()

    def refuse(
        self: Path, **options: Any
    ) -> None:  # the superuser may write anywhere, so the refusal is played
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(Refused, match="Permission denied"):
        demo.create_demo(tmp_path / "demo.db", NOW)


# --- the real library on it ---------------------------------------------------------------------------------


def test_the_library_reads_and_writes_it(path: Path, embed: Callable[[list[str]], list[list[float]]]) -> None:
    before = everything_in(path)
    with real_store(path, index=index(embed)) as store:
        home = store.get(("acme", "ana", "facts"), "home")
        assert home is not None
        assert home.value["fact"] == "Ana lives in Lisbon, two streets from the river."
        assert home.created_at == home.updated_at < NOW.replace(tzinfo=None)  # naive, and UTC

        assert len(store.search(("acme", "ana"), limit=100)) == 31
        assert store.search(("acme", "bo", "facts"), filter={"subject": "coffee"})[0].key == "coffee"
        assert ("acme", "chen", "memories") in store.list_namespaces(prefix=("acme",), limit=100)

        store.put(("acme", "ana", "facts"), "tea", {"fact": "Ana drinks mint tea."})
        found = store.search(("acme", "ana"), query="mint tea", limit=1)[0]
        assert (found.key, found.value) == ("tea", {"fact": "Ana drinks mint tea."})
        assert found.score == pytest.approx(0.77, abs=0.2)
        store.delete(("acme", "ana", "facts"), "tea")
    after = everything_in(path)
    assert after.pop("store_vectors") != before.pop("store_vectors")  # the orphan of the tea
    assert after == before


@pytest.mark.parametrize(
    ("where", "query", "text"),
    [
        (("acme",), "vegetarian dinner", "Ana is vegetarian: no meat and no fish."),
        (("acme",), "nut allergies", "Ana is allergic to hazelnuts; almonds are fine."),
        (("acme",), "the dog in the office", "dog is called Pastel"),
        (("acme", "chen"), "late payment", "Chen wants the reason for a late payment, not an apology"),
        (("acme", "ana"), "train journey", "A train to Porto on Friday afternoon"),
        (("alice",), "How should I write to her?", "Write to Alice rather than phone her."),
        # Its vector is stale and still says what the item said before.
        (("acme",), "paint booth ventilation", "Bo is teaching two apprentices to braze lugs."),
    ],
)
def test_the_nearest_memory_is_the_right_one(
    path: Path,
    embed: Callable[[list[str]], list[list[float]]],
    where: tuple[str, ...],
    query: str,
    text: str,
) -> None:
    with real_store(path, index=index(embed)) as store:
        assert text in str(store.search(where, query=query, limit=3)[0].value)


def test_vectors_are_the_model_s_own(
    rows: Callable[..., Rows], embed: Callable[[list[str]], list[list[float]]]
) -> None:
    found = rows(
        "SELECT v.field_name, v.embedding, s.value FROM store_vectors v JOIN store s USING (prefix, key)"
        " WHERE v.created_at = s.created_at AND length(v.embedding) = 1024"
        " AND v.field_name IN ('text', 'fact') AND s.prefix <> 'helpdesk.import'"
    )
    assert len(found) > 50
    for field, embedding, value in found:
        expected = embed([json.loads(value)[field]])[0]
        assert struct.unpack("<256f", embedding) == pytest.approx(expected, abs=1e-6)


def test_the_checkpointer_reads_its_conversations(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        threads = {entry.config["configurable"]["thread_id"] for entry in saver.list(None)}
    assert threads == {"ana-welcome", "ana-kestrel", "bo-workshop", "chen-books", "team-monday"}


def test_values_and_timestamps_are_spelled_as_the_library_spells_them(
    path: Path, rows: Callable[..., Rows]
) -> None:
    with contextlib.closing(sqlite3.connect(path.with_name("real.db"), isolation_level=None)) as connection:
        store = SqliteStore(connection)
        store.setup()
        for prefix, key, value in rows(
            "SELECT prefix, key, value FROM store WHERE prefix GLOB 'acme.*.facts'"
        ):
            store.put(tuple(prefix.split(".")), key, json.loads(value), ttl=5)
            assert connection.execute(
                "SELECT value, typeof(value) FROM store WHERE prefix = ? AND key = ?", (prefix, key)
            ).fetchone() == (value, "blob")
    assert rows("SELECT DISTINCT typeof(value), typeof(key), typeof(prefix) FROM store") == [
        ("blob", "text", "text")
    ]
    digits = "[0-9][0-9]"
    second = f"{digits}{digits}-{digits}-{digits} {digits}:{digits}:{digits}"
    assert rows(
        "SELECT count(*) FROM store WHERE prefix <> 'helpdesk.import'"
        " AND (created_at NOT GLOB ?1 OR updated_at NOT GLOB ?1)",
        second,
    ) == [(0,)]
    odd = rows(
        "SELECT key FROM store WHERE expires_at IS NOT NULL AND expires_at NOT GLOB ?"
        " AND expires_at NOT GLOB ? ORDER BY key",
        second,
        f"{second}.{digits}{digits}{digits}+00:00",
    )
    assert odd == [("argon-order",), ("ferry",), ("night-shift",)]
    assert rows("SELECT count(*) FROM store WHERE expires_at GLOB ?", second) == [(2,)]


# --- the faults ---------------------------------------------------------------------------------------------

SECOND = "2026-11-30 09:00:00"

FAULTS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "orphaned-vectors": (
        "SELECT prefix, key FROM store_vectors EXCEPT SELECT prefix, key FROM store",
        [("acme.bo.facts", "address")],
    ),
    "stale-vectors: older than the item": (
        "SELECT DISTINCT s.prefix, s.key FROM store s JOIN store_vectors v USING (prefix, key)"
        " WHERE v.updated_at < s.updated_at",
        [("acme.ana.facts", "manager"), ("acme.bo.facts", "hobbies"), ("acme.bo.facts", "project")],
    ),
    "stale-vectors: elements that are gone": (
        "SELECT prefix, key FROM store_vectors WHERE field_name GLOB 'tags[[][*]].*'"
        " GROUP BY prefix, key HAVING (prefix, key) IN (SELECT prefix, key FROM store_vectors"
        " WHERE field_name = 'tags[*]')",
        [("acme.bo.facts", "hobbies")],
    ),
    "created-at-drift: after updated_at": (
        "SELECT prefix, key FROM store WHERE created_at > updated_at AND created_at < ?1",
        [("acme.bo.preferences", "timezone")],
    ),
    "created-at-drift: in the future": (
        "SELECT prefix, key FROM store WHERE typeof(created_at) = 'text' AND created_at > ?1"
        " AND created_at GLOB '2*'",
        [("helpdesk.import", "ticket-1047")],
    ),
    "expired-unswept": (
        "SELECT prefix, key FROM store WHERE datetime(expires_at) < ?1 AND typeof(expires_at) = 'text'",
        [
            ("acme.ana.sessions", "birthday-dinner"),
            ("acme.ana.sessions", "lost-parcel"),
            ("acme.bo.sessions", "night-shift"),
        ],
    ),
    "ttl-inconsistent: TTL without expiry": (
        "SELECT prefix, key FROM store WHERE ttl_minutes IS NOT NULL AND expires_at IS NULL",
        [("acme.bo.sessions", "calibration")],
    ),
    "ttl-inconsistent: expiry without TTL": (
        "SELECT prefix, key FROM store WHERE ttl_minutes IS NULL AND expires_at IS NOT NULL",
        [("acme.bo.sessions", "visitors")],
    ),
    "ttl-inconsistent: a lost fraction": (
        "SELECT prefix, key FROM store WHERE ttl_minutes = 0",
        [("acme.bo.sessions", "tea-timer")],
    ),
    "ttl-inconsistent: expired, and the sweep does not see it today": (
        "SELECT prefix, key FROM store WHERE datetime(expires_at) < ?1 AND typeof(expires_at) = 'text'"
        " AND NOT expires_at < ?1",
        [("acme.bo.sessions", "night-shift")],
    ),
    "ttl-inconsistent: a number": (
        "SELECT prefix, key FROM store WHERE typeof(expires_at) <> 'text' AND expires_at < ?1"
        " AND datetime(expires_at, 'unixepoch') > ?1",
        [("acme.bo.sessions", "argon-order")],
    ),
    "ttl-inconsistent: an offset": (
        "SELECT prefix, key FROM store WHERE expires_at LIKE '%+02:00'",
        [("acme.bo.sessions", "ferry")],
    ),
    "ttl-inconsistent: a sibling that never expires": (
        "SELECT prefix, key FROM store WHERE prefix = 'acme.ana.sessions' AND expires_at IS NULL"
        " AND ttl_minutes IS NULL",
        [("acme.ana.sessions", "first-hello")],
    ),
    "vector-shape": (
        "SELECT prefix, key FROM store_vectors WHERE length(embedding) <> 1024 OR embedding = zeroblob(1024)",
        [("helpdesk.import", f"article-{about}") for about in ("chains", "lights", "locks")],
    ),
    "index-coverage: nothing indexed": (
        "SELECT prefix, key FROM store WHERE prefix LIKE 'acme.%.preferences'"
        " EXCEPT SELECT prefix, key FROM store_vectors",
        [("acme.chen.preferences", key) for key in ("currency", "deadlines", "format", "precision")],
    ),
    "index-coverage: the whole document": (
        "SELECT prefix, key FROM store_vectors WHERE field_name = '$'",
        [("helpdesk.import", "spare-parts")],
    ),
    "index-coverage: a crowd of vectors": (
        "SELECT prefix, key FROM store_vectors GROUP BY prefix, key HAVING count(*) > 10",
        [("acme.bo.facts", "suppliers")],
    ),
    "tenancy: the category first": (
        "SELECT prefix, key FROM store WHERE prefix GLOB 'preferences.*'",
        [(f"preferences.{user}", "display") for user in ("ana", "bo", "chen")],
    ),
    "timestamps": (
        "SELECT prefix, key FROM store WHERE created_at IS NULL OR typeof(created_at) <> 'text'"
        " OR created_at NOT GLOB '????-??-?? ??:??:??'",
        [("helpdesk.import", f"ticket-{number}") for number in range(1043, 1047)],
    ),
    "langmem-shape": (
        "SELECT prefix, key FROM store WHERE CAST(value AS TEXT) GLOB '{\"content\":*' AND key NOT LIKE '/%'"
        " AND prefix IN (SELECT prefix FROM store WHERE CAST(value AS TEXT) GLOB '{\"kind\":*')",
        [("acme.bo.memories", "de3b830b-93b4-4e41-8e31-5cd108908d9f")],
    ),
    "deepagents-shape": (
        "SELECT prefix, key FROM store WHERE key LIKE '/%'"
        " AND json_type(CAST(value AS TEXT), '$.content') NOT IN ('text', 'array')",
        [("acme.bo.filesystem", "/todo.md")],
    ),
    "provenance": (
        "SELECT prefix, key FROM store WHERE prefix LIKE '%.facts'"
        " AND json_extract(CAST(value AS TEXT), '$.source') NOT IN (SELECT thread_id FROM checkpoints)",
        [("acme.ana.facts", "summer")],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(rows: Callable[..., Rows], fault: str) -> None:
    sql, expected = FAULTS[fault]
    found = rows(sql, *([SECOND] if "?1" in sql else []))
    assert sorted(found) == sorted(expected)


def test_faulty_values(rows: Callable[..., Rows]) -> None:
    values = dict(rows("SELECT key, value FROM store WHERE prefix = 'helpdesk.import'"))
    assert "caf\udce9" in values
    with pytest.raises(json.JSONDecodeError):
        json.loads(values["faq-waiting"])
    with pytest.raises(UnicodeDecodeError):
        values["meeting"].decode()
    assert isinstance(json.loads(values["colours"]), list)
    assert json.loads(values["thanks"])["text"].endswith("\ud83d")
    assert "\0" in json.loads(values["form-letter"])["text"]
    assert len(json.loads(values["hours"], object_pairs_hook=list)) == 2
    broken = {"colours", "faq-waiting", "meeting"}
    for prefix, key, value in rows("SELECT prefix, key, value FROM store"):
        if prefix != "helpdesk.import" or key not in broken:
            assert isinstance(json.loads(value), dict)


def test_faulty_namespaces(rows: Callable[..., Rows]) -> None:
    prefixes = {prefix for (prefix,) in rows("SELECT DISTINCT prefix FROM store")}
    assert {
        "acme..memories",
        "acme.None.memories",
        "acme.{user_id}.memories",
        "acme.dana@example.com.preferences",
        "langgraph.scratch",
        "memories",
    } < prefixes
    assert {"acme.chen.preferences", "acme.Chen.preferences"} < prefixes
    roots = {prefix.split(".")[0] for prefix in prefixes}
    lookalikes = {(a, b) for a in roots for b in roots if a != b and b.startswith(a)}
    assert lookalikes == {("al", "alice")}


def test_contradiction_and_snippets(rows: Callable[..., Rows]) -> None:
    found = rows(
        "SELECT prefix, key, embedding FROM store_vectors WHERE field_name IN ('fact', 'text', 'content')"
        " AND length(embedding) = 1024"
    )
    vectors = np.array([np.frombuffer(embedding, "<f4") for _, _, embedding in found])
    near = {
        tuple(sorted((found[a][:2], found[b][:2])))
        for a, b in np.argwhere(vectors @ vectors.T > 0.9)
        if found[a][:2] != found[b][:2]
    }
    assert near == {(("acme.ana.facts", "diet"), ("acme.ana.facts", "diet-2"))}

    snippets = rows("SELECT key, value, expires_at FROM store WHERE prefix = 'acme.chen.snippets'")
    assert len(snippets) == 5
    for key, value, expires_at in snippets:
        assert len(key) == 36
        assert len(value) > 250
        assert expires_at is None


def test_most_of_it_is_in_good_order(rows: Callable[..., Rows]) -> None:
    (total,) = rows("SELECT count(*) FROM store")[0]
    faulty = {row for _, expected in FAULTS.values() for row in expected}
    assert len(faulty) < total / 3


# --- the data -----------------------------------------------------------------------------------------------


def test_data_is_what_the_story_makes(tmp_path: Path) -> None:
    script = ROOT / "tests" / "tools" / "make_demo.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "demo.json")], check=True)
    made = json.loads((tmp_path / "demo.json").read_text("utf-8"))
    shipped = json.loads((ROOT / "memctl" / "stores" / "demo.json").read_text("utf-8"))
    # Another processor may round the last bit of a vector differently.
    for ours, theirs in zip(shipped.pop("vectors"), made.pop("vectors"), strict=True):
        a, b = (base64.b64decode(vector.pop("embedding")) for vector in (ours, theirs))
        assert ours == theirs
        if a != b:
            assert struct.unpack("<256f", a) == pytest.approx(struct.unpack("<256f", b), abs=1e-6)
    assert shipped == made


def test_data_is_small() -> None:
    assert (ROOT / "memctl" / "stores" / "demo.json").stat().st_size < 250_000
