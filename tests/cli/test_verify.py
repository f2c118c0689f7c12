"""`memctl verify`: good archives are proved, of bad ones it is told what is left."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from memctl.archive import BLOCK_LINES
from tests.archive.samples import archive, many
from tests.invocation import Memctl

COUNT = 2 * BLOCK_LINES + 5


@pytest.fixture
def good(tmp_path: Path) -> bytes:
    """An archive of two blocks and a bit, which is also in the file `good.jsonl`."""
    octets = archive(many(COUNT))
    (tmp_path / "good.jsonl").write_bytes(octets)
    return octets


def test_a_good_archive(memctl: Memctl, good: bytes) -> None:
    found = memctl.json("verify", "good.jsonl")
    assert found["good"] is True
    assert (found["kind"], found["items"], found["vectors"]) == ("archive", COUNT, (COUNT + 2) // 3)
    assert (found["blocks"], found["proved_lines"], found["missing_items"]) == (2, COUNT, 0)
    assert (found["damages"], found["faults"]) == ([], [])
    assert found["header"]["source"] == "sqlite"
    assert found["bytes"] == len(good)
    assert "good.jsonl is good" in memctl("verify", "good.jsonl").out


def test_compressed_and_from_standard_input(memctl: Memctl, good: bytes) -> None:
    assert memctl("verify", "-", stdin=gzip.compress(good)).code == 0
    assert memctl("verify", "-", stdin=good[:-500]).code == 4


def test_what_export_writes_is_good(memctl: Memctl, sqlite_data: Path) -> None:
    assert memctl("-s", sqlite_data, "export", "-f", "out.jsonl.gz").code == 0
    assert memctl.json("verify", "out.jsonl.gz")["items"] == 9


def test_a_truncated_archive_tells_what_is_left(memctl: Memctl, good: bytes, tmp_path: Path) -> None:
    cut = good.index(b'"key":"001500"')
    (tmp_path / "cut.jsonl").write_bytes(good[:cut])
    found = memctl.json("verify", "cut.jsonl", code=4)
    assert found["good"] is False
    assert (found["blocks"], found["proved_lines"]) == (1, BLOCK_LINES)
    assert found["good_until"] == 1502
    assert found["last_good"] == {"namespace": ["users", "ana"], "key": "001499"}
    assert found["missing_items"] == COUNT - 1500
    assert found["faults"] == [{"line": 1503, "reason": "cut off: the file ends within this line"}]
    [damage] = found["damages"]
    assert (damage["first"], damage["last"]) == (1504, None)
    assert "cut off" in damage["reason"]
    text = memctl("verify", "cut.jsonl").out
    assert "cut.jsonl is bad" in text
    assert f"{COUNT - 1500:,}" in text


def test_an_edited_archive_tells_which_block(memctl: Memctl, good: bytes, tmp_path: Path) -> None:
    (tmp_path / "edited.jsonl").write_bytes(good.replace(b'{"n":1500}', b'{"n":1501}'))
    found = memctl.json("verify", "edited.jsonl", code=4)
    assert [(each["block"], each["first"], each["last"]) for each in found["damages"]] == [
        (2, BLOCK_LINES + 3, 2 * BLOCK_LINES + 2),
        (None, 1, COUNT + 4),
    ]
    assert (found["blocks"], found["proved_lines"]) == (1, BLOCK_LINES)
    assert found["good_until"] == BLOCK_LINES + 1
    assert found["last_good"]["key"] == f"{BLOCK_LINES - 1:06}"


def test_every_bad_line_is_told(memctl: Memctl, good: bytes, tmp_path: Path) -> None:
    rows = good.splitlines(keepends=True)
    rows[5], rows[9] = b"garbage\n", rows[9].replace(b"2026-11-29", b"2026-11-39")
    (tmp_path / "bad.jsonl").write_bytes(b"".join(rows))
    found = memctl.json("verify", "bad.jsonl", code=4)
    assert [each["line"] for each in found["faults"]] == [6, 10]
    assert "no valid JSON" in found["faults"][0]["reason"]
    assert "`created_at` is no time" in found["faults"][1]["reason"]
    assert found["missing_items"] == 2
    assert found["good_until"] == 5


@pytest.mark.parametrize(("place", "to"), [(1500, 5), (5, 1500), (700, 701)])
def test_one_line_elsewhere_is_one_fault(
    memctl: Memctl, good: bytes, tmp_path: Path, place: int, to: int
) -> None:
    rows = good.splitlines(keepends=True)
    rows.insert(to, rows.pop(place))
    (tmp_path / "moved.jsonl").write_bytes(b"".join(rows))
    found = memctl.json("verify", "moved.jsonl", code=4)
    assert found["fault_count"] == 1
    assert "out of order" in found["faults"][0]["reason"]
    assert found["missing_items"] == 0
    assert 1 <= found["damage_count"] <= 4


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("count", [3, 3_000])
def test_what_is_left_behind_a_bad_checksum(memctl: Memctl, tmp_path: Path, suffix: str, count: int) -> None:
    octets = archive(many(count))
    packed = (
        gzip.compress(octets)
        if suffix == "gz"
        else zstandard.ZstdCompressor(write_checksum=True).compress(octets)
    )
    changed = len(packed) - (5 if suffix == "gz" else 1)  # of the gzip trailer, the last octet of the CRC
    packed = packed[:changed] + bytes([packed[changed] ^ 1]) + packed[changed + 1 :]
    (tmp_path / f"x.jsonl.{suffix}").write_bytes(packed)
    found = memctl.json("verify", f"x.jsonl.{suffix}", code=4)
    assert found["good"] is False
    assert "broken" in found["damages"][-1]["reason"]
    if suffix == "gz" or count == 3:
        assert (found["items"], found["missing_items"]) == (count, 0)


def test_many_faults_are_counted_and_not_all_listed(memctl: Memctl, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(b"{}\n" * 500)
    found = memctl.json("verify", "bad.jsonl", code=4)
    assert (found["fault_count"], len(found["faults"])) == (500, 100)
    assert "400 faults more" in memctl("verify", "bad.jsonl").out


def test_bare_lines_are_checked_and_nothing_is_proved(memctl: Memctl, tmp_path: Path) -> None:
    (tmp_path / "bare.jsonl").write_bytes(b'{"namespace":"a","key":"k","value":{}}\n')
    found = memctl.json("verify", "bare.jsonl")
    assert (found["kind"], found["items"], found["proved_lines"]) == ("lines", 1, 0)
    assert "nothing proves" in memctl("verify", "bare.jsonl").err


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (b"", "empty"),
        (b"SQLite format 3\0", "SQLite"),
        ("{}".encode("utf-16"), "UTF-16"),
        (bytes(50), "UTF-16"),
    ],
)
def test_what_is_no_archive_at_all(memctl: Memctl, tmp_path: Path, octets: bytes, words: str) -> None:
    (tmp_path / "x").write_bytes(octets)
    found = memctl.json("verify", "x", code=4)
    assert found["good"] is False
    assert words in found["reason"]


def test_no_file(memctl: Memctl, tmp_path: Path, sqlite_sample: Path) -> None:
    for command in (["verify"], ["-s", sqlite_sample, "import"]):
        assert memctl.refuse(*command, "nothing.jsonl", code=2)["code"] == "missing"
        memctl.refuse(*command, tmp_path, code=2)
    assert memctl("verify").code == 2


def test_stored_text_does_not_reach_a_terminal_raw(memctl: Memctl, tmp_path: Path) -> None:
    from tests.archive.samples import item

    (tmp_path / "x.jsonl").write_bytes(archive([item("\x1b[31mk"), item("z")])[:-300])
    assert "\x1b[31m" not in memctl("verify", "x.jsonl").out
