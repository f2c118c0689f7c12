"""The members of a line as they stand there, before they mean anything."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Cell(msgspec.Struct, frozen=True, gc=False):
    """A column as the database holds it, beside the best reading of it."""

    type: Literal["text", "timestamptz", "blob", "integer", "real"]
    value: str | int | float | None = None
    base64: str | None = None
    reason: str = "odd"


class VectorRow(msgspec.Struct, frozen=True, gc=False):
    """One of a line's vectors."""

    field: str
    embedding: str | list[float] | None
    created_at: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET
    field_base64: str | None = None
    created_at_raw: Cell | None = None
    updated_at_raw: Cell | None = None
    embedding_raw: Cell | None = None


class Row(msgspec.Struct, frozen=True, gc=False):
    """A line's members; others are passed over."""

    namespace: list[str] | str
    key: str
    value: msgspec.Raw | UnsetType = UNSET
    created_at: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET
    expires_at: str | UnsetType | None = UNSET
    ttl_minutes: int | float | UnsetType | None = UNSET
    vectors: list[VectorRow] | UnsetType | None = UNSET
    vectors_only: bool = False
    value_base64: str | UnsetType | None = UNSET
    key_base64: str | None = None
    prefix_base64: str | None = None
    key_raw: Cell | None = None
    prefix_raw: Cell | None = None
    created_at_raw: Cell | None = None
    updated_at_raw: Cell | None = None
    expires_at_raw: Cell | None = None
    ttl_minutes_raw: Cell | None = None
    problems: list[Any] | None = None


class CommonVectorRow(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What nearly every vector of an archive is; any other is a `VectorRow`. Base64 becomes octets."""

    field: str
    embedding: bytes
    created_at: str | UnsetType = UNSET
    updated_at: str | UnsetType = UNSET


class CommonRow(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What nearly every line of an archive is; any other is a `Row`."""

    namespace: list[str]
    key: str
    value: msgspec.Raw
    created_at: str
    updated_at: str
    expires_at: str | None
    ttl_minutes: int | float | None
    vectors: list[CommonVectorRow] | UnsetType = UNSET


class Fault(Exception):
    """What is wrong with a line, in words."""
