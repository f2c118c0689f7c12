"""Renaming items: what goes where, what is in the way, and in which order it can be done.

There is no journal. Where no new name is one that the same rules would rename again, what was interrupted is
run again and renames the rest. Else (`mv a a.b`, a swap) the second run could not tell what the first one has
done, so that such a renaming is one transaction: all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from memctl.errors import MemctlError
from memctl.model import Namespace, Position, Scope, encode, shown
from memctl.moves import Candidate, Move, Plan, fault_of, free_moves, position
from memctl.namespaces import show
from memctl.store import Judging, Store
from memctl.untangling import untangled

_SAMPLES = 5
_LONG_OCTETS = 16_384
"""So long a key is held where names may have any length; the index of PostgreSQL takes some 2,700 octets."""


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
    is_whole: bool = False
    """Whether nothing was in the way of a whole subtree, so that it can be renamed without a look at each item."""
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
        self._name(move.item.prefix, move.place.prefix, 1)

    def add_all(self, namespace: Namespace, new: str) -> None:
        """Count the items of a namespace."""
        self.items += namespace.items
        self.vectors += namespace.vectors
        self.octets += namespace.octets
        self._name(namespace.prefix, new, namespace.items)

    def _name(self, old: str, new: str, items: int) -> None:
        if self.renames and self.renames[-1][:2] == (old, new):
            self.renames[-1] = (old, new, self.renames[-1][2] + items)
            return
        self.namespaces += 1
        if len(self.renames) == _SAMPLES:
            self.renames.pop()  # the first ones and the last are kept
        self.renames.append((old, new, items))

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
    if (whole := _whole(plan, store)) is not None:
        return whole
    found = Survey()
    try:
        for move in free_moves(plan, store, _watched(plan, plan.candidates(store)), judges=True):
            found.add(move)
    except _EntangledError:
        found = Survey(is_entangled=True)
        for move in untangled(plan, store):
            found.add(move)
    return found


def _whole(plan: Plan, store: Store) -> Survey | None:
    """Find out from the totals of namespaces, where a subtree gets a name below which there is nothing; else None."""
    root = plan.root
    if root is None or next(store.scan(root, values=False), None) is not None:
        return None
    judge = store if isinstance(store, Judging) else None
    if judge is not None and _can_be_too_long(plan.scope, root, judge):
        return None
    found = Survey(is_whole=True)
    for namespace in store.namespaces(plan.scope):
        place = Position(plan.rename(namespace.prefix), "")
        if judge is not None and fault_of(place, (), judge) is not None:
            return None
        found.add_all(namespace, place.prefix)
    return found


def _can_be_too_long(old: Scope, new: Scope, judge: Judging) -> bool:
    """Tell whether a name can become longer than the store holds: then each one, with its key, is judged."""
    before, after = encode(old.prefix or ""), encode(new.prefix or "")
    # no two parts of it alike, since a database may compress what it puts into an index
    key = "".join(sha256(bytes([number])).hexdigest() for number in range(_LONG_OCTETS // 64))
    return len(after) > len(before) and fault_of(Position(new.prefix or "", key), (), judge) is not None


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
