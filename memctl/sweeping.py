"""Sweeping: what has expired, and what a retention policy gives up, found in byte order.

Nothing is deleted here: `find` says what goes, `whole` reads it again with everything it has, and
`changes.carry_out` takes it away for as long as it is what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from itertools import groupby

import msgspec

from memctl.instants import backwards, shift
from memctl.model import EVERYTHING, Detail, Instant, Item, Problem, Scope, encode
from memctl.namespaces import Pattern
from memctl.retention import Policy, Rule
from memctl.sorting import Sorter
from memctl.store import Expiring, Store

EXPIRED = 0
"""Stands where the number of a rule would: the item's own expiry has come."""
SORTED_OCTETS = 8 * 1024 * 1024
"""What is held of each thing that has to be sorted, before it goes to a file."""
_FIRST = "0001-01-01T00:00:00.000000Z"
"""The first instant: at which nothing has expired whose expiry can be read."""
_READ_ROWS = 500
_READ_OCTETS = 4 * 1024 * 1024


class Going(msgspec.Struct, frozen=True, gc=False):
    """An item that is to go, without its value, and why: `EXPIRED`, or the number of a rule."""

    item: Item
    rule: int = EXPIRED


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What is decided about an item: which rule (`EXPIRED` for its own expiry, None for no rule) and whether it goes.

    `goes` is None where its times are too odd to decide, or its value is for the rule's filter: then that stands
    among the item's problems. `place` is where it stands, from 1 on, among those of
    which the rule keeps the last.
    """

    item: Item
    rule: int | None
    goes: bool | None
    place: int | None = None


shift_once = lru_cache(maxsize=64)(shift)
"""The same few are asked for over and over."""

Odd = Callable[[Item], None]
"""Told of an item that may have to go, if what its times say were only sure."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep takes: by `now`, what expired `grace` ago, and what the policy gives up if there is one.

    What is marked odd among an item's times is not relied upon, unless `trusts_odd`; what cannot be read at all
    never is.
    """

    now: Instant
    pattern: Pattern | None = None
    grace: timedelta = timedelta()
    trusts_odd: bool = False
    policy: Policy | None = None
    policy_only: bool = False
    until: Instant = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "until", shift(self.now, -self.grace))

    @property
    def scope(self) -> Scope:
        """The key range to look through."""
        return self.pattern.scope if self.pattern else EVERYTHING

    def covers(self, prefix: str) -> bool:
        """Tell whether a namespace is meant."""
        return self.pattern is None or self.pattern.matches(prefix)

    def find(self, store: Store, odd: Odd) -> Iterator[Going]:
        """Yield what goes, in byte order, its vectors in shape; tell of what was too odd to decide."""
        if self.policy is not None:
            return self._by_policy(store, self.policy, odd)
        return self._expired(store, odd)

    def _expired(self, store: Store, odd: Odd) -> Iterator[Going]:
        if isinstance(store, Expiring):
            found = store.expiring(self.scope, self.until, vectors=Detail.SHAPE)
        else:
            found = store.scan(self.scope, values=False, vectors=Detail.SHAPE)
        for item in found:
            if not self.covers(item.prefix):
                continue
            has_expired = self.has_expired(item)
            if has_expired:
                yield Going(item)
            elif has_expired is None:
                odd(item)

    def has_expired(self, item: Item) -> bool | None:
        """Decide by an item's own expiry; None where that is too odd to decide."""
        is_odd = any(problem.part == "expires_at" for problem in item.problems)
        if item.expires_at is None:
            return None if is_odd else False
        if item.expires_at > self.until:
            return False
        return True if self.trusts_odd or not is_odd else None

    def _by_policy(self, store: Store, policy: Policy, odd: Odd) -> Iterator[Going]:
        for _, verdicts in groupby(self.judge(store, policy), lambda verdict: verdict.item.prefix):
            with Sorter(_by_key, size=octets_of, octets=SORTED_OCTETS) as going:
                for verdict in verdicts:
                    if verdict.goes:
                        going.add(Going(_bare(verdict.item), verdict.rule or EXPIRED))
                    elif verdict.goes is None:
                        odd(verdict.item)
                yield from going

    def judge(self, store: Store, policy: Policy) -> Iterator[Verdict]:
        """Decide about every item, namespace by namespace; within one they come in no particular order."""
        found = store.scan(self.scope, values=policy.looks_inside, vectors=Detail.SHAPE)
        for prefix, items in groupby(found, lambda item: item.prefix):
            if self.covers(prefix):
                yield from self._namespace(items, policy)

    def _namespace(self, items: Iterable[Item], policy: Policy) -> Iterator[Verdict]:
        with Sorter(_by_rank, size=octets_of, octets=SORTED_OCTETS) as ranked:
            for item in items:
                has_expired = False if self.policy_only else self.has_expired(item)
                if has_expired:
                    yield Verdict(item, EXPIRED, goes=True)
                    continue
                rule, fault = policy.decision(item)
                if rule is not None and fault is not None:
                    yield Verdict(_with_fault(item, fault), rule.number, goes=None)
                elif rule is None:
                    yield Verdict(item, None, goes=has_expired)
                elif not self.relies_on(rule, item):
                    yield Verdict(item, rule.number, goes=None)
                elif rule.keep_last is not None and not _is_expired(item, self.now):
                    ranked.add(Going(_bare(item), rule.number))
                else:
                    yield Verdict(item, rule.number, goes=self.is_over(rule, item) or has_expired)
            for number, candidates in groupby(ranked, lambda candidate: candidate.rule):
                rule = policy.rules[number - 1]
                for place, candidate in enumerate(candidates, 1):
                    item = candidate.item
                    goes = place > (rule.keep_last or 0) or self.is_over(rule, item)
                    doubts = False if self.policy_only else self.has_expired(item)
                    yield Verdict(item, number, goes=goes or doubts, place=place)

    def end(self, verdict: Verdict) -> Instant | None:
        """Return when time takes an item that stays for now: its own expiry or its rule's, the first of both."""
        is_sure = verdict.goes is not None
        rule = self.policy.rules[verdict.rule - 1] if self.policy and verdict.rule and is_sure else None
        own = verdict.item.expires_at
        ends = [
            shift(own, self.grace) if own is not None and not self.policy_only else None,
            rule.end(verdict.item) if rule is not None else None,
        ]
        return min((end for end in ends if end is not None), default=None)

    def still_takes(self, item: Item, number: int) -> bool:
        """Decide anew about an item that has become another meanwhile, read with its value.

        Whatever was written a moment ago is among the newest, so that `keep_last` does not give it up.
        """
        if number == EXPIRED or self.policy is None:
            return self.has_expired(item) is True
        rule, fault = self.policy.decision(item)
        return rule is not None and fault is None and self.relies_on(rule, item) and self.is_over(rule, item)

    def relies_on(self, rule: Rule, item: Item) -> bool:
        """Tell whether what a rule looks at in an item is sure enough to act upon."""
        faults = {problem.part for problem in item.problems}
        return all(
            part not in faults or (self.trusts_odd and getattr(item, part) is not None)
            for part in rule.looks_at
        )

    def is_over(self, rule: Rule, item: Item) -> bool:
        """Tell whether a rule's time is over for an item."""
        moment = rule.moment(item)
        return rule.keep is not None and moment is not None and moment <= shift_once(self.now, -rule.keep)


