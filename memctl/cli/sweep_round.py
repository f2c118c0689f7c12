"""One sweep through a store: looking, asking, deleting and telling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from memctl.errors import UsageError

if TYPE_CHECKING:
    from memctl.cli.context import Context
    from memctl.cli.saving import Saver
    from memctl.cli.sweep_report import Swept
    from memctl.cli.watching import Stop
    from memctl.namespaces import Pattern
    from memctl.retention import Policy
    from memctl.store import Change, Store, Sweeping, Target
    from memctl.sweeping import Going, Sweep

MOST_ROWS = 1_000
"""Items in a transaction, where the store would take more: an agent that refreshes one of them waits for it."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the options ask for."""

    pattern: Pattern | None
    policy: Policy | None
    policy_only: bool
    grace: timedelta
    trusts_odd: bool
    rows: int | None
    pause: float | None
    save: str | None
    vacuum: bool


def read_order(
    context: Context,
    ns: str | None,
    *,
    policy: str | None,
    policy_only: bool,
    grace: str | None,
    trusts_odd: bool,
    rows: int | None,
    pause: str | None,
    save: str | None,
    vacuum: bool,
) -> Order:
    """Read the options. Raises UsageError."""
    from memctl import namespaces
    from memctl.cli.policy import read_policy
    from memctl.instants import parse_duration

    if policy_only and policy is None:
        raise UsageError("--policy-only says how to take --policy FILE, and there is none")
    return Order(
        pattern=namespaces.parse(ns) if ns is not None else None,
        policy=read_policy(context, policy) if policy is not None else None,
        policy_only=policy_only,
        grace=parse_duration(grace) if grace is not None else timedelta(),
        trusts_odd=trusts_odd,
        rows=rows,
        pause=None if pause is None else 0.0 if pause == "0" else parse_duration(pause).total_seconds(),
        save=save,
        vacuum=vacuum,
    )


def run(context: Context, order: Order, stop: Stop | None = None) -> None:
    """Sweep once and report. With `stop` it is one round of many, which ends early when told to."""
    from memctl.cli.curating import no_expiry
    from memctl.cli.sweep_report import Swept
    from memctl.nearest import expect, missing_namespace
    from memctl.store import Capability
    from memctl.sweeping import Sweep

    target = None if context.is_dry_run else context.open_to_write(context.address())
    store: Store = context.open() if target is None else target
    if Capability.EXPIRY not in store.capabilities and order.policy is None:
        raise no_expiry()
    if order.pattern is not None and order.pattern.is_literal and stop is None:
        scope = order.pattern.scope
        expect(store.scan(scope, values=False), lambda: missing_namespace(store, scope.prefix or ""))
    sweep = Sweep(store.now(), order.pattern, order.grace, order.trusts_odd, order.policy, order.policy_only)
    swept = Swept(context, store.address, order.policy)
    if target is None:
        swept.look_at(sweep.find(store, swept.doubt))
        context.rehearse(store, "DELETE")
        if swept.total.items:
            context.would_write()
    else:
        _Round(context, order, sweep, target, swept, stop).run()
    if stop is None or swept.is_news or context.is_verbose or context.output != "table":
        swept.report()


