"""What a store hands out as items of memctl's."""

from __future__ import annotations

from datetime import UTC, datetime

from memctl.instants import from_datetime
from memctl.model import Instant, Item, Problem
from memctl.stores.api.interface import Found

_DOTTED = "a label with a dot in it, which reads as two"


def item_of(found: Found, *, values: bool = True) -> Item:
    """Return the item; `problems` name what could not be read."""
    problems = found.problems
    prefix = ".".join(found.labels)
    if prefix.count(".") >= len(found.labels):
        problems += (Problem("namespace", _DOTTED, repr(list(found.labels))),)
    created, created_problem = instant_of(found.created_at, "created_at")
    updated, updated_problem = instant_of(found.updated_at, "updated_at")
    problems += created_problem + updated_problem
    value = found.value
    return Item(
        prefix=prefix,
        key=found.key,
        value=value if values else None,
        size=0 if value is None else len(value),
        created_at=created,
        updated_at=updated,
        expires_at=None,
        ttl_minutes=None,
        problems=problems,
    )


def instant_of(cell: datetime | str | None, part: str) -> tuple[Instant | None, tuple[Problem, ...]]:
    """Return a time as an instant, and what is wrong with it. One without a zone is UTC, as the library's are."""
    moment: datetime
    if cell is None:
        return None, (Problem(part, "no timestamp"),)
    if isinstance(cell, datetime):
        moment = cell
    elif len(cell) == 32 and cell.endswith("+00:00") and cell[19] == ".":  # as the server spells it
        return f"{cell[:26]}Z", ()
    else:
        try:
            moment = datetime.fromisoformat(cell)
        except ValueError:
            return None, (Problem(part, "no timestamp", cell),)
    return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC)), ()
