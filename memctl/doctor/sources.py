"""Whether the conversations that items were learnt in are still there."""

from __future__ import annotations

from memctl.doctor.check import UNREADABLE, Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted
from memctl.model import Item
from memctl.store import Conversing

_ASKED_AT_ONCE = 500
_WAITING_AT_ONCE = 5_000
_REMEMBERED = 100_000


class Provenance(Check):
    """Items that name a thread which the checkpointer no longer keeps."""

    id = "provenance"
    level = Level.NOTE
    summary = "items whose source thread is no longer in the checkpointer's tables of the same database"
    values = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._field = patient.settings.source_field
        self._path = self._field.split(".") if self._field else []
        self._octets = 0
        self._there: dict[str, bool] = {}
        self._waiting: list[tuple[str, str, str, int]] = []
        self._unknown: set[str] = set()
        self._named = 0

    def absent(self) -> str | None:
        """Return why there is nothing to compare."""
        if not self._field:
            return "--source-field NAME tells which field of a value names the thread it was learnt in"
        store = self.patient.store
        if not isinstance(store, Conversing) or not store.keeps_threads():
            return "there are no tables of a checkpointer beside this store"
        return None

    def item(self, item: Item) -> None:
        """Ask for the thread that an item names, many at once."""
        source = self.patient.value_of(item)
        for name in self._path:
            source = source.get(name) if isinstance(source, dict) else UNREADABLE
        if not isinstance(source, str) or not source:
            return
        self._named += 1
        is_there = self._there.get(source)
        if is_there:
            return
        if is_there is None:
            self._unknown.add(source)
        self._waiting.append((source, item.prefix, item.key, item.size))
        if len(self._unknown) >= _ASKED_AT_ONCE or len(self._waiting) >= _WAITING_AT_ONCE:
            self._ask()

    def _ask(self) -> None:
        """Ask for the threads that are unknown, and decide about the items that waited for it."""
        there = self._there
        if self._unknown:
            store = self.patient.store
            assert isinstance(store, Conversing)
            found = store.threads(sorted(self._unknown))
            there.update((source, source in found) for source in self._unknown)
        for source, prefix, key, size in self._waiting:
            if not there[source]:
                self.count += 1
                self._octets += size
                self.sample(prefix, key, f"learnt in {source}, which is gone")
        self._waiting, self._unknown = [], set()
        if len(there) > _REMEMBERED:
            there.clear()

    def finish(self) -> Finding:
        """Say what a missing thread means."""
        self._ask()
        facts = {"items_with_source": self._named}
        if not self.count:
            return self.fine(facts=facts)
        return self.found(
            f"{counted(self.count, 'item')} learnt in a thread that was deleted; nothing collects what is left of it."
            " If somebody asked for that thread to be forgotten, these memories should go too:"
            f" search --filter '{self._field}=…' shows them, rm removes them.",
            brief="items whose source thread is gone",
            octets=self._octets,
            facts=facts,
        )
