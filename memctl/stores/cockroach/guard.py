"""The guard in CockroachDB's layout: PostgreSQL's triggers, for as long as it is PostgreSQL that runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memctl.guard import RULES, Guard, State
from memctl.stores.postgres import guard
from memctl.stores.postgres.layout import Layout

UNTRIED = "memctl's triggers were never tried on CockroachDB itself"


def guards(
    fetch: Callable[..., list[tuple[Any, ...]]], layout: Layout, *, is_cockroach: bool
) -> tuple[Guard, ...]:
    """Return how each rule stands; on CockroachDB itself none is installed."""
    if not is_cockroach:
        return guard.guards(fetch, layout)
    return tuple(_guard(rule, layout) for rule in RULES)


def _guard(rule: str, layout: Layout) -> Guard:
    reason = guard.needless(rule, layout)
    return Guard(rule, State.NEEDLESS if reason else State.OFF, reason=reason or UNTRIED)
