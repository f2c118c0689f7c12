"""Checking an archive: every hash, every count, every line; and what is left of one that is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from memctl.archive.format import Damage, Header, Line, Totals
from memctl.archive.proof import Block
from memctl.archive.reader import Kind, Reader
from memctl.archive.writer import Progress
from memctl.model import Item, Position

MOST_SAMPLES = 100
"""Damages and faults that are told one by one; all are counted."""


@dataclass(slots=True)
class Verdict:
    """What was found in an input that was read to its end.

    `read` counts what could be read, whether proved or not; `proved` the lines that a hash
    vouches for: a block's, or in a good archive the one over everything.
    """

    kind: Kind
    unit: str
    header: Header | None
    read: Totals = field(default_factory=Totals)
    lines: int = 0
    blocks: int = 0
    proved: int = 0
    damages: list[Damage] = field(default_factory=list)
    damage_count: int = 0
    faults: list[Line] = field(default_factory=list)
    fault_count: int = 0
    good_line: int = 0
    """The last line before anything is wrong: of a block that was changed, the last one before the block."""
    good: Position | None = None
    """The item of that line."""

    @property
    def is_good(self) -> bool:
        """Whether there is nothing to complain of."""
        return not self.damage_count and not self.fault_count

    @property
    def missing(self) -> int | None:
        """How many items the header counts that could not be read; None where it does not count."""
        if self.header is None or self.header.items is None:
            return None
        return max(0, self.header.items - self.read.items)


class _Place(NamedTuple):
    line: int
    item: Position | None


def verify(reader: Reader, *, progress: Progress | None = None) -> Verdict:
    """Read everything that `reader` still has, past any damage. Raises nothing for a bad archive."""
    verdict = Verdict(reader.kind, reader.unit, reader.header)
    here = proved = _Place(0, None)
    first_bad = None
    for event in reader.events():
        match event:
            case Line(item=None):
                verdict.lines += 1
                verdict.fault_count += 1
                first_bad = first_bad or here
                if len(verdict.faults) < MOST_SAMPLES:
                    verdict.faults.append(event)
            case Line(number=number, item=Item() as item):
                verdict.lines += 1
                here = _Place(number, Position(item.prefix, item.key))
            case Damage(first=first):
                verdict.damage_count += 1
                first_bad = first_bad or (here if here.line < first else proved)
                if len(verdict.damages) < MOST_SAMPLES:
                    verdict.damages.append(event)
            case Block(first=first, last=last):
                verdict.blocks += 1
                verdict.proved += last - first + 1
                proved = here
        if progress and isinstance(event, Line):
            progress(1)
    verdict.good_line, verdict.good = first_bad or here
    verdict.read = reader.totals
    if verdict.is_good and verdict.kind == "archive":
        verdict.proved = verdict.lines  # by the hash over everything
    return verdict
