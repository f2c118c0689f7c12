"""`memctl init`: LangGraph's own tables, in a store that has none."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import typer

from memctl.cli.context import Context
from memctl.cli.options import Dims, IndexKind, Metric, VectorType
from memctl.errors import NoStore, UsageError

if TYPE_CHECKING:
    from memctl.store import Setup, Store


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
    lacks: str | None = None
    try:
        store = context.open_at(address)
        shown = store.address
        if setup is not None and setup.dims is not None:
            lacks = _lacks(store, setup)
    except NoStore as error:
        if error.code not in ("missing", "empty", "no-tables"):
            raise
        lacks, shown = "tables", address.target if address.scheme == "sqlite" else "the database"
    if lacks and not context.is_dry_run:
        target = context.open_to_write(address, setup)
        target.finish()
        shown = target.address
    data = {
        "items": 0,
        "vectors": 0,
        "bytes": 0,
        "skipped": 0,
        "rejected": 0,
        "created": lacks is not None,
        "dry_run": context.is_dry_run,
        "seconds": round(monotonic() - started, 3),
    }
    verb = "would be made" if context.is_dry_run else "made"
    width = f" with vectors of {dims} dims" if dims else " without vectors"
    what = f"LangGraph's tables{width}" if lacks == "tables" else f"The tables for vectors of {dims} dims"
    headline = f"{what} {verb} in {shown}" if lacks else f"{shown} is a store already: nothing to do"
    context.emit_report(Report(data, (), headline))


def _lacks(store: Store, setup: Setup) -> str | None:
    """Name what a store that is there lacks of what is asked for. Raises UsageError where it has other vectors."""
    from memctl.store import Capability, Described

    if Capability.VECTORS not in store.capabilities:
        return "vectors"
    found = store.describe().vectors if isinstance(store, Described) else None
    if found is None or store.kind == "sqlite":  # a file holds vectors of any width
        return None
    kind = "halfvec" if "halfvec" in found.type else "vector"
    if (kind, found.dims) != (setup.vector_type, (setup.dims,)):
        there = ", ".join(f"{kind}({dims})" for dims in found.dims) or kind
        raise UsageError(
            f"{store.address} has embeddings of type {there}, not {setup.vector_type}({setup.dims})",
            hint="leave --dims and --vector-type out to keep them",
        )
    return None
