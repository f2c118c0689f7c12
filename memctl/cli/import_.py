"""`memctl import`: an archive, JSON Lines or a JSON array, into a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.groups import bringing, conditions, given, picking, sharing, taking
from memctl.cli.options import Dims, In, IndexKind, Metric, VectorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from memctl.archive import Line
    from memctl.mapping import Mapping
    from memctl.model import Item
    from memctl.selection import Selection
    from memctl.transfer import Entry


@taking(bringing, conditions, picking, sharing)
def import_(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="An archive, JSON Lines or a JSON array; - reads stdin.")
    ],
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Take namespaces and values from bare JSON that the library refuses."),
    ] = False,
    dims: Dims = None,
    vector_type: VectorType = None,
    index: IndexKind = None,
    metric: Metric = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only items that say this.")
    ] = None,
    within: In = None,
) -> None:
    """Bring items into the store, exactly as they were; what is there and equal is left alone.

    Nothing is written before every item has been checked against what the store can hold.

    Examples:
      memctl -s prod import backup.jsonl.gz --on-conflict newer
      memctl -s prod import items.jsonl --into archive --dry-run
    """
    from memctl.archive import read
    from memctl.cli.bringing import ANY_DIMS, Options, bring_in, open_target, setup_of
    from memctl.cli.selecting import first_of, read_selection
    from memctl.cli.sides import open_input
    from memctl.errors import NothingThere
    from memctl.selection import Selection

    context: Context = ctx.obj
    options = Options(**given(context, bringing))
    source = open_input(context, file)
    reader = read(source)
    header = reader.header
    if options.init and dims is None and header is not None and not options.no_vectors:
        dims = header.dims or (ANY_DIMS if header.vectors else None)
        vector_type = vector_type or _column_type(header.vector_type)
    setup = setup_of(options.init, dims, vector_type, index, metric)
    address = context.address()
    target = open_target(context, address, setup)
    selection = read_selection(target.now(), text=text, within=within, **given(context, conditions))
    if selection.pattern is not None and selection.pattern.is_literal:
        whole = Selection(pattern=selection.pattern)
        if next(_items(_entries(source, whole, raw=True, proved=False)), None) is None:
            raise NothingThere(f"{file} holds nothing under {within!r}")
    selection = first_of(
        selection,
        lambda all_: _items(_entries(source, all_, raw=raw, proved=False)),
        **given(context, picking),
    )
    again = _again(source)
    mapping = options.rules(is_ordered=False).mapping
    bring_in(
        context,
        lambda proved: _entries(source, selection, raw=raw, proved=again() and proved, mapping=mapping),
        target,
        options,
        make=lambda path=None: context.open_to_write(address, setup, path=path),
        another=lambda: context.open_to_write(address),
        is_ordered=header is not None,
        expected=header.items if header else None,
        what="imported",
        originals=lambda: _originals(source),
        unit=reader.unit,
    )


def _column_type(vector_type: str | None) -> str | None:
    return vector_type if vector_type in ("vector", "halfvec") else None


def _again(source: BinaryIO) -> Callable[[], bool]:
    """Return what tells whether a file is read once more, and nobody has written to it since it was asked first."""
    seen: list[tuple[int, int]] = []

    def ask() -> bool:
        state = os.fstat(source.fileno())
        seen.append((state.st_mtime_ns, state.st_size))
        return len(seen) > 1 and seen[-1] == seen[0]

    return ask


def _entries(
    source: BinaryIO, selection: Selection, *, raw: bool, proved: bool, mapping: Mapping | None = None
) -> Iterator[Entry]:
    from memctl.archive import Run, read
    from memctl.transfer import Incoming, Rejected, Several

    source.seek(0)
    reader = read(source, proved=proved)
    is_bare, is_all = reader.header is None, selection.is_everything
    for line in reader.runs():
        if isinstance(line, Run):
            if is_all:
                yield Several(line.block, line.parts, line.number)
            else:
                for each in line.lines():
                    if each.item is not None and selection.matches(each.item):
                        yield Incoming(each.item, each.parts, each.number)
        elif line.item is None:
            yield Rejected(line.fault or "unreadable", None, None, line.number, line.raw)
        elif not is_all and not selection.matches(line.item):
            continue
        elif line.vectors_only:
            yield Incoming(line.item, line.parts, line.number, vectors_only=True)
        elif is_bare and not raw and (refused := _refused(line, mapping)):
            yield Rejected(refused[1], line.item, refused[0], line.number, line.raw)
        else:
            yield Incoming(line.item, line.parts, line.number)


def _items(entries: Iterable[Entry]) -> Iterator[Item]:
    """Yield the items that would be brought in, each for itself."""
    from memctl.transfer import Incoming, Several

    for entry in entries:
        if isinstance(entry, Several):
            yield from entry.block.items()
        elif isinstance(entry, Incoming) and not entry.vectors_only:
            yield entry.item


def _originals(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines as they stand in the file, or the elements of an array, with their numbers."""
    from memctl.archive import Run, read

    source.seek(0)
    for line in read(source).runs():
        if isinstance(line, Run):
            yield from enumerate(line.raw, line.number)
        else:
            yield line.number, line.raw


def _refused(line: Line, mapping: Mapping | None) -> tuple[str, str] | None:
    """What `BaseStore.put` of `langgraph-checkpoint 4.3.2` would refuse, as part and reason."""
    from memctl.values import fault_of

    item = line.item
    if item is None:
        return None
    prefix = mapping.apply(item.prefix) if mapping else item.prefix
    labels = prefix.split(".")
    if "\0" in prefix:
        return "namespace", "it holds a NUL; --raw takes it all the same"
    if not all(labels):
        return "namespace", "a label is empty; --raw takes it all the same"
    if labels[0] == "langgraph":
        return "namespace", "the root `langgraph` is reserved; --raw takes it all the same"
    if not item.key:
        return "key", "the key is empty; --raw takes it all the same"
    if fault := fault_of(item.value):
        return "value", f"{fault.reason}; --raw takes it all the same"
    return None
