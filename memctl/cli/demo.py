"""`memctl demo`: a sample store to look around in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memctl.cli.context import Context

_FILE = "memctl-demo.db"


def demo(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to make it; must not exist.")] = Path(
        _FILE
    ),
) -> None:
    """Make a sample store: users, preferences, facts, LangMem and Deep Agents items, and faults to find.

    Examples:
      memctl demo
      memctl -s memctl-demo.db ls --tree
    """
    import shlex
    from tempfile import TemporaryDirectory

    from memctl.render import Facts, Report
    from memctl.stores.demo import SUGGESTIONS, create_demo

    context: Context = ctx.obj
    path = context.environment.folder / file
    if context.is_dry_run and not path.exists():
        with TemporaryDirectory(prefix="memctl-") as elsewhere:
            made = create_demo(Path(elsewhere, "demo.db"), context.environment.clock())
    else:
        made = create_demo(path, context.environment.clock())
    data = {
        "store": str(file),
        "items": made.items,
        "vectors": made.vectors,
        "namespaces": made.namespaces,
        "dims": made.dims,
        "expired": made.expired,
        "dry_run": context.is_dry_run,
    }
    tries = [(f"memctl -s {shlex.quote(str(file))} {shlex.join(argv)}", why) for argv, why in SUGGESTIONS]
    would = "would be made: " if context.is_dry_run else ""
    headline = f"{file}: {would}{made.items} items and {made.vectors} vectors in {made.namespaces} namespaces"
    context.emit_report(Report(data, (Facts("Try next", tries),), headline))
