"""What only the doctor asks of a SQLite file: vectors without an item, and namespaces by index alone.

In rollback-journal mode everything is read in parts of some `HOLD` seconds, as the store reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

from memctl.model import Detail, Item, Problem, Scope, decode
from memctl.stores.sqlite import store as sizes
from memctl.stores.sqlite.decode import prefix_of, text_of, vector_of
from memctl.stores.sqlite.ranges import Bound, Cut, Keys, Part, parts_of

if TYPE_CHECKING:
    from memctl.stores.sqlite.store import SqliteStore

MARK = 1_009
"""One row in so many is fetched in any case, to look at the clock."""
PREFIXES = 1_000

_NAME = itemgetter(0, 1, 8)
_BLOBS = "(prefix >= x'') + 2 * (key >= x'')"
_GONE = """NOT EXISTS (SELECT 1 FROM "{table}" AS s WHERE s.prefix = v.prefix AND s.key = v.key)"""
_ORPHANS = f"""SELECT prefix, key, field_name, {{embedding}}, {{octets}}, created_at, updated_at, {{vector_blobs}},
{{name_blobs}}, {_GONE} FROM "{{table}}_vectors" AS v WHERE {{where}} AND (rowid % {{mark}} = 0 OR {_GONE})
ORDER BY prefix, key, field_name"""
_PREFIXES = """WITH RECURSIVE next(prefix) AS (
SELECT (SELECT prefix FROM "{table}" WHERE {where} ORDER BY prefix LIMIT 1)
UNION ALL SELECT (SELECT prefix FROM "{table}" WHERE prefix > next.prefix AND {where} ORDER BY prefix LIMIT 1)
FROM next WHERE next.prefix IS NOT NULL)
SELECT prefix, prefix >= x'' FROM next WHERE prefix IS NOT NULL LIMIT {rows}"""


def orphans(store: SqliteStore, scope: Scope, detail: Detail) -> Iterator[Item]:
    """Yield the vectors that have no item, see `store.Examined`."""
    if not store.has_vectors:
        return
    pending = list(reversed(parts_of(scope)))
    while pending:
        part = pending.pop()
        with store._transaction():
            if store._snapshot:
                yield from _grouped(row for row in _rows(store, part, detail) if row[9])
                continue
            found, cut = _slice(store, part, detail)
        if cut:
            pending.extend(reversed(part.after(cut)))
        yield from _grouped(found)


def prefixes(store: SqliteStore, scope: Scope) -> Iterator[str]:
    """Yield the namespaces that hold items, each found by one seek in the index."""
    for start in parts_of(scope):
        part: Part | None = start
        while part is not None:
            where, parameters = part.condition
            sql = store._sql(_PREFIXES, where=where, rows=str(PREFIXES))
            with store._transaction():
                found = store._connection.execute(sql, (*parameters, *parameters)).fetchall()
            yield from (prefix_of(prefix)[0] for prefix, _ in found)
            if len(found) < PREFIXES or isinstance(part, Keys):
                break
            prefix, is_blob = found[-1]
            part = part.after(Cut(Bound(prefix, bool(is_blob)), Bound(b"")))[-1]


def _slice(store: SqliteStore, part: Part, detail: Detail) -> tuple[list[tuple[Any, ...]], Cut | None]:
    """Read orphans for some `HOLD` seconds; return where to go on, between two names, if there is more."""
    until = perf_counter() + sizes.HOLD
    found: list[tuple[Any, ...]] = []
    last: tuple[Any, ...] | None = None
    for row in _rows(store, part, detail):
        name = _NAME(row)
        if last is not None and name != last:
            prefix, key, blobs = last
            return found, Cut(Bound(prefix, bool(blobs & 1)), Bound(key, bool(blobs & 2)))
        if row[9]:
            found.append(row)
        if perf_counter() > until:
            last = name
    return found, None


def _rows(store: SqliteStore, part: Part, detail: Detail) -> Iterable[tuple[Any, ...]]:
    """Look for orphans; their rows end in 1, and those in 0 only let one look at the clock."""
    where, parameters = part.condition
    embedding = "embedding" if detail is Detail.FULL else "NULL"
    sql = store._sql(_ORPHANS, where=where, embedding=embedding, name_blobs=_BLOBS, mark=str(MARK))
    return store._connection.execute(sql, parameters)


def _grouped(rows: Iterable[tuple[Any, ...]]) -> Iterator[Item]:
    for (prefix, key, blobs), group in groupby(rows, _NAME):
        vectors = tuple([vector_of(row[:8]) for row in group])
        space, space_fault = prefix_of(prefix)
        name, name_fault = text_of(key)
        problems: tuple[Problem, ...] = ()
        if blobs or space_fault or name_fault:
            problems = (
                *_odd_name("namespace", prefix, space_fault, bool(blobs & 1)),
                *_odd_name("key", key, name_fault, bool(blobs & 2)),
            )
        yield Item(space, name, None, 0, None, None, None, None, vectors, problems)


def _odd_name(part: str, cell: Any, fault: str | None, is_blob: bool) -> Iterator[Problem]:
    if is_blob:
        yield Problem(part, "stored as a BLOB, not as text", cell)
    elif fault:
        yield Problem(part, fault, decode(cell) if isinstance(cell, bytes) else cell)
