"""Erasing a subject on every store that is named: looking at all, asking once, deleting, and the receipt."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from memctl.model import shown
from memctl.namespaces import show

if TYPE_CHECKING:
    from memctl.addresses import Address
    from memctl.cli.context import Context
    from memctl.cli.erasure import Erasure
    from memctl.forgetting import Subject
    from memctl.store import Store


def run(
    context: Context, subject: Subject, written: Sequence[str], *, text: str | None, receipt: str | None
) -> None:
    """Erase a subject on all stores that are named, and hand out the receipt.

    Nothing goes before all of them were found to be there, permitted and not locked. Where something ends it early
    after all, the receipt of what was done until then is handed out before that is raised.
    """
    from memctl.cli.receipt import Receipt
    from memctl.cli.shield import Shield
    from memctl.forgetting import Names
    from memctl.render.units import counted

    if receipt is not None:
        context.new_file("--receipt", receipt)
    started, since = context.environment.clock(), monotonic()
    erasures = [_looked_at(context, address, subject, text) for address in _distinct(context.addresses())]
    _tell_missing(context, subject, erasures)
    items = sum(each.total.items for each in erasures)
    stores = ", ".join(each.store.address for each in erasures)
    past = " and what is remembered of others" if any(each.former for each in erasures) else ""
    context.confirm(f"{counted(items, 'item')}{past} will be erased from {stores}, for good.")
    failure: BaseException | None = None
    with Names(secrets.token_bytes(16)) as names, Shield() as shield:
        if not context.is_dry_run:
            for each in erasures:
                each.begin()
            try:
                for each in erasures:
                    each.erase(names, shield)
            except BaseException as error:
                if not any(each.has_erased for each in erasures):
                    raise
                failure = error
        with shield.up():
            seconds = monotonic() - since
            Receipt(context, written, erasures, names.salt, names.digest(), started, seconds).hand_out(
                receipt
            )
    if failure is not None:
        raise failure


def _looked_at(context: Context, address: Address, subject: Subject, text: str | None) -> Erasure:
    """Open a store and tell what is there."""
    from memctl.cli.erasure import Erasure

    target = None if context.is_dry_run else context.open_to_write(address)
    store: Store = context.open_at(address) if target is None else target
    erasure = Erasure(context, address, store, target, subject)
    erasure.look()
    if text is not None or context.is_dry_run:
        erasure.list_mentions(text)
    erasure.preview()
    if target is None:
        context.rehearse(store, "DELETE")
        context.would_write()
    return erasure


def _distinct(addresses: Iterable[Address]) -> list[Address]:
    """Leave out a file that was named before, in other words."""
    found: dict[object, Address] = {}
    for address in addresses:
        which: object = address
        if address.scheme == "sqlite":
            with suppress(OSError):  # it is told when it is opened
                file = Path(address.target).stat()
                which = file.st_dev, file.st_ino, address.table or "store"
        found.setdefault(which, address)
    return list(found.values())


def _tell_missing(context: Context, subject: Subject, erasures: Sequence[Erasure]) -> None:
    """Say which of the namespaces that are named hold nothing in any store, and what was meant perhaps."""
    from memctl.nearest import missing_namespace

    for pattern in subject.patterns:
        if not pattern.is_literal or any(map(pattern.matches, _prefixes(erasures))):
            continue
        name = pattern.scope.prefix or ""
        hints = dict.fromkeys(missing_namespace(each.store, name).hint for each in erasures)
        spelled = show(shown(name)) if name else '""'
        context.warn(f"nothing is stored under {spelled}", outcome=5)
        for hint in filter(None, hints):
            context.note(f"  {hint}")


def _prefixes(erasures: Iterable[Erasure]) -> Iterable[str]:
    return (prefix for each in erasures for prefix in each.prefixes)
