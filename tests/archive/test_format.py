"""The archive to the letter: what CLI.md and `memctl.archive` say stands in it."""

from __future__ import annotations

import hashlib
import io
import json
from base64 import b64decode, b64encode

import pytest

from memctl.archive import BLOCK_LINES, Header, Writer, write
from memctl.model import Problem, Vector
from tests.archive.samples import CREATED, HEADER, UPDATED, archive, item, many, vector


def test_the_header_comes_first_with_its_members_in_order():
    header = Header(
        "postgres",
        CREATED,
        dims=384,
        vector_type="halfvec",
        scope=("users", "*"),
        items=0,
        vectors=0,
        missing=("expiry",),
    )
    first = archive([], header).splitlines()[0]
    assert list(json.loads(first).items()) == [
        ("memctl_archive", 1),
        ("source", "postgres"),
        ("created", CREATED),
        ("dims", 384),
        ("vector_type", "halfvec"),
        ("scope", ["users", "*"]),
        ("items", 0),
        ("vectors", 0),
        ("missing", ["expiry"]),
    ]


def test_an_item_has_its_members_in_order_and_its_value_untouched():
    text = b'{"b": 1.0, "a":1e400,\t"n":12345678901234567890123,"e":"\\u00e9\\ud83d\\ude00"}'
    found = item("k", text, "a..b", expires_at=UPDATED, ttl_minutes=60.0, vectors=(vector("f", 0.1, -2),))
    line = archive([found]).split(b"\n")[1]
    embedding = b64encode(found.vectors[0].embedding or b"").decode()
    assert line.decode() == (
        '{"namespace":["a","","b"],"key":"k","value":' + text.decode() + f',"created_at":"{CREATED}",'
        f'"updated_at":"{UPDATED}","expires_at":"{UPDATED}","ttl_minutes":60.0,'
        f'"vectors":[{{"field":"f","embedding":"{embedding}","created_at":"{CREATED}","updated_at":"{UPDATED}"}}]}}'
    )


def test_the_quick_and_the_careful_spelling_agree():
    from memctl.archive import line_of

    found = [
        item("a"),
        item("b", "ключ€".encode() and '{"é":"🚲"}'.encode()),
        item("c", expires_at=UPDATED, ttl_minutes=None),
        item("d", ttl_minutes=5),
        item('quote"back\\slash\n\0é', prefix="*.{user}"),
        item("v", vectors=(vector("$", 1.5), vector("tags[*].0", 2.5, 3.5))),
        item("w", b"5"),
    ]
    spelled = archive(found).split(b"\n")[1:-2]
    assert spelled == [line_of(each).rstrip(b"\n") for each in found]


def test_a_block_line_follows_every_thousand_lines_and_hashes_them():
    octets = archive(many(2 * BLOCK_LINES + 5))
    all_lines = octets.splitlines(keepends=True)
    assert len(all_lines) == 1 + 2 * (BLOCK_LINES + 1) + 5 + 1
    for number in (1, 2):
        start = 1 + (number - 1) * (BLOCK_LINES + 1)
        block = all_lines[start : start + BLOCK_LINES]
        assert json.loads(all_lines[start + BLOCK_LINES]) == {
            "block": number,
            "lines": BLOCK_LINES,
            "sha256": hashlib.sha256(b"".join(block)).hexdigest(),
            "last": ["users.ana", f"{number * BLOCK_LINES - 1:06}"],
        }


def test_a_full_last_block_is_followed_by_its_line_and_the_end():
    all_lines = archive(many(BLOCK_LINES)).splitlines()
    assert b'{"block":1,' in all_lines[-2]
    assert b'{"end":true,' in all_lines[-1]


@pytest.mark.parametrize("count", [0, 1, BLOCK_LINES, BLOCK_LINES + 1])
def test_the_end_line_counts_and_hashes_everything_before_it(count):
    octets = archive(many(count))
    before, end = octets.rstrip(b"\n").rsplit(b"\n", 1)
    assert octets.endswith(b"}\n")
    assert json.loads(end) == {
        "end": True,
        "items": count,
        "vectors": (count + 2) // 3,
        "sha256": hashlib.sha256(before + b"\n").hexdigest(),
    }


def test_values_that_are_no_json_or_no_utf8_go_as_base64():
    values = [b"{not json", b'{"a":NaN}', b'{"a":"\xff"}', b"", b'{"a":1},"key":"other","x":{}']
    all_lines = archive([item(str(n), value) for n, value in enumerate(values)]).splitlines()[1:-1]
    for line, value in zip(map(json.loads, all_lines), values, strict=True):
        assert "value" not in line
        assert b64decode(line["value_base64"]) == value


