"""What was deleted and came back: seen by a store that keeps its history."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import islice

from memctl.compare import same_value
from memctl.doctor.check import Check
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted, second, verb
from memctl.history import Entry, Operation, Remembering
from memctl.model import Item, Scope

MOST_DELETIONS = 20_000
NEARLY = 0.9
"""How alike two texts are to be (`difflib.SequenceMatcher.ratio`)."""
_LONGEST = 20_000


class Resurrected(Check):
    """A deleted fact that the next extraction pass brought back: nothing in the store says it was unwanted."""

    id = "resurrected"
    level = Level.NOTE
    summary = "items that were deleted and written again with the same or nearly the same value"

    def absent(self) -> str | None:
        """Say that only history knows."""
        store = self.patient.store
        if not isinstance(store, Remembering) or store.history() is None:
            return "the store keeps no history: memctl history on"
        return None

    def finish(self) -> Finding:
        """Go through what was deleted, the latest time of each item, and look whether it is there again."""
        store = self.patient.store
        assert isinstance(store, Remembering)
        seen: set[tuple[str, str]] = set()
        entries = store.entries(self.settings.scope, operations=(Operation.DELETED,))
        looked = 0
        for entry in islice(entries, MOST_DELETIONS):
            looked += 1
            name = entry.prefix, entry.key
            pattern = self.settings.pattern
            if name in seen or (pattern is not None and not pattern.matches(entry.prefix)):
                continue
            seen.add(name)
            now = next(store.get(entry.prefix, [entry.key]), None)
            if now is not None and entry.former is not None and _is_nearly(entry.former, now):
                self.count += 1
                if self.wants_samples:
                    self.sample(entry.prefix, entry.key, self._when(store, entry))
        if not self.count:
            return self.fine()
        is_limited = looked == MOST_DELETIONS
        limit = f" Of the deletions, the latest {MOST_DELETIONS:,} were looked at." if is_limited else ""
        return self.found(
            f"{counted(self.count, 'item')} {verb(self.count, 'was', 'were')} deleted and written again with the"
            f" same or nearly the same value: what an agent extracts anew has to be kept out of its sources.{limit}",
            brief="deleted, and back again",
        )

    @staticmethod
    def _when(store: Remembering, entry: Entry) -> str:
        scope = Scope(entry.prefix, descend=False)
        back = next(store.entries(scope, key=entry.key, after=entry.seq, oldest_first=True), None)
        return f"deleted {second(entry.at)}, back {second(back.at) if back else 'since'}"


def _is_nearly(before: Item, now: Item) -> bool:
    if same_value(before, now):
        return True
    one, other = (item.value or b"" for item in (before, now))
    if max(len(one), len(other)) > _LONGEST:
        return False
    matcher = SequenceMatcher(
        None, one.decode(errors="replace"), other.decode(errors="replace"), autojunk=False
    )
    return (
        matcher.real_quick_ratio() >= NEARLY and matcher.quick_ratio() >= NEARLY and matcher.ratio() >= NEARLY
    )
