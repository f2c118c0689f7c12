"""`memctl forget`: everything that is stored about somebody, erased, with a receipt."""

from __future__ import annotations

from typing import Annotated

import typer

from memctl.cli.context import Context
from memctl.errors import UsageError


def forget(
    ctx: typer.Context,
    ns: Annotated[
        list[str],
        typer.Argument(
            metavar="NS...", help="The subject's namespaces, descendants too. `*` is any one label."
        ),
    ],
    mentions: Annotated[
        str | None,
        typer.Option("--mentions", metavar="TEXT", help="List the items elsewhere that say this; none goes."),
    ] = None,
    receipt: Annotated[
        str | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt to this new file too.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Mean everything, where NS is only `*`.")] = False,
) -> None:
    """Erase a subject on every store named with -s: items, vectors, and vectors left behind by earlier deletes.

    A SQLite file is then written anew and its WAL emptied, so that no octet stays in it; where another connection
    or a full disk prevents that, the exit code is 3: end it and run the same again, which ends with 5, since nothing
    is stored there any more, and says in `bytes_erased` whether it is done. What the store's history holds of the
    subject goes too. The receipt (-o json) says what went, how much and when, what may be left and why, and proves
    that the namespaces beside are as they were; it comes out too where an error or Ctrl-C ends the work early. A dry
    run lists what would go, and items elsewhere that name the subject.

    Examples:
      memctl -s agent.db -s postgresql://db/agents forget users.bo --dry-run
      memctl forget users.bo --mentions 'Bo Larsen' --yes --receipt bo.json
    """
    from memctl import namespaces
    from memctl.cli.curating import refuse_formats
    from memctl.cli.erasures import run
    from memctl.forgetting import Subject

    context: Context = ctx.obj
    refuse_formats(context)
    if mentions == "":
        raise UsageError("--mentions '': every item has that in it", hint="name what to look for")
    subject = Subject(tuple(map(namespaces.parse, ns)))
    if not everything and any(
        not any(label is not None for label in each.labels) for each in subject.patterns
    ):
        raise UsageError("that is everything", hint="say so with --all", code="needs-all")
    run(context, subject, ns, text=mentions, receipt=receipt)
