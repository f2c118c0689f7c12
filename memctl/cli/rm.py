"""`memctl rm`: items and their vectors, gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from memctl.cli.context import Context
from memctl.cli.groups import choosing, conditions, given, picking, taking
from memctl.cli.options import Exactly, Keys, Save

if TYPE_CHECKING:
    from memctl.cli.curating import Work
    from memctl.model import Item
    from memctl.store import Store


@taking(choosing, conditions, picking)
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
    from functools import partial

    from memctl import coverage as covering
    from memctl.choosing import HELD_OCTETS, Named, Selected, octets_of
    from memctl.cli.choosing import read_request, tell_coverage, tell_missing
    from memctl.cli.curating import Work, opened, refuse_formats
    from memctl.cli.saving import saving
    from memctl.model import Detail
    from memctl.render.units import counted
    from memctl.sorting import Sorter
    from memctl.store import Change, Wholesale

    context: Context = ctx.obj
    refuse_formats(context)
    request = read_request(
        context, ns, keys, given(context, choosing), given(context, conditions), given(context, picking)
    )
    work = Work(context, "deleted")
    held: Sorter[Item]
    with (
        opened(context, "DELETE") as (store, target),
        saving(context, save, store) as saver,
        Sorter(lambda _item: 0, size=octets_of, octets=HELD_OCTETS) as held,
    ):
        choice = request.choice(store)
        # what takes a look at each item is read once, unless all of it has to be kept
        is_held = target is not None and saver is None
        if isinstance(choice, Selected) and choice.selection.is_unconditional:
            covered = covering.of_selection(choice.selection, store)
            is_held = False
        else:
            items = choice.items(store, values=False, vectors=Detail.SHAPE)
            covered = covering.of_items(map(held.pass_on, items) if is_held else items)
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
        scope = choice.scope if isinstance(choice, Selected) and saver is None else None
        if scope is not None and isinstance(target, Wholesale):
            work.carry_through(partial(target.remove, scope), target, expected=covered.items)
            _tell(context, store, work)
            return
        if is_held:
            found = iter(held)
        else:
            vectors = Detail.SHAPE if saver is None else Detail.FULL
            found = choice.items(store, values=saver is not None, vectors=vectors)

        def decide(item: Item, _now: Store) -> Change | None:
            return Change(item, None) if choice.holds(item) else None

        work.carry_out(
            (Change(item, None) for item in found), target, expected=covered.items, save=saver, decide=decide
        )
        _tell(context, store, work)


def _tell(context: Context, store: Store, work: Work) -> None:
    from memctl.cli.curating import tell_of_history

    if work.outcome.items:
        tell_of_history(context, store)
    else:
        context.outcomes.add(5)
    work.report_outcome()
