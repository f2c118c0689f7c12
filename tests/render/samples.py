"""Columns, rows and hostile text that every format is tried with."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import strategies as st

from memctl.render import Column, Format, Kind, Target, open_format

INSTANT = "2026-11-30T07:42:43.843759Z"

NAMESPACES = (
    Column("namespace", Kind.NAMESPACE),
    Column("items", Kind.COUNT),
    Column("vectors", Kind.COUNT),
    Column("bytes", Kind.OCTETS),
    Column("newest", Kind.INSTANT),
)
ITEMS = (
    Column("namespace", Kind.NAMESPACE),
    Column("key", Kind.KEY),
    Column("value", Kind.JSON, flexible=True),
    Column("created_at", Kind.INSTANT),
    Column("updated_at", Kind.INSTANT),
    Column("expires_at", Kind.INSTANT),
    Column("ttl_minutes", Kind.MINUTES),
)
LISTED = (
    Column("namespace", Kind.NAMESPACE),
    Column("key", Kind.KEY),
    Column("bytes", Kind.OCTETS),
    Column("created_at", Kind.INSTANT, minor=1),
    Column("updated_at", Kind.INSTANT),
    Column("preview", flexible=True),
)

HOSTILE = (
    "",
    " ",
    "\x00",
    "\t\n\r\x0b\x0c",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m\x85",
    "\x7f",
    "[red]markup[/red] [link=http://x]x[/link] :smile:",
    "`code` **bold** _it_ | <script> & [a](http://x) ![i](x) ~~s~~ $x$ # h",
    "``` fence",
    '"quoted", and \\ "',
    "\\n is no line feed",
    "trailing\\",
    "a|b",
    "txt.\u202eexe",
    "\u2066\u2069\u2028\u2029\ufeff\u200b",
    "\U000e0041\U000e0042",
    "日本語 ユーザー",
    "e\u0301 \u0928\u093f",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "می\u200cخواهم",
    "\ue000 \ue000\ue000",
    "\ud800 lone",
    "x" * 10_000,
    "=cmd()",
    "*",
    "{user_id}",
    "\\*",
)

texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(codec="utf-8"), max_size=40), st.text(max_size=12)
)
stored_texts = st.one_of(
    st.sampled_from([text for text in HOSTILE if "\ud800" not in text]),
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.binary(max_size=12).map(lambda octets: octets.decode("utf-8", "surrogateescape")),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def namespace_row(labels: list[str], items: int = 3) -> dict[str, Any]:
    return {
        "namespace": labels,
        "items": items,
        "vectors": items // 3,
        "bytes": items * 613,
        "newest": INSTANT,
    }


def item_row(labels: list[str], key: str, value: bytes = b'{"a":1}', **more: Any) -> dict[str, Any]:
    return {
        "namespace": labels,
        "key": key,
        "value": orjson.Fragment(value),
        "created_at": INSTANT,
        "updated_at": INSTANT,
        "expires_at": None,
        "ttl_minutes": None,
        **more,
    }


def listed_row(labels: list[str], key: str, preview: str = "") -> dict[str, Any]:
    return {
        "namespace": labels,
        "key": key,
        "bytes": 613,
        "created_at": INSTANT,
        "updated_at": INSTANT,
        "preview": preview,
    }


def written(name: str, write: Callable[[Format], None], **target: Any) -> bytes:
    """Return what a format writes."""
    stream = io.BytesIO()
    write(open_format(name, Target(stream, **target)))
    return stream.getvalue()


def shown(name: str, write: Callable[[Format], None], **target: Any) -> str:
    """Return what a format writes, as text."""
    return written(name, write, **target).decode()
