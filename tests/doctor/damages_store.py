"""Stores whose vectors, times, schema or files are damaged."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.contract.backends import Backend, SqliteBackend
from tests.doctor.damages import POSTGRES, SQLITE, Damage, agent
from tests.invocation import Memctl

SPACE = ("users", "ana", "prefs")
PREFIX = "users.ana.prefs"
THEN = "'2026-11-01 08:00:00'"
LATER = "'2026-11-02 08:00:00'"
BOTH = (SQLITE, POSTGRES)


def _put(backend: Backend, *, index: bool = True) -> None:
    """Two items by the real library, as of some weeks ago."""
    backend.create()
    with agent(backend, index=index) as store:
        store.put(SPACE, "seat", {"text": "a window, please"})
        store.put(SPACE, "meal", {"text": "no fish", "tags": ["dinner", "lunch", "flight"]})
    _age(backend, THEN)


def _age(backend: Backend, moment: str) -> None:
    for table in ("store", "store_vectors"):
        backend.execute(f"UPDATE {table} SET created_at = {moment}, updated_at = {moment}")


def _finds_the_seat(backend: Backend) -> None:
    with agent(backend) as store:
        store.put(SPACE, "desk", {"text": "by the door"})
        assert [item.key for item in store.search(SPACE, query="by the door", limit=1)] == ["desk"]
        assert store.get(SPACE, "seat").value == {"text": "a window, please"}


# --- vectors ------------------------------------------------------------------------------------------------


def _orphan(backend: Backend, folder: Path) -> None:
    _put(backend)
    with agent(backend) as store:
        store.delete(SPACE, "meal")


def _orphan_by_sql(backend: Backend, folder: Path) -> None:
    _put(backend)
    backend.execute("ALTER TABLE store_vectors DROP CONSTRAINT store_vectors_prefix_key_fkey")
    backend.execute("DELETE FROM store WHERE key = 'meal'")


def _shorter_list(backend: Backend, folder: Path) -> None:
    """A put of fewer elements within the same second."""
    _put(backend)
    with agent(backend) as store:
        store.put(SPACE, "meal", {"text": "no fish", "tags": ["dinner"]})
    _age(backend, THEN)


def _unindexed_put(backend: Backend, folder: Path) -> None:
    _put(backend)
    with agent(backend) as store:
        store.put(SPACE, "seat", {"text": "the aisle"}, index=False)
    backend.execute(f"UPDATE store SET updated_at = {LATER}, created_at = {THEN} WHERE key = 'seat'")


def _other_dims(backend: Backend, folder: Path) -> None:
    _put(backend)
    assert isinstance(backend, SqliteBackend)
    width = len(backend.execute("SELECT embedding FROM store_vectors LIMIT 1")[0][0])
    cells = {
        "meal": bytes(width),
        "seat": struct.pack("<2f", 1.0, 2.0),
    }
    for key, cell in cells.items():
        backend.execute(
            f"UPDATE store_vectors SET embedding = x'{cell.hex()}' WHERE key = '{key}' AND field_name = 'text'"
        )


def _bare(backend: Backend, folder: Path) -> None:
    _put(backend)
    with agent(backend, index=False) as store:  # a process without an index
        store.put(SPACE, "desk", {"text": "by the door"})
    _age(backend, THEN)


# --- times --------------------------------------------------------------------------------------------------


def _overwritten(backend: Backend, folder: Path) -> None:
    """An archive, and then a put, which SQLite takes for a new item."""
    _put(backend)
    Memctl(folder)("-s", backend.address, "export", "-f", "before.jsonl")
    with agent(backend) as store:
        store.put(SPACE, "seat", {"text": "the aisle"})
    for table in ("store", "store_vectors"):
        backend.execute(f"UPDATE {table} SET created_at = {LATER}, updated_at = {LATER} WHERE key = 'seat'")


def _younger_than_its_vectors(backend: Backend, folder: Path) -> None:
    """The same text put again by a process without an index."""
    _put(backend)
    with agent(backend, index=False) as store:
        store.put(SPACE, "seat", {"text": "a window, please"})
    backend.execute(f"UPDATE store SET created_at = {LATER}, updated_at = {LATER} WHERE key = 'seat'")


def _expired(backend: Backend, folder: Path) -> None:
    _put(backend)
    with agent(backend) as store:
        store.put(SPACE, "now", {"text": "is on the train"}, ttl=30)
    _age(backend, THEN)
    backend.execute("UPDATE store SET expires_at = '2026-11-01 08:30:00+00:00' WHERE key = 'now'")


def _misspelled_expiry(backend: Backend, folder: Path) -> None:
    backend.create()
    with agent(backend, index=False) as store:
        store.put(SPACE, "seat", {"text": "a window, please"}, ttl=1440)
        store.put(SPACE, "meal", {"text": "no fish"}, ttl=1440)
    backend.execute("UPDATE store SET expires_at = '2099-01-01T00:00:00Z' WHERE key = 'meal'")


def _no_expiry(backend: Backend, folder: Path) -> None:
    backend.create()
    with agent(backend, index=False) as store:
        store.put(SPACE, "seat", {"text": "a window, please"}, ttl=1440)
    backend.execute("UPDATE store SET expires_at = NULL")


def _no_minutes(backend: Backend, folder: Path) -> None:
    """0.4 minutes, which an INT column keeps as 0."""
    backend.create()
    with agent(backend, index=False) as store:
        store.put(SPACE, "seat", {"text": "a window, please"}, ttl=0.4)
    backend.execute("UPDATE store SET expires_at = '2099-01-01 00:00:00+00:00', ttl_minutes = 0")


# --- schema and file ----------------------------------------------------------------------------------------


def _lost_ledger(backend: Backend, folder: Path) -> None:
    _put(backend)
    backend.execute("DROP TABLE store_migrations")


def _lost_indexes(backend: Backend, folder: Path) -> None:
    _put(backend)
    backend.execute("DROP INDEX store_prefix_idx")
    backend.execute("DROP INDEX idx_store_expires_at")


def _lost_column(backend: Backend, folder: Path) -> None:
    """A ledger that is ahead of the schema."""
    _put(backend)
    backend.execute("DROP INDEX idx_store_expires_at")
    for column in ("expires_at", "ttl_minutes"):
        backend.execute(f"ALTER TABLE store DROP COLUMN {column}")


def _lost_key(backend: Backend, folder: Path) -> None:
    _put(backend)
    backend.execute("ALTER TABLE store_vectors DROP CONSTRAINT store_vectors_prefix_key_fkey")


def _invalid_index(backend: Backend, folder: Path) -> None:
    _put(backend)
    backend.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'store_vectors_embedding_idx'::regclass"
    )


def _newer(backend: Backend, folder: Path) -> None:
    _put(backend)
    backend.execute("INSERT INTO store_migrations (v) VALUES (17)")


def _free_pages(backend: Backend, folder: Path) -> None:
    _put(backend, index=False)
    with agent(backend, index=False) as store:
        for number in range(40):
            store.put(("logs",), str(number), {"text": "x" * 60_000})
        for number in range(40):
            store.delete(("logs",), str(number))
    backend.execute(f"UPDATE store SET created_at = {THEN}, updated_at = {THEN}")


def _refreshes(backend: Backend) -> None:
    """A read that refreshes, and a sweep that leaves what is not due."""
    with agent(backend, index=False) as store:
        assert store.get(SPACE, "seat", refresh_ttl=True) is not None
        store.sweep_ttl()
        assert store.get(SPACE, "seat") is not None


def _with_vectors_of(key: str, *names: str) -> tuple[tuple[str, str, str, tuple[str, ...]], ...]:
    return ((PREFIX, key, "both", names),)


CASCADE = {"schema": ("note", 1)}

DAMAGES = (
    Damage(
        "orphaned-vectors",
        "deleted",
        _orphan,
        {"orphaned-vectors": ("error", 4), **CASCADE},
        works=_finds_the_seat,
    ),
    Damage(
        "orphaned-vectors",
        "without-foreign-key",
        _orphan_by_sql,
        {"orphaned-vectors": ("error", 4), "schema": ("error", 2)},
        backends=(POSTGRES,),
        left={"schema": ("error", 1)},
    ),
    Damage(
        "stale-vectors",
        "shorter-list",
        _shorter_list,
        {"stale-vectors": ("warning", 3)},
        backends=BOTH,
        moved=_with_vectors_of("meal", "vectors"),
        works=_finds_the_seat,
    ),
    Damage(
        "stale-vectors",
        "unindexed-put",
        _unindexed_put,
        {"stale-vectors": ("warning", 1)},
        backends=BOTH,
        moved=_with_vectors_of("seat", "vectors"),
        left={"index-coverage": ("note", 1)},
    ),
    Damage(
        "created-at-drift",
        "against-an-archive",
        _overwritten,
        {"created-at-drift": ("warning", 1)},
        options=("--against", "{folder}/before.jsonl"),
        moved=_with_vectors_of("seat", "created_at"),
    ),
    Damage(
        "created-at-drift",
        "assumed",
        _younger_than_its_vectors,
        {"created-at-drift": ("warning", 1), "stale-vectors": ("warning", 1)},
        fix_options=("--assume-overwritten",),
        left={"stale-vectors": ("warning", 1)},
        moved=_with_vectors_of("seat", "created_at"),
    ),
    Damage(
        "expired-unswept",
        "never-swept",
        _expired,
        {"expired-unswept": ("warning", 1)},
        backends=BOTH,
        moved=((PREFIX, "now", "a", ()),),
        works=_finds_the_seat,
    ),
    Damage(
        "ttl-inconsistent",
        "misspelled",
        _misspelled_expiry,
        {"ttl-inconsistent": ("warning", 1)},  # the same instant, so that nothing differs afterwards
        works=_refreshes,
    ),
    Damage(
        "ttl-inconsistent",
        "ttl-without-expiry",
        _no_expiry,
        {"ttl-inconsistent": ("warning", 1)},
        backends=BOTH,
        moved=_with_vectors_of("seat", "expires_at"),
        works=_refreshes,
    ),
    Damage(
        "ttl-inconsistent",
        "zero",
        _no_minutes,
        {"ttl-inconsistent": ("warning", 1)},
        backends=BOTH,
        moved=_with_vectors_of("seat", "ttl_minutes"),
        works=_refreshes,
    ),
    Damage(
        "schema",
        "lost-ledger",
        _lost_ledger,
        {"schema": ("error", 1)},
        backends=BOTH,
        works=_finds_the_seat,
    ),
    Damage(
        "schema",
        "lost-indexes",
        _lost_indexes,
        {"schema": ("error", 2)},
        backends=BOTH,
        works=_finds_the_seat,
    ),
    Damage("schema", "lost-columns", _lost_column, {"schema": ("error", 3)}, works=_finds_the_seat),
    Damage(
        "schema",
        "lost-columns",
        _lost_column,
        {"schema": ("error", 2)},
        backends=(POSTGRES,),
        works=_finds_the_seat,
    ),
    Damage("schema", "lost-foreign-key", _lost_key, {"schema": ("error", 1)}, backends=(POSTGRES,)),
    Damage(
        "schema",
        "invalid-index",
        _invalid_index,
        {"schema": ("error", 1)},
        backends=(POSTGRES,),
        works=_finds_the_seat,
    ),
    Damage("schema", "newer", _newer, {"schema": ("error", 1)}, backends=BOTH, repaired=False),
    Damage(
        "vector-shape",
        "dims-and-zeros",
        _other_dims,
        {"vector-shape": ("error", 2)},
        repaired=False,
    ),
    Damage(
        "index-coverage",
        "put-without-index",
        _bare,
        {"index-coverage": ("note", 1)},
        backends=BOTH,
        repaired=False,
    ),
    Damage(
        "integrity",
        "free-pages",
        _free_pages,
        {"integrity": ("warning", 1)},
        fix_options=("--vacuum",),
        works=_finds_the_seat,
    ),
)
