"""What is wrong with a migration ledger, whichever database keeps it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from memctl.store import Ailment, Ledger


def ledger_faults(
    ledger: Ledger,
    effects: Sequence[str],
    *,
    remedy: Callable[[int], str | None],
    again: str,
    told: Collection[str] = (),
) -> Iterator[Ailment]:
    """Compare both ways. The library goes by the highest number: what is below it is never run again.

    `effects` says what each migration makes, `remedy` what can be done about one without effect, `again` what the
    library's setup does about one that is not recorded. What of the effects is `told` already is passed over, by
    its name.
    """
    recorded, applied = set(ledger.recorded), set(ledger.applied)
    reached = max(recorded, default=-1)
    for version in (version for version in ledger.known if version <= reached and version not in applied):
        what = effects[version]
        if what.rpartition(" ")[2] in told:
            continue
        yield Ailment(
            f"absent:{ledger.table}:{version}",
            f"{ledger.table} says that migration {version} was run, but {what} is missing",
            brief=f"{what.removeprefix('the ')} is missing",
            remedy=remedy(version),
        )
    if missing := sorted(applied - recorded):
        listed = ", ".join(map(str, missing))
        yield Ailment(
            f"unrecorded:{ledger.table}:{listed.replace(' ', '')}",
            f"{ledger.table} lacks {listed}, whose effect is there: the library's setup {again}",
            brief=f"{ledger.table} lacks {listed}",
            count=len(missing),
            remedy="record what was done",
        )
    if unknown := sorted(recorded - set(ledger.known)):
        yield Ailment(
            f"unknown:{ledger.table}",
            f"{ledger.table} records {', '.join(map(str, unknown))}, which is newer than memctl knows:"
            " look for a newer memctl before you change anything",
            brief=f"{ledger.table} is newer than memctl knows",
            count=len(unknown),
        )
