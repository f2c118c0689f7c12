"""`memctl rm`: items and their vectors, gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from memctl.cli.context import Context
from memctl.cli.options import Exactly, Keys, Save, choosing, conditions, given, taking

if TYPE_CHECKING:
    from memctl.model import Item
    from memctl.store import Store


@taking(choosing, conditions)
def rm(ctx: typer.Context, ns: Exactly = None, keys: Keys = None, save: Save = None) -> None:
    """Delete items with their vectors: those of NS itself, KEYs of it, or what the options select.

    Says first what is covered and what is not, and asks. What somebody else writes meanwhile is read anew:
    it goes if it still fits. Deletes in short batches, each a transaction, so that agents go on.

    Examples:
      memctl rm users.bo.prefs seat
      memctl rm users.bo --recursive --save bo.jsonl.gz
      memctl rm --filter confirmed=false --until 45d --dry-run
      memctl search kestrel -o name | memctl rm --from - --yes
    """
    from memctl import coverage as covering
    from memctl.choosing import Named, Selected
    from memctl.cli.choosing import read_request, tell_coverage, tell_missing
    from memctl.cli.curating import Work, opened, refuse_formats, tell_of_history
    from memctl.cli.saving import saving
    from memctl.model import Detail
    from memctl.render.units import counted
    from memctl.store import Change

    context: Context = ctx.obj
    refuse_formats(context)
    request = read_request(context, ns, keys, given(context, choosing), given(context, conditions))
    work = Work(context, "deleted")
    with opened(context) as (store, target), saving(context, save, store) as saver:
        choice = request.choice(store)
        if isinstance(choice, Selected) and choice.selection.is_unconditional:
            covered = covering.of_selection(choice.selection, store)
        else:
            covered = covering.of_items(choice.items(store, values=False, vectors=Detail.SHAPE))
        if isinstance(choice, Named):
            tell_missing(context, store, choice)
        if not covered.items:
            context.outcomes.add(5)
        elif not isinstance(choice, Named) or covered.items > 1:
            tell_coverage(context, store, choice, covered)
        if target is None or not covered.items:
            work.report(items=covered.items, vectors=covered.vectors, octets=covered.octets)
            return
        what = f"{counted(covered.items, 'item')} and {counted(covered.vectors, 'vector')}"
        context.confirm(f"{what} will be deleted from {store.address}.")
        found = choice.items(
            store, values=saver is not None, vectors=Detail.SHAPE if saver is None else Detail.FULL
        )

        def decide(item: Item, _now: Store) -> Change | None:
            return Change(item, None) if choice.holds(item) else None

        work.carry_out(
            (Change(item, None) for item in found), target, expected=covered.items, save=saver, decide=decide
        )
        if work.outcome.items:
            tell_of_history(context, store)
        else:
            context.outcomes.add(5)
        work.report_outcome()
