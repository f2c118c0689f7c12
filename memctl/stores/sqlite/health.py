"""What is wrong with a SQLite file as such, and with the schema in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memctl.store import Ailment, Ledger
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
        yield from _ledger_faults(ledger, [effect.format(table=table) for effect in effects], table)
    with translated(store.path), store._transaction():
        yield from _key_faults(store)


def _ledger_faults(ledger: Ledger, effects: list[str], table: str) -> Iterator[Ailment]:
    """Compare both ways. The library goes by the highest number: what is below it is never run again."""
    recorded, applied = set(ledger.recorded), set(ledger.applied)
    reached = max(recorded, default=-1)
    for version in (version for version in ledger.known if version <= reached and version not in applied):
        own = table == "store"  # the library knows no other name, and so no statement for it
        yield Ailment(
            f"absent:{ledger.table}:{version}",
            f"{ledger.table} says that migration {version} was run, but {effects[version]} is missing",
            brief=f"{effects[version].removeprefix('the ')} is missing",
            remedy=f"make {effects[version]}" if own else None,
        )
    if missing := sorted(applied - recorded):
        listed = ", ".join(map(str, missing))
        yield Ailment(
            f"unrecorded:{ledger.table}:{listed.replace(' ', '')}",
            f"{ledger.table} lacks {listed}, whose effect is there: the library's setup may run it again and fail",
            brief=f"{ledger.table} lacks {listed}",
            count=len(missing),
            remedy="record what was done",
        )
    if unknown := sorted(recorded - set(ledger.known)):
        yield Ailment(
            f"unknown:{ledger.table}",
            f"{ledger.table} records {', '.join(map(str, unknown))}, which is newer than memctl knows:"
            " look for a newer memctl before you change anything",
            brief=f"{ledger.table} is newer than memctl knows",
            count=len(unknown),
        )


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
