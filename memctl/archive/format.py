"""What stands in an archive, and what can be wrong with one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from memctl.blocks import Block
from memctl.errors import MemctlError
from memctl.model import Instant, Item

VERSION = 1
BLOCK_LINES = 1_000
PARTS = ("value", "created_at", "updated_at", "expires_at", "ttl_minutes", "vectors")
"""What a line may say of an item beside its namespace and key, in the archive's order."""


class Header(msgspec.Struct, frozen=True):
    """What an archive says of itself, in its first line.

    `scope` holds the labels of the namespace that was asked for as people spell them, `*` for any one label,
    and is empty for a whole store; `filtered` says that items were chosen by more than that. `items` and
    `vectors` are None where they could not be counted in the snapshot that the lines come from. `missing`
    names what the source could not give: `vectors`, `vector-times`, `expiry`, `timestamps`.
    """

    source: str
    created: Instant
    dims: int | None = None
    vector_type: str | None = None
    scope: tuple[str, ...] = ()
    items: int | None = None
    vectors: int | None = None
    missing: tuple[str, ...] = ()
    filtered: bool = False


class Totals(msgspec.Struct, frozen=True):
    """What was written, or read: `items` without lines of vectors only, `octets` before compression.

    `raw` counts the items that could not be decoded in full and travel as they are stored.
    """

    items: int = 0
    vectors: int = 0
    octets: int = 0
    raw: int = 0


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line of an archive, or one item of bare JSON Lines or of a JSON array.

    Either `item` is there or `fault` says in words what is wrong. `number` counts lines from 1, or an array's
    elements (`Reader.unit`). `parts`: those of `PARTS` that the line speaks of; the others are not known,
    which is not the same as null. `vectors_only`: the item has vectors and nothing else. `raw` is the line as
    it stood there, without its line break; of a faulty line of many megabytes, the beginning.
    """

    number: int
    item: Item | None
    fault: str | None
    parts: frozenset[str]
    vectors_only: bool
    raw: bytes


class Run(msgspec.Struct, frozen=True, gc=False):
    """Lines of an archive that follow one another, and hold items with nothing odd about them.

    `number` is that of the first; `parts` and `raw` are as in a `Line`, and the parts of all are the same.
    """

    number: int
    block: Block
    parts: frozenset[str]
    raw: Sequence[bytes]

    def lines(self) -> Iterator[Line]:
        """Yield the lines one by one."""
        for number, (item, raw) in enumerate(zip(self.block.items(), self.raw, strict=True), self.number):
            yield Line(number, item, None, self.parts, False, raw)


@dataclass(frozen=True, slots=True)
class Damage:
    """Lines of an archive, or elements of an array, that cannot be relied on: from `first` to `last`, counted from 1.

    `block` is their block's number, None outside of any; `last` is None where the file just ends.
    """

    reason: str
    first: int
    last: int | None
    block: int | None = None
    unit: str = "line"
    """`element` where an array's elements are counted."""

    def __str__(self) -> str:
        if self.last is None:
            lines = f"from {self.unit} {self.first:,} on"
        elif self.last <= self.first:
            lines = f"{self.unit} {self.first:,}"
        else:
            lines = f"{self.unit}s {self.first:,} to {self.last:,}"
        where = lines if self.block is None else f"block {self.block:,}, {lines}"
        return f"{where}: {self.reason}"


class Unreadable(MemctlError):
    """The input is neither an archive nor JSON."""

    default_code = "unreadable"


class Damaged(MemctlError):
    """An archive was cut off or changed; `damage` says where."""

    default_code = "damaged"

    def __init__(self, damage: Damage) -> None:
        super().__init__(
            f"the input is damaged: {damage}", hint="`memctl verify FILE` tells what is left of it"
        )
        self.damage = damage


class BadLine(MemctlError):
    """A line of an input holds no item, where each has to."""

    default_code = "bad-line"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
