"""`memctl sweep`: what has expired, and what a retention policy gives up, gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.options import Namespace, Save

if TYPE_CHECKING:
    from memctl.cli.sweep_round import Order


def sweep(
    ctx: typer.Context,
    ns: Namespace = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="FILE", help="Also delete what this retention policy gives up."),
    ] = None,
    policy_only: Annotated[
        bool, typer.Option("--policy-only", help="Leave to themselves what has merely expired.")
    ] = False,
    grace: Annotated[
        str | None,
        typer.Option("--grace", metavar="AGE", help="Only what expired at least this long ago: 1h."),
    ] = None,
    include_odd: Annotated[
        bool,
        typer.Option("--include-odd", help="Trust times too that LangGraph would not have spelled that way."),
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            min=1,
            help="Items in a transaction. [default: what takes 20 ms, on Postgres 1,000]",
        ),
    ] = None,
    pause: Annotated[
        str | None,
        typer.Option(
            "--pause", metavar="AGE", help="Between two of them. [default: 20ms on SQLite, else none]"
        ),
    ] = None,
    save: Save = None,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Then give the space back to the file system.")
    ] = False,
    watch: Annotated[
        str | None, typer.Option("--watch", metavar="AGE", help="Do it again every so often: 10m.")
    ] = None,
) -> None:
    """Delete what has expired, with its vectors: by instants, in short batches, so that agents go on.

    What is refreshed or rewritten meanwhile stays. An expiry that is spelled oddly is left and reported, unless
    --include-odd; one that cannot be read always is. It can be run twice at once. With --policy FILE the rules
    of that file decide about the rest (see `memctl policy check`), and it asks first.

    With --watch it goes on until a signal: SIGTERM ends it after the batch under way, with exit code 0, and so
    does Ctrl-C, with 130. A store that is busy or away is tried again the next time.

    Examples:
      memctl sweep
      memctl sweep users.ana --grace 1h --save swept.jsonl.gz
      memctl sweep --policy retention.toml --dry-run
      memctl sweep --watch 10m --quiet
    """
    from memctl.cli.curating import refuse_formats
    from memctl.cli.sweep_round import read_order, run
    from memctl.cli.watching import rounds
    from memctl.errors import UsageError
    from memctl.instants import parse_duration

    context: Context = ctx.obj
    refuse_formats(context)
    order: Order = read_order(
        context,
        ns,
        policy=policy,
        policy_only=policy_only,
        grace=grace,
        trusts_odd=include_odd,
        rows=batch,
        pause=pause,
        save=save,
        vacuum=vacuum,
    )
    if watch is None:
        run(context, order)
        return
    if save is not None:
        raise UsageError("--watch and --save exclude each other: an archive is written once")
    every = parse_duration(watch)
    if every.total_seconds() < 1:
        raise UsageError(f"--watch {watch}: at least a second is expected")
    rounds(context, every, lambda stop: run(context, order, stop))
