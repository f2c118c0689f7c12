"""Vectors that no search can use, and items that no search finds by them."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from memctl.doctor.check import MOST_SAMPLES, Check, Patient, has_vectors
from memctl.doctor.finding import Finding, Level, Sample
from memctl.doctor.paths import WHOLE
from memctl.doctor.wording import counted
from memctl.model import Detail, Item, Vector, floats, shown
from memctl.store import Capability


class VectorShape(Check):
    """SQLite keeps any BLOB as an embedding; one of other dims breaks every search that reaches it."""

    id = "vector-shape"
    level = Level.ERROR
    summary = "vectors of other dims than the rest or --dims, of a broken length, NaN, infinite or all zero"
    needs = frozenset({Capability.VECTORS})
    vectors = Detail.FULL

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._faults: Counter[str] = Counter()
        self._faulty: list[Sample] = []
        self._dims: Counter[int] = Counter()
        self._of: dict[int, list[Sample]] = {}
        """The first few vectors of each width, for the case that it is a wrong one."""

    def items(self, items: Sequence[Item]) -> None:
        """Look at those that have vectors."""
        for item in filter(has_vectors, items):
            self.item(item)

    def item(self, item: Item) -> None:
        """Look at an item's embeddings."""
        for vector in item.vectors:
            fault = _fault(vector)
            if fault is None:
                dims = vector.dims
                self._dims[dims] += 1
                first = self._of.setdefault(dims, [])
                if len(first) < MOST_SAMPLES:
                    first.append(Sample(item.prefix, item.key, f"{shown(vector.field)}: {dims} dims"))
                continue
            self._faults[fault] += 1
            if len(self._faulty) < MOST_SAMPLES:
                self._faulty.append(Sample(item.prefix, item.key, f"{shown(vector.field)}: {fault}"))

    def finish(self) -> Finding:
        """Decide which width is the right one: what was asked for, the column's, or the most frequent."""
        facts = {"dims": {str(dims): count for dims, count in sorted(self._dims.items())}}
        wanted = self._wanted()
        wrong = {dims: count for dims, count in self._dims.items() if dims != wanted}
        self.count = sum(wrong.values()) + sum(self._faults.values())
        if not self.count:
            return self.fine(facts=facts)
        parts = []
        if wrong:
            widths = ", ".join(f"{dims} ({count:,})" for dims, count in sorted(wrong.items())[:4])
            parts.append(f"{counted(sum(wrong.values()), 'vector')} of {widths} dims instead of {wanted}")
        parts += [f"{counted(count, 'vector')}: {fault}" for fault, count in sorted(self._faults.items())]
        samples = self._faulty + [sample for dims in wrong for sample in self._of[dims]]
        for sample in sorted(samples, key=lambda each: (each.prefix or "", each.key or "")):
            self.sample(sample.prefix, sample.key, sample.detail)
        return self.found(
            f"{'; '.join(parts)}. One of other dims ends every semantic search that reaches it in an error, and the"
            " rest rank wrongly or never: put these items again, or delete them.",
            brief="vectors that break a search" if wrong else "vectors that no search can rank",
            facts={**facts, "expected_dims": wanted, "faults": dict(sorted(self._faults.items()))},
        )

    def _wanted(self) -> int | None:
        if self.settings.dims is not None:
            return self.settings.dims
        description = self.patient.description
        declared = description.vectors.dims if description and description.vectors else ()
        if len(declared) == 1 and Capability.RAW_TEXT not in self.patient.capabilities:
            return declared[0]
        most = self._dims.most_common(1)
        return most[0][0] if most else None


def _fault(vector: Vector) -> str | None:
    """Return what is wrong with an embedding by itself; a microsecond for 384 numbers."""
    if vector.problems:
        fault = next((problem for problem in vector.problems if problem.part == "embedding"), None)
        if fault is not None:
            return fault.reason if fault.reason in ("null", "no BLOB") else "no whole number of float32"
    if vector.embedding is None:
        return "null"
    if not vector.dims:
        return "of no dims"
    exponents, lowest, highest = _masks(vector.dims)
    bits = int.from_bytes(vector.embedding, "little")
    odd = (
        bits & exponents ^ exponents
    )  # of NaN and the infinite every bit of the exponent is set: nothing is left
    if (odd - lowest) & ~odd & highest:
        return "NaN" if any(map(math.isnan, floats(vector.embedding))) else "infinite numbers"
    return "all zero" if not bits & ~highest else None


