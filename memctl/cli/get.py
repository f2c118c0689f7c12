"""`memctl get`: items, whole."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memctl.cli.context import Context
from memctl.cli.options import VectorFormat, Vectors
from memctl.errors import MemctlError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memctl.model import Detail, Item
    from memctl.render import Row
    from memctl.store import Store

_KEYS_AT_ONCE = 500
_NAMED = 5


def get(
    ctx: typer.Context,
    ns: Annotated[str | None, typer.Argument(metavar="NS", help="Exactly this namespace.")] = None,
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY...", help="One key or several.")] = None,
    value: Annotated[bool, typer.Option("--value", help="Only the value, as it is stored.")] = False,
    vectors: Vectors = False,
    vector_format: VectorFormat = "base64",
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Read names from a file, or - for standard input: `-o name`."
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="As they were then, by the store's history; vectors are not kept."
        ),
    ] = None,
) -> None:
    """Show items whole: value, times, expiry, and with --vectors their embeddings.

    Examples:
      memctl get users.ana.prefs tone
      memctl get users.ana.prefs tone --value
      memctl search coffee -o name | memctl get --from - -o jsonl
    """
    from memctl import namespaces
    from memctl.cli.rows import ITEM_COLUMNS, VECTORS_COLUMN, item_row
    from memctl.model import Detail
    from memctl.values import inspect

    context: Context = ctx.obj
    if vector_format not in ("base64", "list"):
        raise UsageError(f"--vector-format {vector_format}: base64 or list is expected")
    if source is None:
        if ns is None or not keys:
            raise UsageError("a namespace and a key are expected", hint="memctl get NS KEY…, or --from FILE")
        prefix = namespaces.parse_exact(ns)
        names: Iterable[tuple[str, str]] = ((prefix, key) for key in dict.fromkeys(keys))
    elif ns is not None:
        raise UsageError("--from goes without NS and KEY: the file names both")
    else:
        names = context.read_names(source)
    store = context.open()
    missing = _Missing()
    detail = Detail.FULL if vectors else Detail.NONE
    found = (
        _fetch(store, names, detail, missing)
        if at is None
        else _then(context, store, names, at, detail, missing)
    )
    if value:
        _write_values(context, found)
    else:
        form: Any = vector_format if vectors else None
        rows: Iterator[Row] = (item_row(item, inspect(item), form) for item in found)
        single = source is None and len(dict.fromkeys(keys or ())) == 1
        if single:
            rows = iter(list(islice(rows, 1)))
            missing.raise_for(store)
        columns = (*ITEM_COLUMNS, VECTORS_COLUMN) if vectors else ITEM_COLUMNS
        context.emit_items(columns, context.counting_problems(rows), single=single)
    missing.raise_for(store)


def _fetch(
    store: Store, names: Iterable[tuple[str, str]], detail: Detail, missing: _Missing
) -> Iterator[Item]:
    for prefix, group in groupby(names, key=lambda name: name[0]):
        keys = (key for _, key in group)
        while batch := list(islice(keys, _KEYS_AT_ONCE)):
            wanted = dict.fromkeys(batch)
            for item in store.get(prefix, list(wanted), vectors=detail):
                del wanted[item.key]
                yield item
            missing.add(prefix, list(wanted))


def _then(
    context: Context,
    store: Store,
    names: Iterable[tuple[str, str]],
    at: str,
    detail: Detail,
    missing: _Missing,
) -> Iterator[Item]:
    """Yield items as they were at a time; say which come without vectors, of which history has none."""
    from memctl.instants import parse_time
    from memctl.model import Detail, shown
    from memctl.past import item_at

    moment = parse_time(at, store.now())
    for prefix, key in names:
        item = item_at(store, prefix, key, moment, detail)
        if item is None:
            missing.add(prefix, [key])
        else:
            if detail is Detail.FULL and not item.vectors:
                context.note(f"{shown(key)} comes without vectors: the history keeps none of a former value")
            yield item


class _Missing:
    """What was asked for and is not there: the count, and the first of it to tell about."""

    def __init__(self) -> None:
        self._count = 0
        self._prefix = ""
        self._keys: list[str] = []

    def add(self, prefix: str, keys: list[str]) -> None:
        """Note keys that one namespace does not hold."""
        if keys and not self._count:
            self._prefix, self._keys = prefix, keys[:_NAMED]
        self._count += len(keys)

    def raise_for(self, store: Store) -> None:
        """Raise the error that names what is missing, and what is near to it."""
        if not self._count:
            return
        from memctl.nearest import missing_keys

        error = missing_keys(store, self._prefix, self._keys)
        if self._count > len(self._keys):
            error.message += f" and {self._count - len(self._keys):,} more"
        raise error


def _write_values(context: Context, found: Iterable[Item]) -> None:
    for item in found:
        if item.value is None:
            raise MemctlError(f"the value of {item.key!r} is null in the database", code="no-value")
        context.write(item.value + b"\n")
