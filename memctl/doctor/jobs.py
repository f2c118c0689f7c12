"""Where vectors expire by themselves, and the database deletes what has expired: CockroachDB's layout."""

from __future__ import annotations

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.surgery import Surgery
from memctl.doctor.wording import counted, verb
from memctl.model import Instant, Item, Position
from memctl.store import Capability, Twofold, TwofoldTarget

ELSEWHERE = "only CockroachDB's layout has this"
_AT_ONCE = 500


class TtlJob(Check):
    """A store built without a TTL configuration never switches the row-level TTL job on."""

    id = "ttl-job"
    level = Level.WARNING
    summary = "items with an expiry in CockroachDB, and no row-level TTL job that deletes them"
    needs = frozenset({Capability.EXPIRY})

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._first: Instant | None = None

    def absent(self) -> str | None:
        """Say that other stores have no such job."""
        return None if isinstance(self.patient.store, Twofold) else ELSEWHERE

    def item(self, item: Item) -> None:
        """Count an item that expires."""
        if item.expires_at is None:
            return
        self.count += 1
        if self._first is None or item.expires_at < self._first:
            self._first = item.expires_at
        if self.wants_samples:
            self.sample(item.prefix, item.key, f"expires {item.expires_at}")

    def finish(self) -> Finding:
        """Say which table nobody looks after."""
        store = self.patient.store
        jobs = store.ttl_jobs() if isinstance(store, Twofold) else {}
        idle = [table for table, job in jobs.items() if job is None or job == "paused"]
        if not self.count or not idle:
            return self.fine(", ".join(f"{table}: {job}" for table, job in jobs.items() if job))
        names = (self.settings.spelled,) if self.settings.pattern else ()
        return self.found(
            f"{counted(self.count, 'item')} {verb(self.count, 'expires', 'expire')}, the first at {self._first},"
            f" and no row-level TTL job deletes what has expired from {' and '.join(idle)}: LangGraph hides it, and it"
            " stays. A store with a TTL configuration switches the job on; memctl sweep does the work without it.",
            brief="expire, and no job deletes them",
            fix=self.patient.command("sweep", names=names),
            facts={"jobs": jobs},
        )


class VectorExpiry(Check):
    """A handle without an index leaves an item's vectors with their old expiry, and the job deletes them apart."""

    id = "vector-expiry"
    level = Level.WARNING
    summary = "items in CockroachDB of which a vector expires at another time"
    remedy = "gives vectors their items' expiry"
    needs = frozenset({Capability.EXPIRY, Capability.VECTORS})

    def absent(self) -> str | None:
        """Say that other stores' vectors have no expiry."""
        return None if isinstance(self.patient.store, Twofold) else ELSEWHERE

    def finish(self) -> Finding:
        """Ask the database, which compares them."""
        store = self.patient.store
        assert isinstance(store, Twofold)
        for place in store.unequal_expiries(self.settings.scope):
            if self._is_meant(place):
                self.count += 1
                if self.wants_samples:
                    self.sample(place.prefix, place.key, "a vector expires at another time")
        if not self.count:
            return self.fine()
        return self.found(
            f"{counted(self.count, 'item')} {verb(self.count, 'has', 'have')} vectors that expire at another time: they"
            " go before their item, and it is not found any more, or stay behind it.",
            brief="with vectors that expire apart",
            fix=self.patient.fix_command(self.id),
        )

    def repair(self, surgery: Surgery) -> None:
        """Give the vectors their items' expiry, some at a time."""
        store = self.patient.store
        assert isinstance(store, Twofold)
        places = [place for place in store.unequal_expiries(self.settings.scope) if self._is_meant(place)]
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            if not surgery.is_rehearsal and isinstance(surgery.store, TwofoldTarget):
                surgery.store.follow_expiry(some)
            surgery.healed.items += len(some)

    def _is_meant(self, place: Position) -> bool:
        pattern = self.settings.pattern
        return pattern is None or pattern.matches(place.prefix)
