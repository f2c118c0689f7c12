"""What a retention policy says about a store, or about one item of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memctl.model import Instant, Item, shown
from memctl.namespaces import show
from memctl.sweeping import EXPIRED

if TYPE_CHECKING:
    from memctl.cli.context import Context
    from memctl.render import Report
    from memctl.retention import Policy
    from memctl.store import Store
    from memctl.sweeping import Sweep, Verdict


@dataclass(slots=True)
class _Line:
    """What a rule decides about: how many items, how many of them would go now, and when the next one would."""

    decides: int = 0
    goes: int = 0
    octets: int = 0
    next: Instant | None = None

    def add(self, verdict: Verdict, end: Instant | None) -> None:
        self.decides += 1
        if verdict.goes:
            self.goes += 1
            self.octets += verdict.item.size
        elif end is not None and (self.next is None or end < self.next):
            self.next = end


def explain_rules(context: Context, policy: Policy, file: str) -> None:
    """Show the rules as they were understood; no store is named."""
    from memctl.render import Column, Grid, Kind, Report
    from memctl.render.units import counted

    columns = Column("rule", Kind.COUNT), Column("name", flexible=True), Column("keeps")
    rows = [{"rule": rule.number, "name": rule.name, "keeps": rule.written} for rule in policy.rules]
    headline = (
        f"{file} is good: {counted(len(rows), 'rule')}; with a store named, what they would take is shown"
    )
    context.emit_report(Report({"store": None, "rules": rows}, (Grid("", columns, rows),), headline))


def explain_store(context: Context, policy: Policy, store: Store) -> None:
    """Show what each rule decides about, what would go now, and when the next would.

    The object of `-o json`: `store`, `now`, `items`, `goes` and `bytes` (what would go), `undecided` (too odd to
    be decided), and `rules`: the items' own expiry (`rule` 0), the policy's rules, and what none fits (`rule`
    null), each with `name`, `keeps`, `decides`, `goes`, `bytes`, `next`.
    """
    from memctl.cli.sweep_report import SAMPLES, faults_of
    from memctl.render import Column, Grid, Kind, Report
    from memctl.render.units import counted, octets

    sweep = _sweep(policy, store)
    numbers: list[int | None] = [EXPIRED, *(rule.number for rule in policy.rules), None]
    lines = {number: _Line() for number in numbers}
    undecided = 0
    samples: list[Item] = []
    for verdict in sweep.judge(store, policy):
        if verdict.goes is None:
            undecided += 1
            samples += [verdict.item] if len(samples) < SAMPLES else []
        lines[verdict.rule].add(verdict, sweep.end(verdict) if verdict.goes is False else None)
    rows = [_row(policy, number, line) for number, line in lines.items()]
    items, goes = sum(line.decides for line in lines.values()), sum(line.goes for line in lines.values())
    size = sum(line.octets for line in lines.values())
    data = {
        "store": store.address,
        "now": sweep.now,
        "items": items,
        "goes": goes,
        "bytes": size,
        "undecided": undecided,
        "rules": rows,
    }
    columns = (
        Column("name", flexible=True),
        Column("keeps"),
        Column("decides", Kind.COUNT),
        Column("goes", Kind.COUNT),
        Column("bytes", Kind.OCTETS),
        Column("next", Kind.INSTANT),
    )
    headline = f"{goes:,} of {counted(items, 'item')} ({octets(size)}) would go now"
    context.emit_report(Report(data, (Grid("", columns, rows),), headline))
    context.say_if_moved(store)
    for item in samples:
        context.warn(f"{show(shown(item.prefix))} {shown(item.key)!r}: {faults_of(item)}")
    if undecided:
        context.warn(f"{counted(undecided, 'item')} with times or values too odd to decide by", outcome=3)


def explain_item(context: Context, policy: Policy, store: Store, ns: str, key: str) -> None:
    """Show which rule decides about one item, whether it would go, and when. Raises NothingThere."""
    from memctl import namespaces
    from memctl.cli.sweep_report import faults_of
    from memctl.nearest import missing_keys

    prefix = namespaces.parse_exact(ns)
    sweep = _sweep(policy, store, ns)
    found: Verdict | None = None
    ranked: dict[int | None, int] = {}
    for verdict in sweep.judge(store, policy):
        if verdict.place is not None:
            ranked[verdict.rule] = verdict.place
        if verdict.item.key == key:
            found = verdict
    if found is None:
        raise missing_keys(store, prefix, [key])
    context.emit_report(_item_report(policy, sweep, found, ranked.get(found.rule, 0)))
    if found.goes is None:
        context.warn(f"it cannot be decided about: {faults_of(found.item)}", outcome=3)


def _sweep(policy: Policy, store: Store, ns: str | None = None) -> Sweep:
    from memctl.namespaces import Pattern, parse
    from memctl.store import Capability
    from memctl.sweeping import Sweep

    pattern = Pattern(parse(ns).labels, descend=False) if ns is not None else None
    only = Capability.EXPIRY not in store.capabilities
    return Sweep(store.now(), pattern, policy=policy, policy_only=only)


def _row(policy: Policy, number: int | None, line: _Line) -> dict[str, Any]:
    if number:
        name, keeps = policy.rules[number - 1].name, policy.rules[number - 1].written
    else:
        name, keeps = ("no rule", "all") if number is None else ("expired", "until it expires")
    return {
        "rule": number,
        "name": name,
        "keeps": keeps,
        "decides": line.decides,
        "goes": line.goes,
        "bytes": line.octets,
        "next": line.next,
    }


def _item_report(policy: Policy, sweep: Sweep, verdict: Verdict, ranked: int) -> Report:
    """The object: `namespace`, `key`, `rule`, `name`, `keeps`, `goes`, `at`, `place`, `among`, and the times."""
    from memctl.render import Facts, Report
    from memctl.render.units import moment

    item, at = verdict.item, sweep.end(verdict)
    row = _row(policy, verdict.rule, _Line())
    data = {
        "namespace": shown(item.prefix).split("."),
        "key": shown(item.key),
        "rule": verdict.rule,
        "name": row["name"],
        "keeps": row["keeps"],
        "goes": verdict.goes,
        "at": at,
        "place": verdict.place,
        "among": ranked if verdict.place is not None else None,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "expires_at": item.expires_at,
    }
    facts = [("decided by", f"{row['name']}: {row['keeps']}")]
    facts += [(name, moment(time)) for name, time in _times(item) if time is not None]
    if verdict.place is not None:
        facts.append(("place", f"{verdict.place:,} of {ranked:,}, the newest first"))
    facts.append(("time is over", "never" if at is None else moment(at)))
    decision = {True: "would go now", False: "stays", None: "is left alone"}[verdict.goes]
    return Report(data, (Facts("", facts),), f"{show(shown(item.prefix))} {shown(item.key)}: {decision}")


def _times(item: Item) -> tuple[tuple[str, Instant | None], ...]:
    return ("created", item.created_at), ("updated", item.updated_at), ("expires", item.expires_at)
