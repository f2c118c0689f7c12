"""Renaming items: what goes where, what is in the way, and in which order it can be done.

There is no journal. Where no new name is one that the same rules would rename again, what was interrupted is
run again and renames the rest. Else (`mv a a.b`, a swap) the second run could not tell what the first one has
done, so that such a renaming is one transaction: all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from memctl.errors import MemctlError
from memctl.model import Position, shown
from memctl.moves import Candidate, Move, Plan, free_moves, position
from memctl.namespaces import show
from memctl.store import Store
from memctl.untangling import untangled

_SAMPLES = 5


@dataclass(slots=True)
class Survey:
    """What a plan comes to; nothing is written before it is known."""

    items: int = 0
    vectors: int = 0
    octets: int = 0
    skipped: int = 0
    replaced: int = 0
    """Items of the new names that make room."""
    is_entangled: bool = False
    faults: dict[str, int] = field(default_factory=dict)
    """What keeps the plan from being carried out, by its kind."""
    samples: list[Move] = field(default_factory=list)
    namespaces: int = 0
    renames: list[tuple[str, str, int]] = field(default_factory=list)
    """Some of the namespaces: old name, new name, items."""

    def add(self, move: Move) -> None:
        """Count one item."""
        if move.kind in ("skip", "aside"):
            self.skipped += move.kind == "skip"
            return
        if move.kind != "move":
            self.faults[move.kind] = self.faults.get(move.kind, 0) + 1
            if len(self.samples) < _SAMPLES:
                self.samples.append(move)
            return
        self.items += 1
        self.vectors += len(move.item.vectors)
        self.octets += move.item.size
        self.replaced += move.over is not None
        self._name(move.item.prefix, move.place.prefix)

    def _name(self, old: str, new: str) -> None:
        if self.renames and self.renames[-1][:2] == (old, new):
            self.renames[-1] = (old, new, self.renames[-1][2] + 1)
            return
        self.namespaces += 1
        if len(self.renames) == _SAMPLES:
            self.renames.pop()  # the first ones and the last are kept
        self.renames.append((old, new, 1))

    def refuse_faults(self) -> None:
        """Raise for what keeps the plan from being carried out."""
        for kind, count in self.faults.items():
            first = next((move for move in self.samples if move.kind == kind), None)
            named = "" if first is None else f": {_shown(position(first.item))} → {_shown(first.place)}"
            match kind:
                case "twice":
                    raise MemctlError(
                        f"{count:,} of the items would get the name of another one{named}",
                        hint="nothing was renamed",
                        code="collision",
                    )
                case "unholdable":
                    reason = first.reason if first is not None else ""
                    raise MemctlError(
                        f"the store cannot hold {count:,} of the new names{named}: {reason}",
                        code="unholdable",
                    )
            raise MemctlError(
                f"of the new names {count:,} are taken by other items, so nothing was renamed{named}",
                hint="--on-conflict skip, newer or overwrite decides",
                code="conflict",
            )


def survey(plan: Plan, store: Store) -> Survey:
    """Find out what a plan comes to. Raises MemctlError for one that is entangled and too large."""
    found = Survey()
    try:
        for move in free_moves(plan, store, _watched(plan, plan.candidates(store)), judges=True):
            found.add(move)
    except _EntangledError:
        found = Survey(is_entangled=True)
        for move in untangled(plan, store):
            found.add(move)
    return found


class _EntangledError(Exception):
    """An item would be renamed again at its new place."""


def moves(plan: Plan, store: Store, *, is_entangled: bool) -> Iterator[Move]:
    """Yield what is renamed, and what stands in the way, in byte order of the new names.

    Entangled ones come in an order in which each name is free when its turn comes.
    """
    return untangled(plan, store) if is_entangled else free_moves(plan, store, plan.candidates(store))


def _watched(plan: Plan, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    prefix: str | None = None
    for candidate in candidates:
        if candidate[1].prefix != prefix:
            prefix = candidate[1].prefix
            if plan.is_entangled(candidate[1]):
                raise _EntangledError
        yield candidate


def _shown(place: Position) -> str:
    return f"{show(shown(place.prefix))} {shown(place.key)}"
