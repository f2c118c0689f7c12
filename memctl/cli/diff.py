"""`memctl diff`: what is only in one of two stores or archives, and what differs."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.groups import sharing, taking
from memctl.cli.options import Map, Namespace, NoSnapshot
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memctl.archive import Reader
    from memctl.compare import Pair
    from memctl.errors import NothingThere
    from memctl.render import Row
    from memctl.store import Store


@taking(sharing)
def diff(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A store or an archive.")],
    b: Annotated[str, typer.Argument(metavar="B", help="A store or an archive.")],
    ns: Namespace = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="PARTS",
            help="value, created_at, updated_at, expires_at, ttl_minutes, vectors, or expiry; by comma.",
        ),
    ] = None,
    mapping: Map = None,
    no_snapshot: NoSnapshot = False,
) -> None:
    """Show what two stores or archives do not have in common, item by item; nothing when they are equal.

    Values compare as JSON, times as instants, vectors by the bit.

    Examples:
      memctl diff dev prod users
      memctl diff backup.jsonl.gz prod --ignore expiry
    """
    from memctl import namespaces
    from memctl.cli.sides import open_side, pieces_of
    from memctl.compare import pair
    from memctl.mapping import parse
    from memctl.nearest import expect
    from memctl.render import Column, Kind

    context: Context = ctx.obj
    parts = _parts(ignore or [])
    rules = parse(mapping or [])
    pattern = namespaces.parse(ns) if ns is not None else None
    columns = (Column("namespace", Kind.NAMESPACE), Column("key", Kind.KEY), Column("in"), Column("parts"))
    seen: Counter[str] = Counter()
    with ExitStack() as sides:
        one = sides.enter_context(open_side(context, a, snapshot=not no_snapshot))
        other = sides.enter_context(open_side(context, b, snapshot=not no_snapshot))
        pairs = pair(pieces_of(one, pattern, rules), pieces_of(other, pattern))
        if pattern is not None and pattern.is_literal:
            pairs = expect(pairs, lambda: _nothing(pattern.scope.prefix or "", one, other))
        pairs = _begun(pairs)
        context.emit(columns, _rows(pairs, parts, seen))
    differing = seen["a"] + seen["b"] + seen["both"]
    if not differing:
        context.note(f"equal: {seen['equal']:,} items")
        return
    context.warn(
        f"{differing:,} differ: {seen['a']:,} only in A, {seen['b']:,} only in B, {seen['both']:,} in both; "
        f"{seen['equal']:,} equal",
        outcome=4,
    )


def _begun(pairs: Iterator[Pair | int]) -> Iterator[Pair | int]:
    """Find the first pair, and whatever is wrong before it, while nothing is shown yet."""
    first = list(islice(pairs, 1))
    return chain(first, pairs)


def _nothing(prefix: str, *sides: Store | Reader) -> NothingThere:
    """Return the error for a namespace that holds nothing on either side, with the nearest of those that are stores."""
    from memctl.archive import Reader
    from memctl.errors import NothingThere
    from memctl.model import shown
    from memctl.namespaces import show
    from memctl.nearest import missing_namespace

    found = [missing_namespace(side, prefix) for side in sides if not isinstance(side, Reader)]
    hints = dict.fromkeys(error.hint for error in found if error.hint)
    return NothingThere(
        f"nothing is stored under {show(shown(prefix))!r}, in A or in B",
        hint="\n".join(hints) or "`memctl diff A B` compares everything",
    )


def _rows(pairs: Iterator[Pair | int], parts: tuple[str, ...], seen: Counter[str]) -> Iterator[Row]:
    from memctl.compare import differences
    from memctl.model import shown

    for found in pairs:
        if isinstance(found, int):
            seen["equal"] += found
            continue
        one, other = found
        if one is not None and other is not None:
            differing = () if one == other else differences(one, other, parts)
            where = "both" if differing else "equal"
        else:
            differing, where = (), "a" if other is None else "b"
        seen[where] += 1
        item = one or other
        if where != "equal" and item is not None:
            yield {
                "namespace": shown(item.prefix).split("."),
                "key": shown(item.key),
                "in": where,
                "parts": list(differing),
            }


def _parts(ignored: list[str]) -> tuple[str, ...]:
    from memctl.compare import PARTS

    names = {name.strip() for given in ignored for name in given.split(",") if name.strip()}
    if "expiry" in names:
        names = (names - {"expiry"}) | {"expires_at", "ttl_minutes"}
    if unknown := names - set(PARTS):
        raise UsageError(
            f"--ignore {', '.join(sorted(unknown))}: no part of an item",
            hint=f"parts: {', '.join(PARTS)}, expiry",
        )
    return tuple(part for part in PARTS if part not in names)
