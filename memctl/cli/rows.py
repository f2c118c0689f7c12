"""Items and namespaces as rows of output: the keys that the command line's contract names."""

from __future__ import annotations

import base64
from typing import Any, Literal

import orjson

from memctl.model import Item, Namespace, Problem, Vector, encode, floats, is_clean, shown
from memctl.render import Column, Kind, Row
from memctl.values import fault_of, inspect, one_line

VectorFormat = Literal["base64", "list"]

NAMESPACE_COLUMNS = (
    Column("namespace", Kind.NAMESPACE),
    Column("items", Kind.COUNT),
    Column("vectors", Kind.COUNT),
    Column("bytes", Kind.OCTETS),
    Column("newest", Kind.INSTANT),
)
_TIMES = (
    Column("created_at", Kind.INSTANT, minor=3),
    Column("updated_at", Kind.INSTANT),
    Column("expires_at", Kind.INSTANT, minor=1),
    Column("ttl_minutes", Kind.MINUTES, minor=2),
)
ITEM_COLUMNS = (
    Column("namespace", Kind.NAMESPACE),
    Column("key", Kind.KEY),
    Column("value", Kind.JSON, flexible=True),
    *_TIMES,
)
VECTORS_COLUMN = Column("vectors", Kind.JSON, flexible=True)
SCORE_COLUMN = Column("score", Kind.SCORE)
LISTING_COLUMNS = (
    Column("namespace", Kind.NAMESPACE),
    Column("key", Kind.KEY),
    Column("bytes", Kind.OCTETS),
    *_TIMES,
    Column("vectors", Kind.COUNT, minor=4),
    Column("preview", Kind.TEXT, flexible=True),
)
_PREVIEW = 200


def namespace_row(namespace: Namespace) -> Row:
    """Return a namespace's row for `ls`."""
    row: dict[str, Any] = {
        "namespace": shown(namespace.prefix).split("."),
        "items": namespace.items,
        "vectors": namespace.vectors,
        "bytes": namespace.octets,
        "newest": namespace.newest,
    }
    if not is_clean(namespace.prefix):
        row["prefix_base64"] = _base64(encode(namespace.prefix))
    return row


def item_row(
    item: Item, problems: tuple[Problem, ...], vectors: VectorFormat | None = None
) -> dict[str, Any]:
    """Return an item whole; `problems` are those that `values.inspect` found."""
    row: dict[str, Any] = {
        "namespace": shown(item.prefix).split("."),
        "key": shown(item.key),
        "value": value_of(item),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "expires_at": item.expires_at,
        "ttl_minutes": item.ttl_minutes,
    }
    if vectors:
        row["vectors"] = [_vector_row(vector, vectors) for vector in item.vectors]
    _add_oddities(row, item, problems)
    return row


def listing_row(item: Item) -> dict[str, Any]:
    """Return an item's row for `ls --items`."""
    row = {
        "namespace": shown(item.prefix).split("."),
        "key": shown(item.key),
        "bytes": item.size,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "expires_at": item.expires_at,
        "ttl_minutes": item.ttl_minutes,
        "vectors": len(item.vectors),
        "preview": (item.value or b"")[: _PREVIEW * 4].decode("utf-8", "replace")[:_PREVIEW],
    }
    _add_oddities(row, item, inspect(item))
    return row


def value_of(item: Item) -> orjson.Fragment | None:
    """Return a value as JSON output carries it: its own text, None where that is no JSON."""
    fault = fault_of(item.value)
    if item.value is None or (fault and not fault.is_json):
        return None
    return orjson.Fragment(one_line(item.value))


def _add_oddities(row: dict[str, Any], item: Item, problems: tuple[Problem, ...]) -> None:
    if problems:
        row["problems"] = [{"part": problem.part, "reason": problem.reason} for problem in problems]
    if not is_clean(item.key):
        row["key_base64"] = _base64(encode(item.key))
    if not is_clean(item.prefix):
        row["prefix_base64"] = _base64(encode(item.prefix))


def _vector_row(vector: Vector, form: VectorFormat) -> Row:
    embedding: Any = None
    if vector.embedding is not None:
        embedding = _base64(vector.embedding) if form == "base64" else floats(vector.embedding).tolist()
    return {
        "field": shown(vector.field),
        "embedding": embedding,
        "created_at": vector.created_at,
        "updated_at": vector.updated_at,
    }


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
