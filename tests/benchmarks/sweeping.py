"""Sweeping 100,000 expired of 1,000,000 items, 30,000 of them with vectors, in bounded batches.

The baseline is two bare DELETE statements a batch, of the very same rows, with the same pauses. Every run has a
store of its own, a copy of one that was made once.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .harness import Command, Comparison, Row, compare, memctl, program, run
from .reading import beside_an_agent
from .workshop import Workshop, warm

PEAK_MB = 120.0
RATIO = 1.5
_ITEMS = 1_000_000
_POSTGRES_ITEMS = 300_000
_ROWS, _PAUSE = "500", "0.02"
"""On SQLite; unless told otherwise memctl takes smaller batches where these would hold the lock too long."""


def sweep(workshop: Workshop) -> Iterator[Row]:
    """Against the bare statements, paused and unpaused, and what a real writer waits meanwhile."""
    items = workshop.count(_ITEMS)
    repeat = 2 if workshop.items is None else 1
    expired = max(10, items // 10)
    what = f"{expired:,} expired of {items:,} items"
    for journal in ("delete", "wal"):
        made = _expired(workshop, items, expired, journal)
        path = workshop.folder / "swept.db"
        fresh = partial(_copied, workshop, made, path.name)
        check = partial(_swept, path, items, expired)
        for pause, target in ((_PAUSE, RATIO), ("0", None)):
            options = ("--batch", _ROWS, "--pause", f"{float(pause) * 1000:g}ms")
            name = f"sweep, pause {pause} s, {what}, SQLite {journal} / DELETE"
            ours = memctl("-s", path, "-o", "json", "sweep", *options, before=fresh)
            bare = program("baselines", "bare_sweep", path, _ROWS, pause, before=fresh)
            yield compare(Comparison(name, ours, bare, target, PEAK_MB, repeat, check), workshop.folder)
        name = f"sweep at the defaults, {what}, SQLite {journal}"
        ours = memctl("-s", path, "-o", "json", "sweep", before=fresh)
        yield compare(Comparison(name, ours, peak_target=PEAK_MB, repeat=1, check=check), workshop.folder)
        fresh()
        name = f"longest put beside sweep, {what}, journal {journal}"
        yield beside_an_agent(name, path, memctl("-s", path, "sweep"), workshop.folder)
    if workshop.major is not None:
        yield from _postgres(workshop)


def _postgres(workshop: Workshop) -> Iterator[Row]:
    items = workshop.count(_POSTGRES_ITEMS)
    expired = max(10, items // 10)
    address = workshop.address("swept")

    def fresh() -> None:
        workshop.clone(items, "swept")
        _expire(workshop, address, expired)

    name = f"sweep, {expired:,} expired of {items:,} items, Postgres / DELETE"
    ours = memctl("-s", address, "-o", "json", "sweep", before=fresh)
    bare = program("baselines", "bare_sweep", address, "1000", "0", before=fresh)
    repeat = 2 if workshop.items is None else 1
    yield compare(Comparison(name, ours, bare, RATIO, PEAK_MB, repeat, _says(expired)), workshop.folder)


def rm(workshop: Workshop) -> Iterator[Row]:
    """The same rows by `rm`, at its defaults, against the same bare statements."""
    items = workshop.count(_ITEMS)
    repeat = 2 if workshop.items is None else 1
    expired = max(10, items // 10)
    for journal in ("delete", "wal"):
        made = _expired(workshop, items, expired, journal)
        path = workshop.folder / "removed.db"
        fresh = partial(_copied, workshop, made, path.name)
        check = partial(_swept, path, items, expired)
        name = f"rm --expired, {expired:,} of {items:,} items, SQLite {journal} / DELETE"
        ours = memctl("-s", path, "-o", "json", "rm", "--expired", "--yes", before=fresh)
        bare = program("baselines", "bare_sweep", path, _ROWS, _PAUSE, before=fresh)
        yield compare(Comparison(name, ours, bare, RATIO, PEAK_MB, repeat, check), workshop.folder)


GROUPS = (sweep, rm)


def _expired(workshop: Workshop, items: int, expired: int, journal: str) -> Path:
    """A store in which so many have expired; made once."""
    made = workshop.folder / f"expired-{items}-{workshop.order}-{journal}.db"
    if not made.exists():
        unfinished = workshop.copy(workshop.sqlite(items, journal=journal), "expired.part")
        _expire(workshop, unfinished, expired)
        unfinished.rename(made)
    return made


def _expire(workshop: Workshop, store: Path | str, expired: int) -> None:
    sample = run(
        program("baselines", "expire", store, str(expired), str(expired * 3 // 10)),
        workshop.folder / "make.out",
    )
    if sample.code:
        raise RuntimeError(sample.said)


def _copied(workshop: Workshop, made: Path, name: str) -> None:
    warm(workshop.copy(made, name))


def _says(expired: int) -> Callable[[Path, Path], str | None]:
    def check(ours: Path, _: Path) -> str | None:
        found = json.loads(ours.read_text())
        said = found["items"], found["vectors"]
        return None if said == (expired, expired * 3 // 10) else f"memctl swept {said}"

    return check


def _swept(path: Path, items: int, expired: int, ours: Path, theirs: Path) -> str | None:
    """Whether what was to go is gone, with its vectors, and nothing else."""
    left = path.with_suffix(".left")
    counted = (
        "SELECT count(*), (SELECT count(*) FROM store_vectors v WHERE NOT EXISTS (SELECT 1 FROM store s "
        "WHERE s.prefix = v.prefix AND s.key = v.key)) FROM store"
    )
    run(Command(("sqlite3", "-readonly", "-separator", " ", path, counted)), left)
    found = left.read_text().split()
    if found != [str(items - expired), "0"]:
        return f"{found[0]} items are left, {found[1]} vectors without one"
    return _says(expired)(ours, theirs)
