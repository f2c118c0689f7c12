"""The database as such, whatever it holds: damaged pages, journals, and room that is not used."""

from __future__ import annotations

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.surgery import Surgery
from memctl.doctor.wording import listed
from memctl.store import Ailment, Examined

BY_VACUUM = "free-pages"
"""An ailment that only a VACUUM heals, which keeps everybody waiting."""


class Integrity(Check):
    """What the library never looks at: SQLite neither checks itself nor shrinks."""

    id = "integrity"
    level = Level.WARNING
    summary = (
        "damaged pages, a hot journal, a WAL that nobody empties, free pages, dead rows and bloated indexes"
    )
    unit = "parts"
    remedy = "rolls a hot journal back, empties the WAL, vacuums (a SQLite file only with --vacuum)"

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._ailments: list[Ailment] = []

    def absent(self) -> str | None:
        """Say that this store does not show itself, where that is so."""
        return (
            None
            if isinstance(self.patient.store, Examined)
            else "this store does not show its files or tables"
        )

    def finish(self) -> Finding:
        """Read the database through."""
        store = self.patient.store
        self._ailments = list(store.ailments(thorough=True)) if isinstance(store, Examined) else []
        if not self._ailments:
            return self.fine()
        for ailment in self._ailments:
            self.sample(None, None, ailment.message)
        is_damaged = any(ailment.code == "corrupt" for ailment in self._ailments)
        octets = sum(ailment.octets or 0 for ailment in self._ailments)
        curable = [ailment for ailment in self._ailments if ailment.remedy]
        words = ("--vacuum",) if any(ailment.code == BY_VACUUM for ailment in curable) else ()
        advice = (
            " Restore a backup, or save what can be read with `sqlite3 FILE .recover`." if is_damaged else ""
        )
        return self.found(
            f"{'; '.join(ailment.message for ailment in self._ailments)}.{advice}",
            brief=listed((ailment.brief or ailment.message for ailment in self._ailments), most=1),
            count=len(self._ailments),
            level=Level.ERROR if is_damaged else None,
            octets=octets or None,
            fix=self.patient.fix_command(self.id, *words) if curable else None,
        )

    def repair(self, surgery: Surgery) -> None:
        """Do what can be done; a file is only rebuilt when that was asked for."""
        for ailment in self._ailments:
            if ailment.code == BY_VACUUM and not self.settings.vacuum:
                surgery.healed.remarks.append(
                    "free pages stay: --vacuum rebuilds the file, and nobody can write meanwhile"
                )
            else:
                surgery.cure(ailment)
