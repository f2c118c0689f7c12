"""What counts as the same, and two ordered streams side by side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memctl.canonical import canonical
from memctl.compare import PARTS, differences, merge, same_value
from memctl.filters import equal
from memctl.model import Item, Problem, Vector
from memctl.values import decode_exact
from tests.archive.samples import item, vector


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b'{"n": 1}', b'{"n":1.0}'),
        (b'{"n": 1}', b'{"n":10e-1}'),
        (b'{"a": 1, "b": 2}', b'{"b":2,"a":1}'),
        (b'{"a": [{"x": 1, "y": 2}]}', b'{"a":[{"y":2,"x":1}]}'),
        (b'{"t": "na\\u00efve"}', '{"t":"naïve"}'.encode()),
        (b'{"n": 12345678901234567890123456789012345678901}', b'{ "n" : 12345678901234567890123456789012345678901 }'),
        (b'{"n": 1e400}', b'{"n":1' + b"0" * 400 + b"}"),
        (b'{"n": -0}', b'{"n":0}'),
        (b"{half", b"{half"),
        (None, None),
    ],
)  # fmt: skip
def test_the_same_value(a: bytes | None, b: bytes | None) -> None:
    assert same_value(item(value=a), item(value=b))
    assert same_value(item(value=b), item(value=a))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b'{"n": 1}', b'{"n": "1"}'),
        (b'{"n": 1}', b'{"n": true}'),
        (b'{"n": null}', b"{}"),
        (b'{"n": [1, 2]}', b'{"n": [2, 1]}'),
        (b'{"n": 9007199254740992}', b'{"n": 9007199254740993}'),
        (b'{"n": 1e400}', b'{"n": 1e401}'),
        (b'{"n": 0.1}', b'{"n": 0.10000000000000001}'),
        (b"{half", b"{ half"),
        (b"{}", None),
        (b"null", None),
    ],
)
def test_another_value(a: bytes | None, b: bytes | None) -> None:
    assert not same_value(item(value=a), item(value=b))
    assert not same_value(item(value=b), item(value=a))


@pytest.mark.parametrize("depth", [2_000, 10_000])
def test_values_too_deep_to_be_decoded(depth: int) -> None:
    def deep(inner: bytes) -> Item:
        return item(value=b'{"b": [' * depth + inner + b"]}" * depth)

    assert same_value(deep(b'{"x": 1, "y": "\\u00e9"}'), deep('{"y":"é","x":1.0}'.encode()))
    assert not same_value(deep(b'{"x": 1}'), deep(b'{"x": true}'))
    assert not same_value(deep(b"{}"), deep(b"{},"))


def test_an_exponent_past_what_is_counted_with() -> None:
    assert same_value(
        item(value=b'{"n": 1e99999999999999999999}'), item(value=b'{"n":10E99999999999999999998}')
    )
    assert not same_value(
        item(value=b'{"n": 1e99999999999999999999}'), item(value=b'{"n": 1e99999999999999999998}')
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON)
def test_one_spelling_for_what_is_equal(a: object, b: object) -> None:
    one, other = (json.dumps(each).encode() for each in (a, b))
    exact = [decode_exact(each) for each in (one, other)]
    assert (canonical(one) == canonical(other)) is equal(*exact)
    assert canonical(one) == canonical(
        json.dumps(a, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")
    )


@given(st.text('[]{},:"\\u0 1-.eE+truenl', max_size=12))
def test_what_is_no_json_has_no_spelling(text: str) -> None:
    try:
        decode_exact(text.encode())
    except ValueError:
        assert canonical(text.encode()) is None
    else:
        assert canonical(text.encode()) is not None


class TestParts:
    @pytest.mark.parametrize(
        ("part", "changed"),
        [
            ("value", {"value": b'{"n":2}'}),
            ("created_at", {"created_at": "2026-11-29T10:20:30.000001Z"}),
            ("updated_at", {"updated_at": None}),
            ("expires_at", {"expires_at": "2026-12-01T00:00:00.000000Z"}),
            ("ttl_minutes", {"ttl_minutes": 60.0}),
            ("vectors", {"vectors": (vector("text", 1.0),)}),
        ],
    )
    def test_each(self, part: str, changed: dict[str, object]) -> None:
        other = item(**changed)  # type: ignore[arg-type]
        assert differences(item(), other) == (part,)
        assert differences(item(), other, [name for name in PARTS if name != part]) == ()

    def test_all_in_order(self) -> None:
        assert differences(item(), Item("users.ana", "k", b"{}", 2, None, None, "x", 1, (vector(),))) == PARTS

    def test_sixty_minutes_are_sixty(self) -> None:
        assert differences(item(ttl_minutes=60), item(ttl_minutes=60.0)) == ()

    def test_a_cell_that_could_not_be_read_is_what_stands_there(self) -> None:
        def odd(raw: str) -> Item:
            return item(expires_at=None, problems=(Problem("expires_at", "no timestamp", raw),))

        assert differences(odd("soon"), odd("soon")) == ()
        assert differences(odd("soon"), odd("later")) == ("expires_at",)
        assert differences(odd("soon"), item()) == ("expires_at",)


class TestVectors:
    def test_by_the_bit(self) -> None:
        assert differences(item(vectors=(vector("t", 0.0),)), item(vectors=(vector("t", -0.0),))) == (
            "vectors",
        )
        nan = vector("t", float("nan"))
        assert differences(item(vectors=(nan,)), item(vectors=(vector("t", float("nan")),))) == ()

    def test_in_any_order(self) -> None:
        one, other = vector("a", 1.0), vector("b", 2.0)
        assert differences(item(vectors=(one, other)), item(vectors=(other, one))) == ()

    def test_another_field(self) -> None:
        assert differences(item(vectors=(vector("a", 1.0),)), item(vectors=(vector("b", 1.0),))) == (
            "vectors",
        )

    def test_one_more(self) -> None:
        one, other = vector("a", 1.0), vector("b", 2.0)
        assert differences(item(vectors=(one,)), item(vectors=(one, other))) == ("vectors",)

    def test_times_count_where_both_have_them(self) -> None:
        def at(updated: str | None) -> Item:
            return item(vectors=(Vector("t", 1, b"\0\0\0\0", None, updated),))

        assert differences(at("2026-11-29T10:20:30.000000Z"), at(None)) == ()
        assert differences(at("2026-11-29T10:20:30.000000Z"), at("2026-11-29T10:20:31.000000Z")) == (
            "vectors",
        )


NAMES = st.sets(
    st.tuples(st.sampled_from(["a", "a.b", "a-", "ä", "\udcff", "😀"]), st.text(max_size=2)), max_size=8
)


@given(NAMES, NAMES)
def test_a_merge_pairs_each_item_once(a: set[tuple[str, str]], b: set[tuple[str, str]]) -> None:
    def order(name: tuple[str, str]) -> tuple[bytes, bytes]:
        return name[0].encode("utf-8", "surrogateescape"), name[1].encode("utf-8", "surrogatepass")

    def stream(names: set[tuple[str, str]]) -> list[Item]:
        return [item(key, prefix=prefix) for prefix, key in sorted(names, key=order)]

    found = [
        (one and (one.prefix, one.key), other and (other.prefix, other.key))
        for one, other in merge(stream(a), stream(b))
    ]
    expected = [
        (name if name in a else None, name if name in b else None) for name in sorted(a | b, key=order)
    ]
    assert found == expected
