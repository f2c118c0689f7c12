"""Examining a store: one pass over it for all the checks that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memctl.doctor.check import Check, Patient, Settings, defines, reads_items
from memctl.doctor.finding import Finding, Status
from memctl.errors import MemctlError
from memctl.model import Detail, Item
from memctl.store import Capability, Examined, Expiring, Store

Progress = Callable[[int], None]

RUN_OCTETS = 256 * 1024
"""What is handed over at once; the checks do much less for each item then."""
_ITEM_OCTETS = 500
"""What an item takes beside its value, roughly."""
_LACKS = {
    Capability.EXPIRY: "this store has no TTL columns",
    Capability.VECTORS: "this store has no vectors",
    Capability.VECTOR_TIMES: "this store keeps no times of vectors",
}


def examine(
    store: Store,
    checks: Iterable[type[Check]],
    settings: Settings,
    *,
    progress: Progress | None = None,
) -> list[Finding]:
    """Run checks and return their findings, in the order given.

    A check that raises is `failed` and the others go on; so they do when the store cannot be read to its end.
    What keeps it from being read at all (it is busy, out of reach, forbidden) is raised.
    """
    examination = Examination(store, checks, settings)
    examination.run(progress)
    return examination.findings


class Examination:
    """Checks on one store; `running` are those that apply to it, each of which has seen all of its scope."""

    def __init__(self, store: Store, checks: Iterable[type[Check]], settings: Settings) -> None:
        self.patient = Patient(store, settings)
        self.store, self.settings = store, settings
        self.checks = list(checks)
        self.running: list[Check] = []
        self._found: dict[str, Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        """What each check found, in their order."""
        return [self._found[check.id] for check in self.checks]

    def run(self, progress: Progress | None = None) -> None:
        """Read the store once, and ask every check for its answer."""
        self._admit()
        if any(defines(check, "orphan") for check in self.running):
            self._show_orphans()
        if any(reads_items(check) or defines(check, "namespace") for check in self.running):
            self._show_items(progress)
        for check in list(self.running):
            with_answer = self._guarded(check, check.finish)
            if with_answer is not None:
                self._found[check.id] = with_answer

    def _admit(self) -> None:
        """Begin with the checks that this store can have."""
        for kind in self.checks:
            reason = next(
                (
                    _LACKS.get(each, each.value)
                    for each in Capability
                    if each in kind.needs - self.store.capabilities
                ),
                None,
            )
            if self.settings.quick and not kind.is_quick:
                reason = "not answered by indexes alone, which is all that --quick looks at"
            try:
                check = kind(self.patient)
                reason = reason or check.absent()
            except Exception as error:
                self._fail(kind, error)
                continue
            if reason:
                self._found[kind.id] = Finding(kind.id, kind.level, Status.SKIPPED, message=reason)
            else:
                self.running.append(check)

    def _show_orphans(self) -> None:
        takers = [check for check in self.running if defines(check, "orphan")]
        if not isinstance(self.store, Examined):
            return
        pattern = self.settings.pattern
        detail = Detail.FULL if any(check.vectors is Detail.FULL for check in takers) else Detail.SHAPE
        orphans = self.store.orphans(self.settings.scope, detail=detail)
        if pattern and not pattern.is_literal:
            orphans = (orphan for orphan in orphans if pattern.matches(orphan.prefix))
        self._show(orphans, takers, [check.orphan for check in takers])

    def _show_items(self, progress: Progress | None) -> None:
        by_item = [check for check in self.running if reads_items(check)]
        by_space = [check for check in self.running if defines(check, "namespace")]
        pattern = self.settings.pattern
        if not self.settings.quick:
            items = scan(self.store, self.settings, self.running)
            self._show_in_order(items, by_space, by_item, progress)
            return
        if by_space and isinstance(self.store, Examined):
            spaces = self.store.prefixes(self.settings.scope)
            if pattern:
                spaces = filter(pattern.matches, spaces)
            self._show(spaces, by_space, [check.namespace for check in by_space])
        if by_item and isinstance(self.store, Expiring):
            items = self.store.expiring(self.settings.scope, self.patient.now)
            if pattern:
                items = (item for item in items if pattern.matches(item.prefix))
            self._show_in_order(items, [], by_item, progress)

    def _show_in_order(
        self, items: Iterator[Item], by_space: list[Check], by_item: list[Check], progress: Progress | None
    ) -> None:
        """Show each namespace to one group of checks, and then its items, a few at a time, to the other."""
        spaces = [check.namespace for check in by_space]
        takes = [check.items for check in by_item]
        prefix: str | None = None
        try:
            for run in _runs(items):
                if run[0].prefix != prefix:
                    prefix = run[0].prefix
                    self._hand(prefix, spaces)
                self._hand(run, takes)
                if progress is not None:
                    progress(len(run))
        except MemctlError as error:
            self._give_up([*by_space, *by_item], error)

    def _show(
        self, things: Iterable[object], checks: Sequence[Check], takes: list[Callable[..., None]]
    ) -> None:
        try:
            for thing in things:
                self._hand(thing, takes)
        except MemctlError as error:
            self._give_up(checks, error)

    def _hand(self, thing: object, takes: list[Callable[..., None]]) -> None:
        """Hand one thing to all that take it; whoever fails takes no more."""
        for take in tuple(takes):
            try:
                take(thing)
            except Exception as error:
                self._drop(take, error, takes)

    def _drop(self, take: Callable[..., None], error: Exception, takes: list[Callable[..., None]]) -> None:
        takes.remove(take)
        check: Check = take.__self__  # type: ignore[attr-defined]
        self._fail(check, error)

    def _give_up(self, checks: Sequence[Check], error: MemctlError) -> None:
        """The store ended early: nobody who counted on all of it has an answer."""
        if error.exit_code != MemctlError.exit_code:
            raise error
        for check in checks:
            self._fail(check, error)

    def _guarded(self, check: Check, work: Callable[[], Finding]) -> Finding | None:
        try:
            return work()
        except Exception as error:
            self._fail(check, error)
            return None

    def _fail(self, check: Check | type[Check], error: Exception) -> None:
        if isinstance(error, MemctlError) and error.exit_code != MemctlError.exit_code:
            raise error
        known = error.message if isinstance(error, MemctlError) else f"{type(error).__name__}: {error}"
        self._found.setdefault(
            check.id, Finding(check.id, check.level, Status.FAILED, message=f"it could not run: {known}")
        )
        if check in self.running:
            self.running.remove(check)


def scan(store: Store, settings: Settings, checks: Iterable[Check], *, full: bool = False) -> Iterator[Item]:
    """Yield the items in scope with all that these checks need of them, or with everything."""
    checks = list(checks)
    has_vectors = Capability.VECTORS in store.capabilities
    detail = max((check.vectors for check in checks), key=lambda each: each.value, default=Detail.NONE)
    if full:
        detail = Detail.FULL
    items = store.scan(
        settings.scope,
        values=full or any(check.values for check in checks),
        vectors=detail if has_vectors else Detail.NONE,
    )
    pattern = settings.pattern
    if pattern and not pattern.is_literal:
        return (item for item in items if pattern.matches(item.prefix))
    return items


def _runs(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield items of one namespace that follow one another, as many as fit into `RUN_OCTETS`."""
    run: list[Item] = []
    prefix: str | None = None
    room = 0
    for item in items:
        if room <= 0 or item.prefix != prefix:
            if run:
                yield run
            run, room, prefix = [], RUN_OCTETS, item.prefix
        run.append(item)
        room -= item.size + _ITEM_OCTETS
    if run:
        yield run
