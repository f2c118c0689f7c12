"""Deleting and renaming all items of a scope, by ranges of the key order: statements for a batch, not for an item.

What is counted and what is changed is the same, because one transaction, which holds the write lock, does both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memctl.model import Scope, encode
from memctl.store import Bulk
from memctl.stores.sqlite.ranges import Bound, Cut, Keys, Part, parts_of

if TYPE_CHECKING:
    from memctl.stores.sqlite.writer import SqliteWriter

_NEXT = """SELECT {size}, prefix, key, (prefix >= x'') + 2 * (key >= x'') FROM "{table}"
WHERE {where} ORDER BY prefix, key LIMIT ?"""  # every BLOB sorts behind all text
_BLOB_PREFIX, _BLOB_KEY = 1, 2
_TAKEN = 'SELECT 1 FROM "{table}" WHERE {where} LIMIT 1'
_HAS_ITEM = """ AND EXISTS (SELECT 1 FROM "{table}" AS item
WHERE item.prefix = {prefix} AND item.key = "{table}_vectors".key)"""
_DELETE = 'DELETE FROM "{table}" WHERE {where}'
_DELETE_VECTORS = 'DELETE FROM "{table}_vectors" WHERE {where}' + _HAS_ITEM
_RENAME = 'UPDATE "{table}" SET prefix = {name} WHERE {where}'
_RENAME_VECTORS = 'UPDATE "{table}_vectors" SET prefix = {name} WHERE {where}' + _HAS_ITEM
_PREFIX = '"{table}_vectors".prefix'
_NAME = "CAST(CAST(? AS BLOB) || substr(CAST({prefix} AS BLOB), ?) AS TEXT)"
"""By octets, since a name need not be valid UTF-8."""


@dataclass(slots=True)
class _Stretch:
    """Items that follow one another, and ranges that hold all of them and no others."""

    ranges: list[Part]
    items: int = 0
    octets: int = 0
    has_odd_keys: bool = False


def remove(writer: SqliteWriter, scope: Scope, rows: Callable[[], int], octets: int) -> Iterator[Bulk]:
    """Delete items with their vectors, see `store.Wholesale`."""
    own = writer._sql(_PREFIX)

    def act(found: _Stretch) -> Bulk:
        vectors = _run(writer, _DELETE_VECTORS, found.ranges, prefix=own) if writer.has_vectors else 0
        return Bulk(_run(writer, _DELETE, found.ranges), vectors, found.octets)

    return _through(writer, scope, rows, octets, act)


def rename(
    writer: SqliteWriter, scope: Scope, new: str, rows: Callable[[], int], octets: int
) -> Iterator[Bulk]:
    """Give a namespace and its descendants another name, see `store.Wholesale`."""
    old_name, new_name = encode(scope.prefix or ""), encode(new)
    forth, back = (new_name, len(old_name) + 1), (old_name, len(new_name) + 1)
    own, name = writer._sql(_PREFIX), _NAME.format(prefix="prefix")
    former = _NAME.format(prefix=own)

    def act(found: _Stretch) -> Bulk:
        there = [_elsewhere(part, len(old_name), new_name) for part in found.ranges]
        if found.has_odd_keys or any(_holds(writer, part) for part in there):
            return Bulk(0, 0, 0, found.items)
        vectors = 0
        if writer.has_vectors:
            _run(writer, _DELETE_VECTORS, there, after=back, prefix=former)  # of an item that was there once
            vectors = _run(writer, _RENAME_VECTORS, found.ranges, before=forth, name=name, prefix=own)
        return Bulk(_run(writer, _RENAME, found.ranges, before=forth, name=name), vectors, found.octets)

    return _through(writer, scope, rows, octets, act)


def _through(
    writer: SqliteWriter,
    scope: Scope,
    rows: Callable[[], int],
    octets: int,
    act: Callable[[_Stretch], Bulk],
) -> Iterator[Bulk]:
    """Act on what is in a scope, a batch after the other, each in a transaction."""
    pending = list(reversed(parts_of(scope)))
    while pending:
        most = rows()
        writer.release()  # a snapshot held meanwhile would keep every change in the WAL
        with writer._writing():
            done = act(_next(writer, pending, most, octets))
        if done.items or done.passed_over:
            yield done


def _next(writer: SqliteWriter, pending: list[Part], rows: int, octets: int) -> _Stretch:
    """Take from what is pending, the last of it first, so many items at most."""
    found = _Stretch([])
    while pending and found.items < rows and found.octets < octets:
        part = pending.pop()
        where, parameters = part.condition
        cursor = writer._writer.execute(writer._sql(_NEXT, where=where), (*parameters, rows - found.items))
        last: tuple[Any, ...] | None = None
        for last in cursor:
            found.items += 1
            found.octets += last[0] or 0
            found.has_odd_keys = found.has_odd_keys or last[3] >= _BLOB_KEY
            if found.octets >= octets:
                break
        cursor.close()
        if last is None:
            continue
        _, prefix, key, blobs = last
        cut = Cut(Bound(prefix, bool(blobs & _BLOB_PREFIX)), Bound(key, bool(blobs & _BLOB_KEY)))
        found.ranges += part.upto(cut)
        if found.items >= rows or found.octets >= octets:
            pending.extend(reversed(part.after(cut)))
    return found


def _run(
    writer: SqliteWriter,
    template: str,
    ranges: Sequence[Part],
    *,
    before: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
    **parts: str,
) -> int:
    """Run a statement on each range, with what is bound before and after it; return how many rows it changed."""
    changed = 0
    for part in ranges:
        where, parameters = part.condition
        sql = writer._sql(template, where=where, **parts)
        changed += writer._writer.execute(sql, (*before, *parameters, *after)).rowcount
    return changed


def _holds(writer: SqliteWriter, part: Part) -> bool:
    """Tell whether a range holds an item."""
    where, parameters = part.condition
    return writer._writer.execute(writer._sql(_TAKEN, where=where), parameters).fetchone() is not None


def _elsewhere(part: Part, octets: int, name: bytes) -> Part:
    """Return the range that a part becomes when so many octets of each namespace make room for a name."""

    def moved(bound: Bound | None) -> Bound | None:
        return bound and Bound(name + bound.octets[octets:])

    if isinstance(part, Keys):
        return replace(part, prefix=Bound(name + part.prefix.octets[octets:]))
    return replace(part, low=moved(part.low), high=moved(part.high))
