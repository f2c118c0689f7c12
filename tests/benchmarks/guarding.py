"""What the guard and history cost an agent: its puts through the real library, with and without.

A group is a function from the workshop to the rows of the table, measured one by one.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .harness import Command, Comparison, Row, compare, memctl, program, run
from .workshop import Workshop

_PUTS = 10_000
_KINDS = {
    "guarded": (("guard", "install", "--yes"), 1.3),
    "with history": (("history", "on"), 1.8),
}


def guard(workshop: Workshop) -> Iterator[Row]:
    """The same puts, half of which overwrite, into a bare store and into one with triggers."""
    puts = workshop.count(_PUTS)
    places: list[tuple[str, Callable[[str], str | Path]]] = [("SQLite", partial(_file, workshop))]
    if workshop.major is not None:
        places.append(("Postgres", workshop.fresh))
    for store, make in places:
        for kind, (words, most) in _KINDS.items():
            name = f"{puts:,} puts, {kind}, {store} / bare"
            ours = _putting(workshop, make, "guarded", puts, words)
            theirs = _putting(workshop, make, "bare", puts, ())
            yield compare(Comparison(name, ours, theirs, most, repeat=2), workshop.folder)


def _file(workshop: Workshop, name: str) -> Path:
    path = workshop.folder / f"{name}.db"
    workshop.empty_file(path)
    return path


def _putting(
    workshop: Workshop, make: Callable[[str], str | Path], name: str, puts: int, words: tuple[str, ...]
) -> Command:
    """The agent, ahead of which the store is made anew."""

    def before() -> None:
        address = make(name)
        steps = [program("puts", address, "2"), *([memctl("-s", address, *words)] if words else [])]
        for step in steps:
            sample = run(step, workshop.folder / "guard.out")
            if sample.code:
                raise RuntimeError(sample.failure)

    return program("puts", make(name), str(puts), before=before)


GROUPS = (guard,)
