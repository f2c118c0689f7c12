"""`memctl init`: LangGraph's own tables, in a store that has none."""

from __future__ import annotations

from time import monotonic

import typer

from memctl.cli.context import Context
from memctl.cli.options import Dims, IndexKind, Metric, VectorType
from memctl.errors import NoStore


def init(
    ctx: typer.Context,
    dims: Dims = None,
    vector_type: VectorType = None,
    index: IndexKind = None,
    metric: Metric = None,
) -> None:
    """Make the tables, indexes and ledgers that LangGraph's own setup() would leave; nothing where they are.

    With --dims N also those for vectors. A SQLite file is created.

    Examples:
      memctl -s agent.db init
      memctl -s prod init --dims 1536 --index hnsw --metric cosine
    """
    from memctl.cli.bringing import setup_of
    from memctl.render import Report

    context: Context = ctx.obj
    started = monotonic()
    setup = setup_of(True, dims, vector_type, index, metric)
    address = context.address()
    try:
        made, shown = False, context.open_at(address).address
    except NoStore as error:
        if error.code not in ("missing", "empty", "no-tables"):
            raise
        made, shown = True, address.target if address.scheme == "sqlite" else "the database"
    if made and not context.is_dry_run:
        target = context.open_to_write(address, setup)
        target.finish()
        shown = target.address
    data = {
        "items": 0,
        "vectors": 0,
        "bytes": 0,
        "skipped": 0,
        "rejected": 0,
        "created": made,
        "dry_run": context.is_dry_run,
        "seconds": round(monotonic() - started, 3),
    }
    verb = "would be made" if context.is_dry_run else "made"
    width = f" with vectors of {dims} dims" if dims else " without vectors"
    headline = (
        f"LangGraph's tables{width} {verb} in {shown}"
        if made
        else f"{shown} is a store already: nothing to do"
    )
    context.emit_report(Report(data, (), headline))
