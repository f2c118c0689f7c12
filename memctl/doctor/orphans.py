"""Vectors whose item is gone."""

from __future__ import annotations

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted, listed, verb
from memctl.model import Item, shown
from memctl.store import Capability, Change, Examined


class OrphanedVectors(Check):
    """SQLite never deletes an item's vectors with it: the cascade is declared, and never switched on."""

    id = "orphaned-vectors"
    level = Level.ERROR
    summary = "vectors whose item is gone"
    unit = "vectors"
    remedy = "deletes them; --vacuum gives the room back"
    needs = frozenset({Capability.VECTORS})
    is_quick = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._names = self._octets = 0

    def absent(self) -> str | None:
        """Say that this cannot be where the database takes care of it."""
        if Capability.CASCADE in self.patient.capabilities:
            return "a foreign key deletes an item's vectors with the item"
        if not isinstance(self.patient.store, Examined):
            return "this store shows no vectors without an item"
        return None

    def orphan(self, item: Item) -> None:
        """Count what lies under a name that has no item."""
        self._names += 1
        self.count += len(item.vectors)
        self._octets += sum([4 * vector.dims for vector in item.vectors])
        if self.wants_samples:
            fields = listed(shown(vector.field) for vector in item.vectors)
            self.sample(item.prefix, item.key, f"{counted(len(item.vectors), 'vector')}: {fields}")

    def finish(self) -> Finding:
        """Say what comes of it."""
        if not self.count:
            return self.fine()
        found = f"{counted(self.count, 'vector')} of {counted(self._names, 'deleted item')}"
        return self.found(
            f"{found} {verb(self.count, 'lies', 'lie')} in the store for ever. A new item under one of these names, put"
            " with index=False, would be found by the old text." + self.patient.guarded("cascade-vectors"),
            brief="vectors whose item is gone",
            octets=self._octets,
            fix=self.patient.fix_command(self.id),
            facts={"names": self._names},
        )

    def cure(self, item: Item) -> Change | None:
        """Delete all vectors under the name."""
        return Change(item, None)
