"""Erasing a subject, store by store: looking, asking, deleting, proving, telling."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

from memctl.cli.tally import Tally
from memctl.errors import UsageError
from memctl.model import shown
from memctl.namespaces import show

if TYPE_CHECKING:
    from memctl.addresses import Address
    from memctl.cli.context import Context
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
    subject: Subject
    total: Tally = field(default_factory=Tally)
    by_namespace: dict[str, Tally] = field(default_factory=dict)
    orphans: int = 0
    """Vectors without an item."""
    former: int = 0
    """Entries of the store's history, with the former values that they held."""
    left: int = 0
    """Items that somebody else kept writing."""
    reasons: tuple[str, ...] = ()
    """Why octets of it may be left."""
    unreachable: tuple[str, ...] = ()
    can_overwrite: bool = False
    proof: Proof | None = None
    mentions: list[Mention] = field(default_factory=list)
    mention_count: int = 0

    def look(self) -> None:
        """Count what is there."""
        for item in self.subject.items(self.store):
            self._count(item)
        for orphan in self.subject.orphans(self.store):
            self.orphans += len(orphan.vectors)

    def list_mentions(self, text: str | None) -> None:
        """Look for the subject elsewhere: for a text, or else for their labels as words."""
        from memctl.forgetting import Naming

        naming = Naming(text) if text is not None else Naming(labels=self.subject.labels)
        for mention in naming.mentions(self.store, self.subject):
            self.mention_count += 1
            if len(self.mentions) < _LISTED:
                self.mentions.append(mention)

    def erase(self, target: Target, names: Names) -> None:
        """Delete, overwrite, and prove that nothing else went."""
        from memctl.forgetting import Print, prove
        from memctl.sorting import Sorter
        from memctl.store import Erasing

        self.total, self.by_namespace, self.orphans = Tally(), {}, 0
        with Sorter[Print](lambda _print: 0) as before:
            for each in self.subject.beside(self.store):
                before.add(each)
            if isinstance(target, Erasing):
                target.secure()
                self.unreachable, self.can_overwrite = target.unreachable, target.overwrites
            self._delete(target, names)
            self._forget_the_past(target)
            if isinstance(target, Erasing):
                self.reasons = target.scrub()
            else:
                self.reasons = ("memctl does not know what this store keeps of what was deleted",)
            with closing(self.context.open_at(self.address)) as fresh:
                self.proof = prove(before, self.subject.beside(fresh))

    def _delete(self, target: Target, names: Names) -> None:
        """Delete until a fresh look finds nothing more; nobody else's look is open when this returns."""
        from memctl.store import Repairable

        store: Store = target
        for _ in range(_ROUNDS):
            self._delete_once(store, target, names)
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

    def _forget_the_past(self, target: Target) -> None:
        """Erase what history holds of the subject, their deletion just now included."""
        from memctl.history import Recording, Remembering
        from memctl.model import Scope

        if not isinstance(target, Recording):
            return
        with closing(self.context.open_at(self.address)) as store:
            if not isinstance(store, Remembering) or store.history() is None:
                return
            found = (entry.prefix for scope in self.subject.scopes for entry in store.entries(scope))
            prefixes = {prefix for prefix in found if self.subject.owns(prefix)}
        for prefix in sorted(prefixes):
            self.former += target.unremember(Scope(prefix, descend=False))

    def _delete_once(self, store: Store, target: Target, names: Names) -> None:
        from memctl.changes import Pace, carry_out
        from memctl.cli.sweep_round import MOST_ROWS
        from memctl.store import Change, Repairable

        def done(change: Change) -> None:
            if change.was is not None:
                names.add(change.was)
                self._count(change.was)

        changes = (Change(item, None) for item in self.subject.items(store))
        pace = Pace(most=MOST_ROWS)
        carry_out(changes, target, pace=pace, done=done, again=self._again)
        orphans = self.subject.orphans(store)
        while isinstance(target, Repairable) and (batch := list(islice(orphans, _ORPHANS_AT_ONCE))):
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
        self.context.note(f"{self.store.address}: {amount} ({octets(total.octets)}){orphans}")
        for pattern in self.subject.patterns:
            if pattern.is_literal and (names := alike(self.store, pattern.scope.prefix or "")):
                others = ", ".join(show(shown(name)) for name in names)
                self.context.note(f"{self.store.address}: leaves {others}, which only begins alike")


def run(
    context: Context, subject: Subject, written: list[str], *, text: str | None, receipt: str | None
) -> None:
    """Erase a subject on all stores that are named, and hand out the receipt."""
    from memctl.cli.receipt import Receipt
    from memctl.forgetting import Names
    from memctl.render.units import counted

    _refuse_existing(context, receipt)
    started, since = context.environment.clock(), monotonic()
    erasures: list[Erasure] = []
    targets: list[Target | None] = []
    for address in context.addresses():
        target = None if context.is_dry_run else context.open_to_write(address)
        store: Store = context.open_at(address) if target is None else target
        erasure = Erasure(context, address, store, subject)
        erasure.look()
        if text is not None or context.is_dry_run:
            erasure.list_mentions(text)
        erasure.preview()
        erasures.append(erasure)
        targets.append(target)
    if not any(each.total.items or each.orphans for each in erasures):
        context.warn(f"nothing is stored under {', '.join(written)}", outcome=5)
    items = sum(each.total.items for each in erasures)
    stores = ", ".join(each.store.address for each in erasures)
    context.confirm(f"{counted(items, 'item')} will be erased from {stores}, for good.")
    with Names(secrets.token_bytes(16)) as names:
        for erasure, target in zip(erasures, targets, strict=True):
            if target is not None:
                erasure.erase(target, names)
        paper = Receipt(context, written, erasures, names.salt, names.digest(), started, monotonic() - since)
    paper.hand_out(receipt)


def _refuse_existing(context: Context, receipt: str | None) -> None:
    if receipt is None:
        return
    path = context.environment.folder / receipt
    if os.path.lexists(path):
        raise UsageError(f"--receipt {receipt}: that file exists already", code="exists")
    if not path.parent.is_dir():
        raise UsageError(f"--receipt {receipt}: there is no folder {path.parent}", code="no-folder")


def mention_row(mention: Mention, address: str) -> dict[str, Any]:
    """Return a mention as the receipt has it."""
    return {
        "store": address,
        "namespace": shown(mention.item.prefix).split("."),
        "key": shown(mention.item.key),
        "where": list(mention.where),
    }
