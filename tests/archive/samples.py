"""Items and archives for the tests of the archive."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable

from memctl.archive import Header, Line, read, write
from memctl.model import Item, Vector

CREATED = "2026-11-29T10:20:30.000000Z"
UPDATED = "2026-11-30T07:42:43.843759Z"
HEADER = Header("sqlite", "2026-11-30T08:00:00.000000Z", dims=2, vector_type="vector")


def item(key: str = "k", value: bytes | None = b'{"n":1}', prefix: str = "users.ana", **rest: object) -> Item:
    """An item with nothing odd about it but what is given."""
    times = {"created_at": CREATED, "updated_at": UPDATED, "expires_at": None, "ttl_minutes": None}
    return Item(prefix, key, value, len(value or b""), **{**times, **rest})  # type: ignore[arg-type]


def vector(field: str = "text", *numbers: float) -> Vector:
    """A vector as a store gives it."""
    octets = struct.pack(f"<{len(numbers)}f", *numbers)
    return Vector(field, len(numbers), octets, CREATED, UPDATED)


def many(count: int) -> list[Item]:
    """Items in byte order, every third with a vector."""
    return [
        item(f"{n:06}", b'{"n":%d}' % n, vectors=(vector("text", 1.0, n),) if n % 3 == 0 else ())
        for n in range(count)
    ]


def archive(items: Iterable[Item], header: Header | None = None) -> bytes:
    """An archive of items; its header counts them unless one is given."""
    items = list(items)
    if header is None:
        vectors = sum(len(each.vectors) for each in items)
        header = Header("sqlite", HEADER.created, items=len(items), vectors=vectors)
    out = io.BytesIO()
    write(out, header, items)
    return out.getvalue()


def lines(octets: bytes) -> list[Line]:
    """Everything that `read` gives."""
    return list(read(io.BytesIO(octets)))


def faults(octets: bytes) -> dict[int, str]:
    """What is wrong, by the number of the line."""
    return {line.number: line.fault for line in lines(octets) if line.fault is not None}
