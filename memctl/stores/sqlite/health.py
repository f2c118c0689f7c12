"""What is wrong with a SQLite file as such, and with the schema in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from memctl.store import Ailment
from memctl.stores.ledgers import ledger_faults
from memctl.stores.sqlite.connect import translated

if TYPE_CHECKING:
    from memctl.stores.sqlite.store import SqliteStore

FREE_SHARE = 0.25
"""Free pages are worth a word from this share of the file on, and from `FREE_OCTETS` on."""
FREE_OCTETS = 1024 * 1024
WAL_OCTETS = 64 * 1024 * 1024
"""SQLite checkpoints at 4 MB unless told otherwise, and so a WAL only grows so far when nobody lets it."""
REPORTED = 20

_PRIMARY = "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk"
_FOREIGN = """SELECT "from", "to", on_delete FROM pragma_foreign_key_list(?) WHERE "table" = ? ORDER BY seq"""
_EFFECTS = (
    "the table {table}",
    "the index {table}_prefix_idx",
    "the column expires_at",
    "the column ttl_minutes",
    "the index idx_{table}_expires_at",
)
_VECTOR_EFFECTS = ("the table {table}_vectors",)


def ailments(store: SqliteStore, *, thorough: bool) -> Iterator[Ailment]:
    """Yield what is wrong with the file, see `store.Examined`.

    A live file in rollback-journal mode is copied before it is read through: nobody could write meanwhile.
    """
    if thorough:
        with store.snapshot() as still:
            yield from _corruption(still)  # type: ignore[arg-type]
    with translated(store.path), store._transaction():
        page, pages, free = (
            store._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
    if free * page >= FREE_OCTETS and free >= FREE_SHARE * pages:
        share = round(100 * free / pages)
        yield Ailment(
            "free-pages",
            f"{share} % of the file is free pages, which only a VACUUM gives back",
            brief=f"{share} % of the file is free pages",
            octets=free * page,
            remedy="VACUUM",
        )
    wal = store.path.with_name(store.path.name + "-wal")
    if wal.exists() and (octets := wal.stat().st_size) >= WAL_OCTETS:
        yield Ailment(
            "wal",
            "the WAL has grown far past the point where SQLite empties it: a reader that never ends keeps it,"
            " or nobody checkpoints",
            brief="a WAL that nobody empties",
            octets=octets,
            remedy="checkpoint the WAL and empty it",
        )


def _corruption(store: SqliteStore) -> Iterator[Ailment]:
    """Read all pages. Of a file that is damaged some checks end in an error, which says the same."""
    lines: list[str] = []
    try:
        with store._transaction():
            for (line,) in store._connection.execute(f"PRAGMA quick_check({REPORTED})"):
                lines += line.decode("utf-8", "replace").splitlines()
    except Exception as error:
        if not lines and getattr(error, "code", "") != "corrupt":
            raise
        lines.append(str(error))
    yield from (Ailment("corrupt", line, brief="damaged pages") for line in lines[:REPORTED] if line != "ok")


def schema_faults(store: SqliteStore) -> Iterator[Ailment]:
    """Yield where the schema is not what the library would have made, see `store.Examined`."""
    table = store.table
    for ledger, effects in zip(store.describe().ledgers, (_EFFECTS, _VECTOR_EFFECTS), strict=False):
        made = [effect.format(table=table) for effect in effects]
        remedy = partial(_absence, table, made)
        yield from ledger_faults(ledger, made, remedy=remedy, again="may run it again and fail")
    with translated(store.path), store._transaction():
        yield from _key_faults(store)


def _absence(table: str, effects: Sequence[str], version: int) -> str | None:
    """Return what can be done about a migration without effect."""
    # the library knows no other name, and so no statement for it
    return f"make {effects[version]}" if table == "store" else None


def _key_faults(store: SqliteStore) -> Iterator[Ailment]:
    table = store.table
    wanted = [(table, ["prefix", "key"])]
    if store.has_vectors:
        wanted.append((f"{table}_vectors", ["prefix", "key", "field_name"]))
    for name, columns in wanted:
        found = [row[0].decode() for row in store._connection.execute(_PRIMARY, (name,))]
        if found != columns:
            yield Ailment(
                f"primary-key:{name}",
                f"the primary key of {name} is ({', '.join(found)}) and not ({', '.join(columns)}):"
                " the library's puts then add rows where they should replace them",
                brief=f"{name} has another primary key",
            )
    if store.has_vectors:
        rows = store._connection.execute(_FOREIGN, (f"{table}_vectors", table)).fetchall()
        if [(row[0], row[2]) for row in rows] != [(b"prefix", b"CASCADE"), (b"key", b"CASCADE")]:
            yield Ailment(
                "foreign-key",
                f"{table}_vectors has no foreign key to {table}, which the library declares",
                brief=f"{table}_vectors has no foreign key",
            )
