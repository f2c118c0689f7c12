"""`memctl demo` on the command line; what the store holds is tested in `tests/test_demo.py`."""

from __future__ import annotations

import pytest

from tests.invocation import Memctl


def test_it_makes_a_store_and_says_what_to_try(memctl: Memctl) -> None:
    made = memctl("demo", "sample.db")
    assert made.code == 0
    assert "memctl -s sample.db" in made.out
    assert memctl("-s", "sample.db", "ls").code == 0


def test_a_rehearsal_makes_nothing(memctl: Memctl) -> None:
    planned = memctl.json("demo", "sample.db", "--dry-run")
    assert planned["dry_run"] is True
    assert not (memctl.folder / "sample.db").exists()
    made = memctl.json("demo", "sample.db")
    assert {**made, "dry_run": True} == planned


@pytest.mark.parametrize("rehearsal", [[], ["--dry-run"]])
def test_an_existing_file_is_refused_and_left_alone(memctl: Memctl, rehearsal: list[str]) -> None:
    (memctl.folder / "sample.db").write_bytes(b"precious")
    refused = memctl("demo", "sample.db", *rehearsal)
    assert refused.code == 1
    assert "sample.db" in refused.err
    assert (memctl.folder / "sample.db").read_bytes() == b"precious"
