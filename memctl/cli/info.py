"""`memctl info`: what kind of store this is, and whether its schema is what its ledgers say."""

from __future__ import annotations

import typer

from memctl.cli.context import Context


def info(ctx: typer.Context) -> None:
    """Show what this store is: backend, schema, migrations, indexes, size, capabilities."""
    from memctl.cli.info_report import report_of
    from memctl.store import Described

    context: Context = ctx.obj
    store = context.open()
    context.emit_report(report_of(store, store.describe() if isinstance(store, Described) else None))
