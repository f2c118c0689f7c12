"""Finding out what is wrong with a store of a million items: `doctor`.

    python -m tests.benchmarks.examining STORE TIMES

reads a store's orphaned vectors so many times, as the doctor does, and says how many and how large they are: in
so short a read the start of a process would be most of the time.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from . import checks
from .harness import Command, Comparison, Row, compare, memctl, program, run
from .workshop import Workshop

PEAK_MB = 150.0
_ITEMS = 1_000_000
_TIMES = 20
_LONGER = "duplicates,integrity"
_DELETE = "DELETE FROM store WHERE rowid % 1000 = 1"
"""Without the cascade, which SQLite leaves off: one vector in a hundred is an orphan then."""
_ANTI_JOIN = (
    "SELECT count(*), sum(length(embedding)) FROM store_vectors v "
    "WHERE NOT EXISTS (SELECT 1 FROM store s WHERE s.prefix = v.prefix AND s.key = v.key);"
)


def doctor(workshop: Workshop) -> Iterator[Row]:
    """All checks but the two that take longer, against one full read of both tables; then the orphans."""
    items = workshop.count(_ITEMS)
    stores = [("SQLite", str(workshop.sqlite(items)))]
    if workshop.major is not None:
        stores.append(("Postgres", workshop.postgres(items)))
    for backend, store in stores:
        name = f"doctor, {backend}, {items:,} items / full read of both tables"
        ours = memctl("-s", store, "doctor", "--skip", _LONGER, "--fail-on", "error", "-o", "json")
        both = program("baselines", f"{backend.lower()}_tables", store)
        yield compare(
            Comparison(name, ours, both, 3.0, PEAK_MB, check=checks.every_check_ran), workshop.folder
        )
    path = workshop.copy(workshop.sqlite(items), "orphaned.db")
    run(Command(("sqlite3", path, _DELETE)), workshop.folder / "orphaned.out")
    name = f"orphans, SQLite, {items // 10:,} vectors, {_TIMES} times / anti-join in the sqlite3 shell"
    shell = Command(("sqlite3", "-readonly", path, _ANTI_JOIN * _TIMES))
    ours = program("examining", path, str(_TIMES))
    check = partial(checks.same_numbers, _TIMES)
    yield compare(Comparison(name, ours, shell, 1.3, PEAK_MB, check=check), workshop.folder)


def orphans(path: Path, times: int) -> None:
    """Print how many orphaned vectors there are, and how large they are, each time anew."""
    from memctl.model import EVERYTHING
    from memctl.stores.sqlite.store import SqliteStore

    store = SqliteStore(path, clock=lambda: datetime.now(UTC))
    for _ in range(times):
        found = [vector.dims for orphan in store.orphans(EVERYTHING) for vector in orphan.vectors]
        print(len(found), 4 * sum(found), sep="|")
    store.close()


GROUPS = (doctor,)

if __name__ == "__main__":
    orphans(Path(sys.argv[1]), int(sys.argv[2]))
