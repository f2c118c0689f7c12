"""`python -m tests.benchmarks`: measures and prints the table; exits 1 if something is over or failed."""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from . import examining, guarding, moving, reading, serving, sweeping
from .harness import Row
from .table import show
from .workshop import Workshop

_GROUPS = {
    group.__name__.rstrip("_"): group
    for group in (
        *reading.GROUPS,
        *moving.GROUPS,
        *guarding.GROUPS,
        *sweeping.GROUPS,
        *examining.GROUPS,
        *serving.GROUPS,
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--items", type=int, help="in each store; default 1,000,000, or 300,000 to move")
    parser.add_argument("--only", metavar="GROUP,…", help=f"of {', '.join(_GROUPS)}")
    parser.add_argument(
        "--postgres", type=int, nargs="?", const=18, choices=(16, 18), help="measure on Postgres too, of 18"
    )
    parser.add_argument(
        "--order", choices=("written", "key"), default="written", help="of the rows in a store"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep stores there and use those found")
    chosen = parser.parse_args(arguments)
    names = chosen.only.split(",") if chosen.only else list(_GROUPS)
    if unknown := [name for name in names if name not in _GROUPS]:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(_GROUPS)}")
    write = partial(print, flush=True)
    with ExitStack() as exits:
        if chosen.keep is None:
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="memctl-benchmarks-")))
        else:
            folder = chosen.keep.resolve()
            folder.mkdir(parents=True, exist_ok=True)
        workshop = exits.enter_context(
            Workshop(folder, chosen.items, chosen.order, chosen.postgres, partial(print, file=sys.stderr))
        )
        write(_conditions())
        return 1 if show(_rows(names, workshop), write) else 0


def _conditions() -> str:
    """What the figures hang on; a machine that is busy with something else gives none worth having."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = "; BUSY with something else" if load > cores / 2 else ""
    return (
        f"Python {platform.python_version()}, {cores} cores of {platform.machine()}, load {load:.1f}{busy}\n"
    )


def _rows(names: Sequence[str], workshop: Workshop) -> Iterator[Row]:
    for name in names:
        yield from _GROUPS[name](workshop)


if __name__ == "__main__":
    sys.exit(main())
