"""The order in which `memctl doctor` looks, asks, repairs and looks again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING

from memctl.cli.doctor_request import Request, invocation
from memctl.doctor import check_class
from memctl.errors import Busy, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from memctl.cli.context import Context
    from memctl.cli.progress import Advance
    from memctl.cli.saving import Saver
    from memctl.doctor.check import Settings
    from memctl.doctor.finding import Finding
    from memctl.doctor.surgery import Keep, Operation, Removed
    from memctl.store import Store, Target

_HOT = "needs-recovery"


class Diagnosis:
    """One run of the doctor."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.context = request.context
        self._started = monotonic()

    def run(self) -> None:
        """Examine, or repair and examine then."""
        from memctl.render import FORMATS, REPORT_FORMATS

        output = self.context.output
        if output == "name" or output not in FORMATS | REPORT_FORMATS:
            raise UsageError(f"-o {output}: the report has no such form", hint="table, json or prometheus")
        if self.request.fixes:
            self._repair()
        else:
            self._look(None)

    def _look(self, operation: Operation | None, remarks: Sequence[str] = ()) -> None:
        """Examine the store and report; the exit code is for what is there now."""
        from memctl.doctor.runner import examine

        request, context = self.request, self.context
        try:
            store = context.open()
        except Busy as error:
            if error.code != _HOT:
                raise
            self._report_hot_journal(error)
            return
        settings = request.settings(store)
        self._expect_something(store)
        with _progress(context) as advance:
            findings = examine(store, request.checks, settings, progress=advance)
        self._report(store.address, settings, findings, operation, remarks)
        context.say_if_moved(store)

    def _report(
        self,
        address: str,
        settings: Settings,
        findings: Sequence[Finding],
        operation: Operation | None,
        remarks: Sequence[str] = (),
    ) -> None:
        from memctl.cli.doctor_report import report_of

        context = self.context
        report = report_of(
            address,
            settings,
            findings,
            operation,
            remarks=remarks,
            is_detailed=self.request.is_detailed,
            is_rehearsal=context.is_dry_run,
            seconds=monotonic() - self._started,
        )
        context.emit_report(report)
        self._judge(findings, operation)

    def _judge(self, findings: Sequence[Finding], operation: Operation | None) -> None:
        """Let what was found count in the exit code; in a rehearsal, what the repairs would leave."""
        from memctl.doctor.finding import Level, Status

        context = self.context
        healed = {each.id: each for each in operation.healed} if operation and context.is_dry_run else {}
        floor = Level(self.request.fail_on).gravity
        for finding in findings:
            if finding.status is Status.FAILED:
                context.outcomes.add(1)
            elif finding.status is Status.FOUND and finding.level.gravity >= floor:
                record = healed.get(finding.id)
                unit = check_class(finding.id).unit
                if record is None or getattr(record, unit) < finding.count:
                    context.outcomes.add(4)
        if operation and operation.left:
            context.warn(
                f"{operation.left:,} left alone: they changed while they were repaired; run it again",
                outcome=3,
            )

    def _repair(self) -> None:
        from memctl.cli.saving import saving

        request, context = self.request, self.context
        was_hot = self._recover()
        if context.is_dry_run:
            with closing(context.open()) as store, saving(context, request.save, store):
                self._expect_something(store)
                operation = self._heal(store)
            self._look(operation)
            return
        self._ask()
        target = context.open_to_write(context.address())
        with closing(target), saving(context, request.save, target) as saver:
            self._expect_something(target)
            operation = self._heal(target, partial(_keep, saver) if saver else None)
            remarks = self._vacuum(target, operation)
        if was_hot:
            next(each for each in operation.healed if each.id == "integrity").parts += 1
        self._look(operation, remarks)

    def _heal(self, store: Store, keep: Keep | None = None) -> Operation:
        from memctl.doctor.surgery import heal

        request, context = self.request, self.context
        settings = request.settings(store)
        if "created-at-drift" not in request.named:
            settings = replace(settings, assume_overwritten=False)
        with _progress(context) as advance:
            return heal(
                store,
                request.fixes,
                settings,
                is_rehearsal=context.is_dry_run,
                keep=keep,
                progress=advance,
            )

    def _recover(self) -> bool:
        """Let a journal that a crash has left be rolled back, if that is to be repaired; tell whether one was."""
        context = self.context
        try:
            with closing(context.open_at(context.address())):
                return False
        except Busy as error:
            if error.code != _HOT:
                raise
            if context.is_dry_run or not any(fix.id == "integrity" for fix in self.request.fixes):
                raise Busy(
                    error.message, hint="`memctl doctor --fix integrity` recovers it", code=_HOT
                ) from None
        context.confirm("The commit that a crash cut short will be rolled back.")
        with closing(context.open_to_write(context.address())):
            return True

    def _ask(self) -> None:
        """Say what is going to be repaired, where somebody can say no; else there has to be a --yes."""
        from memctl.cli.doctor_report import planned

        context = self.context
        if context.options.get("yes") or not context.environment.is_terminal(context.environment.stdin):
            context.confirm("The store will be changed.")
            return
        context.options["dry_run"] = True
        try:
            with closing(context.open_at(context.address())) as store:
                operation = self._heal(store)
        finally:
            del context.options["dry_run"]
        plan = planned(operation)
        if not plan:
            return
        context.say("\n".join(f"{name}: {words}" if name else f"  {words}" for name, words in plan))
        context.confirm("Repair this?")

    def _vacuum(self, target: Target, operation: Operation) -> list[str]:
        """Give space back when asked to; else say how much a VACUUM would give."""
        from memctl.render.units import octets
        from memctl.store import Repairable

        if self.request.vacuum and isinstance(target, Repairable):
            return [f"gave back {octets(target.vacuum())}"]
        if not any(each.vectors or each.octets for each in operation.healed):
            return []
        store = target
        free = getattr(getattr(store, "describe", lambda: None)(), "facts", {}).get("free_bytes", 0)
        return [f"would give back {octets(free)} (--vacuum)"] if free else []

    def _expect_something(self, store: Store) -> None:
        """Raise NothingThere where a literal namespace holds neither items nor orphaned vectors."""
        from memctl.nearest import missing_namespace
        from memctl.store import Examined

        pattern = self.request.pattern
        if pattern is None or not pattern.is_literal:
            return
        if next(iter(store.scan(pattern.scope, values=False)), None) is not None:
            return
        if isinstance(store, Examined) and next(iter(store.orphans(pattern.scope)), None) is not None:
            return
        raise missing_namespace(store, pattern.scope.prefix or "")

    def _report_hot_journal(self, error: Busy) -> None:
        """Report the one thing that can be known of a file that nobody may read as it lies."""
        from memctl.doctor.check import Settings
        from memctl.doctor.finding import Finding, Level, Status
        from memctl.doctor.wording import command
        from memctl.instants import from_datetime

        context = self.context
        words = invocation(context, None)
        settings = Settings(from_datetime(context.environment.clock()), invocation=words)
        findings: list[Finding] = []
        for check in self.request.checks:
            if check.id != "integrity":
                message = "the file cannot be read before it is recovered"
                findings.append(Finding(check.id, check.level, Status.FAILED, message=message))
                continue
            findings.append(
                Finding(
                    check.id,
                    Level.ERROR,
                    Status.FOUND,
                    count=1,
                    message=f"{error.message}: its hot journal has to be rolled back.",
                    brief="a hot journal, left by a crash",
                    fix=command(*words, "doctor", "--fix", "integrity"),
                )
            )
        self._report(context.address().target, settings, findings, None)
        context.outcomes.add(Busy.exit_code)


def _progress(context: Context) -> AbstractContextManager[Advance]:
    from memctl.cli.progress import progress

    return progress(context, "examining", None)


def _keep(saver: Saver, removed: Sequence[Removed]) -> None:
    """Keep items and vectors in the order in which they come."""
    for vectors_only, group in groupby(removed, lambda each: each.vectors_only):
        items = [each.item for each in group]
        if vectors_only:
            saver.keep_vectors(items)
        else:
            saver(items)
