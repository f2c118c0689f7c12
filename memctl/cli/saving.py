"""`--save FILE`: what a command is about to remove, as an archive that is on the disk before anything goes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from memctl.archive import Header, Writer
    from memctl.cli.context import Context
    from memctl.model import Item
    from memctl.store import Store


class Saver:
    """Keeps items, read whole, in a new archive. It is begun with the first item: nothing to keep, no file."""

    def __init__(self, path: Path, source: Store) -> None:
        self.path = path
        self.items = self.vectors = 0
        self._source = source
        self._open = ExitStack()
        self._writer: Writer | None = None
        self._stream: BinaryIO | None = None
        self._last = (b"", b"")
        self._is_ordered = True

    def __call__(self, items: Sequence[Item]) -> None:
        """Keep items; they are on the disk when this returns."""
        self._keep(items, vectors_only=False)

    def keep_vectors(self, items: Sequence[Item]) -> None:
        """Keep nothing but the vectors of these items, which are elsewhere or gone."""
        self._keep(items, vectors_only=True)

    def complete(self) -> None:
        """Give the archive its end, its order and its name."""
        self._open.close()
        if not self._is_ordered:
            _reorder(self.path)

    def _keep(self, items: Sequence[Item], *, vectors_only: bool) -> None:
        from memctl.model import encode

        writer, stream = self._begin()
        for item in items:
            place = encode(item.prefix), encode(item.key)
            self._is_ordered = self._is_ordered and (self._last < place or not self.items)
            self._last = place
            self.items += 1
            self.vectors += len(item.vectors)
        writer.extend(items, vectors_only=vectors_only)
        writer.sync()
        os.fsync(stream.fileno())

    def _begin(self) -> tuple[Writer, BinaryIO]:
        from memctl.archive import Writer, new_file

        if self._writer is None or self._stream is None:
            self._stream = self._open.enter_context(new_file(self.path, keep=True))
            self._writer = self._open.enter_context(Writer(self._stream, _header(self._source)))
        return self._writer, self._stream


@contextmanager
def saving(context: Context, named: str | None, source: Store) -> Iterator[Saver | None]:
    """Give what keeps items in the file `named`; None without a name, and in a dry run.

    The archive is complete whenever the block is left, by an error or by Ctrl-C too; where the disk is full,
    what was kept so far has the name. Raises UsageError for a file that exists, before anything is done.
    """
    if named is None:
        yield None
        return
    path = context.new_file("--save", named)
    if context.is_dry_run:
        yield None
        return
    saver = Saver(path, source)
    try:
        yield saver
    finally:
        saver.complete()
    if saver.items:
        context.note(f"what went is kept in {named}: `memctl import {named}` brings it back")


def _header(source: Store) -> Header:
    from memctl.archive import Header
    from memctl.store import Capability, Described

    described = source.describe().vectors if isinstance(source, Described) else None
    dims = described.dims if described else ()
    kind = None if described is None else "halfvec" if "halfvec" in described.type else "vector"
    return Header(
        source=source.kind,
        created=source.now(),
        dims=dims[0] if len(dims) == 1 else None,
        vector_type=kind,
        missing=tuple(
            capability.value
            for capability in (Capability.VECTORS, Capability.VECTOR_TIMES, Capability.EXPIRY)
            if capability not in source.capabilities
        ),
        filtered=True,
    )


def _reorder(path: Path) -> None:
    """Bring an archive into byte order; of an item that was kept more than once the last stays.

    That is the one that went: the others had become another when it was their turn.
    """
    from itertools import groupby

    from memctl.archive import Line, Writer, new_file, read
    from memctl.model import encode
    from memctl.sorting import sort

    def place(line: Line) -> tuple[bytes, bytes, bool]:
        assert line.item is not None
        return encode(line.item.prefix), encode(line.item.key), line.vectors_only

    with path.open("rb") as stream:
        reader = read(stream, proved=True)  # written a moment ago, and out of order
        assert reader.header is not None
        lines = sort(
            (line for line in reader if line.item is not None),
            key=lambda line: (*place(line), line.number),
            size=lambda line: 2 * len(line.raw),
        )
        with new_file(path, overwrite=True) as sorted_stream, Writer(sorted_stream, reader.header) as writer:
            for (_, _, vectors_only), same in groupby(lines, key=place):
                *_, line = same
                if line.item is not None:
                    writer.extend([line.item], vectors_only=vectors_only)
