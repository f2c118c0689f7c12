"""`memctl search`: items by text, by filter, by time, or by likeness."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memctl.cli.context import Context
from memctl.cli.groups import conditions, given, picking, taking
from memctl.cli.options import In, Text, VectorFormat, Vectors, choice
from memctl.errors import MemctlError, NothingThere, Unsupported, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memctl.model import Item, Position
    from memctl.render import Row
    from memctl.selection import Order, Selection
    from memctl.similarity import Query
    from memctl.store import Store

_NEIGHBOURS = 10


@taking(conditions, picking)
def search(
    ctx: typer.Context,
    text: Text = None,
    within: In = None,
    like: Annotated[
        tuple[str, str] | None,
        typer.Option("--like", metavar="NS KEY", help="Nearest to this item's vectors."),
    ] = None,
    semantic: Annotated[
        str | None,
        typer.Option("--semantic", metavar="TEXT", help="Nearest to this text, embedded by --embed."),
    ] = None,
    embed: Annotated[
        str | None,
        typer.Option(
            "--embed",
            metavar="E",
            help="local, provider:model or module:function.",
            autocompletion=choice("local"),
        ),
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Only how many.")] = False,
    vectors: Vectors = False,
    vector_format: VectorFormat = "base64",
) -> None:
    """Find items by text, field, age, expiry or likeness.

    Examples:
      memctl search 'aisle seat' --in users
      memctl search --filter 'confidence < 0.5' --since 30d
      memctl search --like users.ana.facts diet
      memctl search --semantic 'what does she eat' --embed local
    """
    from memctl.cli.selecting import check_order, selection_of

    context: Context = ctx.obj
    picked = given(context, picking)
    order, limit, offset = picked.get("order"), picked.get("limit"), picked.get("offset", 0)
    ranked = like is not None or semantic is not None
    if like is not None and semantic is not None:
        raise UsageError("--like and --semantic are two questions; ask one at a time")
    if (semantic is None) != (embed is None):
        raise UsageError("--semantic TEXT and --embed E go together", hint="--embed local needs no key")
    if ranked and (order or count):
        raise UsageError("--like and --semantic rank by likeness: --order and --count do not apply")
    in_order = check_order(order)
    if vector_format not in ("base64", "list"):
        raise UsageError(f"--vector-format {vector_format}: base64 or list is expected")
    store = context.open()
    selection = selection_of(store, text=text, within=within, **given(context, conditions))
    form: Any = vector_format if vectors else None
    if count:
        _count(context, store, selection)
    elif ranked:
        _rank(context, store, selection, like, semantic, embed, limit, offset, form)
    else:
        _list(context, store, selection, in_order, limit, offset, form)
    context.say_if_moved(store)


def _count(context: Context, store: Store, selection: Selection) -> None:
    from memctl.render import Report

    count = sum(1 for _ in selection.select(store, values=False))
    context.emit_report(Report({"count": count}, headline=str(count)))


def _list(
    context: Context,
    store: Store,
    selection: Selection,
    order: Order,
    limit: int | None,
    offset: int,
    form: Any,
) -> None:
    from memctl.cli.rows import ITEM_COLUMNS, VECTORS_COLUMN, item_row
    from memctl.model import Detail
    from memctl.selection import key_of
    from memctl.sorting import sort
    from memctl.values import inspect

    detail = Detail.FULL if form else Detail.NONE
    found = selection.select(store, vectors=detail)
    if order != "name":
        until = None if limit is None else limit + offset
        found = sort(found, key=key_of(order, selection.by), size=_octets, limit=until)
    shown = islice(found, offset, None if limit is None else offset + limit)
    rows = (item_row(item, inspect(item), form) for item in shown)
    columns = (*ITEM_COLUMNS, VECTORS_COLUMN) if form else ITEM_COLUMNS
    context.emit(columns, context.counting_problems(rows))


def _octets(item: Item) -> int:
    return item.size + sum(len(vector.embedding or b"") for vector in item.vectors)


def _rank(
    context: Context,
    store: Store,
    selection: Selection,
    like: tuple[str, str] | None,
    semantic: str | None,
    embed: str | None,
    limit: int | None,
    offset: int,
    form: Any,
) -> None:
    from memctl.cli.rows import ITEM_COLUMNS, SCORE_COLUMN, VECTORS_COLUMN
    from memctl.similarity import rank
    from memctl.store import Capability

    if Capability.VECTORS not in store.capabilities:
        raise Unsupported(
            "this store has no vectors", hint="it was opened without an index; `search TEXT` needs none"
        )
    if like:
        queries, itself = _own_vectors(store, *like)
    else:
        from memctl.embedders import embed as embed_text

        queries, itself = [embed_text(embed or "", semantic or "", folder=context.environment.folder)], None
    wanted = _NEIGHBOURS if limit is None else limit
    ranking = rank(store, selection, queries, limit=wanted + offset, without=itself)
    dims = {len(query) for query in queries}
    if ranking.dims and not dims & ranking.dims.keys():
        raise MemctlError(
            f"no vector here has {_listed(dims)} dims: the store's have {_listed(ranking.dims)}",
            hint="embed with the model that the store was written with",
            code="dims",
        )
    rows = _scored_rows(store, ranking.best[offset:], form)
    vector_columns = (VECTORS_COLUMN,) if form else ()
    context.emit((SCORE_COLUMN, *ITEM_COLUMNS, *vector_columns), context.counting_problems(rows))
    if limit is None and len(ranking.best) == wanted + offset:
        context.note(f"the {wanted} nearest; --limit N for more or fewer")


def _own_vectors(store: Store, ns: str, key: str) -> tuple[list[Query], Position]:
    from memctl import namespaces
    from memctl.model import Detail, Position
    from memctl.nearest import missing_keys
    from memctl.similarity import queries_of

    prefix = namespaces.parse_exact(ns)
    for item in store.get(prefix, [key], vectors=Detail.FULL):
        queries = queries_of(item.vectors)
        if not queries:
            raise NothingThere(f"{ns} {key} has no vectors to compare by", code="no-vectors")
        return queries, Position(prefix, key)
    raise missing_keys(store, prefix, [key])


def _scored_rows(store: Store, best: list[tuple[float, Position]], form: Any) -> Iterator[Row]:
    from memctl.cli.rows import item_row
    from memctl.model import Detail
    from memctl.values import inspect

    for score, place in best:
        for item in store.get(place.prefix, [place.key], vectors=Detail.FULL if form else Detail.NONE):
            yield {"score": round(score, 6), **item_row(item, inspect(item), form)}


def _listed(dims: Any) -> str:
    return ", ".join(map(str, sorted(dims)))
