"""How a SQLite store spells what it is given: as `langgraph-checkpoint-sqlite` 3.1.2 does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memctl.blocks import Block
from memctl.model import Instant, Item, Vector, encode, shown

Cell = bytes | str | int | float | None


def moment_cell(instant: Instant | None) -> str | None:
    """Spell `created_at` or `updated_at`: `2026-11-30 07:42:43`, a fraction only where there is one."""
    if instant is None:
        return None
    spelled = f"{instant[:10]} {instant[11:26]}"
    return spelled[:19] if spelled.endswith(".000000") else spelled


def expiry_cell(instant: Instant | None) -> str | None:
    """Spell `expires_at` as a put does: in UTC with its zone, a fraction only where there is one."""
    moment = moment_cell(instant)
    return moment and moment + "+00:00"


def item_cells(item: Item) -> dict[str, Cell]:
    """Return an item's columns; a cell that could only be guessed at goes back as it was read."""
    cells: dict[str, Cell] = {
        "prefix": encode(item.prefix),
        "key": encode(item.key),
        "value": item.value,
        "created_at": moment_cell(item.created_at),
        "updated_at": moment_cell(item.updated_at),
        "expires_at": expiry_cell(item.expires_at),
        "ttl_minutes": item.ttl_minutes,
    }
    for problem in item.problems:
        if problem.part in ("created_at", "updated_at", "expires_at", "ttl_minutes"):
            raw = problem.raw
            # Surrogate escapes cannot be bound; such text is no time anyhow.
            cells[problem.part] = shown(raw) if isinstance(raw, str) else raw
    return cells


def vector_cells(item: Item, vector: Vector) -> tuple[Cell, ...]:
    """Return a vector's columns in the order of the table; without times of its own it gets its item's."""
    return (
        encode(item.prefix),
        encode(item.key),
        encode(vector.field),
        vector.embedding,
        moment_cell(vector.created_at or item.created_at),
        moment_cell(vector.updated_at or item.updated_at),
    )


def block_cells(block: Block) -> Iterable[tuple[Cell, ...]]:
    """Return the columns of each item of a block, in the order of the table."""
    created = _moments(block.created_at)
    return zip(
        block.prefixes,
        block.keys,
        block.values,
        created,
        created if block.updated_at == block.created_at else _moments(block.updated_at),
        map(expiry_cell, block.expires_at),
        block.ttl_minutes,
        strict=True,
    )


def block_vector_cells(block: Block) -> Iterator[tuple[Cell, ...]]:
    """Return the columns of each vector of a block, in the order of the table."""
    for place, vectors in block.vectors.items():
        item = block.item(place)
        yield from (vector_cells(item, vector) for vector in vectors)


def _moments(instants: Sequence[Instant]) -> Sequence[str | None]:
    """Spell a column of times as `moment_cell` does, at once where they are all in whole seconds."""
    column = "\n".join((*instants, ""))
    if column.count(".000000Z\n") < len(instants):
        return list(map(moment_cell, instants))
    return column.replace("T", " ").replace(".000000Z\n", "\n").split("\n")[:-1]
