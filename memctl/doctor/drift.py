"""Creation times that cannot be true, or that an overwrite has moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from memctl.doctor.check import Check, Patient, Settings
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted, second, verb
from memctl.instants import shift
from memctl.model import Detail, Instant, Item, Vector, encode
from memctl.store import Capability, Change

TOLERANCE = timedelta(minutes=1)
"""A time is in the future from here on: clocks differ, and a store is written while it is read."""


def shows_overwrite(item: Item, vector: Vector) -> bool:
    """Tell whether a vector is older than its item: that was overwritten, or deleted and made anew."""
    return (
        vector.created_at is not None and item.created_at is not None and vector.created_at < item.created_at
    )


class CreatedAtDrift(Check):
    """A put into SQLite, and one through a LangGraph server, resets `created_at`."""

    id = "created-at-drift"
    level = Level.WARNING
    summary = (
        "creation times that cannot be true, or that an overwrite has moved (--against an older archive)"
    )
    remedy = "sets the earliest time that --against proves, or a vector's with --assume-overwritten"
    vectors = Detail.SHAPE

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._latest = shift(patient.now, TOLERANCE)
        self._resets = Capability.KEEPS_CREATED not in patient.capabilities
        self._after = self._future = self._evidence = self._moved = self._unsure = self._provable = 0
        self._before = _Beside(self.settings)
        self._can_be_set = Capability.TIMES in patient.capabilities
        self._has_proof = self.settings.against is not None
        self._proof: _Beside | None = None

    def items(self, items: Sequence[Item]) -> None:
        """Pass over those that were created when they were last written, in the past, and have nothing beside."""
        if self._has_proof:
            chosen = items
        else:
            latest = self._latest
            chosen = [
                item
                for item in items
                if item.created_at != item.updated_at or item.vectors or (item.created_at or "") > latest
            ]
            self._unsure += len(items) - len(chosen)
        for item in chosen:
            self.item(item)

    def item(self, item: Item) -> None:
        """Look at one item's creation time from all sides."""
        created, updated = item.created_at, item.updated_at
        earlier = self._before.created_at(item) if self._has_proof else None
        if created is None:
            return
        self._unsure += created == updated
        details: list[str] = []
        if updated is not None and created > updated:
            self._after += 1
            details.append(f"created {second(created)}, after it was updated {second(updated)}")
        if created > self._latest:
            self._future += 1
            details.append(f"created {second(created)}, in the future")
        if item.vectors and any(shows_overwrite(item, vector) for vector in item.vectors):
            self._evidence += 1
            oldest = min(vector.created_at for vector in item.vectors if vector.created_at)
            details.append(f"created {second(created)}, a vector of it {second(oldest)}")
        if earlier is not None and earlier < created:
            self._moved += 1
            details.append(f"created {second(created)}, elsewhere {second(earlier)}")
        if details:
            self.count += 1
            self._provable += self._proven(item, earlier) is not None
            self.sample(item.prefix, item.key, "; ".join(details))

    def finish(self) -> Finding:
        """Say what is certain and what is not."""
        facts = {
            "after_update": self._after,
            "in_the_future": self._future,
            "vector_older": self._evidence,
            "moved_forward": self._moved if self.settings.against else None,
            "may_have_lost_age": self._unsure if self._resets else None,
        }
        doubt = ""
        if self._resets and self._unsure and not self._has_proof:
            doubt = (
                f"{counted(self._unsure, 'item')} can have lost {verb(self._unsure, 'its', 'their')} age, since each"
                " put resets created_at here; --against an older archive or store would tell."
            )
        if not self.count:
            return self.fine(doubt, facts=facts)
        parts = [
            (self._after, "created after the last update"),
            (self._future, "created in the future"),
            (self._evidence, "younger than a vector beside (overwritten, or deleted and put again)"),
            (self._moved, f"younger than in {self.settings.against_name}"),
        ]
        said = "; ".join(f"{counted(count, 'item')} {what}" for count, what in parts if count)
        return self.found(
            f"{said}. {doubt}".strip() + self.patient.guarded("keep-created-at"),
            brief="creation times that cannot be trusted",
            fix=self._fix(),
            facts=facts,
        )

    def cure(self, item: Item) -> Change | None:
        """Set the earliest time that is proven, if it is earlier than what stands there."""
        if not self._can_be_set:
            return None
        if self._proof is None:
            self._proof = _Beside(self.settings)
        earlier = self._proof.created_at(item) if self.settings.against else None
        proven = self._proven(item, earlier)
        return None if proven is None else Change(item, msgspec.structs.replace(item, created_at=proven))

    def _proven(self, item: Item, earlier: Instant | None) -> Instant | None:
        """Return the earliest creation time there is evidence for, None where it is the present one."""
        known = [earlier] if earlier is not None else []
        if self.settings.assume_overwritten:
            known += [vector.created_at for vector in item.vectors if vector.created_at is not None]
        proven = min(known, default=None)
        return (
            proven
            if proven is not None and item.created_at is not None and proven < item.created_at
            else None
        )

    def _fix(self) -> str | None:
        if not self._can_be_set:
            return None
        words: tuple[str, ...] = ()
        if (self.settings.against or self.settings.assume_overwritten) and not self._provable:
            return None
        if self.settings.against_name is not None:
            words += ("--against", self.settings.against_name)
        if self.settings.assume_overwritten or (self._evidence and not self.settings.against):
            words += ("--assume-overwritten",)
        return self.patient.fix_command(self.id, *words) if words else None


class _Beside:
    """Another store's items, walked through alongside this one's, in the same order."""

    def __init__(self, settings: Settings) -> None:
        self._open = settings.against
        self._items: Iterator[Item] | None = None
        self._head: Item | None = None

    def created_at(self, item: Item) -> Instant | None:
        """Return when the item of that name was created there; to be asked in byte order."""
        if self._items is None:
            self._items = self._open() if self._open else iter(())
            self._head = next(self._items, None)
        head = self._head
        if head is None:
            return None
        place = encode(item.prefix), encode(item.key)
        while head is not None and (encode(head.prefix), encode(head.key)) < place:
            head = next(self._items, None)
        self._head = head
        if head is not None and head.prefix == item.prefix and head.key == item.key:
            return head.created_at
        return None
