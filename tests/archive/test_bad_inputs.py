"""Inputs that are not what they should be: each is told in words, at its line."""

from __future__ import annotations

import io
import tracemalloc

import pytest

from memctl.archive import BLOCK_LINES, Damaged, Unreadable, in_order, read, verify
from memctl.errors import MemctlError
from tests.archive.samples import archive, faults, item, lines, many

GOOD = b'{"namespace":"users.ana","key":"k","value":{"n":1}}'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "no valid JSON"),
        (b"hello", "no valid JSON"),
        (b'{"namespace":"a","key":"k","value":{"a":1}', "no valid JSON"),
        (GOOD + b" x", "something follows the object"),
        (b"5", "not an object: 5"),
        (b'["a"]', "not an object"),
        (b'{"namespace":["a",1],"key":"k","value":{}}', "`namespace` has to be an array of labels"),
        (b'{"namespace":5,"key":"k","value":{}}', "`namespace` has to be"),
        (b'{"namespace":[],"key":"k","value":{}}', "`namespace` is empty"),
        (b'{"namespace":"a.*","key":"k","value":{}}', "`namespace`: 'a.*' names many namespaces"),
        (b'{"namespace":["x.y"],"key":"k","value":{}}', "`namespace`: a label holds a dot"),
        (b'{"key":"k","value":{}}', "`namespace` is missing"),
        (b'{"namespace":"a","value":{}}', "`key` is missing"),
        (b'{"namespace":"a","key":7,"value":{}}', "`key` has to be text: 7"),
        (b'{"namespace":"a","key":"k"}', "`value` is missing"),
        (b'{"namespace":"a","key":"k","value":NaN}', "NaN is no number in JSON"),
        (b'{"namespace":"a","key":"k","value":{"a":-Infinity}}', "-Infinity is no number in JSON"),
        (b'{"namespace":"a","key":"k\xff","value":{}}', "invalid UTF-8 at octet 26"),
        (b'{"namespace":"a","key":"k","value":{"a":"\xc3"}}', "invalid UTF-8 at octet 42"),
        (b'{"namespace":"a","key":"k","key":"l","value":{}}', "`key` stands there twice"),
        (b'{"namespace":"a","key":"\\ud800","value":{}}', "`key` has a lone surrogate"),
        (
            b'{"namespace":"a","key":"k","value":{},"created_at":"yesterday"}',
            '`created_at` is no time: "yesterday"',
        ),
        (b'{"namespace":"a","key":"k","value":{},"updated_at":5}', "`updated_at` has to be a time"),
        (
            b'{"namespace":"a","key":"k","value":{},"expires_at":"2026-02-30T00:00:00Z"}',
            "`expires_at` is no time",
        ),
        (b'{"namespace":"a","key":"k","value":{},"ttl_minutes":"soon"}', "`ttl_minutes` has to be a number"),
        (b'{"namespace":"a","key":"k","value":{},"ttl_minutes":1e999}', "`ttl_minutes`"),
        (b'{"namespace":"a","key":"k","value":{},"vectors":{}}', "`vectors` has to be an array"),
        (b'{"namespace":"a","key":"k","value":{},"vectors":[{"field":"f","embedding":"@@"}]}', "no base64"),
        (
            b'{"namespace":"a","key":"k","value":{},"vectors":[{"field":"f","embedding":"AAA="}]}',
            "2 octets are no",
        ),
        (b'{"namespace":"a","key":"k","value":{},"vectors":[{"field":"f","embedding":[1e39]}]}', "float32"),
        (
            b'{"namespace":"a","key":"k","value":{},"vectors":['
            b'{"field":"f","embedding":[1]},{"field":"f","embedding":[2]}]}',
            "the same `field`",
        ),
        (b'{"namespace":"a","key":"k","value_base64":"!"}', "`value_base64` is no base64"),
        (
            b'{"namespace":"a","key":"k","value":null,"problems":[{"part":"value","reason":"x"}]}',
            "could not decode its value",
        ),
        (
            b'{"namespace":"a","key":"k","value":{},"expires_at":null,"problems":[{"part":"expires_at","reason":"x"},'
            b'{"part":"value","reason":"not an object"}]}',
            "could not decode its expires_at: export an archive instead",
        ),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_told_and_the_others_are_read(line, words):
    """The same in JSON Lines, and in an array where the line can be an element at all."""
    found = lines(GOOD + b"\n" + line + b"\n" + GOOD.replace(b'"k"', b'"z"') + b"\n")
    assert [each.item is not None for each in found] == [True, False, True]
    assert words in (found[1].fault or "")
    assert found[1].number == 2
    assert found[1].raw == line


