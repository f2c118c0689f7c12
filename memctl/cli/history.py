"""`memctl history on|off|status|prune`: whether a store keeps its past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.options import choice
from memctl.errors import MemctlError, Unsupported, UsageError

if TYPE_CHECKING:
    from memctl.history import Recording, Status
    from memctl.store import Store


_ACTIONS = ("on", "off", "status", "prune")


def history(
    ctx: typer.Context,
    action: Annotated[
        str, typer.Argument(metavar="on|off|status|prune", autocompletion=choice(*_ACTIONS))
    ] = "status",
    ns: Annotated[
        str | None, typer.Argument(metavar="NS", help="With on: only this namespace and what is below it.")
    ] = None,
    retain: Annotated[
        str | None,
        typer.Option(
            "--retain", metavar="AGE", help="How long entries are kept, 30d; `prune` and `sweep` see to it."
        ),
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="With off: what was recorded goes too.")] = False,
) -> None:
    """Keep every former value of a store's items: triggers in its own database write them down.

    `log` shows the entries, `undo` goes back, `get --at` and `export --at` show the store as it was. Vectors are not
    kept, and an expiry is known as of the last change. `off` keeps what was recorded, `off --drop` does not;
    `prune` deletes what is older than --retain.

    Examples:
      memctl history on --retain 30d
      memctl history on users.ana
      memctl history prune --yes
      memctl history off --drop --yes
    """
    from memctl.history import Recording, Remembering
    from memctl.instants import parse_duration
    from memctl.past import prune

    context: Context = ctx.obj
    if action not in _ACTIONS:
        raise UsageError(f"history {action}: on, off, status or prune is expected")
    if ns is not None and action != "on":
        raise UsageError(f"history {action} is about the whole store: leave NS out")
    if drop and action != "off":
        raise UsageError("--drop goes with `history off`")
    address = context.address()
    store = context.open_at(address)
    if not isinstance(store, Remembering):
        raise Unsupported(
            f"{store.address} keeps no history: that takes triggers in the store's own database"
        )
    status = store.history()
    if action == "status":
        _show(context, store, status)
        return
    if status is None and action != "on":
        raise MemctlError(f"{store.address} keeps no history", hint="memctl history on", code="no-history")
    minutes = parse_duration(retain).total_seconds() / 60 if retain is not None else None
    if action == "prune" and minutes is None and (status is None or status.retain_minutes is None):
        raise UsageError("how long entries are kept was never said", hint="memctl history prune --retain 30d")
    if context.is_dry_run:
        _show(context, store, status, f"history {action} would change this")
        return
    if status is not None and (drop or action == "prune"):
        what = f"{status.entries:,} recorded changes" if drop else "recorded changes past their retention"
        context.confirm(f"{what} of {store.address} will be deleted.")
    store.close()
    target = context.open_to_write(address)
    if not isinstance(target, Recording):
        raise Unsupported(f"{target.address} takes no triggers")
    if action == "on":
        headline = _switch_on(target, status, ns, minutes)
    elif action == "off":
        target.stop_recording(drop=drop)
        headline = (
            f"history is off{', and what was recorded is gone' if drop else '; what was recorded stays'}"
        )
    else:
        headline = f"{prune(target, target.now(), minutes):,} entries deleted"
    target.close()
    store = context.open_at(address)
    if isinstance(store, Remembering):
        _show(context, store, store.history(), headline)


def _switch_on(target: Recording, status: Status | None, ns: str | None, minutes: float | None) -> str:
    """Switch on; what is not said stays as it is."""
    from memctl import namespaces

    scope = status.scope if status is not None and status.is_on else None
    if ns is not None:
        scope = namespaces.parse_exact(ns)
    if minutes is None and status is not None:
        minutes = status.retain_minutes
    target.record(scope, minutes)
    return "history is on"


def _show(context: Context, store: Store, status: Status | None, headline: str = "") -> None:
    from memctl.namespaces import show
    from memctl.render import Facts, Report
    from memctl.render.units import octets

    data = {
        "store": store.address,
        "dry_run": context.is_dry_run,
        "on": status is not None and status.is_on,
        "namespace": status.scope.split(".") if status is not None and status.scope is not None else None,
        "retain_minutes": status and status.retain_minutes,
        "since": status and status.since,
        "entries": status.entries if status else 0,
        "bytes": status.octets if status else 0,
        "current": status.is_current if status else None,
    }
    facts: list[tuple[str, str]] = []
    if status is not None:
        facts = [
            (
                "state",
                ("on" if status.is_on else "off")
                + ("" if status.is_current else ", by another version: switch it on anew"),
            ),
            ("records", "everything" if status.scope is None else show(status.scope)),
            ("reaches back to", status.since),
            ("entries", f"{status.entries:,} ({octets(status.octets)})"),
            ("kept for", f"{status.retain_minutes / 1440:g} days" if status.retain_minutes else "ever"),
        ]
    title = headline or (
        f"History of {store.address}" if status else f"{store.address} keeps no history: memctl history on"
    )
    context.emit_report(Report(data, (Facts("", tuple(facts)),) if facts else (), title))
