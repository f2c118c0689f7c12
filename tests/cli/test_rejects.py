"""What cannot be brought in: told with line and reason, kept as it came, and taken back when it is mended."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memctl.archive import line_of
from memctl.stores.sqlite.writer import SqliteWriter
from tests.archive.samples import item, vector
from tests.databases import Database
from tests.invocation import Memctl


def write(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n")
    return path


def rejected(memctl: Memctl) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (memctl.folder / "rejects").read_bytes().splitlines()]


def bare(key: str, value: str = '{"v":1}', **more: Any) -> str:
    rest = "".join(f',"{name}":{json.dumps(part)}' for name, part in more.items())
    return f'{{"namespace":["a"],"key":"{key}","value":{value}{rest}}}'


SKIP = ("--on-error", "skip", "--rejects", "rejects")


def test_what_a_line_did_not_say_stays_as_it_is(memctl: Memctl, database: Database) -> None:
    memctl("-s", database.url, "init", "--dims", "1")
    there = item("k", b'{"v":0}', "a", vectors=(vector("v", 1.0),))
    assert (
        memctl("-s", database.url, "import", write(memctl.folder / "there.jsonl", line_of(there))).code == 0
    )
    source = write(memctl.folder / "a.jsonl", bare("k", '{"v":0}', ttl_minutes=1.5), bare("m", ttl_minutes=2))
    assert memctl("-s", database.url, "import", source, *SKIP).code == 3
    (line,) = rejected(memctl)
    assert line.pop("rejected") == {
        "line": 1, "part": "ttl_minutes", "reason": "not a whole number of minutes, which the column would round",
    }  # fmt: skip
    assert line == json.loads(bare("k", '{"v":0}', ttl_minutes=1.5))
    again = ("import", "rejects", "--round-ttl", "up", "--on-conflict", "overwrite", "--yes")
    assert memctl.json("-s", database.url, *again)["items"] == 1
    found = memctl.json("-s", database.url, "get", "a", "k", "--vectors")
    assert (found["created_at"], len(found["vectors"]), found["ttl_minutes"]) == (there.created_at, 1, 2)


def test_names_are_kept_as_they_came(memctl: Memctl, database: Database) -> None:
    memctl("-s", database.url, "init")
    source = write(memctl.folder / "a.jsonl", bare("k", ttl_minutes=0.5), "nonsense", bare("m", "1"))
    options = ("--map", "a=b", "--into", "arch")
    assert memctl("-s", database.url, "import", source, *options, *SKIP).code == 3
    assert [line[:38] for line in (memctl.folder / "rejects").read_bytes().splitlines()] == [
        bare("k")[:38].encode(), b"nonsense", bare("m", "1").encode()[:38],
    ]  # fmt: skip
    assert memctl("migrate", "odd.db", database.url, *options).code == 10
    with closing(sqlite3.connect(memctl.folder / "odd.db")) as odd:
        memctl("-s", memctl.folder / "odd.db", "init")
    with closing(sqlite3.connect(memctl.folder / "odd.db")) as odd:
        odd.execute("INSERT INTO store (prefix, key, value, ttl_minutes) VALUES ('a', 'k', '{}', 0.5)")
        odd.commit()
    (memctl.folder / "rejects").unlink()
    assert memctl("migrate", "odd.db", database.url, *options, *SKIP).code == 3
    assert rejected(memctl)[0]["namespace"] == ["a"]


def test_what_only_the_server_knows_is_told_too(memctl: Memctl, database: Database) -> None:
    source = write(
        memctl.folder / "a.jsonl",
        bare("good"),
        bare("number", '{"n":1e200000}'),
        bare(random.Random(1).randbytes(4_500).hex()),
    )
    outcome = memctl("-s", database.url, "import", source, "--init", *SKIP)
    assert outcome.code == 3
    assert "line 2: a 'number': value: " in outcome.err
    assert "line 3: " in outcome.err
    assert "more" not in outcome.err
    assert [line["rejected"]["line"] for line in rejected(memctl)] == [2, 3]


def test_a_rehearsal_asks_the_server_about_values(memctl: Memctl, database: Database) -> None:
    source = write(memctl.folder / "a.jsonl", bare("number", '{"n":1e200000}'))
    for rehearsal in (("--dry-run",), ()):
        error = memctl.refuse("-s", database.url, "import", source, "--init", *rehearsal, code=1)
        assert "past numeric" in error["message"]
    assert database.execute("SELECT to_regclass('store')") == [(None,)]


def test_a_refusal_and_a_rehearsal_leave_no_file(memctl: Memctl) -> None:
    source = write(memctl.folder / "a.jsonl", bare("k"), "nonsense")
    for options in (("--dry-run", "--on-error", "skip"), ()):
        assert memctl("-s", "x.db", "import", source, "--init", "--rejects", "rejects", *options).code in (
            1,
            3,
        )
        assert not (memctl.folder / "rejects").exists()
    assert memctl("-s", "x.db", "import", source, "--init", *SKIP).code == 3
    assert (memctl.folder / "rejects").read_bytes() == b"nonsense\n"
    (memctl.folder / "rejects").unlink()
    assert memctl("-s", "x.db", "import", write(memctl.folder / "b.jsonl", bare("k")), *SKIP).code == 0
    assert not (memctl.folder / "rejects").exists()


def test_every_one_can_be_seen(memctl: Memctl) -> None:
    source = write(memctl.folder / "a.jsonl", *["nonsense"] * 30)
    report = memctl("-s", "x.db", "import", source, "--init", "--on-error", "skip", "-v", "-o", "json")
    assert report.code == 3
    assert [f"line {number}: " in report.err for number in (1, 21, 30)] == [True] * 3
    ((reason,)) = report.json()["reasons"]
    assert (reason["part"], reason["items"]) == ("line", 30)
    assert "--verbose tells all" in memctl("-s", "y.db", "import", source, "--init", "--on-error", "skip").err


def test_an_item_that_comes_meanwhile_is_counted(memctl: Memctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two looks somebody puts one of the items, and overwrites one with a newer one."""
    memctl("-s", "x.db", "init")
    old = bare("old", updated_at="2026-11-01T00:00:00Z")
    assert memctl("-s", "x.db", "import", write(memctl.folder / "old.jsonl", old)).code == 0
    source = write(memctl.folder / "a.jsonl", bare("new"), bare("old", updated_at="2026-11-02T00:00:00Z"))
    finish = SqliteWriter.finish

    def put(self: SqliteWriter, *_: Any) -> Any:
        with closing(sqlite3.connect(memctl.folder / "x.db")) as agent:
            agent.execute("INSERT OR IGNORE INTO store (prefix, key, value) VALUES ('a', 'new', '{\"v\":2}')")
            agent.execute(
                "UPDATE store SET updated_at = '2026-11-03 00:00:00', value = '{}' WHERE key = 'old'"
            )
            agent.commit()
        return self

    monkeypatch.setattr("memctl.cli.bringing._others", lambda _context, target, _another: put(target) and [])
    report = memctl("-s", "x.db", "import", source, "--on-conflict", "newer", "--yes", "-o", "json")
    assert finish is SqliteWriter.finish
    counts = report.json()
    assert counts["items"] + counts["skipped"] == 2
    assert counts["skipped"] >= 1


