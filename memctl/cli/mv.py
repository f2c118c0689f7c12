"""`memctl mv`: namespaces, or one key, under another name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memctl.cli.context import Context
from memctl.cli.options import Map, Save, choice
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memctl.cli.curating import Work
    from memctl.model import Item
    from memctl.moves import Move, Plan
    from memctl.renaming import Survey
    from memctl.store import Change, Store

_RULES = ("fail", "skip", "overwrite", "newer")


def mv(
    ctx: typer.Context,
    ns: Annotated[
        str | None, typer.Argument(metavar="NS", help="A namespace, or a template: 'prefs.{user}'.")
    ] = None,
    other: Annotated[
        str | None, typer.Argument(metavar="NEWNS|KEY", help="What it becomes; or one key of NS.")
    ] = None,
    new_key: Annotated[str | None, typer.Argument(metavar="NEWKEY", help="What the key becomes.")] = None,
    mapping: Map = None,
    on_conflict: Annotated[
        str,
        typer.Option(
            "--on-conflict",
            metavar="WHAT",
            help=f"{', '.join(_RULES)}, where the new name is taken.",
            autocompletion=choice(*_RULES),
        ),
    ] = "fail",
    save: Save = None,
) -> None:
    """Rename a namespace and its descendants, all that fit a template, or one key.

    Vectors, times and expiry go along. Conflicts are found before anything is written; an item of the new name
    that is equal in every part is none. What was interrupted is run again and renames the rest; where new
    names are old ones too (`mv a a.b`) it is done in one transaction.

    Examples:
      memctl mv users.bo people.bo
      memctl mv 'prefs.{user}' '{user}.prefs' --dry-run
      memctl mv users.ana.prefs seat seating
    """
    from functools import partial

    from memctl.cli.curating import Work, fresh, opened, refuse_formats
    from memctl.cli.saving import saving
    from memctl.renaming import survey
    from memctl.render.units import counted
    from memctl.store import Wholesale

    context: Context = ctx.obj
    refuse_formats(context)
    if on_conflict not in _RULES:
        raise UsageError(f"--on-conflict {on_conflict}: {', '.join(_RULES)} is expected")
    names = [name for name in (ns, other, new_key) if name is not None]
    plan = _plan(names, mapping or [], on_conflict)
    work = Work(context, "renamed")
    with (
        opened(context, "INSERT", "UPDATE", "DELETE") as (store, target),
        saving(context, save, store) as saver,
    ):
        _expect(store, plan, names)
        found = survey(plan, store)
        found.refuse_faults()
        _tell(context, store, plan, found)
        if target is None or not found.items:
            _report(work, found.items, found.vectors, found.octets, found.skipped, found.replaced)
            return
        replaced = f", and {counted(found.replaced, 'item')} of the new names go" if found.replaced else ""
        context.confirm(f"{counted(found.items, 'item')} will be renamed in {store.address}{replaced}.")
        changes = _Changes(plan, found.is_entangled)
        root = plan.root
        if found.is_whole and root is not None and isinstance(target, Wholesale):
            rename = partial(target.rename, plan.scope, root.prefix or "")
            work.carry_through(rename, target, expected=found.items)
            if work.outcome.passed_over:  # something has come into the way since the survey
                with fresh(context) as now:
                    work.carry_out(changes.of(now), target, save=saver, decide=changes.again)
        else:
            work.carry_out(
                changes.of(store),
                target,
                expected=found.items,
                save=saver,
                decide=changes.again,
                in_one=found.is_entangled,
            )
        for item in changes.aside:  # renamed twice, and counted once
            work.outcome.items -= 1
            work.outcome.vectors -= len(item.vectors)
            work.outcome.octets -= item.size
        done = work.outcome
        _report(work, done.items, done.vectors, done.octets, changes.skipped, changes.replaced)
        if changes.blocked:
            context.warn(f"{changes.blocked:,} of the new names were taken meanwhile", outcome=3)
        if found.is_entangled and (changes.blocked or done.left):
            context.warn("to run this again would rename everything once more: rename the rest key by key")


class _Changes:
    """The moves of a plan as changes, counted as they go."""

    def __init__(self, plan: Plan, is_entangled: bool) -> None:
        self.skipped = self.replaced = self.blocked = 0
        self.aside: list[Item] = []
        self._plan, self._is_entangled = plan, is_entangled

    def of(self, store: Store) -> Iterator[Change]:
        """Yield the changes; what has come into the way since the survey is left."""
        from memctl.renaming import moves

        for move in moves(self._plan, store, is_entangled=self._is_entangled):
            if move.kind in ("move", "aside"):
                if move.kind == "aside":
                    self.aside.append(move.item)
                self.replaced += move.over is not None
                yield move.change
            else:
                self._leave(move)

    def again(self, item: Item, store: Store) -> Change | None:
        """Decide about an item that was overtaken, or whose new name was taken meanwhile."""
        from memctl.model import Detail
        from memctl.moves import Move, decide

        move = Move("move", item, self._plan.place(item))
        there = next(store.get(move.place.prefix, [move.place.key], vectors=Detail.FULL), None)
        if there is not None:
            move = decide(move, there, self._plan.on_conflict, store)
        if move.kind == "move":
            return move.change
        self._leave(move)
        return None

    def _leave(self, move: Move) -> None:
        self.skipped += 1
        self.blocked += move.kind != "skip"


def _plan(names: list[str], mapping: list[str], on_conflict: Any) -> Plan:
    """Read the arguments. Raises UsageError."""
    from memctl import admission, namespaces
    from memctl.mapping import Mapping, parse, rule
    from memctl.model import EVERYTHING, Scope
    from memctl.moves import Plan

    if len(names) == 3 and not mapping:
        prefix, key, new = namespaces.parse_exact(names[0]), names[1], names[2]
        if key == new:
            raise UsageError(f"{key!r} is its name already")
        admission.check_text(new, "the new key")
        return Plan(Scope(prefix, descend=False), str, True, on_conflict, key, new)
    if (len(names) == 2) == bool(mapping) or len(names) not in (0, 2):
        raise UsageError(
            "what is to be renamed, and to what?", hint="mv SRC DST, mv NS KEY NEWKEY, or --map OLD=NEW"
        )
    rules = Mapping((rule(*names),)) if names else parse(mapping)
    for each in rules.rules:
        admission.check_namespace(each.sample)
    if names and names[0] == names[1]:
        raise UsageError(f"{names[0]!r} is its name already")
    single = rules.rules[0] if len(rules.rules) == 1 else None
    return Plan(
        single.pattern.scope if single else EVERYTHING,
        rules.apply,
        keeps_order=single is not None and single.pattern.is_literal,
        on_conflict=on_conflict,
    )


def _expect(store: Store, plan: Plan, names: list[str]) -> None:
    """Raise NothingThere for a literal name that names nothing; a template may fit nothing."""
    from memctl.nearest import expect, missing_keys, missing_namespace

    prefix = plan.scope.prefix or ""
    if plan.key is not None:
        key = plan.key
        expect(plan.items(store), lambda: missing_keys(store, prefix, [key]))
    elif names and plan.keeps_order:
        expect(plan.items(store), lambda: missing_namespace(store, prefix))


def _report(work: Work, items: int, vectors: int, octets: int, skipped: int, replaced: int) -> None:
    words = ((replaced, "of the new names overwritten"), (skipped, "skipped, since the new name is taken"))
    work.report(
        items=items,
        vectors=vectors,
        octets=octets,
        skipped=skipped,
        overwritten=replaced,
        remarks=[f"{count:,} {what}" for count, what in words if count],
    )


def _tell(context: Context, store: Store, plan: Plan, found: Survey) -> None:
    """Say what becomes what, and what does not."""
    from memctl.coverage import alike
    from memctl.model import shown
    from memctl.namespaces import show
    from memctl.render.units import counted

    for old, new, items in found.renames if plan.key is None else ():
        context.note(f"{show(shown(old))} → {show(shown(new))}: {counted(items, 'item')}")
    if (more := found.namespaces - len(found.renames)) > 0:
        context.note(f"and {more:,} more")
    if plan.key is None and plan.keeps_order and (left := alike(store, plan.scope.prefix or "")):
        context.note(
            f"leaves {', '.join(show(shown(name)) for name in left)}: another namespace that begins alike"
        )
