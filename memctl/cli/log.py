"""`memctl log`: what changed, when, and as far as the database knows, by whom."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memctl.cli.context import Context
from memctl.cli.options import Limit, choice
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memctl.history import Entry, Operation
    from memctl.model import Scope
    from memctl.render import Row
    from memctl.store import Store

_OPERATIONS = ("created", "changed", "deleted", "expired")
_EVERY_SECONDS = 1.0


def log(
    ctx: typer.Context,
    ns: Annotated[
        str | None, typer.Argument(metavar="NS", help="This namespace and what is below it.")
    ] = None,
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="One item of exactly NS.")] = None,
    patch: Annotated[
        bool,
        typer.Option("--patch", "-p", help="With the change itself: what a value became, member by member."),
    ] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Only what is gone, each item once.")] = False,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="From this time on.")] = None,
    operations: Annotated[
        list[str] | None,
        typer.Option(
            "--op",
            metavar="WHAT",
            help=f"Only these: {', '.join(_OPERATIONS)}.",
            autocompletion=choice(*_OPERATIONS),
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as changes come, the oldest first.")
    ] = False,
    limit: Limit = None,
) -> None:
    """Show what changed in a store that keeps its history, the newest first.

    Examples:
      memctl log users.ana
      memctl log users.ana.prefs tone -p
      memctl log --deleted --since 7d
      memctl log --follow -o jsonl
    """
    from itertools import chain, islice

    from memctl import namespaces
    from memctl.history import Operation
    from memctl.instants import parse_time
    from memctl.model import Scope
    from memctl.past import remembering
    from memctl.render import Column, Kind

    context: Context = ctx.obj
    store = context.open()
    past = remembering(store)
    if unknown := [word for word in operations or () if word not in _OPERATIONS]:
        raise UsageError(f"--op {unknown[0]}: one of {', '.join(_OPERATIONS)} is expected")
    wanted: tuple[Operation, ...] = tuple(map(Operation, operations or ()))
    if deleted:
        if follow:
            raise UsageError("--deleted shows what is gone by now: leave --follow out")
        wanted = (Operation.DELETED, Operation.EXPIRED)
    scope = Scope() if ns is None else Scope(namespaces.parse_exact(ns), descend=key is None)
    start = parse_time(since, store.now()) if since is not None else None
    columns = [
        Column("seq", Kind.COUNT),
        Column("at", Kind.INSTANT),
        Column("operation"),
        Column("namespace", Kind.NAMESPACE),
        Column("key", Kind.KEY),
    ]
    if follow:
        entries: Iterator[tuple[Entry, Any]] = (
            (entry, None) for entry in _following(context, scope, key, wanted, start)
        )
    else:
        found = past.entries(scope, key=key, since=start, operations=wanted)
        found = _gone(store, found) if deleted else found
        entries = ((entry, _became(store, entry) if patch else None) for entry in islice(found, limit))
    first = next(entries, None)
    if first is not None and first[0].role is not None:
        columns += [Column("role"), Column("application")]
    columns.append(Column("change"))
    entries = chain((first,) if first is not None else (), entries)
    context.emit(tuple(columns), (_row(entry, became, patch=patch) for entry, became in entries))


def _gone(store: Store, entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield the latest deletion of each item that is not there now."""
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        name = entry.prefix, entry.key
        if name not in seen:
            seen.add(name)
            if next(store.get(entry.prefix, [entry.key]), None) is None:
                yield entry


def _following(
    context: Context, scope: Scope, key: str | None, operations: tuple[Operation, ...], since: str | None
) -> Iterator[Entry]:
    """Yield entries as they come, until interrupted."""
    from memctl.past import remembering

    last = 0
    while True:
        store = context.open()
        past = remembering(store)
        if not last and since is None:
            newest = next(past.entries(scope, key=key), None)
            last = newest.seq if newest else 0
        for entry in past.entries(
            scope, key=key, after=last, since=since, operations=operations, oldest_first=True
        ):
            last = max(last, entry.seq)
            yield entry
        store.close()
        sleep(_EVERY_SECONDS)


def _became(store: Store, entry: Entry) -> bytes | None:
    """Return the value that an entry's change led to: the former one of the next change, or today's."""
    from memctl.model import Scope
    from memctl.past import remembering

    later = remembering(store).entries(
        Scope(entry.prefix, descend=False), key=entry.key, after=entry.seq, oldest_first=True
    )
    following = next(later, None)
    if following is not None:
        return following.former.value if following.former is not None else None
    now = next(store.get(entry.prefix, [entry.key]), None)
    return now.value if now is not None else None


def _row(entry: Entry, became: bytes | None, *, patch: bool) -> Row:
    from memctl.model import shown
    from memctl.past import difference

    former = entry.former.value if entry.former is not None else None
    if patch:
        change = "; ".join(difference(former, became))
    elif former is not None:
        change = former.decode(errors="replace")
    else:
        change = ""
    who = {"role": entry.role, "application": entry.application} if entry.role is not None else {}
    return {
        "seq": entry.seq,
        "at": entry.at,
        "operation": entry.operation.value,
        "namespace": shown(entry.prefix).split("."),
        "key": shown(entry.key),
        **who,
        "change": change,
    }
