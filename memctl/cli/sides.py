"""What stands where a store is named: a store, or a file that is an archive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from memctl.errors import MemctlError, UsageError

if TYPE_CHECKING:
    from memctl.archive import Reader
    from memctl.blocks import Piece
    from memctl.cli.context import Context
    from memctl.mapping import Mapping
    from memctl.model import Item
    from memctl.namespaces import Pattern
    from memctl.store import Store

_Order = tuple[bool, bytes, bool, bytes]
_SQLITE = b"SQLite format 3\0"
_ARCHIVES = (b"{", b"[", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf")


@contextmanager
def open_side(context: Context, named: str, *, snapshot: bool) -> Iterator[Store | Reader]:
    """Open what `named` names, told by its first octets; a store in a snapshot unless that is not wanted."""
    refuse_globals(context)
    with open_other(context, named, snapshot=snapshot) as side:
        yield side


@contextmanager
def open_other(context: Context, named: str, *, snapshot: bool) -> Iterator[Store | Reader]:
    """Open a second store or an archive, beside the one of -s."""
    address = context.resolve(named)
    if address.scheme == "sqlite" and is_archive(Path(address.target)):
        from memctl.archive import read

        with Path(address.target).open("rb") as file:
            yield read(file)
        return
    store = context.open_at(address)
    if not snapshot:
        yield store
        context.say_if_moved(store)
        return
    with store.snapshot() as still:
        yield still
        context.say_if_moved(still)


def refuse_globals(context: Context) -> None:
    """Raise where -s, --schema or --table stands beside two stores that each name their own."""
    for name in ("store", "schema", "table"):
        if context.options.get(name):
            raise UsageError(
                f"--{name} does not go with two stores",
                hint="each STORE carries its own: postgresql://host/db?schema=…&table=…, or a configured name",
            )


def is_archive(path: Path) -> bool:
    """Tell an archive, or JSON, from a database by the first octets; a file that is not there is neither."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return False
    return head != _SQLITE and head.lstrip(b" \t\r\n").startswith(_ARCHIVES)


def open_input(context: Context, named: str) -> BinaryIO:
    """Open a file to be read twice; standard input, for `-`, and a pipe go through a temporary file."""
    import shutil
    import tempfile

    if named == "-":
        source = context.environment.stdin
    else:
        source = opened(context, named)
        if source.seekable():
            return source
    spooled: BinaryIO = context.until_the_end(tempfile.TemporaryFile(prefix="memctl-"))  # noqa: SIM115
    shutil.copyfileobj(source, spooled, 1 << 20)
    spooled.seek(0)
    return spooled


def opened(context: Context, named: str) -> BinaryIO:
    """Open a file that is an input, and no store. Raises UsageError, and Refused for one that may not be read."""
    from memctl.errors import Refused

    path = context.file(named)
    try:
        return context.until_the_end(path.open("rb"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {named}", code="missing") from None
    except PermissionError:
        raise Refused(f"{named} may not be read", hint="check the permissions of file and folder") from None
    except OSError as error:
        raise UsageError(f"{named} cannot be read: {error.strerror}") from None


def items_of(side: Store | Reader, pattern: Pattern | None, mapping: Mapping | None = None) -> Iterator[Item]:
    """Yield a side's items in byte order; renamed ones are sorted through a temporary file."""
    from memctl.model import EVERYTHING, Detail

    if hasattr(side, "scan"):
        scope = pattern.scope if pattern and not mapping else EVERYTHING
        found: Iterator[Item] = side.scan(scope, vectors=Detail.FULL)
    else:
        from memctl.archive import in_order

        found = in_order(side)
    found = renamed(found, mapping)
    return (item for item in found if pattern.matches(item.prefix)) if pattern else found


def pieces_of(
    side: Store | Reader, pattern: Pattern | None, mapping: Mapping | None = None
) -> Iterator[Piece]:
    """Yield a side's items in byte order, in blocks where a store has some and they are all meant."""
    from memctl.blocks import Columnar
    from memctl.model import EVERYTHING, Detail

    if isinstance(side, Columnar) and not mapping and (pattern is None or pattern.is_literal):
        return side.blocks(pattern.scope if pattern else EVERYTHING, vectors=Detail.FULL)
    return iter((items_of(side, pattern, mapping),))


def renamed(items: Iterator[Item], mapping: Mapping | None) -> Iterator[Item]:
    """Rename items and bring them back into order.

    Raises MemctlError before the first one where two of them get one name.
    """
    return _sorted(items, mapping) if mapping else items


def _sorted(items: Iterator[Item], mapping: Mapping) -> Iterator[Item]:
    import msgspec

    from memctl.model import order_of
    from memctl.sorting import Sorter

    def octets(item: Item) -> int:
        return item.size + sum(4 * vector.dims for vector in item.vectors)

    names: Sorter[_Order] = Sorter(lambda order: order)
    with names, Sorter(order_of, size=octets) as sorter:
        for item in items:
            found = msgspec.structs.replace(item, prefix=mapping.apply(item.prefix))
            sorter.add(found)
            names.add(order_of(found))
        _refuse_twins(names)
        yield from sorter


def _refuse_twins(names: Iterable[_Order]) -> None:
    from memctl.model import decode, shown
    from memctl.namespaces import show

    last: _Order | None = None
    for name in names:
        if name == last:
            prefix, key = shown(decode(name[1])), shown(decode(name[3]))
            raise MemctlError(f"--map gives two items the same name: {show(prefix)} {key}", code="collision")
        last = name
