"""Renaming items to names of others that are renamed as well: chains, swaps, a move into its own subtree."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import msgspec

from memctl.errors import MemctlError
from memctl.model import Detail, Item, Position
from memctl.moves import Move, Plan, decide, distinct, position, renamed
from memctl.store import Store
from memctl.transfer import Existing

AT_ONCE = 20_000
"""So many items can be renamed in one transaction, and kept in memory, where they have to be."""


def untangled(plan: Plan, store: Store) -> Iterator[Move]:
    """Yield moves of which some go where others come from."""
    candidates = []
    for candidate in plan.candidates(store):
        candidates.append(candidate)
        if len(candidates) > AT_ONCE:
            raise MemctlError(
                f"these new names are old ones too, which takes one transaction, and not more than {AT_ONCE:,} items",
                hint="go by way of a third name: mv SRC aside, then mv aside DST",
                code="entangled",
            )
    candidates.sort(key=lambda candidate: candidate[1].order)
    going: dict[Position, Move] = {}
    staying: dict[Position, Item] = {}
    for move in distinct(candidates, store):
        if move.kind == "move":
            going[position(move.item)] = move
        else:
            yield move
    taken = Existing(store, values=False, vectors=Detail.NONE)
    for move in sorted(going.values(), key=lambda move: move.place.order):
        there = taken.find(move.place)
        if there is not None and move.place not in going:
            staying[move.place] = there
    while blocked := [move for move in going.values() if move.over is None and move.place in staying]:
        for move in blocked:
            decided = decide(move, staying[move.place], plan.on_conflict, store)
            if decided.kind == "move":
                going[position(move.item)] = decided
                if decided.over is None:
                    del staying[move.place]
                continue
            del going[position(move.item)]
            staying[position(move.item)] = move.item  # and may be in the way of another one
            yield decided
    yield from _arranged(going)


def _arranged(going: dict[Position, Move]) -> Iterator[Move]:
    """Yield moves so that each goes where nothing is any more; one of each circle steps aside first."""
    waiting = dict(going)
    for start in going:
        chain: list[Move] = []
        place = start
        while place in waiting:
            chain.append(waiting.pop(place))
            place = chain[-1].place
        if not chain:
            continue
        if place != start:
            yield from reversed(chain)
            continue
        last = chain.pop()
        aside = Position(last.place.prefix, f"{last.place.key}.memctl-{secrets.token_hex(8)}")
        yield msgspec.structs.replace(last, kind="aside", place=aside)
        yield from reversed(chain)
        yield msgspec.structs.replace(last, item=renamed(last.item, aside))
