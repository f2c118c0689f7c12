"""Items on their way to another name: where each goes, and what stands there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import msgspec

from memctl.compare import differences
from memctl.model import Detail, Item, Position, Problem, Scope, Vector
from memctl.sorting import sort
from memctl.store import Change, Judging, Store
from memctl.transfer import Existing, OnConflict

Rename = Callable[[str], str]
"""Gives the new name of a namespace, which may be the old one."""
Candidate = tuple[Item, Position]
"""An item, and where it goes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which items are renamed, and to what."""

    scope: Scope
    rename: Rename
    keeps_order: bool
    """Whether the new names sort as the old ones do."""
    on_conflict: OnConflict = "fail"
    key: str | None = None
    """The only key of `scope` that is meant, if it is one; it becomes `new_key`."""
    new_key: str | None = None

    @property
    def root(self) -> Scope | None:
        """The subtree that all of `scope` becomes, if it becomes one of which nothing would be renamed again."""
        prefix = self.scope.prefix
        if self.key is not None or not self.keeps_order or prefix is None or not self.scope.descend:
            return None
        new = self.rename(prefix)
        return None if self.rename(new) != new else Scope(new)

    def items(self, store: Store) -> Iterator[Item]:
        """Yield what may be renamed, in byte order, without values."""
        if self.key is not None:
            return store.get(self.scope.prefix or "", [self.key], vectors=Detail.SHAPE)
        return store.scan(self.scope, values=False, vectors=Detail.SHAPE)

    def place(self, item: Item) -> Position:
        """Return where an item goes."""
        key = item.key if self.new_key is None else self.new_key
        return Position(self.rename(item.prefix), key)

    def candidates(self, store: Store) -> Iterator[Candidate]:
        """Yield the items whose name changes."""
        for prefix, items in groupby(self.items(store), key=lambda item: item.prefix):
            new = self.rename(prefix)
            if self.new_key is not None:
                yield from ((item, Position(new, self.new_key)) for item in items)
            elif new != prefix:
                yield from ((item, Position(new, item.key)) for item in items)

    def is_entangled(self, place: Position) -> bool:
        """Tell whether an item at its new place would be renamed again."""
        return self.key is None and self.rename(place.prefix) != place.prefix


class Move(msgspec.Struct, frozen=True, gc=False):
    """One item on its way. `over` is what stands where it goes, and makes room."""

    kind: Literal["move", "aside", "skip", "conflict", "twice", "unholdable"]
    """`aside`: out of the way, to be moved once more."""
    item: Item
    place: Position
    over: Item | None = None
    reason: str = ""

    @property
    def change(self) -> Change:
        """The change that it takes."""
        return Change(self.item, renamed(self.item, self.place), self.over)


def free_moves(
    plan: Plan, store: Store, candidates: Iterator[Candidate], *, judges: bool = False
) -> Iterator[Move]:
    """Yield moves of which none goes where another one comes from; `judges` asks whether names can be held."""
    taken = Existing(store, values=False, vectors=Detail.NONE)
    for move in distinct(_in_order(plan, candidates), store if judges else None):
        there = taken.find(move.place) if move.kind == "move" else None
        yield move if there is None else decide(move, there, plan.on_conflict, store)


def distinct(candidates: Iterable[Candidate], store: Store | None) -> Iterator[Move]:
    """Yield moves; those onto a place that another one takes, or that cannot be, are no moves."""
    last: Position | None = None
    judge: Judging | None = store if isinstance(store, Judging) else None
    for item, place in candidates:
        fault = fault_of(place, item.vectors, judge) if judge is not None else None
        if fault is not None:
            yield Move("unholdable", item, place, reason=f"{fault.part}: {fault.reason}")
        else:
            yield Move("twice" if place == last else "move", item, place)
        last = place


def decide(move: Move, there: Item, on_conflict: OnConflict, store: Store) -> Move:
    """Decide about an item whose new name is taken. One that is equal in every part is no conflict."""
    old, new = _whole(store, position(move.item)), _whole(store, position(there))
    if old is None or new is None:  # somebody was quicker; the store will see
        return move
    if not differences(old, new):
        return msgspec.structs.replace(move, over=new)
    match on_conflict:
        case "overwrite":
            return msgspec.structs.replace(move, over=new)
        case "newer" if (old.updated_at or "") > (new.updated_at or ""):
            return msgspec.structs.replace(move, over=new)
        case "fail":
            return msgspec.structs.replace(move, kind="conflict")
    return msgspec.structs.replace(move, kind="skip")


def renamed(item: Item, place: Position) -> Item:
    """Return an item under another name, as text."""
    problems = item.problems
    if problems:
        problems = tuple(problem for problem in problems if problem.part not in ("namespace", "key"))
    return msgspec.structs.replace(item, prefix=place.prefix, key=place.key, problems=problems)


def position(item: Item) -> Position:
    """Return where an item is."""
    return Position(item.prefix, item.key)


def _in_order(plan: Plan, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    if plan.keeps_order:
        return candidates
    return sort(
        candidates,
        key=lambda candidate: candidate[1].order,
        size=lambda candidate: len(candidate[0].key) + 300 * len(candidate[0].vectors),
    )


def fault_of(place: Position, vectors: tuple[Vector, ...], store: Judging) -> Problem | None:
    """Return what of a new name the store cannot hold."""
    probe = Item(place.prefix, place.key, b"{}", 2, None, None, None, None, vectors)
    return next((fault for fault in store.unholdable(probe) if fault.part in ("namespace", "key")), None)


def _whole(store: Store, place: Position) -> Item | None:
    return next(store.get(place.prefix, [place.key], vectors=Detail.FULL), None)
