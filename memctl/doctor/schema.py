"""Tables, columns, indexes and foreign keys against what the library would have made and its ledgers say."""

from __future__ import annotations

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.surgery import Surgery
from memctl.doctor.wording import counted, listed
from memctl.model import Item
from memctl.store import Ailment, Capability, Examined

_NO_CASCADE = (
    "SQLite does not enforce the cascade that the schema declares, so that each delete and each sweep leaves"
    " the item's vectors behind"
)


class Schema(Check):
    """A ledger that is lost, ahead of the schema or behind it breaks the library's setup or its searches."""

    id = "schema"
    level = Level.ERROR
    summary = "tables, columns, indexes and foreign keys against what the migration ledgers claim, both ways"
    unit = "parts"
    remedy = "makes the missing indexes and columns, and records what the ledgers lack"
    is_quick = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._orphans = 0

    def absent(self) -> str | None:
        """Say that this store does not show its schema, where that is so."""
        return None if isinstance(self.patient.store, Examined) else "this store does not show its schema"

    def orphan(self, item: Item) -> None:  # noqa: ARG002
        """Remember that the cascade is missed here: a store that never deletes does well without."""
        self._orphans += 1

    def finish(self) -> Finding:
        """Compare, and say what it leads to."""
        faults = self._faults()
        for fault in faults:
            self.sample(None, None, fault.message)
        lacks_cascade = bool(self._orphans) and Capability.CASCADE not in self.patient.capabilities
        self.count = len(faults) + lacks_cascade
        if not self.count:
            return self.fine(self._age())
        if lacks_cascade:
            self.sample(None, None, _NO_CASCADE)
        messages = [fault.message for fault in faults] + [_NO_CASCADE] * lacks_cascade
        curable = any(fault.remedy for fault in faults)
        return self.found(
            f"{'; '.join(messages)}.",
            brief=self._brief(faults) if faults else "no cascade: deletes leave vectors behind",
            level=None if faults else Level.NOTE,
            fix=self.patient.fix_command(self.id) if curable else None,
        )

    def repair(self, surgery: Surgery) -> None:
        """Do what the remedies say, one after the other."""
        for fault in self._faults():
            surgery.cure(fault)

    def _faults(self) -> list[Ailment]:
        store = self.patient.store
        return list(store.schema_faults()) if isinstance(store, Examined) else []

    def _brief(self, faults: list[Ailment]) -> str:
        return listed((fault.brief or fault.message for fault in faults), most=1)

    def _age(self) -> str:
        """Say that the schema is an older library's, which is no fault: setup brings it up to date."""
        description = self.patient.description
        if description is None:
            return ""
        missing = [
            f"{ledger.table} {', '.join(map(str, sorted(set(ledger.known) - set(ledger.applied))))}"
            for ledger in description.ledgers[:1]
            if set(ledger.known) - set(ledger.applied)
        ]
        if not missing:
            return ""
        return (
            f"The schema is older than today's: {counted(len(missing), 'ledger')} lacks {'; '.join(missing)}."
        )
