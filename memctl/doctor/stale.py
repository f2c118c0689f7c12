"""Vectors that the item's present value does not produce."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memctl.doctor.check import UNREADABLE, Check, Patient, has_vectors
from memctl.doctor.drift import shows_overwrite
from memctl.doctor.finding import Finding, Level
from memctl.doctor.paths import WHOLE, produces
from memctl.doctor.wording import counted, listed, verb
from memctl.model import Detail, Item, Vector, shown
from memctl.store import Capability, Change


class StaleVectors(Check):
    """A put with `index=False`, of fewer list elements, or without a field, leaves the vectors of the old value."""

    id = "stale-vectors"
    level = Level.WARNING
    summary = (
        "vectors that the value no longer produces: older than the item, or of list elements that are gone"
    )
    unit = "vectors"
    remedy = "deletes them, after created-at-drift was repaired"
    needs = frozenset({Capability.VECTORS})
    values = True
    vectors = Detail.SHAPE

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._items = self._octets = self._evidence = 0

    def items(self, items: Sequence[Item]) -> None:
        """Look at those that have vectors."""
        for item in filter(has_vectors, items):
            self.item(item)

    def item(self, item: Item) -> None:
        """Count an item's stale vectors."""
        stale = self._stale(item)
        if not stale:
            return
        self._items += 1
        self.count += len(stale)
        self._octets += sum(4 * vector.dims for vector in stale)
        self._evidence += any(shows_overwrite(item, vector) for vector in stale)
        if self.wants_samples:
            self.sample(item.prefix, item.key, listed(shown(vector.field) for vector in stale))

    def finish(self) -> Finding:
        """Say what a search makes of them, and what else they tell."""
        if not self.count:
            return self.fine()
        message = (
            f"{counted(self.count, 'vector')} of {counted(self._items, 'item')} {verb(self.count, 'stands', 'stand')}"
            " for a text that the value no longer has: a semantic search finds the item by what it used to say."
            " (Put again with index=False and the same text, an item keeps an older vector that is still right.)"
        )
        if self._evidence:
            self.caveat = (
                f"for {counted(self._evidence, 'item')} these vectors are the only sign in the store that created_at"
                " was reset (created-at-drift)"
            )
            message += f" But {self.caveat}: look there first."
        return self.found(
            message + self.patient.guarded("fresh-vectors"),
            brief="vectors of a text that is no longer there",
            octets=self._octets,
            fix=self.patient.fix_command(self.id),
            facts={"items": self._items, "evidence_of_drift": self._evidence},
        )

    def cure(self, item: Item) -> Change | None:
        """Delete the stale vectors and keep the others."""
        stale = self._stale(item) if item.vectors else ()
        if not stale:
            return None
        kept = tuple(vector for vector in item.vectors if vector not in stale)
        return Change(item, msgspec.structs.replace(item, vectors=kept))

    def _stale(self, item: Item) -> tuple[Vector, ...]:
        """Return the vectors that are older than the item or that its value cannot give.

        Of a value that is no JSON nothing can be said but by the times.
        """
        updated = item.updated_at
        stale: tuple[Vector, ...] = ()
        for vector in item.vectors:
            written = vector.updated_at
            if updated is not None and written is not None and written < updated:
                stale += (vector,)
            elif vector.field != WHOLE:
                value = self.patient.value_of(item)
                if value is not UNREADABLE and not produces(value, vector.field):
                    stale += (vector,)
        return stale
