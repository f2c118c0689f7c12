"""What can be read: bare lines and arrays in every spelling, compressed or not, in bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import struct
import sys
import tracemalloc
from base64 import b64encode

import pytest
import zstandard

from memctl.archive import Reader, Unreadable, Writer, in_order, read, sources
from memctl.model import Item
from tests.archive.samples import CREATED, HEADER, archive, faults, item, lines, many

GOOD = b'{"namespace":"users.ana","key":"k","value":{"n":1}}'


def _only(octets: bytes) -> Item:
    [line] = lines(octets)
    assert line.item is not None, line.fault
    return line.item


def test_a_bare_line_needs_three_members():
    [line] = lines(GOOD + b"\n")
    assert line.item == item("k", b'{"n":1}', created_at=None, updated_at=None)
    assert line.parts == {"value"}
    assert not line.vectors_only
    assert read(io.BytesIO(GOOD)).header is None


@pytest.mark.parametrize(
    ("spelled", "prefix"),
    [
        ('"users.ana"', "users.ana"),
        ('["users","ana"]', "users.ana"),
        ('""', ""),
        ('[""]', ""),
        ('"a..b"', "a..b"),
        ('["a","","b"]', "a..b"),
        (r'"\\*.x"', "*.x"),
        ('["*","x"]', "*.x"),
        ('"{{user}}"', "{user}"),
    ],
)
def test_namespaces(spelled, prefix):
    assert _only(b'{"namespace":%b,"key":"k","value":{}}' % spelled.encode()).prefix == prefix


@pytest.mark.parametrize(
    ("spelled", "instant"),
    [
        ("2026-11-30T07:42:43.843759Z", "2026-11-30T07:42:43.843759Z"),
        ("2026-11-30T07:42:43Z", "2026-11-30T07:42:43.000000Z"),
        ("2026-11-30 07:42:43", "2026-11-30T07:42:43.000000Z"),
        ("2026-11-30T09:42:43.84+02:00", "2026-11-30T07:42:43.840000Z"),
        ("2026-11-30", "2026-11-30T00:00:00.000000Z"),
        ("2024-02-29T00:00:00.000000Z", "2024-02-29T00:00:00.000000Z"),
    ],
)
def test_times_and_expiry(spelled, instant):
    text = '{"namespace":"a","key":"k","value":{},"%s":"%s","ttl_minutes":1.5}'
    for column in ("created_at", "updated_at", "expires_at"):
        found = _only((text % (column, spelled)).encode())
        assert getattr(found, column) == instant
        assert found.ttl_minutes == 1.5


def test_vectors_as_base64_and_as_numbers():
    octets = struct.pack("<3f", 0.1, -2, 3e38)
    for spelled in (json.dumps(b64encode(octets).decode()), "[0.1, -2, 3e38]"):
        text = '{"namespace":"a","key":"k","value":{},"vectors":[{"field":"f","embedding":%s}]}'
        [vector] = _only((text % spelled).encode()).vectors
        assert (vector.field, vector.dims, vector.embedding) == ("f", 3, octets)


@pytest.mark.parametrize(
    "value",
    [
        b'{"n":123456789012345678901234567890,"f":1.0,"x":1e400,"z":-0.0}',
        b'{"b":1,"a":2,"b":3}',
        b'{"e":"\\u00e9\\/\\ud83d\\ude00"}',
        b'{"lone":"\\ud800"}',
        b'{ "spaces" : [ 1 , 2 ] }',
        '{"é":"🚲\u2028"}'.encode(),
        b"[1,2]",
        b"5",
        b"null",
        b'{"n":' + b"9" * 6_000 + b"}",
        b'{"value":{"key":"namespace"},"key":1}',
    ],
)
def test_values_are_carried_and_not_decoded(value):
    bare = b'{"namespace":"a","key":"k","value":%b}' % value
    assert _only(bare).value == value
    assert _only(b"[" + bare + b"]").value == value
    assert _only(b'{"key":"k","value":%b,"namespace":"a","score":1}' % value).value == value
    assert _only(archive([item("k", value)])).value == value


def test_line_ends_blank_lines_and_a_byte_order_mark():
    octets = b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n\n" + GOOD.replace(b'"k"', b'"l"')
    found = lines(octets)
    assert [(line.number, line.item and line.item.key) for line in found] == [(1, "k"), (4, "l")]
    assert found[0].raw == GOOD


def test_an_archive_whose_line_feeds_became_crlf_is_still_proved():
    octets = archive(many(1_005))
    assert lines(octets.replace(b"\n", b"\r\n"))[0].item == many(1)[0]
    assert len(lines(b"\xef\xbb\xbf" + octets)) == 1_005


@pytest.mark.parametrize(
    "octets",
    [
        b"[]",
        b" [ ] \n",
    ],
)
def test_an_empty_array(octets):
    assert lines(octets) == []


def test_an_array_is_read_element_by_element():
    rows = [{"namespace": ["a"], "key": f'k]}}"{n}', "value": {"t": '\\"],[{'}} for n in range(50)]
    for indent in (None, 2):
        found = lines(json.dumps(rows, indent=indent).encode())
        assert [line.item and line.item.key for line in found] == [row["key"] for row in rows]
        assert [line.number for line in found] == list(range(1, 51))


@pytest.fixture(params=[1, 2, 7, 100])
def crumbs(request, monkeypatch):
    """Read everything in very small pieces."""
    monkeypatch.setattr(sources, "CHUNK_OCTETS", request.param)


def test_pieces_do_not_matter(crumbs):
    octets = archive(many(30))
    assert [line.item for line in lines(octets)] == many(30)
    assert len(lines(GOOD + b"\n" + GOOD)) == 2
    rows = [{"namespace": ["a"], "key": f'\\"[{n}', "value": {"t": ["]", {"}": 1.5}]}} for n in range(20)]
    assert len(lines(json.dumps(rows).encode())) == 20
    assert [line.item for line in lines(gzip.compress(octets))] == many(30)


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize(
    "octets", [archive(many(3_000)), GOOD, b"[" + GOOD + b"]"], ids=["archive", "line", "array"]
)
def test_compressed_inputs_are_told_by_their_first_octets(compress, octets):
    assert [line.item for line in lines(compress(octets))] == [line.item for line in lines(octets)]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_several_members_follow_one_another(compress):
    octets = archive(many(3_000))
    half = len(octets) // 2
    assert len(lines(compress(octets[:half]) + compress(octets[half:]))) == 3_000


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compressed_data_that_were_cut_off_are_told_for_every_kind(compress):
    bare = b"".join(GOOD.replace(b'"k"', b'"%d"' % n) + b"\n" for n in range(20_000))
    for octets in (archive(many(20_000)), bare, b"[" + bare.strip().replace(b"\n", b",") + b"]"):
        packed = compress(octets)
        reader = read(io.BytesIO(packed[: len(packed) * 2 // 3]))
        with pytest.raises(Exception, match="end in the middle"):
            list(reader)


def test_compressed_data_that_were_changed_are_told():
    packed = bytearray(gzip.compress(archive(many(5_000))))
    packed[-6] ^= 1
    with pytest.raises(Exception, match="broken"):
        lines(bytes(packed))


def test_zstd_without_a_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(Unreadable, match="zstd") as caught:
        read(io.BytesIO(zstandard.compress(GOOD)))
    assert "langgraph-memctl[zstd]" in (caught.value.hint or "")


def test_what_was_proved_is_read_without_being_checked_again():
    octets = archive(many(2_005))
    once_more = read(io.BytesIO(octets), proved=True)
    assert list(once_more) == lines(octets)
    assert once_more.totals.items == 2_005
    assert len(list(read(io.BytesIO(octets[:100_000]), proved=True))) > 400


def test_bare_lines_come_in_order():
    keys = ["b", "a", "c", "é", "Z"]
    octets = b"".join(
        GOOD.replace(b'"k"', json.dumps(key, ensure_ascii=False).encode()) + b"\n" for key in keys
    )
    assert [found.key for found in in_order(read(io.BytesIO(octets)))] == sorted(keys)
    assert list(in_order(read(io.BytesIO(archive(many(5)))))) == many(5)


class _Endless(io.RawIOBase):
    """An archive of many items, made while it is read."""

    def __init__(self, items: int) -> None:
        self._left = items
        self._out = io.BytesIO()
        self._writer = Writer(self._out, HEADER).__enter__()
        self._next = 0

    def read(self, size: int = -1) -> bytes:
        while self._left and self._out.tell() < 200_000:
            some = [item(f"{self._next + n:09}", b'{"text":"%b"}' % (b"x" * 500)) for n in range(1_000)]
            self._writer.extend(some)
            self._next += 1_000
            self._left -= 1_000
            if not self._left:
                self._writer.__exit__(None, None, None)
            else:
                self._writer._output._thread.wait()
        octets = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return octets


@pytest.mark.no_cover
def test_memory_is_flat():
    peaks = []
    for count in (5_000, 40_000):
        tracemalloc.start()
        assert sum(1 for _ in read(_Endless(count))) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.3 + 500_000
    assert peaks[1] < 12_000_000


def test_a_reader_counts_what_it_read():
    reader = read(io.BytesIO(archive(many(4))))
    assert isinstance(reader, Reader)
    for _ in reader:
        pass
    assert (reader.totals.items, reader.totals.vectors) == (4, 2)
    assert reader.totals.octets == len(archive(many(4)))
    assert faults(GOOD) == {}
    assert CREATED