def test_a_null_column_is_not_the_json_null():
    sql, js = map(json.loads, archive([item("a", None), item("b", b"null")]).splitlines()[1:-1])
    assert sql["value_base64"] is None
    assert "value" not in sql
    assert js["value"] is None
    assert "value_base64" not in js


def test_line_breaks_between_tokens_become_spaces():
    [line] = archive([item("a", b'{\n  "a": "x",\r\n "b": 2\n}\n')]).splitlines()[1:-1]
    assert b'"value":{   "a": "x",   "b": 2 },' in line


def test_names_that_are_no_utf8_are_shown_and_given_in_base64():
    [line] = archive([item("k\udcff", prefix="a.\udcfe")]).splitlines()[1:-1]
    found = json.loads(line)
    assert (found["namespace"], found["key"]) == (["a", "\ufffd"], "k\ufffd")
    assert (b64decode(found["prefix_base64"]), b64decode(found["key_base64"])) == (b"a.\xfe", b"k\xff")


def test_odd_cells_go_with_their_sql_type_beside_the_reading():
    odd = item(
        expires_at=None,
        problems=(
            Problem("expires_at", "a number, read as seconds since 1970", 1790000000),
            Problem("created_at", "no time", "yesterday"),
            Problem("updated_at", "stored as a BLOB, not as text", b"\x00\xff"),
            Problem("ttl_minutes", "no number", float("inf")),
        ),
    )
    found = json.loads(archive([odd]).splitlines()[1])
    assert found["expires_at_raw"] == {
        "type": "integer",
        "value": 1790000000,
        "reason": "a number, read as seconds since 1970",
    }
    assert (found["created_at_raw"]["type"], found["created_at_raw"]["value"]) == ("text", "yesterday")
    assert found["created_at"] == CREATED
    assert (found["updated_at_raw"]["type"], found["updated_at_raw"]["value"]) == ("blob", "AP8=")
    assert (found["ttl_minutes_raw"]["type"], found["ttl_minutes_raw"]["value"]) == ("real", "inf")


def test_what_is_missing_is_left_out():
    found = item(vectors=(vector("f", 1.0),))
    for missing, gone in {
        ("vectors",): {"vectors"},
        ("expiry",): {"expires_at", "ttl_minutes"},
        ("timestamps", "expiry"): {"created_at", "updated_at", "expires_at", "ttl_minutes"},
    }.items():
        octets = archive([found], Header("sqlite", CREATED, missing=missing))
        assert gone == {
            "namespace", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes", "vectors",
        } - json.loads(octets.splitlines()[1]).keys()  # fmt: skip


def test_vectors_without_times_have_none():
    octets = archive(
        [item(vectors=(vector("f", 1.0),))], Header("cockroachdb", CREATED, missing=("vector-times",))
    )
    assert json.loads(octets.splitlines()[1])["vectors"][0].keys() == {"field", "embedding"}


def test_lines_of_vectors_only():
    out = io.BytesIO()
    with Writer(out, HEADER) as writer:
        writer.extend([item("a")])
        writer.extend([item("b", None, vectors=(vector("f", 1.0),))], vectors_only=True)
    line, end = map(json.loads, out.getvalue().splitlines()[2:])
    assert line.keys() == {"namespace", "key", "vectors_only", "vectors"}
    assert line["vectors_only"] is True
    assert (end["items"], end["vectors"]) == (1, 1)


def test_an_embedding_that_is_null():
    null = Vector("f", 0, None, None, None, (Problem("embedding", "null"),))
    [found] = json.loads(archive([item(vectors=(null,))]).splitlines()[1])["vectors"]
    assert found == {"field": "f", "embedding": None, "created_at": None, "updated_at": None}


def test_what_could_not_be_decoded_is_counted():
    from memctl.archive import write

    found = [
        item("a"),
        item("b", b"{"),
        item("c", b'{\n"a":1}'),
        item("d", problems=(Problem("created_at", "no time", "yesterday"),)),
        item("e\udcff"),
        item("f", b"[1]"),
        item("g", vectors=(Vector("f\udcff", 1, b"abcd", None, None),)),
    ]
    assert write(io.BytesIO(), HEADER, found).raw == 4


def test_an_error_in_the_middle_leaves_no_end_line():
    out = io.BytesIO()

    def items():
        yield from many(10)
        raise RuntimeError("the source went away")

    with pytest.raises(RuntimeError, match="went away"):
        write(out, HEADER, items())
    assert b'"end"' not in out.getvalue()


def test_an_error_of_the_stream_is_raised():
    class Full(io.BytesIO):
        def write(self, octets):
            if self.tell() > 50_000:
                raise OSError(28, "No space left on device")
            return super().write(octets)

    with pytest.raises(OSError, match="No space"):
        write(Full(), HEADER, many(20_000))