@lru_cache(maxsize=64)
def _masks(dims: int) -> tuple[int, int, int]:
    """Return a float32's exponent, its lowest bit and its sign, each as often as there are numbers.

    With these, whole embeddings are judged as integers: `x - 1` borrows from the sign only where x is 0.
    """
    return tuple(  # type: ignore[return-value]
        int.from_bytes(mask.to_bytes(4, "little") * dims, "little") for mask in (0x7F80_0000, 1, 0x8000_0000)
    )


@dataclass(slots=True)
class _Space:
    """What is in the namespace at hand."""

    prefix: str
    items: int = 0
    bare: int = 0
    first: tuple[str, ...] = ()
    """Keys of the first that have no vector."""


class IndexCoverage(Check):
    """An item without a vector is found by no semantic search, and one with many crowds others out."""

    id = "index-coverage"
    level = Level.NOTE
    summary = (
        "items without vectors beside others with some, large values in one vector, items with very many"
    )
    needs = frozenset({Capability.VECTORS})
    vectors = Detail.SHAPE

    LARGE = 1_500
    """Octets of a value from which one vector for the whole document says little of any part."""
    CROWD = 20
    """A search with the usual limit of 10 looks at so many vectors before it drops duplicates."""
    ROWS = 20

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._space = _Space("")
        self._bare = self._whole = self._crowds = self._indexed = 0
        self._rows: list[tuple[int, int, dict[str, Any]]] = []
        self._mixed: list[Sample] = []
        self._heavy: list[Sample] = []
        self._is_crowded = Capability.RAW_TEXT in patient.capabilities

    def namespace(self, prefix: str) -> None:
        """Judge the namespace before, and begin with another."""
        self._close()
        self._space = _Space(prefix)

    def items(self, items: Sequence[Item]) -> None:
        """Count those that have vectors, and the others."""
        space = self._space
        with_vectors = list(filter(has_vectors, items))
        space.items += len(items)
        space.bare += len(items) - len(with_vectors)
        if len(with_vectors) < len(items) and len(space.first) < MOST_SAMPLES:
            bare = (item.key for item in items if not item.vectors)
            space.first += tuple(islice(bare, MOST_SAMPLES - len(space.first)))
        self._indexed += len(with_vectors)
        for item in with_vectors:
            self.item(item)

    def item(self, item: Item) -> None:
        """Look at how many vectors an item has, and for how much text."""
        vectors = item.vectors
        detail = ""
        if len(vectors) >= self.CROWD and self._is_crowded:
            self._crowds += 1
            detail = f"{len(vectors)} vectors"
        elif item.size >= self.LARGE and any(vector.field == WHOLE for vector in vectors):
            self._whole += 1
            detail = f"{item.size:,} octets in one vector"
        if detail and len(self._heavy) < MOST_SAMPLES:
            self._heavy.append(Sample(item.prefix, item.key, detail))

    def finish(self) -> Finding:
        """Tell what a search misses."""
        self._close()
        rows = tuple(row for _, _, row in sorted(self._rows, key=lambda each: (-each[0], each[1])))
        facts = {
            "indexed": self._indexed,
            "unindexed_beside_indexed": self._bare,
            "whole_documents": self._whole,
        }
        facts |= {"crowding": self._crowds}
        self.count = self._bare + self._whole + self._crowds
        if not self.count:
            return self.fine(facts=facts)
        parts = [
            (self._bare, "without a vector beside others that have one: no semantic search finds them"),
            (self._whole, "with a large value in one vector (`$`), which says little of any part of it"),
            (self._crowds, "with so many vectors that they crowd others out of SQLite's candidates"),
        ]
        samples = self._mixed + self._heavy
        for sample in sorted(samples, key=lambda each: (each.prefix or "", each.key or "")):
            self.sample(sample.prefix, sample.key, sample.detail)
        said = "; ".join(f"{counted(count, 'item')} {what}" for count, what in parts if count)
        return self.found(
            f"{said}.",
            brief="items that a semantic search misses" if self._bare else "items that a search ranks badly",
            table=rows,
            facts=facts,
        )

    def _close(self) -> None:
        """Judge a namespace of which everything was seen: one that is not indexed at all may be meant so."""
        space = self._space
        if not space.items:
            return
        indexed = space.items - space.bare
        if space.bare and indexed:
            self._bare += space.bare
            row = {
                "namespace": shown(space.prefix).split("."),
                "items": space.items,
                "indexed": indexed,
                "unindexed": space.bare,
            }
            heapq.heappush(self._rows, (space.bare, -len(self._rows), row))
            if len(self._rows) > self.ROWS:
                heapq.heappop(self._rows)
            room = MOST_SAMPLES - len(self._mixed)
            self._mixed += [Sample(space.prefix, key, "no vector") for key in space.first[:room]]
