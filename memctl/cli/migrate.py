"""`memctl migrate`: one store into another, in one stream."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.groups import bringing, conditions, given, picking, sharing, taking
from memctl.cli.options import Dims, In, IndexKind, Metric, NoSnapshot, VectorType
from memctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memctl.addresses import Address
    from memctl.cli.bringing import Options
    from memctl.selection import Selection
    from memctl.store import Store
    from memctl.transfer import Entry


@taking(bringing, conditions, picking, sharing)
def migrate(
    ctx: typer.Context,
    src: Annotated[str, typer.Argument(metavar="SRC", help="The store to read.")],
    dst: Annotated[str, typer.Argument(metavar="DST", help="The store to write.")],
    dims: Dims = None,
    vector_type: VectorType = None,
    index: IndexKind = None,
    metric: Metric = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare both stores when it is done.")] = False,
    no_snapshot: NoSnapshot = False,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only items that say this.")
    ] = None,
    within: In = None,
) -> None:
    """Copy one store into another: values, times, expiry and vectors, to the microsecond and the bit.

    Interrupted, it is run again and writes only what is missing. Nothing is written before every item has
    been checked against what the target can hold.

    Examples:
      memctl migrate agent.db prod --dry-run
      memctl migrate agent.db prod --init --verify
    """
    from memctl.cli.bringing import ANY_DIMS, Options, bring_in, open_target, setup_of
    from memctl.cli.selecting import first_of, selection_of
    from memctl.cli.sides import is_archive, refuse_globals
    from memctl.store import Described

    context: Context = ctx.obj
    refuse_globals(context)
    source_address, target_address = context.resolve(src), context.resolve(dst)
    if source_address == target_address:
        raise UsageError("source and target are the same store")
    if source_address.scheme == "sqlite" and is_archive(context.environment.folder / source_address.target):
        raise UsageError(f"{src} is an archive", hint=f"memctl -s {dst} import {src}")
    options = Options(**given(context, bringing))
    with ExitStack() as stack:
        store = context.open_at(source_address)
        selection = selection_of(store, text=text, within=within, **given(context, conditions))
        if options.init and dims is None and not options.no_vectors and isinstance(store, Described):
            found = store.describe().vectors
            if found and found.dims:
                dims = found.dims[0] if len(found.dims) == 1 else ANY_DIMS
                vector_type = vector_type or ("halfvec" if "halfvec" in found.type else None)
        setup = setup_of(options.init, dims, vector_type, index, metric)
        source = store if no_snapshot else stack.enter_context(store.snapshot())
        selection = first_of(
            selection, lambda all_: all_.select(source, values=False), **given(context, picking)
        )
        target = open_target(context, target_address, setup)
        bring_in(
            context,
            lambda _proved: _entries(source, selection),
            target,
            options,
            make=lambda path=None: context.open_to_write(target_address, setup, path=path),
            another=lambda: context.open_to_write(target_address),
            is_ordered=True,
            expected=None,
            what="migrated",
        )
        context.say_if_moved(source)
        if source.lock_seconds:
            context.note(f"writers to the source waited at most {source.lock_seconds * 1000:.0f} ms")
        if verify and not context.is_dry_run:
            _verify(context, source, target_address, selection, options)


def _entries(source: Store, selection: Selection) -> Iterator[Entry]:
    from memctl.blocks import Block
    from memctl.compare import PARTS
    from memctl.model import Detail
    from memctl.store import Capability
    from memctl.transfer import Incoming, Several

    parts = set(PARTS)
    if Capability.EXPIRY not in source.capabilities:
        parts -= {"expires_at", "ttl_minutes"}
    if Capability.VECTORS not in source.capabilities:
        parts.remove("vectors")
    given = frozenset(parts)
    for piece in selection.pieces(source, vectors=Detail.FULL):
        if isinstance(piece, Block):
            yield Several(piece, given)
        else:
            yield from (Incoming(item, given) for item in piece)


def _verify(
    context: Context, source: Store, address: Address, selection: Selection, options: Options
) -> None:
    """Compare what was selected with what the target now holds; more may be there.

    Vectors do not count where they were to be left out.
    """
    from memctl.cli.sides import renamed
    from memctl.compare import PARTS, differences, merge
    from memctl.model import EVERYTHING, Detail, shown
    from memctl.namespaces import show
    from memctl.render.units import counted
    from memctl.store import Narrow

    there = context.open_at(address)
    lost = there.lost if isinstance(there, Narrow) else frozenset[str]()
    if options.no_vectors or options.drop_vectors:
        lost |= {"vectors"}
    mapping = options.rules(is_ordered=True).mapping
    parts = [part for part in PARTS if part not in lost]
    items = renamed(selection.select(source, vectors=Detail.FULL), mapping)
    equal = differing = 0
    for one, other in merge(items, there.scan(EVERYTHING, vectors=Detail.FULL)):
        if one is None:
            continue
        if other is not None and (one == other or not differences(one, other, parts)):
            equal += 1
            continue
        differing += 1
        if differing <= 10:
            found = "missing" if other is None else ", ".join(differences(one, other, parts))
            context.say(f"{show(shown(one.prefix))} {shown(one.key)!r}: {found}")
    if differing:
        some = f"{counted(differing, 'item')} {'differs' if differing == 1 else 'differ'}"
        context.warn(f"verified: {some}, {equal:,} are equal", outcome=4)
    else:
        which = "every part" if not lost else "every part that was to come: " + ", ".join(parts)
        context.note(f"verified: {counted(equal, 'item')} {'is' if equal == 1 else 'are'} equal in {which}")
