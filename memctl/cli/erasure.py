"""Erasing a subject, store by store: looking, asking, deleting, proving, telling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from memctl.cli.tally import Tally
from memctl.errors import MemctlError
from memctl.model import shown
from memctl.namespaces import show

if TYPE_CHECKING:
    from memctl.addresses import Address
    from memctl.cli.context import Context
    from memctl.cli.shield import Shield
    from memctl.forgetting import Mention, Names, Proof, Subject
    from memctl.model import Item
    from memctl.store import Change, Store, Target

_ROUNDS = 5
"""How often the subject's namespaces are looked through again, where an agent goes on writing there."""
_ORPHANS_AT_ONCE = 500
_LISTED = 1_000
"""Mentions that are listed; all are counted."""


@dataclass(slots=True)
class Erasure:
    """What is erased in one store."""

    context: Context
    address: Address
    store: Store
    target: Target | None
    """The same, open for writing, unless it is a dry run."""
    subject: Subject
    total: Tally = field(default_factory=Tally)
    by_namespace: dict[str, Tally] = field(default_factory=dict)
    orphans: int = 0
    """Vectors without an item."""
    former: int = 0
    """Entries of the store's history, with the former values that they held."""
    prefixes: set[str] = field(default_factory=set)
    """The namespaces under which something was found when it was looked for."""
    left: int = 0
    """Items that somebody else kept writing."""
    reasons: tuple[str, ...] = ()
    """Why octets of it may be left."""
    is_done: bool = False
    """Whether nothing ended it early."""
    unreachable: tuple[str, ...] = ()
    can_overwrite: bool = False
    proof: Proof | None = None
    mentions: list[Mention] | None = None
    """Some of the items elsewhere that name the subject; None where nobody has looked."""
    mention_count: int = 0

    def look(self) -> None:
        """Count what is there."""
        for item in self.subject.items(self.store):
            self._count(item)
        self.prefixes.update(self.by_namespace)
        for orphan in self.subject.orphans(self.store):
            self.orphans += len(orphan.vectors)
            self.prefixes.add(orphan.prefix)
        for entry in self.subject.past(self.store):
            self.former += 1
            self.prefixes.add(entry.prefix)

    def list_mentions(self, text: str | None) -> None:
        """Look for the subject elsewhere: for a text, or else for their labels as words."""
        from memctl.forgetting import Naming

        naming = Naming(text) if text is not None else Naming(labels=self.subject.labels)
        self.mentions = []
        for mention in naming.mentions(self.store, self.subject):
            self.mention_count += 1
            if len(self.mentions) < _LISTED:
                self.mentions.append(mention)

    @property
    def has_erased(self) -> bool:
        """Whether anything went."""
        return bool(self.total.items or self.orphans or self.former)

    def begin(self) -> None:
        """Count from nothing again, since now it goes. Raises Busy or Refused where it shows that it could not."""
        from memctl.store import Erasing, Permitting

        self.total, self.by_namespace, self.orphans, self.former = Tally(), {}, 0, 0
        self.reasons = ("it was not reached",)
        target: object = self.target
        if isinstance(target, Permitting):
            target.check_writing("DELETE")
        if isinstance(target, Erasing):
            self.unreachable, self.can_overwrite = target.unreachable, target.overwrites

    def erase(self, names: Names, shield: Shield) -> None:
        """Delete, overwrite, and prove that nothing else went.

        What ends it early stands in `reasons` and is raised; what was done until then is counted all the same.
        """
        target = self.target
        assert target is not None
        self.reasons = ()
        try:
            self._erase(target, names, shield)
        except BaseException as error:
            self.reasons = (_said(error), *self.reasons)
            raise
        self.is_done = True

    def _erase(self, target: Target, names: Names, shield: Shield) -> None:
        from memctl.forgetting import Print, prove
        from memctl.sorting import Sorter
        from memctl.store import Erasing

        with Sorter[Print](lambda _print: 0) as before:
            for each in self.subject.beside(self.store):
                before.add(each)
            if isinstance(target, Erasing):
                target.secure()
            self._delete(target, names, shield)
            self._forget_the_past(target, shield)
            if isinstance(target, Erasing):
                self.reasons = target.scrub()
            else:
                self.reasons = ("memctl does not know what this store keeps of what was deleted",)
            with closing(self.context.open_at(self.address)) as fresh:
                self.proof = prove(before, self.subject.beside(fresh))

    def _delete(self, target: Target, names: Names, shield: Shield) -> None:
        """Delete until a fresh look finds nothing more; nobody else's look is open when this returns."""
        from memctl.store import Repairable

        store: Store = target
        for _ in range(_ROUNDS):
            self._delete_once(store, target, names, shield)
            if store is not target:
                store.close()
            store = self.context.open_at(self.address)
            is_over = next(self.subject.items(store), None) is None
            if is_over and isinstance(target, Repairable):
                is_over = next(self.subject.orphans(store), None) is None
            if is_over:
                break
        else:
            self.left = sum(1 for _ in self.subject.items(store))
        store.close()

    def _forget_the_past(self, target: Target, shield: Shield) -> None:
        """Erase what history holds of the subject, their deletion just now included."""
        from memctl.history import Recording
        from memctl.model import Scope

        if not isinstance(target, Recording):
            return
        with closing(self.context.open_at(self.address)) as store:
            prefixes = {entry.prefix for entry in self.subject.past(store)}
        for prefix in sorted(prefixes):
            with shield.up():
                self.former += target.unremember(Scope(prefix, descend=False))

    def _delete_once(self, store: Store, target: Target, names: Names, shield: Shield) -> None:
        from memctl.changes import Pace, carry_out
        from memctl.cli.sweep_round import MOST_ROWS
        from memctl.store import Change, Repairable

        def done(change: Change) -> None:
            if change.was is not None:
                names.add(change.was)
                self._count(change.was)

        with shield.up():
            changes = (Change(item, None) for item in shield.each(self.subject.items(store)))
            carry_out(changes, target, pace=Pace(most=MOST_ROWS), done=done, again=self._again)
        orphans = self.subject.orphans(store)
        while isinstance(target, Repairable) and (batch := list(islice(orphans, _ORPHANS_AT_ONCE))):
            with shield.up():
                self.orphans += target.purge(batch)
                for orphan in batch:
                    names.add(orphan)

    def _again(self, left: Sequence[Change]) -> Iterator[Change]:
        """Read what was rewritten meanwhile: it is the subject's all the same."""
        from memctl.choosing import read_anew
        from memctl.store import Change

        overtaken = [change.was for change in left if change.was is not None]
        with closing(self.context.open_at(self.address)) as store:
            for _, now in read_anew(store, overtaken):
                if now is not None:
                    yield Change(now, None)

    def _count(self, item: Item) -> None:
        self.total.add(item)
        self.by_namespace.setdefault(item.prefix, Tally()).add(item)

    @property
    def is_erased(self) -> bool:
        """Whether no octet of it is left in the store."""
        return not self.reasons and not self.left

    def preview(self) -> None:
        """Say what is there and goes, and what begins alike and stays."""
        from memctl.coverage import alike
        from memctl.render.units import counted, octets

        total, spaces = self.total, counted(len(self.by_namespace), "namespace")
        amount = f"{counted(total.items, 'item')} and {counted(total.vectors, 'vector')} in {spaces}"
        orphans = f", {counted(self.orphans, 'vector')} without an item" if self.orphans else ""
        past = f", {self.former:,} in its history" if self.former else ""
        self.context.note(f"{self.store.address}: {amount} ({octets(total.octets)}){orphans}{past}")
        for pattern in self.subject.patterns:
            prefix = pattern.scope.prefix  # every name begins like the empty one
            if pattern.is_literal and prefix and (names := alike(self.store, prefix)):
                others = ", ".join(show(shown(name)) for name in names)
                begin = "begins" if len(names) == 1 else "begin"
                self.context.note(f"{self.store.address}: leaves {others}, which only {begin} alike")


def mention_row(mention: Mention, address: str) -> dict[str, Any]:
    """Return a mention as the receipt has it."""
    return {
        "store": address,
        "namespace": shown(mention.item.prefix).split("."),
        "key": shown(mention.item.key),
        "where": list(mention.where),
    }


def _said(error: BaseException) -> str:
    """Say in a sentence what ended the work early."""
    if isinstance(error, MemctlError):
        return error.message
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