def odd_expiries(sweep: Sweep, store: Store) -> Iterator[Item]:
    """Yield the items of a sweep whose expiry cannot be read; a store in which all others are right."""
    found = store.expiring(sweep.scope, _FIRST) if isinstance(store, Expiring) else store.scan(sweep.scope)
    return (item for item in found if sweep.covers(item.prefix) and sweep.has_expired(item) is None)


def whole(store: Store, going: Iterable[Going], left: Callable[[Going], None]) -> Iterator[Going]:
    """Read what is going again, values and vectors too.

    What is not found, or has become another meanwhile, is left out and told of.
    """
    for prefix, group in groupby(going, lambda each: each.item.prefix):
        for part in _parts(group):
            wanted = {each.item.key: each for each in part}
            for item in store.get(prefix, list(wanted), vectors=Detail.FULL):
                found = wanted[item.key]
                if _times(item) == _times(found.item):
                    del wanted[item.key]
                    yield Going(item, found.rule)
            for each in wanted.values():
                left(each)


def _parts(going: Iterable[Going]) -> Iterator[list[Going]]:
    part: list[Going] = []
    octets = 0
    for each in going:
        part.append(each)
        octets += each.item.size + sum(4 * vector.dims for vector in each.item.vectors)
        if octets >= _READ_OCTETS or len(part) >= _READ_ROWS:
            yield part
            part, octets = [], 0
    if part:
        yield part


def _times(item: Item) -> tuple[Instant | None, ...]:
    return item.created_at, item.updated_at, item.expires_at


def _is_expired(item: Item, now: Instant) -> bool:
    return item.expires_at is not None and item.expires_at <= now


def _bare(item: Item) -> Item:
    return item if item.value is None else msgspec.structs.replace(item, value=None)


def _with_fault(item: Item, fault: str) -> Item:
    """Return an item, without its value, that tells what is wrong with that."""
    known = tuple(problem for problem in item.problems if problem.part != "value")
    return msgspec.structs.replace(item, value=None, problems=(*known, Problem("value", fault)))


def _by_key(going: Going) -> bytes:
    return encode(going.item.key)


def _by_rank(going: Going) -> tuple[int, str, bytes]:
    return going.rule, backwards(going.item.updated_at), encode(going.item.key)


def octets_of(going: Going) -> int:
    """Estimate what an item without its value takes in memory, beyond what every one takes."""
    return len(going.item.prefix) + len(going.item.key) + 500 * len(going.item.vectors)
