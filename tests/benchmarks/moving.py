"""Moving 300,000 items: `export`, `import`, `migrate`, `diff`.

A group is a function from the workshop to the rows of the table, measured one by one. Every run writes to a
target of its own: a file that was not there, or a database that was made for it.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from . import checks
from .harness import Command, Comparison, Row, compare, memctl, program, run
from .workshop import Workshop, remove

PEAK_MB = 150.0
_ITEMS = 300_000
_API_ITEMS = 20_000
_INDEXES = ("flat", "hnsw")
_ROWS = "SELECT prefix, key, value, created_at, updated_at, expires_at, ttl_minutes FROM store"


def export(workshop: Workshop) -> Iterator[Row]:
    """To an archive, against the same columns out of the database's own tools."""
    items = workshop.count(_ITEMS)
    for journal in ("wal", "delete"):
        path = workshop.sqlite(items, journal=journal)
        shell = Command(("sqlite3", "-readonly", path, _ROWS))
        ours = _exporting(path, workshop.folder, "--no-vectors")
        name = f"export --no-vectors, SQLite {journal}, {items:,} items / sqlite3 shell"
        yield compare(Comparison(name, ours, shell, 1.6, PEAK_MB), workshop.folder)
    yield compare(
        Comparison(
            f"export, SQLite wal, {items:,} items",
            _exporting(workshop.sqlite(items, journal="wal"), workshop.folder),
            peak_target=PEAK_MB,
        ),
        workshop.folder,
    )
    if workshop.major is None:
        return
    address = workshop.postgres(items)
    for options, tables in ((("--no-vectors",), ("store",)), ((), ("store", "store_vectors"))):
        copy = program("baselines", "copy_out", address, *tables)
        ours = _exporting(address, workshop.folder, *options)
        name = f"{' '.join(('export', *options))}, Postgres, {items:,} items / raw COPY"
        yield compare(Comparison(name, ours, copy, 2.0, PEAK_MB), workshop.folder)


def jobs(workshop: Workshop) -> Iterator[Row]:
    """By two processes, against one."""
    if workshop.major is None:
        return
    items = workshop.count(_ITEMS)
    address = workshop.postgres(items)
    two = memctl("-s", address, "export", "--jobs", "2", "-f", workshop.folder / "two.jsonl", "--overwrite")
    one = memctl("-s", address, "export", "-f", workshop.folder / "one.jsonl", "--overwrite")
    name = f"export --jobs 2, Postgres, {items:,} items / export"
    yield compare(Comparison(name, two, one, peak_target=PEAK_MB), workshop.folder)


def import_(workshop: Workshop) -> Iterator[Row]:
    """From an archive into a new store, against the load of a dump and against bare COPY."""
    items = workshop.count(_ITEMS)
    folder = workshop.folder
    path = workshop.sqlite(items, journal="wal")
    exported = run(_exporting(path, folder), folder / "export.out")
    if exported.code:
        yield Row("import", problem=f"no archive to import: {exported.failure}")
        return
    archive, dump, new = folder / "export.jsonl", folder / "dump.sql", folder / "new.db"
    run(Command(("sqlite3", "-readonly", path, ".dump")), dump)
    shell = Command(("sqlite3", new), stdin=dump, before=partial(remove, new))
    ours = memctl("-s", new, "import", archive, "--init", before=partial(remove, new))
    name = f"import, SQLite, {items:,} items / load of the dump"
    yield compare(Comparison(name, ours, shell, 0.8, PEAK_MB), folder)
    if workshop.major is None:
        return
    address = workshop.address("target")
    for index in _INDEXES:
        ours = memctl(
            "-s",
            address,
            "import",
            archive,
            "--init",
            "--index",
            index,
            before=partial(workshop.fresh, "target"),
        )
        name = f"import, Postgres {index}, {items:,} items / bare COPY"
        bare = _bare_copy(workshop, path, address, index)
        yield compare(Comparison(name, ours, bare, 1.3, PEAK_MB, repeat=2), folder)


def migrate(workshop: Workshop) -> Iterator[Row]:
    """Store to store, against bare COPY and against a script over LangGraph's interface."""
    items, few = workshop.count(_ITEMS), workshop.count(_API_ITEMS)
    folder, new = workshop.folder, workshop.folder / "new.db"
    small = workshop.sqlite(few, journal="wal")
    yield compare(
        Comparison(
            f"migrate, SQLite to SQLite, {few:,} items / search and batch",
            memctl("migrate", small, new, "--init", before=partial(remove, new)),
            program("baselines", "api_move", small, new, before=lambda: workshop.empty_file(new)),
            peak_target=PEAK_MB,
            repeat=1,
            remark=checks.lost,
        ),
        folder,
    )
    if workshop.major is None:
        return
    address = workshop.address("target")
    fresh_store = partial(workshop.fresh_store, "target")
    yield compare(
        Comparison(
            f"migrate, SQLite to Postgres, {few:,} items / search and batch",
            _migrating(workshop, small, address, "flat"),
            program("baselines", "api_move", small, address, before=fresh_store),
            peak_target=PEAK_MB,
            repeat=1,
            remark=checks.lost,
        ),
        folder,
    )
    path = workshop.sqlite(items, journal="wal")
    for index in _INDEXES:
        name = f"migrate, SQLite to Postgres {index}, {items:,} items / bare COPY"
        ours = _migrating(workshop, path, address, index)
        bare = _bare_copy(workshop, path, address, index)
        yield compare(Comparison(name, ours, bare, 1.3, PEAK_MB, repeat=2), folder)


def diff(workshop: Workshop) -> Iterator[Row]:
    """Two equal stores, against one export."""
    items = workshop.count(_ITEMS)
    pairs: list[tuple[str, Path | str, Path | str]] = []
    for journal in ("wal", "delete"):
        path = workshop.sqlite(items, journal=journal)
        pairs.append((f"SQLite {journal}", path, workshop.copy(path, f"other-{journal}.db")))
    if workshop.major is not None:
        address = workshop.postgres(items)
        pairs.append(("Postgres, with itself", address, address))
    for backend, one, other in pairs:
        name = f"diff, {backend}, {items:,} items / one export"
        once = _exporting(one, workshop.folder)
        yield compare(Comparison(name, memctl("diff", one, other), once, 2.2, PEAK_MB), workshop.folder)


GROUPS = (export, jobs, import_, migrate, diff)


def _exporting(store: Path | str, folder: Path, *options: str) -> Command:
    archive = folder / "export.jsonl"
    return memctl("-s", store, "export", *options, "-f", archive, before=partial(remove, archive))


def _vectors(index: str) -> tuple[str, ...]:
    return "--dims", "384", "--index", index, "--metric", "cosine"


def _migrating(workshop: Workshop, source: Path, address: str, index: str) -> Command:
    return memctl(
        "migrate", source, address, "--init", *_vectors(index), before=partial(workshop.fresh, "target")
    )


def _bare_copy(workshop: Workshop, source: Path, address: str, index: str) -> Command:
    fresh_store = partial(workshop.fresh_store, "target")
    return program("baselines", "copy_in", source, address, index, before=fresh_store)
