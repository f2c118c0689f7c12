"""`values`: what the library, PostgreSQL or a reader cannot take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.doctor import contents
from memctl.doctor.contents import (
    BAD_TEXT,
    MOST_OCTETS,
    NO_OBJECT,
    NUL,
    OVERSIZED,
    SURROGATE,
    TWICE,
    fault_in,
)
from memctl.doctor.finding import Level, Status
from memctl.model import Item, Problem
from tests.contract.backends import RawItem, SqliteBackend
from tests.doctor.clinic import SETTINGS, Clinic, places


def item(value: bytes | None, key: str = "k", prefix: str = "p", *problems: Problem) -> Item:
    return Item(prefix, key, value, len(value or b""), None, None, None, None, (), problems)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b'{"a": 1}', None),
        (b' {"a":\n{"b":[1,"x:y"]},"c":":"} ', None),
        (b'{"a\\u0061":1,"a":2}', None),
        (b'{"a b":1,"ab":2}', None),
        (b'{"a":"\\\\u0000"}', None),
        (b'{"a":"\\ud83d\\ude00"}', None),
        (b'{"a":123456789012345678901234567890}', None),
        ('{"é":"日本"}'.encode(), None),
        (b"[1]", NO_OBJECT),
        (b"null", NO_OBJECT),
        (b'"{}"', NO_OBJECT),
        (b'{"a":1,"a":1}', TWICE),
        (b'{"\\u0061":1,"a":2}', TWICE),
        (b'{"a" :1,"b":{"a":[{"x":1, "x" : 2}]}}', TWICE),
        (b'{"a":"\\u0000"}', NUL),
        (b'{"a":"\\\\\\u0000"}', NUL),
        (b'{"\\u0000":1}', NUL),
        (b'{"a":"\\ud83d"}', SURROGATE),
        (b'{"a":"\xe9"}', "invalid UTF-8"),
        (b'{"a":"' + b"x" * MOST_OCTETS + b'"}', OVERSIZED),
    ],
)
def test_what_is_wrong_with_a_value(value: bytes, fault: str | None) -> None:
    assert fault_in(item(value)) == fault


@pytest.mark.parametrize(
    "value", [b"", b"{", b'{"a":1}x', b'{"a":1}{"b":2}', b'{"a":NaN}', b'{"a":01}', b"\xff"]
)
def test_what_is_no_json(value: bytes) -> None:
    fault = fault_in(item(value))
    assert fault is not None
    assert fault.startswith(("no valid JSON", "invalid UTF-8"))


def test_a_null_value() -> None:
    assert fault_in(item(None)) == "null"


@pytest.mark.parametrize(
    ("key", "prefix", "fault"),
    [
        ("caf\udce9", "p", f"{BAD_TEXT} in its key"),
        ("k", "caf\udce9", f"{BAD_TEXT} in its namespace"),
        ("a\0b", "p", f"{NUL} in its key"),
        ("k", "a\0b", f"{NUL} in its namespace"),
    ],
)
def test_names(key: str, prefix: str, fault: str) -> None:
    assert fault_in(item(b"{}", key, prefix)) == fault


def test_a_name_that_is_no_text() -> None:
    problem = Problem("key", "stored as a BLOB, not as text", b"k")
    assert fault_in(item(b"{}", "k", "p", problem)) == "key stored as a BLOB, not as text"


scalars = st.none() | st.integers() | st.floats(allow_nan=False) | st.text(':"{}\\ aé\0', max_size=4)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:é", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


class Twice(dict[str, Any]):
    """An object that is written with its first member once more."""

    def items(self) -> Any:
        members = list(super().items())
        return [*members, *members[:1]]


def spelled(value: Any, *, ascii_only: bool, spaced: bool) -> bytes:
    separators = (" , ", "\t: ") if spaced else (",", ":")
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()


@SETTINGS
@given(
    value=st.dictionaries(st.text("ab:é", max_size=2), documents, max_size=4),
    twice=st.booleans(),
    data=st.data(),
)
def test_a_key_twice(value: dict[str, Any], twice: bool, data: st.DataObject) -> None:
    written = Twice(value) if twice else value
    ascii_only, spaced = data.draw(st.booleans()), data.draw(st.booleans())
    text = spelled(written, ascii_only=ascii_only, spaced=spaced)
    assert contents.has_key_twice(text) == (twice and bool(value))


values = st.one_of(
    documents.map(lambda value: spelled(value, ascii_only=False, spaced=False)),
    documents.map(lambda value: spelled(value, ascii_only=True, spaced=True)),
    st.dictionaries(st.text("ab", max_size=1), documents, max_size=3).map(
        lambda value: spelled(Twice(value), ascii_only=False, spaced=False)
    ),
    st.binary(max_size=4),
    st.sampled_from(
        [b"", b"{}", b'{"a":1}{"b":2}', b'{"a":1}\n', b'{"a":{}', b'{"a":"\xe9"}', b'{"a":"\xc3', b'\xa9"}']
    ),
)


@SETTINGS
@given(st.lists(values, min_size=1, max_size=4))
def test_a_quick_look_passes_nothing_bad(texts: list[bytes]) -> None:
    items = list(map(item, texts))
    well = [fault_in(each) is None for each in items]
    assert all(well) or not contents._are_well(items)
    for each, is_well in zip(items, well, strict=True):
        assert is_well or not contents._is_well(each)


def test_a_quick_look_passes_what_the_library_writes() -> None:
    items = [item(b'{"a":"x","b":["\xc3\xa9"]}', f"k{number}") for number in range(9)]
    assert contents._are_well(items)
    assert not contents._are_well([*items, item(b'{"a":"\\u0000"}')])
    assert not contents._are_well([*items, item(b"{}", "a\0")])
    assert not contents._are_well([*items, item(None)])


class TestTheCheck:
    def test_what_it_counts(self, sqlite_clinic: Clinic) -> None:
        good = [RawItem("p", f"good-{number}", f'{{"n": {number}, "u": "a:b"}}') for number in range(600)]
        bad = [
            RawItem("p", "good-1x", "[]"),
            RawItem("p", "good-333x", '{"a": 1, "a": 2}'),
            RawItem("q", "z", "3"),
        ]
        sqlite_clinic.backend.insert([*good, *bad])
        finding = sqlite_clinic.finding("values")
        assert (finding.level, finding.count, finding.octets) == (Level.ERROR, 3, 19)
        assert places(finding) == [("p", "good-1x"), ("p", "good-333x"), ("q", "z")]
        assert [sample.detail for sample in finding.samples] == [NO_OBJECT, TWICE, NO_OBJECT]
        assert "2 not an object" in finding.message
        assert finding.fix is not None
        assert "--fix values --save " in finding.fix

    def test_a_healthy_store(self, clinic: Clinic) -> None:
        clinic.backend.insert(RawItem("p", str(number), '{"n": {"a": [1e2, "é:"]}}') for number in range(300))
        finding = clinic.finding("values")
        assert finding.status is Status.OK
        assert finding.facts == {"most_octets": MOST_OCTETS}

    def test_an_oversized_value(self, clinic: Clinic) -> None:
        clinic.backend.insert([RawItem("p", "big", json.dumps({"a": "x" * MOST_OCTETS}))])
        assert [sample.detail for sample in clinic.finding("values").samples] == [OVERSIZED]

    def test_a_key_that_is_a_blob(self, sqlite_clinic: Clinic) -> None:
        assert isinstance(sqlite_clinic.backend, SqliteBackend)
        sqlite_clinic.backend.insert([RawItem("p", "a"), RawItem("p", "b")])
        sqlite_clinic.backend.execute("UPDATE store SET key = x'62' WHERE key = 'b'")
        assert sqlite_clinic.finding("values").count == 1
        sqlite_clinic.heal("values")
        assert [(kept.prefix, kept.key) for kept in sqlite_clinic.kept] == [("p", "b")]
        assert [each.key for each in sqlite_clinic.items()] == ["a"]

    def test_the_repair_keeps_what_it_takes(self, clinic: Clinic) -> None:
        clinic.backend.insert([RawItem("p", "good"), RawItem("p", "list", "[1, 2]")])
        before = clinic.items()
        clinic.heal("values", is_rehearsal=True)
        assert clinic.items() == before
        clinic.heal("values")
        assert clinic.kept == before[1:]
        assert clinic.items() == before[:1]
        assert [each.items for each in clinic.heal("values").healed] == [0]