def test_a_bad_element_is_told_and_the_others_are_read():
    octets = b"[" + GOOD + b', {"namespace":["a",1],"key":"k","value":{}}, 5, "x", null,' + GOOD + b"]"
    found = lines(octets)
    assert [each.number for each in found if each.fault] == [2, 3, 4, 5]
    assert read(io.BytesIO(octets)).unit == "element"


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (("\ufeff" + GOOD.decode()).encode("utf-16-le"), "UTF-16"),
        (("\ufeff" + GOOD.decode()).encode("utf-16-be"), "UTF-16"),
        (GOOD.decode().encode("utf-16-le"), "UTF-16"),
        (GOOD.decode().encode("utf-16-be"), "UTF-16"),
        (b"SQLite format 3\0" + bytes(100), "SQLite"),
        (b"PGDMP\x01\x0e", "pg_dump"),
        (b"PK\x03\x04....", "ZIP"),
        (bytes(range(256)), "binary"),
        (b"\x1f\x8b\x08 this is no gzip", "broken"),
        (b"\x1f\x8b", "end in the middle"),
        (b'{"memctl_archive":2,"source":"x"}\n', "version 2"),
        (b'{"memctl_archive":"1","source":"x"}\n', 'changed: a version is a number, not "1"'),
        (b'{"memctl_archive":1,"source":5}\n', "first line of the archive was changed"),
        (b'{"memctl_archive":1,"source":\n', "first line of the archive was changed"),
    ],
)
def test_what_is_no_input_at_all_is_refused(octets, words):
    with pytest.raises(Unreadable, match=words):
        read(io.BytesIO(octets))


def _damage(octets: bytes) -> Damaged:
    with pytest.raises(Damaged) as caught:
        lines(octets)
    return caught.value


def test_a_changed_line_is_found_at_the_end_of_its_block():
    octets = archive(many(2 * BLOCK_LINES + 10)).replace(b'{"n":1500}', b'{"n":1501}')
    seen = []
    with pytest.raises(Damaged, match="block 2, lines 1,003 to 2,002: its lines were changed") as caught:
        seen.extend(read(io.BytesIO(octets)))
    assert len(seen) == 2 * BLOCK_LINES
    damage = caught.value.damage
    assert (damage.block, damage.first, damage.last) == (2, 1_003, 2_002)


@pytest.mark.parametrize("cut", [2, 5, 150, 3_000, 100_000])
def test_a_cut_archive_is_found(cut):
    octets = archive(many(BLOCK_LINES + 10))
    damage = _damage(octets[:-cut])
    assert "cut off" in damage.message or "end line was changed" in damage.message


def test_nothing_is_lost_with_the_last_line_feed():
    assert len(lines(archive(many(10))[:-1])) == 10


def test_a_line_that_was_taken_out_is_found():
    rows = archive(many(BLOCK_LINES + 10)).splitlines(keepends=True)
    assert "it had 1,000 lines and has 999" in _damage(b"".join(rows[:500] + rows[501:])).message
    assert "the end line counts 1,010 items" in _damage(b"".join(rows[:-5] + rows[-4:])).message


