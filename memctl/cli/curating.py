"""What the commands have in common that change items: the order of asking, doing and telling."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from memctl.errors import MemctlError, Unsupported, UsageError
from memctl.model import Item

if TYPE_CHECKING:
    from memctl.changes import Again, Outcome, Save
    from memctl.cli.context import Context
    from memctl.render import Section
    from memctl.store import Bulk, Change, Right, Store, Target


def refuse_formats(context: Context) -> None:
    """Raise UsageError for an output format that cannot show the report, before anything is done."""
    from memctl.render import FORMATS

    if context.output == "name" or context.output not in FORMATS:
        raise UsageError(f"-o {context.output}: the report has no such form", hint="table or json")


def no_expiry() -> Unsupported:
    """Return the error for a store in which nothing can expire."""
    return Unsupported(
        "this store has no expiry, or shows none",
        hint="tables from before LangGraph had TTLs get the columns when today's library opens them;\n"
        "through a server or a BaseStore no expiry shows",
    )


def tell_of_history(context: Context, store: Store) -> None:
    """Say that what was deleted is kept, where the store keeps its history."""
    from memctl.history import Remembering

    status = store.history() if isinstance(store, Remembering) else None
    if status is not None and status.is_on:
        context.note("the store's history keeps what was deleted: memctl log --deleted, memctl undo")


@contextmanager
def opened(context: Context, *rights: Right) -> Iterator[tuple[Store, Target | None]]:
    """Give the store to read, and to write; in a dry run it is opened read-only, and there is no target.

    `rights` are those that the real run needs.
    """
    if context.is_dry_run:
        store = context.open()
        context.rehearse(store, *rights)
        yield store, None
        return
    target = context.open_to_write(context.address())
    yield target, target


@contextmanager
def fresh(context: Context) -> Iterator[Store]:
    """Give another look at the store, as it is by now."""
    with closing(context.open_at(context.address())) as store:
        yield store


EMPTY = Item("memctl", "", b"{}", 2, None, None, None, None)
"""Stands for any item where a store is asked what it can hold of some parts."""


def refuse_unholdable(store: Store, item: Item, parts: Collection[str]) -> None:
    """Raise for what the store cannot hold of these parts of an item."""
    from memctl.store import Judging

    if not isinstance(store, Judging):
        return
    for fault in store.unholdable(item):
        if fault.part in parts:
            hint = "--round-ttl up" if fault.part == "ttl_minutes" and "whole" in fault.reason else None
            raise MemctlError(
                f"the store cannot hold it: {fault.part}: {fault.reason}", hint=hint, code="unholdable"
            )


@dataclass(slots=True)
class Work:
    """Changes on their way: what is done so far, and since when."""

    context: Context
    verb: str
    """In the past tense: `deleted`."""
    outcome: Outcome = field(init=False)
    _started: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        from memctl.changes import Outcome

        self.outcome = Outcome()

    def carry_out(
        self,
        changes: Iterable[Change],
        target: Target,
        *,
        expected: int | None = None,
        save: Save | None = None,
        decide: Callable[[Item, Store], Change | None] | None = None,
        in_one: bool = False,
    ) -> None:
        """Carry out changes with a bar beside, `in_one` transaction if it has to be.

        What was overtaken is read anew and decided by `decide`, which is given the store as it is then.
        Whatever ends it early, what was done until then is told first.
        """
        from memctl.changes import Pace, carry_out
        from memctl.cli.progress import progress

        again = self._again(decide) if decide is not None else None
        with self._telling(), progress(self.context, self.verb, expected) as advance:
            carry_out(
                changes,
                target,
                pace=Pace(rows=sys.maxsize, octets=sys.maxsize) if in_one else None,
                save=save,
                done=lambda _change: advance(1),
                again=again,
                outcome=self.outcome,
            )

    def carry_through(
        self,
        work: Callable[[Callable[[], int], int], Iterable[Bulk]],
        target: Target,
        *,
        expected: int | None = None,
    ) -> None:
        """Have the store itself change many items (`changes.carry_through`), likewise."""
        from memctl.changes import carry_through
        from memctl.cli.progress import progress

        with self._telling(), progress(self.context, self.verb, expected) as advance:
            carry_through(work, target, done=advance, outcome=self.outcome)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say what was done until then, whatever ends it early."""
        from memctl.render.units import counted

        try:
            yield
        except BaseException:
            if self.outcome.items:
                self.context.warn(f"{counted(self.outcome.items, 'item')} {self.verb} until then")
            raise

    def _again(self, decide: Callable[[Item, Store], Change | None]) -> Again:
        from memctl.choosing import read_anew

        def again(left: Sequence[Change]) -> Iterator[Change]:
            overtaken = [change.was for change in left if change.was is not None]
            with fresh(self.context) as store:
                for _, now in read_anew(store, overtaken):
                    change = decide(now, store) if now is not None else None
                    if change is not None:
                        yield change

        return again

    def report(
        self,
        *,
        items: int,
        vectors: int,
        octets: int,
        skipped: int = 0,
        headline: str | None = None,
        sections: Sequence[Section] = (),
        remarks: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """Report what was done, or would be; what was overtaken to the last counts as skipped."""
        from memctl.render import Report, units

        context, left = self.context, len(self.outcome.left)
        seconds = monotonic() - self._started
        data = {
            "items": items,
            "vectors": vectors,
            "bytes": octets,
            "skipped": skipped + left,
            "rejected": 0,
            **more,
            "dry_run": context.is_dry_run,
            "seconds": round(seconds, 3),
        }
        if headline is None:
            verb = f"would be {self.verb}" if context.is_dry_run else self.verb
            size = f" ({units.octets(octets)})" if octets else ""
            things = f"{units.counted(items, 'item')} and {units.counted(vectors, 'vector')}{size}"
            headline = f"{things} {verb} in {seconds:.1f} s"
        context.emit_report(Report(data, sections, "; ".join([headline, *remarks])))
        if items:
            context.would_write()
        if left:
            context.warn(
                f"{units.counted(left, 'item')} left alone: somebody else kept writing meanwhile", outcome=3
            )

    def report_outcome(self, **more: Any) -> None:
        """Report what was carried out."""
        outcome = self.outcome
        self.report(items=outcome.items, vectors=outcome.vectors, octets=outcome.octets, **more)
