"""`memctl guard install|status|remove`: triggers that keep a store right, whatever application writes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.options import choice
from memctl.errors import MemctlError, Unsupported, UsageError

if TYPE_CHECKING:
    from memctl.guard import Guard
    from memctl.store import Store

_ACTIONS = ("install", "status", "remove")


def guard(
    ctx: typer.Context,
    action: Annotated[
        str, typer.Argument(metavar="install|status|remove", autocompletion=choice(*_ACTIONS))
    ] = "status",
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="RULE,…", help="Only these rules; `memctl guard status` lists them."),
    ] = None,
) -> None:
    """Keep faults from coming back: triggers in the store's own database, without a change to the application.

    With them the unmodified library keeps created_at on an overwrite, deletes vectors with their item, leaves no
    vector of a former value, and never stores a TTL of 0. memctl writes through a guarded store as it does
    through a bare one. `remove` leaves no trace.

    Examples:
      memctl guard status
      memctl guard install --only cascade-vectors,fresh-vectors
      memctl guard remove --yes
    """
    from memctl.guard import RULES, Guarded, State

    context: Context = ctx.obj
    if action not in _ACTIONS:
        raise UsageError(f"guard {action}: install, status or remove is expected")
    chosen = only.split(",") if only is not None else list(RULES)
    if unknown := [rule for rule in chosen if rule not in RULES]:
        raise UsageError(f"--only {unknown[0]}: there is no such rule", hint=f"rules are {', '.join(RULES)}")
    address = context.address()
    store = context.open_at(address)
    if not isinstance(store, Guarded):
        raise Unsupported(f"{store.address} has no triggers: the guard needs the database itself")
    found = [each for each in store.guards() if each.rule in chosen]
    if action == "status":
        _show(context, store, found, "")
        return
    wanted = _to_change(found, action)
    if (
        action == "install"
        and only is not None
        and (off := [each for each in found if each.state is State.OFF])
    ):
        raise MemctlError(f"{off[0].rule} cannot be installed: {off[0].reason}", code="guard-off")
    if wanted:
        question = _question(store, wanted, action)
        if context.is_dry_run:
            context.note(question)
        else:
            context.confirm(question)
            store.close()
            _change(context, wanted, action)
            store = context.open_at(address)
            if isinstance(store, Guarded):
                found = [each for each in store.guards() if each.rule in chosen]
    verb = ("would be " if context.is_dry_run else "") + {"install": "installed", "remove": "removed"}[action]
    _show(context, store, found, f"{verb}: {', '.join(each.rule for each in wanted) or 'nothing'}")


def _to_change(found: list[Guard], action: str) -> list[Guard]:
    from memctl.guard import State

    states = {"install": (State.ABSENT, State.OUTDATED), "remove": (State.INSTALLED, State.OUTDATED)}[action]
    return [each for each in found if each.state in states]


def _change(context: Context, wanted: list[Guard], action: str) -> None:
    from memctl.guard import Guardable

    target = context.open_to_write(context.address())
    if not isinstance(target, Guardable):
        raise Unsupported(f"{target.address} takes no triggers")
    rules = [each.rule for each in wanted]
    if action == "install":
        target.install_guards(rules)
    else:
        target.remove_guards(rules)
    target.close()


def _question(store: Store, wanted: list[Guard], action: str) -> str:
    """Say what will be created or dropped, and what evidence goes with it over time."""
    objects = "".join(f"\n  {name}" for each in wanted for name in each.objects)
    if action == "remove":
        return f"These will be dropped from {store.address}:{objects}\n"
    question = f"These will be created in {store.address}:{objects}\n"
    if any(each.rule == "fresh-vectors" for each in wanted) and (drifted := _drifted(store)):
        question += (
            f"{drifted:,} items have vectors older than themselves, which is all that shows that their age was lost;"
            " the next put of each removes that. `memctl doctor --check created-at-drift` lists them."
        )
    return question


def _drifted(store: Store) -> int:
    """Count the items whose vectors show that they were overwritten, or deleted and made again."""
    from memctl.doctor.drift import shows_overwrite
    from memctl.model import EVERYTHING, Detail
    from memctl.store import Capability

    if Capability.VECTOR_TIMES not in store.capabilities or Capability.KEEPS_CREATED in store.capabilities:
        return 0
    return sum(
        any(shows_overwrite(item, vector) for vector in item.vectors)
        for item in store.scan(EVERYTHING, values=False, vectors=Detail.SHAPE)
    )


def _show(context: Context, store: Store, found: list[Guard], headline: str) -> None:
    from memctl.guard import RULES, State
    from memctl.render import Facts, Report

    data = {
        "store": store.address,
        "dry_run": context.is_dry_run,
        "rules": [
            {
                "rule": each.rule,
                "state": each.state.value,
                "meaning": RULES[each.rule],
                "objects": list(each.objects),
                "reason": each.reason or None,
            }
            for each in found
        ],
    }
    marks = {
        State.INSTALLED: "+",
        State.OUTDATED: "~",
        State.ABSENT: "-",
        State.NEEDLESS: " ",
        State.OFF: "!",
    }
    lines = tuple(
        (
            f"{marks[each.state]} {each.rule}",
            f"{each.state.value}{f': {each.reason}' if each.reason else ''}; {RULES[each.rule]}",
        )
        for each in found
    )
    context.emit_report(Report(data, (Facts("", lines),), headline or f"Guard of {store.address}"))
