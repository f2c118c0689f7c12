"""Whatever a store can hold comes back from an archive as it was."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memctl.archive import PARTS, Header, Line, read, verify
from memctl.instants import from_datetime
from memctl.model import Item, Problem, Vector, decode, encode, is_clean
from memctl.values import fault_of, one_line
from tests.archive.samples import archive, item, lines, many, vector

# Everything that text columns hold: any octets, read as UTF-8 with surrogate escapes.
_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.binary(max_size=6).map(decode)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def _values(draw: st.DrawFn) -> bytes:
    import json

    return json.dumps(
        draw(_JSON), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1]))
    ).encode()


_ODD_VALUES = st.sampled_from(
    [
        b'{"a":1e400}',
        b'{"a":"\\ud800"}',
        b'{"a": NaN}',
        b'{"b":1,"a":2,"b":3}',
        b"\xff",
        b"",
        b"[1",
        b'{"a":-0.0}',
    ]
)
_INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)).map(from_datetime)
_RAW = st.binary(max_size=5) | _TEXTS | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)


_TEXT_EMBEDDING = Problem("embedding", "no BLOB", "[0.25, 1e-3]")


@st.composite
def _vectors(draw: st.DrawFn) -> tuple[Vector, ...]:
    fields = sorted(draw(st.sets(_TEXTS, max_size=2)), key=encode)
    found = []
    for field in fields:
        octets = draw(st.none() | st.binary(max_size=16).map(lambda octets: octets[: len(octets) // 4 * 4]))
        problems: tuple[Problem, ...] = ()
        if octets is None:
            problems = (draw(st.sampled_from([Problem("embedding", "null"), _TEXT_EMBEDDING])),)
        times = [draw(st.none() | _INSTANTS) for _ in range(2)]
        for part, time in zip(("created_at", "updated_at"), times, strict=True):
            if draw(st.booleans()):
                problems += (Problem(part, "no time", draw(_RAW)),)
            elif time is None:
                problems += (Problem(part, "null"),)
        found.append(Vector(field, len(octets or b"") // 4, octets, *times, problems))
    return tuple(found)


@st.composite
def _items(draw: st.DrawFn, prefix: str, key: str) -> Item:
    value = draw(st.none() | _values() | _values() | _ODD_VALUES | st.binary(max_size=8))
    problems = tuple(
        Problem(part, "invalid UTF-8", text)
        for part, text in (("namespace", prefix), ("key", key))
        if not is_clean(text)
    )
    odd = draw(
        st.sets(st.sampled_from(["created_at", "updated_at", "expires_at", "ttl_minutes"]), max_size=2)
    )
    columns = ("created_at", "updated_at", "expires_at", "ttl_minutes")
    problems += tuple(Problem(part, "odd", draw(_RAW)) for part in columns if part in odd)
    times = [draw(st.none() | _INSTANTS) for _ in range(3)]
    minutes = draw(
        st.none() | st.integers(-(2**31), 2**31) | st.floats(allow_nan=False, allow_infinity=False)
    )
    return Item(prefix, key, value, len(value or b""), *times, minutes, draw(_vectors()), problems)


@st.composite
def _stores(draw: st.DrawFn) -> list[Item]:
    names = draw(st.sets(st.tuples(_TEXTS, _TEXTS), max_size=5))
    ordered = sorted(names, key=lambda name: (encode(name[0]), encode(name[1])))
    return [draw(_items(prefix, key)) for prefix, key in ordered]


def _as_carried(original: Item) -> Item:
    """What of an item may change: white space around a value, and line breaks between its tokens."""
    value = original.value
    if value is not None:
        fault = fault_of(value)
        if fault is None or fault.is_json:
            value = one_line(value.strip(b" \t\r\n"))
    return msgspec.structs.replace(original, value=value, size=len(value or b""))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_stores())
@pytest.mark.no_cover
def test_items_come_back(items):
    octets = archive(items)
    found = lines(octets)
    assert [line.fault for line in found] == [None] * len(items)
    assert [line.item for line in found] == list(map(_as_carried, items))
    assert {line.parts for line in found} <= {frozenset(PARTS)}
    assert verify(read(io.BytesIO(octets))).is_good


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_stores(), st.sampled_from([("vectors",), ("expiry",), ("timestamps", "vectors"), ("vector-times",)]))
def test_what_is_missing_is_known_to_be_unknown(items, missing):
    gone = {"timestamps": {"created_at", "updated_at"}, "expiry": {"expires_at", "ttl_minutes"}}
    gone |= {"vectors": {"vectors"}, "vector-times": set()}
    octets = archive(items, Header("sqlite", "2026-11-30T08:00:00.000000Z", missing=missing))
    left = frozenset(PARTS) - frozenset().union(*(gone[name] for name in missing))
    for line, original in zip(lines(octets), items, strict=True):
        assert line.item is not None
        assert line.parts == left
        assert (line.item.prefix, line.item.key) == (original.prefix, original.key)
        assert line.item.value == _as_carried(original).value


def test_a_blob_for_a_key_is_another_item_than_the_text():
    blob = item("k", problems=(Problem("key", "stored as a BLOB, not as text", b"k"),))
    items = [item("k"), item("m"), blob]
    assert [line.item for line in lines(archive(items))] == items


def test_the_header_comes_back():
    header = Header(
        "sqlite", "2026-11-30T08:00:00.000000Z", 8, "vector", ("a", "*"), None, None, ("expiry",), True
    )
    assert read(io.BytesIO(archive([], header))).header == header


def test_lines_of_vectors_only_come_back():
    from memctl.archive import Writer

    out = io.BytesIO()
    gone = item("k", None, vectors=(vector("f", 1.0),), created_at=None, updated_at=None)
    with Writer(out, Header("sqlite", "2026-11-30T08:00:00.000000Z")) as writer:
        writer.extend([gone], vectors_only=True)
    [line] = lines(out.getvalue())
    assert line.vectors_only
    assert line.item == gone
    assert line.parts == {"vectors"}


def test_numbers_and_raw_lines():
    octets = archive(many(2))
    found = lines(octets)
    assert [line.number for line in found] == [2, 3]
    assert [line.raw for line in found] == octets.splitlines()[1:3]
    assert all(isinstance(line, Line) for line in found)
