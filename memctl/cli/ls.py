"""`memctl ls`: namespaces, or items with `--items`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.options import Limit, Namespace, choice
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memctl.model import Item
    from memctl.render import Row

_SORTS = ("name", "items", "bytes", "newest")


def ls(
    ctx: typer.Context,
    ns: Namespace = None,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", min=1, help="Cut namespaces to N labels, added up.")
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Indent, with totals at every level.")] = False,
    suffix: Annotated[
        str | None, typer.Option("--suffix", metavar="LABELS", help="Only namespaces that end so.")
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort", metavar="COLUMN", help=f"{', '.join(_SORTS)}.", autocompletion=choice(*_SORTS)
        ),
    ] = "name",
    limit: Limit = None,
    items: Annotated[bool, typer.Option("--items", help="List items, not namespaces.")] = False,
) -> None:
    """List namespaces: how many items and vectors each holds, their size, and the newest.

    Examples:
      memctl ls --tree --depth 2
      memctl ls users --sort newest --limit 10
      memctl ls 'users.*.prefs' --items
    """
    context: Context = ctx.obj
    if sort not in _SORTS:
        raise UsageError(f"--sort {sort}: one of {', '.join(_SORTS)} is expected")
    if items and (tree or depth or sort == "items"):
        raise UsageError("--items goes with neither --tree, --depth nor --sort items")
    if tree and sort != "name":
        raise UsageError("a tree has its own order", hint="leave --sort or --tree out")
    if items:
        _list_items(context, ns, suffix, sort, limit)
    else:
        _list_namespaces(context, ns, depth, tree, suffix, sort, limit)


def _list_namespaces(
    context: Context,
    ns: str | None,
    depth: int | None,
    tree: bool,
    suffix: str | None,
    sort: str,
    limit: int | None,
) -> None:
    from memctl import listing, namespaces
    from memctl.cli.rows import NAMESPACE_COLUMNS, namespace_row
    from memctl.model import EVERYTHING
    from memctl.nearest import expect, missing_namespace

    store = context.open()
    pattern = namespaces.parse(ns) if ns is not None else None
    ending = namespaces.parse(suffix) if suffix is not None else None
    scope = pattern.scope if pattern else EVERYTHING
    found = store.namespaces(scope)
    if pattern:
        if pattern.is_literal:
            found = expect(found, lambda: missing_namespace(store, scope.prefix or ""))
        found = (namespace for namespace in found if pattern.matches(namespace.prefix))
    if ending:
        found = (namespace for namespace in found if namespaces.ends_with(ending, namespace.prefix))
    if tree:
        found = listing.to_tree(found, depth)
    elif depth:
        found = listing.to_depth(found, depth)
    if sort != "name":
        found = listing.in_order(found, sort, limit)
    context.emit(NAMESPACE_COLUMNS, map(namespace_row, islice(found, limit)), tree=tree)
    context.say_if_moved(store)


def _list_items(context: Context, ns: str | None, suffix: str | None, sort: str, limit: int | None) -> None:
    from memctl import namespaces
    from memctl.cli.rows import LISTING_COLUMNS, listing_row
    from memctl.instants import backwards
    from memctl.model import EVERYTHING, Detail
    from memctl.nearest import expect, missing_namespace
    from memctl.sorting import sort as sort_rows

    store = context.open()
    pattern = namespaces.parse(ns) if ns is not None else None
    ending = namespaces.parse(suffix) if suffix is not None else None
    scope = pattern.scope if pattern else EVERYTHING
    found: Iterator[Item] = store.scan(scope, vectors=Detail.SHAPE)
    if pattern:
        if pattern.is_literal:
            found = expect(found, lambda: missing_namespace(store, scope.prefix or ""))
        found = (item for item in found if pattern.matches(item.prefix))
    if ending:
        found = (item for item in found if namespaces.ends_with(ending, item.prefix))
    rows: Iterable[Row] = map(listing_row, found)
    if sort == "bytes":
        rows = sort_rows(rows, key=lambda row: (-row["bytes"], row["namespace"], row["key"]), limit=limit)
    elif sort == "newest":
        rows = sort_rows(
            rows, key=lambda row: (backwards(row["updated_at"]), row["namespace"], row["key"]), limit=limit
        )
    context.emit(LISTING_COLUMNS, context.counting_problems(islice(rows, limit)))
    context.say_if_moved(store)
