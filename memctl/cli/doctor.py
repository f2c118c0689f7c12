"""`memctl doctor`: what is wrong with a store, and putting it right."""

from __future__ import annotations

from typing import Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.doctor_request import Request, check_ids
from memctl.cli.groups import examining, given, taking
from memctl.cli.options import Namespace, Save, choice


@taking(examining)
def doctor(
    ctx: typer.Context,
    ns: Namespace = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            "--check", metavar="ID,...", help="Only these checks, in detail.", autocompletion=check_ids
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="ID,...", help="Not these checks.", autocompletion=check_ids),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            "--fix",
            metavar="ID,...",
            help="Repair what these checks find; all: what is certain to be meant.",
            autocompletion=check_ids,
        ),
    ] = None,
    save: Save = None,
    vacuum: Annotated[
        bool,
        typer.Option("--vacuum", help="After the repairs, give free space back; writers wait meanwhile."),
    ] = False,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="LEVEL",
            help="Exit 4 for what is at least this bad: error, warning or note.",
            autocompletion=choice("error", "warning", "note"),
        ),
    ] = "warning",
    quick: Annotated[bool, typer.Option("--quick", help="Only what indexes alone can answer.")] = False,
    list_checks: Annotated[
        bool, typer.Option("--list-checks", help="Show the checks, their levels and their repairs.")
    ] = False,
) -> None:
    """Find what is wrong with the store, explain it, and repair it when asked. Exits 4 when something is.

    Read-only without --fix. Each finding comes with samples and with the exact command that repairs it: see
    them with --verbose or --check ID. Repairs run in short transactions, beside an agent; running them again
    does nothing. With -o prometheus the result is a text file for the node exporter.

    Examples:
      memctl doctor
      memctl doctor users --check stale-vectors,created-at-drift
      memctl doctor --fix orphaned-vectors --save orphans.jsonl.gz --vacuum
      memctl doctor --fix created-at-drift --against last-month.jsonl.gz
      memctl doctor --quick -o prometheus > memctl.prom
    """
    from memctl.cli.diagnosing import Diagnosis

    context: Context = ctx.obj
    request = Request.read(
        context,
        ns,
        check=check or [],
        skip=skip or [],
        fix=fix or [],
        save=save,
        vacuum=vacuum,
        fail_on=fail_on,
        quick=quick,
        **given(context, examining),
    )
    if list_checks:
        request.list_checks()
    else:
        Diagnosis(request).run()
