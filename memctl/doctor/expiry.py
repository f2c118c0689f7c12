"""What has expired and is still there, and what is said of expiry that cannot come true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from operator import attrgetter

import msgspec

from memctl.doctor.check import MOST_SAMPLES, Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted, minute, verb
from memctl.instants import shift, to_datetime
from memctl.model import Instant, Item, Problem, shown
from memctl.selection import is_expired
from memctl.store import Capability, Change

_expires = attrgetter("expires_at")

SWEPT_EVERY = timedelta(minutes=5)
"""How often the library's sweeper comes unless told otherwise (`langgraph-checkpoint` 4.3.2)."""


class ExpiredUnswept(Check):
    """Without a sweeper, expired items stay for ever and are served; `omit_expired` is ignored by SQLite."""

    id = "expired-unswept"
    level = Level.WARNING
    summary = "items that have expired and are still served, since when, and whether anything sweeps"
    remedy = "deletes them, as memctl sweep does"
    needs = frozenset({Capability.EXPIRY})
    is_quick = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._octets = 0
        self._since: Instant | None = None

    def items(self, items: Sequence[Item]) -> None:
        """Look at those that expire."""
        for item in filter(_expires, items):
            self.item(item)

    def item(self, item: Item) -> None:
        """Count an item whose expiry has come."""
        expires = item.expires_at
        if expires is None or expires > self.patient.now:
            return
        self.count += 1
        self._octets += item.size
        if self._since is None or expires < self._since:
            self._since = expires
        if self.wants_samples:
            self.sample(item.prefix, item.key, f"expired {minute(expires)}")

    def finish(self) -> Finding:
        """Say since when, and what that tells of a sweeper."""
        if not self.count or self._since is None:
            return self.fine()
        lately = shift(self.patient.now, -SWEPT_EVERY) < self._since
        sweeper = (
            "a sweeper may still be on its way" if lately else "nothing sweeps this store, or not all of it"
        )
        names = (self.settings.spelled,) if self.settings.pattern else ()
        return self.found(
            f"{counted(self.count, 'expired item')} {verb(self.count, 'is', 'are')} still there and served, the oldest"
            f" since {minute(self._since)}: {sweeper}.",
            brief=f"expired and still served, since {self._since[:10]}",
            octets=self._octets,
            fix=self.patient.command("sweep", names=names),
            facts={"since": self._since, "swept": None if lately else False},
        )

    def cure(self, item: Item) -> Change | None:
        """Delete an item whose expiry has come."""
        return Change(item, None) if is_expired(item, self.patient.now) else None


@dataclass(slots=True)
class _Space:
    """What is in the namespace at hand: items that expire, and those that never do."""

    prefix: str
    expiring: int = 0
    never: int = 0
    first: tuple[str, ...] = ()
    """Keys of the first that never expire."""


