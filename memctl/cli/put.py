"""`memctl put`: one item, written as the library's put would, but for what the library loses."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memctl.cli.context import Context
from memctl.cli.options import RoundTtl, Save
from memctl.errors import MemctlError, UsageError

if TYPE_CHECKING:
    from memctl.deadlines import Deadline
    from memctl.model import Item
    from memctl.putting import Order
    from memctl.store import Change, Store

_PARTS = ("namespace", "key", "value", "expires_at", "ttl_minutes")
"""What a put sets of an item; what is odd about the rest of one that is there stays."""

_ROUNDS = 25
"""How often one item is tried that others keep writing: of so many at once each one gets its turn."""


def put(
    ctx: typer.Context,
    ns: Annotated[str, typer.Argument(metavar="NS", help="Exactly this namespace.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The item's key.")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="A JSON object; - reads standard input, @FILE a file."),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option("--ttl", metavar="DURATION", help="Expire so long after each use: 45d. Begins now."),
    ] = None,
    no_ttl: Annotated[bool, typer.Option("--no-ttl", help="Never expire.")] = False,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="Merge VALUE into the object (RFC 7396): null removes a member."),
    ] = False,
    if_unchanged_since: Annotated[
        str | None,
        typer.Option(
            "--if-unchanged-since", metavar="TIME", help="Only if nobody has written the item after this."
        ),
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change the value in $VISUAL or $EDITOR.")] = False,
    round_ttl: RoundTtl = None,
    save: Save = None,
) -> None:
    """Write one item. An item that is there keeps `created_at`, and its TTL, which begins anew.

    What the library's put refuses is refused; every digit of a number is kept. Vectors of a text that the new value
    does not have go: search finds the item by that likeness when an agent has put it again.

    Examples:
      memctl put users.ana.prefs seat '{"value": "aisle"}' --ttl 45d
      memctl put users.ana.prefs seat '{"value": null, "row": 12}' --merge
      memctl put users.ana.prefs seat --edit
      memctl put users.ana.prefs seat @seat.json --if-unchanged-since 2026-11-30T08:00:00Z
    """
    from memctl import admission, namespaces
    from memctl.cli.curating import Work, refuse_formats
    from memctl.cli.editing import compact, edited, pretty
    from memctl.model import Detail
    from memctl.putting import Order

    context: Context = ctx.obj
    refuse_formats(context)
    if ttl is not None and no_ttl:
        raise UsageError("--ttl and --no-ttl exclude each other")
    if round_ttl not in (None, "up"):
        raise UsageError(f"--round-ttl {round_ttl}: the only way to round is up")
    if edit and (value is not None or merge):
        raise UsageError("--edit takes the value from the editor: neither VALUE nor --merge goes with it")
    if not edit and value is None:
        raise UsageError("a value is expected", hint="a JSON object, - for standard input, @FILE, or --edit")
    prefix = namespaces.parse_exact(ns)
    admission.check_namespace(prefix)
    admission.check_text(key, "the key")
    terms = _Terms(ttl, no_ttl, if_unchanged_since, round_ttl == "up")
    order = Order(prefix, key, b"{}", merges=merge)
    if not edit:
        order = replace(order, value=admission.check_value(_given(context, value or "")))
        _write(context, order, terms, save)
        return
    with closing(context.open()) as store:  # not held open while somebody types
        was = next(store.get(prefix, [key], vectors=Detail.FULL), None)
        check = partial(admission.check_value, kind=store.kind)
    with edited(context, pretty(was), check) as written:
        if written is not None and (was is None or written != compact(was)):
            text = written
        elif was is not None and terms.sets_expiry:
            text = check(was.value or b"")
        else:
            Work(context, "written").report(items=0, vectors=0, octets=0, remarks=["nothing was changed"])
            return
        _write(context, replace(order, value=text), terms, save, seen=was)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What was asked for beside the value; it takes the store's clock to read."""

    ttl: str | None
    no_ttl: bool
    since: str | None
    round_up: bool

    @property
    def sets_expiry(self) -> bool:
        """Whether something is asked for even where the value stays."""
        return self.ttl is not None or self.no_ttl

    def on(self, order: Order, store: Store) -> Order:
        """Return the order under these terms. Raises UsageError; Unsupported where the store has no expiry."""
        from memctl import deadlines
        from memctl.cli.curating import no_expiry
        from memctl.instants import parse_time
        from memctl.store import Capability

        now = store.now()
        deadline: Deadline | None = deadlines.NEVER if self.no_ttl else None
        if self.ttl is not None:
            deadline = deadlines.within(self.ttl, now, round_up=self.round_up)
        if deadline is not None and Capability.EXPIRY not in store.capabilities:
            if self.ttl is not None:
                raise no_expiry()
            deadline = None
        since = parse_time(self.since, now) if self.since is not None else None
        return replace(order, ttl=deadline, unchanged_since=since)


