"""`memctl undo`: items as they were, by a store's history."""

from __future__ import annotations

from typing import Annotated

import typer

from memctl.cli.context import Context
from memctl.errors import UsageError


def undo(
    ctx: typer.Context,
    ns: Annotated[str, typer.Argument(metavar="NS", help="This namespace and what is below it.")],
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="One item of exactly NS.")] = None,
    to: Annotated[
        int | None,
        typer.Option(
            "--to", metavar="SEQ", help="Back to before this entry of `memctl log`: it and all later ones."
        ),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="Back to this time, or by an age: 2h.")
    ] = None,
) -> None:
    """Restore former values: the last change of an item, or all since an entry or a time.

    It is recorded itself, so that it can be undone. Vectors of a value that goes are deleted; those of the value
    that comes back were not kept: the agent's next put of it makes them.

    Examples:
      memctl undo users.ana.prefs tone
      memctl undo users.ana --to-time 2h --dry-run
      memctl undo users.ana --to 1042
    """
    from memctl import namespaces
    from memctl.cli.curating import Work, opened, refuse_formats
    from memctl.errors import NothingThere
    from memctl.instants import parse_time
    from memctl.model import Scope
    from memctl.past import remembering, undoing
    from memctl.render.units import counted
    from memctl.store import Capability

    context: Context = ctx.obj
    refuse_formats(context)
    if to is not None and to_time is not None:
        raise UsageError("--to and --to-time say two things; give one")
    if key is None and to is None and to_time is None:
        raise UsageError(
            "how far back is expected: --to SEQ or --to-time TIME", hint="`memctl log` shows entries"
        )
    scope = Scope(namespaces.parse_exact(ns), descend=key is None)
    work = Work(context, "restored")
    with opened(context, "INSERT", "UPDATE", "DELETE") as (store, target):
        past = remembering(store)
        if key is not None and to is None and to_time is None:
            latest = next(past.entries(scope, key=key), None)
            if latest is None:
                raise NothingThere(f"the history has nothing about {ns} {key!r}")
            to = latest.seq
        at = parse_time(to_time, store.now()) if to_time is not None else None
        changes = list(undoing(store, scope, key=key, seq=to, at=at))
        without = sum(1 for change in changes if change.becomes is not None and not change.becomes.vectors)
        has_vectors = Capability.VECTORS in store.capabilities
        note = f"{counted(without, 'item')} without vectors" if without and has_vectors else ""
        octets = sum(change.becomes.size for change in changes if change.becomes is not None)
        vectors = sum(len(change.was.vectors) for change in changes if change.was is not None)
        if target is None or not changes:
            work.report(items=len(changes), vectors=vectors, octets=octets, remarks=[note] if note else [])
            return
        context.confirm(
            f"{counted(len(changes), 'item')} of {store.address} will be what they were. {note}".strip()
        )
        work.carry_out(changes, target, expected=len(changes))
        work.report_outcome(remarks=[note] if note else [])