class TtlInconsistent(Check):
    """A batch skips the default TTL, an INT column drops fractions, and SQLite compares expiries as text."""

    id = "ttl-inconsistent"
    level = Level.WARNING
    summary = "TTL without expiry or the reverse, TTLs of 0, expiries that a sweep misreads, siblings that never expire"
    remedy = "spells expiries as the library does, gives a TTL its expiry, and a TTL of 0 its minutes back"
    needs = frozenset({Capability.EXPIRY})

    FEW = 0.25
    """Up to this share of its namespace, an item that never expires is one that was forgotten."""
    FEWEST = 3

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._no_expiry = self._no_ttl = self._zero = self._spelled = self._never = self._certain = 0
        self._space = _Space("")
        self._forgotten: list[tuple[str, str]] = []

    def namespace(self, prefix: str) -> None:
        """Judge the namespace before, and begin with another."""
        self._close()
        self._space = _Space(prefix)

    def items(self, items: Sequence[Item]) -> None:
        """Look at those that expire or may be meant to, and count the others."""
        space = self._space
        some = [item for item in items if item.expires_at or item.ttl_minutes is not None or item.problems]
        space.expiring += len(some)
        space.never += len(items) - len(some)
        if len(some) < len(items) and len(space.first) < MOST_SAMPLES:
            chosen = set(map(id, some))
            never = (item.key for item in items if id(item) not in chosen)
            space.first += tuple(islice(never, MOST_SAMPLES - len(space.first)))
        for item in some:
            self.item(item)

    def item(self, item: Item) -> None:
        """Look at an item's expiry and TTL."""
        faults = _faults(item)
        if not faults:
            return
        self.count += 1
        self._spelled += "spelled" in faults
        self._no_expiry += "no expiry" in faults
        self._no_ttl += "no TTL" in faults
        self._zero += "zero" in faults
        self._certain += self.cure(item) is not None
        if self.wants_samples:
            self.sample(item.prefix, item.key, "; ".join(faults.values()))

    def finish(self) -> Finding:
        """Say what each of them leads to."""
        self._close()
        level = None
        if not self.count and self._never:
            level = Level.NOTE
            for prefix, key in self._forgotten:
                self.sample(prefix, key, "never expires, unlike the others beside it")
        self.count += self._never
        if not self.count:
            return self.fine()
        parts = [
            (self._no_expiry, "with a TTL and no expiry, never swept"),
            (self._no_ttl, "with an expiry and no TTL, never refreshed by a read"),
            (self._zero, "with a TTL of 0 minutes (a lost fraction), gone after one refresh"),
            (self._spelled, "whose expiry is spelled so that the library's text comparison errs"),
            (self._never, "without expiry where nearly everything else has one"),
        ]
        said = "; ".join(f"{counted(count, 'item')} {what}" for count, what in parts if count)
        fix = self.patient.fix_command(self.id) if self._certain else None
        return self.found(
            f"{said}.",
            brief="expiries or TTLs that do not come true",
            level=level,
            fix=fix,
            facts={
                "ttl_without_expiry": self._no_expiry,
                "expiry_without_ttl": self._no_ttl,
                "ttl_of_zero": self._zero,
                "misspelled": self._spelled,
                "never_expiring_siblings": self._never,
                "repairable": self._certain,
            },
        )

    def cure(self, item: Item) -> Change | None:
        """Heal what can only have been meant in one way.

        An expiry that could be read is spelled as the library spells it. A TTL without expiry gets the one
        that a refreshing read would give it now, and a TTL of 0 the whole minutes from the last write to the
        expiry.
        """
        faults = _faults(item)
        expires, minutes, problems = item.expires_at, item.ttl_minutes, item.problems
        if "spelled" in faults and expires is not None:
            problems = tuple(problem for problem in problems if problem.part != "expires_at")
        if "no expiry" in faults and minutes is not None and minutes > 0:
            expires = shift(self.patient.now, timedelta(minutes=minutes))
        if "zero" in faults and expires is not None and item.updated_at is not None:
            length = to_datetime(expires) - to_datetime(item.updated_at)
            if length > timedelta():
                minutes = math.ceil(length / timedelta(minutes=1))
        if (expires, minutes, problems) == (item.expires_at, item.ttl_minutes, item.problems):
            return None
        healed = msgspec.structs.replace(item, expires_at=expires, ttl_minutes=minutes, problems=problems)
        return Change(item, healed)

    def _close(self) -> None:
        """Judge a namespace of which everything was seen."""
        space = self._space
        if space.never and space.expiring >= self.FEWEST and space.never <= self.FEW * space.expiring:
            self._never += space.never
            room = MOST_SAMPLES - len(self._forgotten)
            self._forgotten += [(space.prefix, key) for key in space.first[:room]]


def _faults(item: Item) -> dict[str, str]:
    """Return what is wrong with an item's expiry and TTL: a word for the kind, and words about this one."""
    expires, minutes = item.expires_at, item.ttl_minutes
    odd = _problem(item, "expires_at") if item.problems else None
    faults: dict[str, str] = {}
    if odd is not None:
        raw = odd.raw if not isinstance(odd.raw, bytes) else "a BLOB"
        faults["spelled"] = f"expires at {shown(str(raw))}: {odd.reason}"
    elif expires is None and minutes is not None:
        faults["no expiry"] = f"a TTL of {minutes:g} minutes and no expiry"
    if expires is not None and minutes is None and not (item.problems and _problem(item, "ttl_minutes")):
        faults["no TTL"] = f"expires {minute(expires)} and has no TTL"
    if minutes is not None and minutes <= 0:
        faults["zero"] = f"a TTL of {minutes:g} minutes"
    return faults


def _problem(item: Item, part: str) -> Problem | None:
    return next((problem for problem in item.problems if problem.part == part), None)