@pytest.mark.parametrize(("minutes", "arrives"), [(-1.5, -1), (1.5, 2), (-0.5, None)])
def test_a_ttl_is_rounded_where_it_must_be_and_never_to_nothing(
    memctl: Memctl, database: Database, minutes: float, arrives: int | None
) -> None:
    source = write(memctl.folder / "a.jsonl", bare("k", ttl_minutes=minutes))
    outcome = memctl("-s", database.url, "import", source, "--init", "--round-ttl", "up")
    assert outcome.code == (0 if arrives else 1)
    if arrives:
        assert database.execute("SELECT ttl_minutes FROM store") == [(arrives,)]
    assert memctl("-s", "x.db", "import", source, "--init", "--round-ttl", "up").code == 0
    assert memctl.json("-s", "x.db", "get", "a", "k")["ttl_minutes"] == pytest.approx(minutes)


@pytest.mark.parametrize("options", [("--into", "a..b"), ("--map", "a=langgraph")])
def test_a_new_name_is_as_good_as_the_library_wants_it(memctl: Memctl, options: tuple[str, ...]) -> None:
    source = write(memctl.folder / "a.jsonl", bare("k"))
    assert "--raw takes it" in memctl("-s", "x.db", "import", source, "--init", *options).err
    assert memctl("-s", "x.db", "import", source, "--init", "--raw", *options).code == 0


def test_a_time_that_is_null_in_bare_lines_was_not_given(memctl: Memctl) -> None:
    source = write(memctl.folder / "a.jsonl", bare("k", created_at=None, updated_at=None, expires_at=None))
    assert memctl("-s", "x.db", "import", source, "--init").code == 0
    found = memctl.json("-s", "x.db", "get", "a", "k")
    assert found["created_at"] == found["updated_at"] is not None
