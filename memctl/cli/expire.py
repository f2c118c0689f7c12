"""`memctl expire`: when items expire, set anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.groups import choosing, conditions, given, picking, taking
from memctl.cli.options import Exactly, Keys, RoundTtl
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memctl.cli.curating import Work
    from memctl.deadlines import Deadline
    from memctl.model import Instant, Item
    from memctl.store import Change, Store


@taking(choosing, conditions, picking)
def expire(
    ctx: typer.Context,
    ns: Exactly = None,
    keys: Keys = None,
    in_: Annotated[
        str | None, typer.Option("--in", metavar="DURATION", help="So long from now: 30d, 12h.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="On a date or at an instant.")
    ] = None,
    never: Annotated[bool, typer.Option("--never", help="Not at all, and without a TTL.")] = False,
    ttl: Annotated[
        str | None,
        typer.Option(
            "--ttl",
            metavar="DURATION",
            help="The TTL: so long after each use. By itself it begins now; else it stays as it is.",
        ),
    ] = None,
    round_ttl: RoundTtl = None,
) -> None:
    """Set when items expire: those of NS itself, KEYs of it, or what the options select.

    Everything else about an item stays, `updated_at` too. For more than one item it asks. A refreshing read of
    an agent moves the expiry of an item that has a TTL; --never takes that away as well.

    Examples:
      memctl expire users.ana.prefs seat --never
      memctl expire org.acme.facts --in 45d --ttl 45d
      memctl expire --filter confirmed=false --at 2027-01-01 --yes
    """
    from memctl import coverage as covering
    from memctl.choosing import Named
    from memctl.cli.choosing import read_request, tell_coverage, tell_missing
    from memctl.cli.curating import EMPTY, Work, no_expiry, opened, refuse_formats, refuse_unholdable
    from memctl.model import Detail
    from memctl.render.units import counted
    from memctl.store import Capability

    context: Context = ctx.obj
    refuse_formats(context)
    if round_ttl not in (None, "up"):
        raise UsageError(f"--round-ttl {round_ttl}: the only way to round is up")
    request = read_request(
        context, ns, keys, given(context, choosing), given(context, conditions), given(context, picking)
    )
    work = Work(context, "given another expiry")
    _refuse_unclear(in_, at, never, ttl)
    with opened(context, "UPDATE") as (store, target):
        if Capability.EXPIRY not in store.capabilities:
            raise no_expiry()
        deadline = _deadline(store.now(), in_, at, never, ttl, round_up=round_ttl == "up")
        choice = request.choice(store)
        covered = covering.of_items(choice.items(store, values=False, vectors=Detail.NONE))
        if isinstance(choice, Named):
            tell_missing(context, store, choice)
        if covered.items > 1:
            tell_coverage(context, store, choice, covered)
        refuse_unholdable(store, deadline.on(EMPTY), {"expires_at", "ttl_minutes"})
        if deadline.sets_expiry and deadline.expires_at is not None and deadline.expires_at <= store.now():
            context.warn(f"{deadline.expires_at} is past: these items count as expired from now on")

        changes = _Changes(deadline)
        found = choice.items(store, values=False, vectors=Detail.NONE)
        if target is None or not covered.items:
            changed = covering.of_items(change.was for change in changes.of(found) if change.was is not None)
            _report(work, deadline, changed.items, changed.octets, changes.unchanged)
            return
        if covered.items > 1:
            context.confirm(f"{counted(covered.items, 'item')} in {store.address} will get another expiry.")

        def decide(item: Item, _now: Store) -> Change | None:
            return next(changes.of([item]), None) if choice.holds(item) else None

        work.carry_out(changes.of(found), target, expected=covered.items, decide=decide)
        _report(work, deadline, work.outcome.items, work.outcome.octets, changes.unchanged)


class _Changes:
    """Items under a deadline, as changes; those that have it already are counted."""

    def __init__(self, deadline: Deadline) -> None:
        self.unchanged = 0
        self._deadline = deadline

    def of(self, items: Iterable[Item]) -> Iterator[Change]:
        """Yield the changes of items."""
        from memctl.store import Change

        for item in items:
            becomes = self._deadline.on(item)
            if becomes != item:
                yield Change(item, becomes)
            else:
                self.unchanged += 1


def _report(work: Work, deadline: Deadline, items: int, octets: int, unchanged: int) -> None:
    from memctl.render.units import counted, minutes

    would = "would be " if work.context.is_dry_run else ""
    how = f"set to {deadline.expires_at}" if deadline.expires_at is not None else "taken away"
    remarks = [f"TTL {minutes(deadline.ttl_minutes)}"] if deadline.ttl_minutes is not None else []
    if unchanged:
        remarks.append(f"{counted(unchanged, 'item')} had it already")
    headline = f"expiry of {counted(items, 'item')} {would}{how}"
    work.report(
        items=items, vectors=0, octets=octets, headline=headline, remarks=remarks, unchanged=unchanged
    )


def _refuse_unclear(in_: str | None, at: str | None, never: bool, ttl: str | None) -> None:
    given = [
        name for name, value in (("--in", in_), ("--at", at), ("--never", never or None)) if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other")
    if not given and ttl is None:
        raise UsageError("when is to be said", hint="--in 30d, --at 2027-01-01, --never, or --ttl 45d")
    if never and ttl is not None:
        raise UsageError("an item with a TTL expires: --never and --ttl exclude each other")


def _deadline(
    now: Instant, in_: str | None, at: str | None, never: bool, ttl: str | None, *, round_up: bool
) -> Deadline:
    """Read what was asked for. Raises UsageError."""
    from memctl import deadlines
    from memctl.instants import parse_duration, shift

    if never:
        return deadlines.NEVER
    if in_ is None and at is None:
        return deadlines.within(ttl or "", now, round_up=round_up)
    expires_at = shift(now, parse_duration(in_)) if in_ is not None else _moment(at or "", now)
    minutes = deadlines.minutes_of(ttl, round_up=round_up) if ttl is not None else None
    return deadlines.Deadline(expires_at, minutes, sets_ttl=ttl is not None)


def _moment(text: str, now: Instant) -> Instant:
    """Read `--at`; a length of time would be read as an age, which nobody means here."""
    from memctl.instants import is_duration, parse_time

    if is_duration(text):
        raise UsageError(
            f"--at {text}: a date or an instant is expected", hint=f"so long from now: --in {text}"
        )
    return parse_time(text, now)