def test_a_block_that_was_taken_out_is_found():
    rows = archive(many(3 * BLOCK_LINES)).splitlines(keepends=True)
    size = BLOCK_LINES + 1
    assert (
        "1 block before it is missing" in _damage(b"".join(rows[: 1 + size] + rows[1 + 2 * size :])).message
    )


def test_a_block_line_that_was_taken_out_is_found():
    rows = archive(many(BLOCK_LINES + 1)).splitlines(keepends=True)
    assert (
        "a block line is missing"
        in _damage(b"".join(rows[: 1 + BLOCK_LINES] + rows[2 + BLOCK_LINES :])).message
    )


def test_a_changed_header_is_found():
    octets = archive(many(10)).replace(b'"source":"sqlite"', b'"source":"sqlitf"')
    assert "the SHA-256 over everything is another" in _damage(octets).message


def test_a_changed_block_line_is_found():
    octets = archive(many(BLOCK_LINES)).replace(
        b'"last":["users.ana","000999"]', b'"last":["users.ana","000998"]'
    )
    assert "its block line was changed" in _damage(octets).message


def test_something_behind_the_end_is_found():
    octets = archive(many(3))
    assert "something follows" in _damage(octets + GOOD + b"\n").message
    assert "something follows" in _damage(octets + octets).message


def test_a_missing_header_is_found():
    assert "first line is missing" in _damage(archive(many(BLOCK_LINES)).split(b"\n", 1)[1]).message


def test_lines_out_of_order_and_repeated_are_told():
    one, two = item("a"), item("b")
    assert faults(archive([two, one])) == {3: "out of order: archives are sorted by namespace and key"}
    assert faults(archive([one, one])) == {3: "the same namespace and key as in the line before"}


def test_a_value_is_shown_as_it_is_stored_but_for_null():
    problems = b'"problems":[{"part":"value","reason":"not an object"}]}'
    assert faults(b'{"namespace":"a","key":"k","value":[1],' + problems) == {}
    assert "its value" in faults(b'{"namespace":"a","key":"k","value":null,' + problems)[1]


def test_repeated_names_are_told_in_bare_lines():
    octets = GOOD + b"\n" + GOOD.replace(b'"k"', b'"a"') + b"\n" + GOOD + b"\n"
    with pytest.raises(MemctlError, match="line 3: the same namespace and key as in line 1"):
        list(in_order(read(io.BytesIO(octets))))


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (b"[" + GOOD, "the array ends in the middle"),
        (b"[" + GOOD[:-1], "the array ends in the middle"),
        (b"[" + GOOD + b" " + GOOD + b"]", "a comma or the closing bracket is missing"),
        (b"[" + GOOD + b",]", "a comma before the closing bracket"),
        (b"[" + GOOD + b"] x", "something follows the array"),
        (b"[,]", "an element is missing"),
    ],
)
def test_a_broken_array_is_told(octets, words):
    assert words in _damage(octets).message


def test_50_mb_without_a_line_break_is_an_error_and_no_crash():
    octets = b"x" * 50_000_000
    tracemalloc.start()
    try:
        assert faults(octets) == {1: "too long to be an item: no line ends in sight"}
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert "no valid JSON" in faults(b'{"namespace":"a' + octets)[1]
    assert faults(octets + b"\n" + GOOD + b"\n").keys() == {1}
    assert not verify(read(io.BytesIO(archive(many(1))[:-1] + octets))).is_good


@pytest.mark.no_cover
def test_one_line_of_50_mb_is_read():
    value = b'{"text":"' + b"x" * 50_000_000 + b'"}'
    bare = b'{"namespace":"a","key":"k","value":' + value + b"}"
    for octets in (bare, bare + b"\n" + GOOD, b"[" + bare + b"]", archive([item("k", value)])):
        first, *_ = lines(octets)
        assert first.item is not None
        assert first.item.value == value
