"""How a SQLite store spells what it is given: as `langgraph-checkpoint-sqlite` 3.1.2 does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memctl.blocks import Block
from memctl.model import Instant, Item, Problem, Vector, blob_names, encode, shown
from memctl.stores.sqlite.ranges import Bound

Cell = bytes | str | int | float | None

_RAW_PARTS = ("embedding", "created_at", "updated_at", "expires_at", "ttl_minutes")


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
    if item.problems:
        _put_back(cells, item.problems)
    return cells


def name_of(item: Item) -> tuple[Bound, Bound]:
    """Return prefix and key to be bound: as text, but a BLOB as one."""
    prefix, key = blob_names(item)
    return Bound(encode(item.prefix), prefix), Bound(encode(item.key), key)


def _put_back(cells: dict[str, Cell], problems: Iterable[Problem]) -> None:
    for problem in problems:
        if problem.part in _RAW_PARTS:
            raw = problem.raw
            # Surrogate escapes cannot be bound; such text is no time, and no embedding, anyhow.
            cells[problem.part] = shown(raw) if isinstance(raw, str) else raw


def vector_cells(item: Item, vector: Vector) -> tuple[Cell, ...]:
    """Return a vector's columns in the order of the table; without times of its own it gets its item's.

    A cell that could not be read, null or not, goes back as it was read.
    """
    return (
        encode(item.prefix),
        encode(item.key),
        encode(vector.field),
        *_vector_cells(vector, item.created_at, item.updated_at),
    )


def _vector_cells(vector: Vector, created: Instant | None, updated: Instant | None) -> tuple[Cell, ...]:
    """Return what a vector has beside its name; `created` and `updated` are its item's."""
    moments = moment_cell(vector.created_at or created), moment_cell(vector.updated_at or updated)
    if not vector.problems:
        return vector.embedding, *moments
    cells: dict[str, Cell] = dict(
        zip(("embedding", "created_at", "updated_at"), (vector.embedding, *moments), strict=True)
    )
    _put_back(cells, vector.problems)
    return tuple(cells.values())


def block_columns(block: Block) -> tuple[Sequence[Cell], ...]:
    """Return the columns of a block, in the order of the table; each as `item_cells` spells it."""
    created = _moments(block.created_at)
    return (
        block.prefixes,
        block.keys,
        block.values,
        created,
        created if block.updated_at == block.created_at else _moments(block.updated_at),
        [each and expiry_cell(each) for each in block.expires_at],
        block.ttl_minutes,
    )


def block_vector_cells(block: Block) -> Iterator[tuple[Cell, ...]]:
    """Return the columns of each vector of a block, as `vector_cells` does of one; names stay text."""
    for place, vectors in block.vectors.items():
        prefix, key = block.prefixes[place], block.keys[place]
        created, updated = block.created_at[place], block.updated_at[place]
        for vector in vectors:
            yield prefix, key, encode(vector.field), *_vector_cells(vector, created, updated)


def _moments(instants: Sequence[Instant]) -> Sequence[str | None]:
    """Spell a column of times as `moment_cell` does, at once where they are all in whole seconds."""
    column = "\n".join((*instants, ""))
    if column.count(".000000Z\n") < len(instants):
        return list(map(moment_cell, instants))
    return column.replace("T", " ").replace(".000000Z\n", "\n").split("\n")[:-1]