@dataclass(slots=True)
class _Round:
    """A sweep that deletes."""

    context: Context
    order: Order
    sweep: Sweep
    target: Target
    swept: Swept
    stop: Stop | None
    _rules: dict[tuple[str, str], int] = field(default_factory=dict)
    """Why the items of the batch under way go."""

    def run(self) -> None:
        """Delete, having asked where a policy decides; then give space back, if that is wanted."""
        from memctl.cli.saving import saving
        from memctl.store import Sweeping

        found = self.sweep.find(self.target, self.swept.doubt)
        with saving(self.context, self.order.save, self.target) as saver:
            if self._is_for_the_store(saver) and isinstance(self.target, Sweeping):
                self._delete_at_once(self.target)
            elif self.sweep.policy is None:
                self._delete(found, saver)
            else:
                self._ask_and_delete(found, saver)
        self._look_after_history()
        if self.order.vacuum and not self.stop:
            self.swept.vacuum(self.target)

    def _look_after_history(self) -> None:
        """Prune the store's history by its retention, and say that it keeps what was deleted."""
        from memctl.cli.curating import tell_of_history
        from memctl.history import Recording
        from memctl.past import prune

        if isinstance(self.target, Recording):
            if pruned := prune(self.target, self.target.now()):
                self.context.note(f"{pruned:,} entries of the store's history pruned")
            if self.swept.total.items:
                tell_of_history(self.context, self.target)

    def _is_for_the_store(self, saver: Saver | None) -> bool:
        """Whether nothing but the expiry and one range of namespaces decides, and nothing is kept."""
        pattern = self.sweep.pattern
        return self.sweep.policy is None and saver is None and (pattern is None or pattern.is_literal)

    def _ask_and_delete(self, found: Iterable[Going], saver: Saver | None) -> None:
        """Hold what goes until it is known how much that is, and nothing is read any more that would change."""
        from memctl.sorting import Sorter
        from memctl.sweeping import SORTED_OCTETS, octets_of

        held: Sorter[Going]
        with Sorter(lambda _going: 0, size=octets_of, octets=SORTED_OCTETS) as held:
            self.swept.look_at(map(held.pass_on, found))
            if not self.swept.total.items:
                return
            self.swept.preview()
            self.context.confirm(self.swept.question())
            if self.stop is not None:
                self.context.options["yes"] = True  # asked once, however many rounds there are
            self.swept.begin()
            self._delete(held, saver)

    def _delete(self, found: Iterable[Going], saver: Saver | None) -> None:
        from memctl.changes import Outcome, Pace, carry_out
        from memctl.cli.progress import progress
        from memctl.render.units import counted
        from memctl.sweeping import whole

        if saver is not None:
            found = whole(self.target, found, self.swept.leave)
        outcome = Outcome()
        pace = Pace(self.order.rows, MOST_ROWS, self.order.pause)
        try:
            with progress(self.context, "deleted", self.swept.expected) as advance:

                def done(change: Change) -> None:
                    self._count(change)
                    advance(1)

                carry_out(
                    self._changes(found), self.target,
                    pace=pace, save=saver, done=done, again=self._again, outcome=outcome,
                )  # fmt: skip
        except BaseException:
            if outcome.items:
                self.context.warn(f"{counted(outcome.items, 'item')} deleted until then")
            raise
        self.swept.overtaken += len(outcome.left)

    def _delete_at_once(self, target: Sweeping) -> None:
        """Have the store itself delete what has expired, batch by batch."""
        from time import sleep

        from memctl.render.units import counted
        from memctl.sweeping import odd_expiries

        for item in odd_expiries(self.sweep, self.target):
            self.swept.doubt(item)
        rows = self.order.rows or min(self.target.batch_rows, MOST_ROWS)
        pause = self.target.pause if self.order.pause is None else self.order.pause
        try:
            for found in target.sweep(self.sweep.scope, self.sweep.grace, rows):
                for namespace in found:
                    self.swept.add_all(namespace)
                if self.stop:
                    return
                sleep(pause)
        except BaseException:
            if self.swept.total.items:
                self.context.warn(f"{counted(self.swept.total.items, 'item')} deleted until then")
            raise

    def _changes(self, found: Iterable[Going]) -> Iterator[Change]:
        from memctl.store import Change

        for going in found:
            if self.stop:
                return
            item = going.item
            self._rules[item.prefix, item.key] = going.rule
            yield Change(item, None)

    def _count(self, change: Change) -> None:
        if change.was is not None:
            self.swept.add(change.was, self._rules.pop((change.was.prefix, change.was.key)))

    def _again(self, left: Sequence[Change]) -> Iterator[Change]:
        """Decide anew about what was refreshed or rewritten meanwhile: it goes if it has expired all the same."""
        from memctl.choosing import read_anew
        from memctl.cli.curating import fresh
        from memctl.store import Change

        overtaken = [change.was for change in left if change.was is not None]
        with fresh(self.context) as store:
            for was, now in read_anew(store, overtaken):
                if now is not None and self.sweep.still_takes(now, self._rules[was.prefix, was.key]):
                    yield Change(now, None)
                    continue
                del self._rules[was.prefix, was.key]
                self.swept.kept += now is not None
