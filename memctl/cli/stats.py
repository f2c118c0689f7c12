"""`memctl stats`: what the store holds, in numbers and bars."""

from __future__ import annotations

from typing import Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.options import Namespace

_TENANTS = 2
"""The depth at which one namespace is usually one person: `users.ana`, `acme.ana`, `memories.ana`."""


def stats(
    ctx: typer.Context,
    ns: Namespace = None,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            metavar="N",
            min=1,
            help="Estimate prompts for namespaces cut to N labels; 2, or one below NS.",
        ),
    ] = None,
) -> None:
    """Show sizes, ages, growth, coming expiries, and what memories would cost in a prompt.

    Examples:
      memctl stats
      memctl stats users --depth 3 -o json
    """
    from memctl import namespaces
    from memctl.cli.stats_report import report_of
    from memctl.nearest import missing_namespace
    from memctl.statistics import collect
    from memctl.store import Narrow

    context: Context = ctx.obj
    pattern = namespaces.parse(ns) if ns is not None else None
    if depth is None:
        depth = max(_TENANTS, len(pattern.labels) + 1 if pattern else 0)
    store = context.open(may_lag=True)
    found = collect(store, pattern, depth=depth)
    if pattern and pattern.is_literal and not found.items:
        raise missing_namespace(store, pattern.scope.prefix or "")
    context.emit_report(report_of(found, store, ns))
    context.warn_of_problems(found.damaged, found.damaged_parts)
    context.say_if_moved(store)
    if isinstance(store, Narrow):
        context.note("neither expiry nor vectors show through this store's interface")