_UNREAD: Any = object()


def _write(
    context: Context, order: Order, terms: _Terms, save: str | None, seen: Item | None = _UNREAD
) -> None:
    """Write an item, over what was `seen` alone or over whatever is there."""
    from memctl.changes import Pace, carry_out
    from memctl.cli.curating import Work, fresh, opened, refuse_unholdable
    from memctl.cli.saving import saving
    from memctl.model import Detail
    from memctl.putting import left_behind
    from memctl.render.units import counted, octets

    work = Work(context, "written")
    orphan: Item | None = None

    def change(store: Store) -> Change:
        nonlocal orphan
        was = (
            next(store.get(order.prefix, [order.key], vectors=Detail.FULL), None) if seen is _UNREAD else seen
        )
        orphan = left_behind(store, order.prefix, order.key) if was is None else None
        change = terms.on(order, store).change(was, store.now(), store.kind)
        assert change.becomes is not None
        refuse_unholdable(store, change.becomes, _PARTS)
        return change

    def again(_left: object) -> list[Change]:
        with fresh(context) as store:
            return [change(store)]

    with (
        opened(context, "INSERT", "UPDATE", "DELETE") as (store, target),
        saving(context, save, store) as saver,
    ):
        first = change(store)
        last = [first]
        if target is not None:
            if saver is not None and orphan is not None:
                saver.keep_vectors([orphan])
            carry_out(
                [first],
                target,
                pace=Pace(rounds=_ROUNDS),
                save=saver,
                done=last.append,
                again=again if seen is _UNREAD else None,
                outcome=work.outcome,
            )
    if work.outcome.left:
        raise MemctlError(
            "somebody else has written it meanwhile: nothing was changed",
            hint="`memctl get` shows what it is now",
            code="changed",
        )
    was, becomes = last[-1].was, last[-1].becomes
    assert becomes is not None
    stale = len(was.vectors) - len(becomes.vectors) if was is not None else 0
    orphaned = len(orphan.vectors) if orphan is not None else 0
    how = "made" if was is None else "overwritten"
    remarks = [f"expires {becomes.expires_at}"] if becomes.expires_at is not None else []
    for count, whose in ((stale, "the former value"), (orphaned, "an item that is gone")):
        if count:
            remarks.append(f"{counted(count, 'vector')} of {whose} removed")
    work.report(
        items=1,
        vectors=stale + orphaned,
        octets=becomes.size,
        headline=f"1 item ({octets(becomes.size)}) {'would be ' if target is None else ''}{how}",
        remarks=remarks,
        created=was is None,
        expires_at=becomes.expires_at,
        ttl_minutes=becomes.ttl_minutes,
    )


def _given(context: Context, value: str) -> bytes:
    """Return the text that VALUE means."""
    if value == "-":
        text = context.environment.stdin.read()
    elif value.startswith("@"):
        try:
            text = context.file(value[1:]).read_bytes()
        except OSError as error:
            raise UsageError(f"{value[1:]} cannot be read: {error.strerror}") from None
    else:
        text = os.fsencode(value)
    return text.removeprefix(b"\xef\xbb\xbf")
