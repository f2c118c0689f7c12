"""Whether the library can read when items were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted
from memctl.model import Item, Problem, shown
from memctl.store import Change

COLUMNS = ("created_at", "updated_at")
"""The columns that every read of the library decodes; what `expires_at` holds is the sweep's affair."""
_ZONELESS = "spelled as LangGraph does not spell it"


class Timestamps(Check):
    """`created_at` and `updated_at` that hold no time, or one in a spelling that the library does not write."""

    id = "timestamps"
    level = Level.ERROR
    summary = "created_at and updated_at that are null, garbage, numbers, or in zones and spellings of others"
    remedy = "spells anew what is certainly a time; null, garbage and numbers stay"

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._reasons: Counter[str] = Counter()
        self._curable = 0

    def items(self, items: Sequence[Item]) -> None:
        """Look at those of which decoding met something odd."""
        for item in filter(attrgetter("problems"), items):
            self.item(item)

    def item(self, item: Item) -> None:
        """Look at what decoding the row met."""
        faults = _faults(item)
        if not faults:
            return
        self.count += 1
        self._reasons.update({_kind(fault) for fault in faults})
        self._curable += _respelled(item) is not item
        if self.wants_samples:
            self.sample(item.prefix, item.key, _described(faults))

    def finish(self) -> Finding:
        """Tell the kinds apart."""
        if not self.count:
            return self.fine()
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._reasons.most_common())
        rest = self.count - self._curable
        return self.found(
            f"{counted(self.count, 'item')} whose times the library cannot read, or sorts wrongly: {kinds}."
            + (f" {self._curable:,} can be spelled anew." if self._curable else "")
            + (
                f" What the time of {'the other ' if self._curable else ''}{rest:,} was, no repair can know."
                if rest
                else ""
            ),
            brief="items whose times the library misreads",
            fix=self.patient.fix_command(self.id) if self._curable else None,
        )

    def cure(self, item: Item) -> Change | None:
        """Spell a time as the library does, where there is no doubt which one it is."""
        becomes = _respelled(item)
        return Change(item, becomes) if becomes is not item else None


def _faults(item: Item) -> tuple[Problem, ...]:
    return tuple(problem for problem in item.problems if problem.part in COLUMNS)


def _respelled(item: Item) -> Item:
    """Return the item without the problems that its decoded times solve; itself where there are none."""
    kept = tuple(problem for problem in item.problems if not _is_certain(item, problem))
    return msgspec.structs.replace(item, problems=kept) if len(kept) < len(item.problems) else item


def _is_certain(item: Item, problem: Problem) -> bool:
    """Tell whether a time was understood, and its text says so: a number may count anything."""
    return (
        problem.part in COLUMNS
        and getattr(item, problem.part) is not None
        and isinstance(problem.raw, str | bytes)
        and "number" not in problem.reason
    )


def _kind(fault: Problem) -> str:
    if fault.reason == "null":
        return "null"
    if "number" in fault.reason:
        return "a number"
    if fault.reason == _ZONELESS or "BLOB" in fault.reason:
        return "spelled otherwise"
    return "no time"


def _described(faults: tuple[Problem, ...]) -> str:
    """Say what the columns hold; those that hold the same are named together."""
    columns: dict[str, list[str]] = {}
    for fault in faults:
        raw = fault.raw if not isinstance(fault.raw, bytes) else fault.raw.decode("utf-8", "replace")
        held = "null" if raw is None else f"{_kind(fault)}: {shown(str(raw))[:40]}"
        columns.setdefault(held, []).append(fault.part)
    return "; ".join(f"{' and '.join(parts)} {held}" for held, parts in columns.items())
