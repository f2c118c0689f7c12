"""The selecting options, read into a `Selection`: the same on every command that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memctl.errors import Unsupported, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memctl.model import Instant, Item
    from memctl.selection import Order, Selection
    from memctl.store import Store


def selection_of(store: Store, *, within: str | None = None, **options: Any) -> Selection:
    """Return what the selecting options select in a store, by its clock.

    Raises UsageError for an option that cannot be read, NothingThere for a literal namespace that holds
    nothing, Unsupported for a condition on expiry where there is none.
    """
    from memctl.nearest import expect, missing_namespace
    from memctl.store import Capability

    selection = read_selection(store.now(), within=within, **options)
    if selection.expiry == "expired" and Capability.EXPIRY not in store.capabilities:
        raise Unsupported(
            "this store has no expiry, or shows none",
            hint="tables from before LangGraph had TTLs get the columns when today's library opens them;\n"
            "through a server or a BaseStore no expiry shows",
        )
    if selection.pattern and selection.pattern.is_literal:
        scope = selection.scope
        expect(store.scan(scope, values=False), lambda: missing_namespace(store, scope.prefix or ""))
    return selection


def check_order(order: str | None) -> Order:
    """Return the order that --order names, or the usual one. Raises UsageError."""
    from memctl.selection import ORDERS

    for known in ORDERS:
        if order is None or order == known:
            return known
    raise UsageError(f"--order {order}: one of {', '.join(ORDERS)} is expected")


def first_of(
    selection: Selection,
    items: Callable[[Selection], Iterable[Item]],
    *,
    order: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Selection:
    """Return what the options of `groups.picking` leave of a selection; see `Selection.first`."""
    chosen = check_order(order)
    if limit is None and not offset:
        return selection
    return selection.first(items, chosen, limit, offset)


def read_selection(
    now: Instant,
    *,
    within: str | None = None,
    text: str | None = None,
    regex: bool = False,
    filters: list[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    by: str = "updated_at",
    expired: bool = False,
    live: bool = False,
) -> Selection:
    """Read the selecting options. Raises UsageError."""
    from memctl import filters as language
    from memctl import namespaces
    from memctl.selection import Selection, TextMatch, parse_bounds

    if expired and live:
        raise UsageError("--expired and --live exclude each other; without either both are meant")
    if by not in ("updated_at", "created_at"):
        raise UsageError(f"--by {by}: updated_at or created_at is expected")
    if regex and not text:
        raise UsageError("--regex says how to read TEXT, and there is none")
    start, end = parse_bounds(since, until, now)
    return Selection(
        pattern=namespaces.parse(within) if within is not None else None,
        text=TextMatch(text, regex=regex) if text else None,
        filters=tuple(condition for given in filters or () for condition in language.parse(given)),
        since=start,
        until=end,
        by="created_at" if by == "created_at" else "updated_at",
        expiry="expired" if expired else "live" if live else None,
        now=now,
    )
