"""Sweeping 100,000 expired of 1,000,000 items, 30,000 of them with vectors, and `rm` and `mv` of a subtree of as many.

The baseline is two bare statements a batch, on the very same rows, with the same pauses. Every run has a
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
_HOLD = "0.02"
"""Seconds a batch, where both sides take what fits into them."""
_SUBTREE, _RENAMED = "tenant", "client"
_ORPHANS = (
    "SELECT count(*) FROM store_vectors v WHERE NOT EXISTS "
    "(SELECT 1 FROM store s WHERE s.prefix = v.prefix AND s.key = v.key)"
)


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
    """A subtree by `rm --recursive` against two bare DELETE statements a batch; what has expired, without a judge."""
    ours = ("rm", _SUBTREE, "--recursive", "--yes")
    yield from subtree(workshop, "rm --recursive", ours, ("bare_rm", _SUBTREE), gone=True)
    yield from _waits(workshop, "rm --recursive", ours)
    items = workshop.count(_ITEMS)
    expired = max(10, items // 10)
    path = workshop.folder / "removed.db"
    fresh = partial(_copied, workshop, _expired(workshop, items, expired, "delete"), path.name)
    check = partial(_swept, path, items, expired)
    name = f"rm --expired, {expired:,} of {items:,} items, SQLite delete / DELETE"
    removing = memctl("-s", path, "-o", "json", "rm", "--expired", "--yes", before=fresh)
    bare = program("baselines", "bare_sweep", path, _ROWS, _PAUSE, before=fresh)
    yield compare(Comparison(name, removing, bare, None, PEAK_MB, 1, check), workshop.folder)


def mv(workshop: Workshop) -> Iterator[Row]:
    """A subtree by `mv` against two bare UPDATE statements a batch."""
    ours = ("mv", _SUBTREE, _RENAMED, "--yes")
    yield from subtree(workshop, "mv", ours, ("bare_mv", _SUBTREE, _RENAMED), gone=False)
    yield from _waits(workshop, "mv", ours)


GROUPS = (sweep, rm, mv)


def subtree(
    workshop: Workshop, what: str, ours: tuple[str, ...], bare: tuple[str, ...], *, gone: bool
) -> Iterator[Row]:
    """Compare what memctl does to a subtree with bare statements in batches that hold the lock as long."""
    items = workshop.count(_ITEMS)
    few = max(10, items // 10)
    repeat = 2 if workshop.items is None else 1
    for journal in ("delete", "wal"):
        made = _gathered(workshop, items, few, journal)
        path = workshop.folder / "changed.db"
        fresh = partial(_copied, workshop, made, path.name)
        name = f"{what}, {few:,} of {items:,} items, SQLite {journal} / bare statements"
        memctl_does = memctl("-s", path, "-o", "json", *ours, before=fresh)
        bare_does = program("baselines", bare[0], path, *bare[1:], _ROWS, _PAUSE, _HOLD, before=fresh)
        check = partial(_changed, path, items, few, gone)
        yield compare(
            Comparison(name, memctl_does, bare_does, RATIO, PEAK_MB, repeat, check), workshop.folder
        )
    if workshop.major is None:
        return
    items = workshop.count(_POSTGRES_ITEMS)
    few = max(10, items // 10)
    address = workshop.address("changed")

    def anew() -> None:
        workshop.clone(items, "changed")
        _gather(workshop, address, few)

    name = f"{what}, {few:,} of {items:,} items, Postgres / bare statements"
    memctl_does = memctl("-s", address, "-o", "json", *ours, before=anew)
    bare_does = program("baselines", bare[0], address, *bare[1:], "1000", "0", before=anew)
    yield compare(
        Comparison(name, memctl_does, bare_does, RATIO, PEAK_MB, repeat, _says(few)), workshop.folder
    )


def _waits(workshop: Workshop, what: str, ours: tuple[str, ...]) -> Iterator[Row]:
    """How long a real writer waits beside it. Once it is done, nothing is left to do, and that is no failure."""
    items = workshop.count(_ITEMS)
    few = max(10, items // 10)
    path = workshop.folder / "changed.db"
    argv = memctl("-s", path, *ours).argv
    command = Command(("sh", "-c", '"$@" || test $? -eq 5', "sh", *argv))
    for journal in ("delete", "wal"):
        _copied(workshop, _gathered(workshop, items, few, journal), path.name)
        name = f"longest put beside {what}, {few:,} of {items:,} items, journal {journal}"
        yield beside_an_agent(name, path, command, workshop.folder)


def _gathered(workshop: Workshop, items: int, few: int, journal: str) -> Path:
    """A store of which so many items are in one subtree; made once."""
    return _made(workshop, "gathered", items, journal, lambda store: _gather(workshop, store, few))


def _gather(workshop: Workshop, store: Path | str, few: int) -> None:
    _prepare(workshop, "gather", store, _SUBTREE, str(few), str(few * 3 // 10))


def _expired(workshop: Workshop, items: int, expired: int, journal: str) -> Path:
    """A store in which so many have expired; made once."""
    return _made(workshop, "expired", items, journal, lambda store: _expire(workshop, store, expired))


def _expire(workshop: Workshop, store: Path | str, expired: int) -> None:
    _prepare(workshop, "expire", store, str(expired), str(expired * 3 // 10))


def _made(workshop: Workshop, name: str, items: int, journal: str, change: Callable[[Path], None]) -> Path:
    """A store that was changed, under a name of its own when that is complete."""
    made = workshop.folder / f"{name}-{items}-{workshop.order}-{journal}.db"
    if not made.exists():
        unfinished = workshop.copy(workshop.sqlite(items, journal=journal), f"{name}.part")
        change(unfinished)
        unfinished.rename(made)
    return made


def _prepare(workshop: Workshop, name: str, *arguments: Path | str) -> None:
    sample = run(program("baselines", name, *arguments), workshop.folder / "make.out")
    if sample.code:
        raise RuntimeError(sample.said)


def _copied(workshop: Workshop, made: Path, name: str) -> None:
    warm(workshop.copy(made, name))


def _says(expired: int) -> Callable[[Path, Path], str | None]:
    def check(ours: Path, _: Path) -> str | None:
        found = json.loads(ours.read_text())
        said = found["items"], found["vectors"]
        return None if said == (expired, expired * 3 // 10) else f"memctl says {said}"

    return check


def _swept(path: Path, items: int, expired: int, ours: Path, theirs: Path) -> str | None:
    """Whether what was to go is gone, with its vectors, and nothing else."""
    found = _asked(path, f"SELECT count(*), ({_ORPHANS}) FROM store")
    if found != [str(items - expired), "0"]:
        return f"{found[0]} items are left, {found[1]} vectors without one"
    return _says(expired)(ours, theirs)


def _changed(path: Path, items: int, few: int, gone: bool, ours: Path, theirs: Path) -> str | None:
    """Whether the subtree is gone or renamed as a whole, its vectors with it, and nothing else is touched."""
    counts = [
        f"SELECT count(*) FROM {table} WHERE prefix >= '{name}.' AND prefix < '{name}/'"
        for name in (_SUBTREE, _RENAMED)
        for table in ("store", "store_vectors")
    ]
    found = _asked(path, f"SELECT count(*), ({_ORPHANS}), ({'), ('.join(counts)}) FROM store")
    there = [0, 0] if gone else [few, few * 3 // 10]
    expected = [items - few if gone else items, 0, 0, 0, *there]
    if found != list(map(str, expected)):
        return f"of items, orphans and both subtrees there are {found}, not {expected}"
    return _says(few)(ours, theirs)


def _asked(path: Path, query: str) -> list[str]:
    """Ask a file for one row."""
    answer = path.with_suffix(".left")
    run(Command(("sqlite3", "-readonly", "-separator", " ", path, query)), answer)
    return answer.read_text().split()
