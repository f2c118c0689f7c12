"""Files that are there whole or not at all."""

from __future__ import annotations

import gzip
import os
import stat

import pytest
import zstandard

from memctl.archive import new_file
from memctl.errors import MemctlError, Refused

TEXT = b"a line\n" * 10_000


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "out.jsonl"
    with new_file(path) as stream:
        stream.write(TEXT)
        assert not path.exists()
    assert path.read_bytes() == TEXT
    assert os.listdir(tmp_path) == ["out.jsonl"]
    assert path.stat().st_nlink == 1
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_the_suffix_compresses(tmp_path):
    for name, decompress in {"x.gz": gzip.decompress, "x.zst": _unzstd}.items():
        with new_file(tmp_path / name) as stream:
            stream.write(TEXT)
        octets = (tmp_path / name).read_bytes()
        assert decompress(octets) == TEXT
        assert len(octets) < len(TEXT) / 10


def test_a_gzip_file_is_the_same_each_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        with new_file(tmp_path / name) as stream:
            stream.write(TEXT)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def _unzstd(octets: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(octets)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["x", "x.gz", "x.zst"])
def test_nothing_is_left_after_an_error(tmp_path, error, name):
    with pytest.raises(error), new_file(tmp_path / name) as stream:
        stream.write(TEXT)
        raise error
    assert os.listdir(tmp_path) == []


def test_an_existing_file_is_not_replaced_unless_it_may_be(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(MemctlError, match="exists already"), new_file(path):
        pytest.fail("not even begun")
    with new_file(path, overwrite=True) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(MemctlError, match="exists already"), new_file(path) as stream:
        stream.write(b"mine")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["x"]


def test_without_hard_links_it_is_renamed(tmp_path, monkeypatch):
    from pathlib import Path

    def refuse(self, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with new_file(tmp_path / "x") as stream:
        stream.write(b"new")
    assert os.listdir(tmp_path) == ["x"]


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(MemctlError, match="no folder") as caught, new_file(tmp_path / "no" / "x"):
        pass
    assert caught.value.code == "no-folder"
    with pytest.raises(MemctlError, match="is a folder"), new_file(tmp_path):
        pass
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(Refused), new_file(tmp_path / "x"):
            pass


def test_a_full_disk_is_told(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    from pathlib import Path

    with pytest.raises(MemctlError, match="No space left") as caught, new_file(Path("/dev/full")) as stream:
        stream.write(TEXT)
    assert caught.value.code == "no-space"


def test_a_device_is_written_to_directly(tmp_path):
    from pathlib import Path

    with new_file(Path(os.devnull)) as stream:
        stream.write(TEXT)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
