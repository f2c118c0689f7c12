"""`memctl doctor`: what it is asked, what it answers, its exit codes, and what it refuses."""

from __future__ import annotations

import base64
import contextlib
import re
import shlex
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memctl.doctor import CHECKS, check_class
from memctl.doctor.check import can_repair
from memctl.doctor.expiry import ExpiredUnswept
from tests.databases import Database
from tests.invocation import Memctl, exact
from tests.servers import PASSWORD

DATA = Path(__file__).parent.parent / "data"
KEYS = ["id", "level", "status", "count", "bytes", "samples", "message", "fix"]
MOST_LINES, COLUMNS = 24, 80


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with some faults: orphans, stale vectors, drift, an expired item, two shapes of LangMem's."""
    return Path(shutil.copy(DATA / "sqlite-3.1.2.db", tmp_path / "memory.db"))


def by_id(report: Any) -> dict[str, dict[str, Any]]:
    return {check["id"]: check for check in report["checks"]}


def sqlite_rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


# --- the answer ---------------------------------------------------------------------------------------------


def test_every_check_is_in_the_answer(path: Path, memctl: Memctl) -> None:
    report = memctl.json("-s", path, "doctor", code=4)
    assert list(report) == ["store", "checks"]
    assert report["store"] == str(path)
    assert [check["id"] for check in report["checks"]] == list(CHECKS)
    for check in report["checks"]:
        assert list(check)[: len(KEYS)] == KEYS
        assert check["status"] in ("ok", "found", "skipped", "failed")
        assert bool(check["count"]) == (check["status"] == "found")
        assert len(check["samples"]) <= 5
    orphans = by_id(report)["orphaned-vectors"]
    assert (orphans["level"], orphans["status"], orphans["count"], orphans["bytes"]) == (
        "error",
        "found",
        1,
        32,
    )
    assert orphans["samples"] == [
        {"namespace": ["users", "bo", "prefs"], "key": "gone", "detail": "1 vector: $"}
    ]
    assert orphans["fix"] == f"memctl -s {path} doctor --fix orphaned-vectors"
    assert by_id(report)["provenance"]["status"] == "skipped"
    assert by_id(report)["provenance"]["message"]


@pytest.mark.parametrize(("level", "code"), [("error", 4), ("warning", 4), ("note", 4)])
def test_what_is_bad_enough_exits_with_4(path: Path, memctl: Memctl, level: str, code: int) -> None:
    assert memctl("-s", path, "doctor", "--fail-on", level).code == code


def test_what_is_not_bad_enough_does_not(path: Path, memctl: Memctl) -> None:
    assert memctl("-s", path, "doctor", "--check", "namespaces", "--fail-on", "note").code == 4
    assert memctl("-s", path, "doctor", "--check", "namespaces").code == 0
    assert memctl("-s", path, "doctor", "--check", "expired-unswept", "--fail-on", "error").code == 0
    assert memctl("-s", path, "doctor", "--check", "values", "--fail-on", "note").code == 0


def test_the_checks_are_listed_without_a_store(memctl: Memctl) -> None:
    rows = memctl.json("doctor", "--list-checks")
    assert [row["id"] for row in rows] == list(CHECKS)
    assert {row["id"] for row in rows if row["repair"]} == {
        name for name in CHECKS if can_repair(check_class(name))
    }
    assert "orphaned-vectors" in memctl("doctor", "--list-checks").out
    assert len(memctl.json("doctor", "--list-checks", "--check", "schema,values")) == 2


def test_only_what_is_asked_for_runs(path: Path, memctl: Memctl) -> None:
    report = memctl.json("-s", path, "doctor", "--check", "schema,values", "--check", "tenancy")
    assert [check["id"] for check in report["checks"]] == ["schema", "tenancy", "values"]
    report = memctl.json("-s", path, "doctor", "--skip", "schema,values", code=4)
    assert [check["id"] for check in report["checks"]] == [
        name for name in CHECKS if name not in ("schema", "values")
    ]


def test_a_namespace_is_examined_alone(path: Path, memctl: Memctl) -> None:
    report = memctl.json("-s", path, "doctor", "users.bo", code=4)
    assert by_id(report)["orphaned-vectors"]["count"] == 1
    assert by_id(report)["stale-vectors"]["status"] == "ok"
    assert by_id(report)["orphaned-vectors"]["fix"].endswith("doctor --fix orphaned-vectors users.bo")
    report = memctl.json("-s", path, "doctor", "*.ana", code=4)
    assert by_id(report)["orphaned-vectors"]["status"] == "ok"
    assert by_id(report)["stale-vectors"]["count"] == 4
    assert memctl.refuse("-s", path, "doctor", "users.nobody", code=5)["code"] == "not-found"


def test_quick_asks_indexes_only(path: Path, memctl: Memctl) -> None:
    full = by_id(memctl.json("-s", path, "doctor", code=4))
    quick = by_id(memctl.json("-s", path, "doctor", "--quick", code=4))
    asked = {name for name in CHECKS if check_class(name).is_quick}
    assert {"orphaned-vectors", "expired-unswept", "schema"} <= asked
    for name, check in quick.items():
        if name in asked:
            assert {**check, "bytes": None} == {**full[name], "bytes": None}
        else:
            assert check["status"] == "skipped"


def test_the_demo_fits_on_one_screen(memctl: Memctl) -> None:
    memctl("demo")
    outcome = memctl("-s", "memctl-demo.db", "doctor", terminal=True, width=COLUMNS)
    lines = re.sub(r"\x1b\[[\d;]*m", "", outcome.out).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines[1:])) <= COLUMNS, "all but the path"
    shown = [line.split()[1] for line in lines if re.match(r"[EWN]  ", line)]
    report = memctl.json("-s", "memctl-demo.db", "doctor", code=4)
    assert sorted(shown) == sorted(check["id"] for check in report["checks"] if check["status"] == "found")
    assert len(shown) >= 16
    piped = memctl("-s", "memctl-demo.db", "doctor")
    assert "\x1b" not in piped.out
    assert all(f"  {name}" in piped.out for name in shown)


def test_details_come_with_samples_and_the_repair(path: Path, memctl: Memctl) -> None:
    outcome = memctl("-s", "memory.db", "doctor", "--check", "stale-vectors")
    assert "users.ana.prefs  meal: tags[*].0, tags[*].1, tags[*].2" in outcome.out
    assert "$ memctl -s memory.db doctor --fix stale-vectors" in outcome.out
    assert outcome.out in memctl("-s", "memory.db", "doctor", "--check", "stale-vectors", "--verbose").out
    assert "fix stale-vectors" not in memctl("-s", "memory.db", "doctor").out


def test_metrics_for_a_text_file(path: Path, memctl: Memctl) -> None:
    outcome = memctl("-s", path, "-o", "prometheus", "doctor")
    assert outcome.code == 4
    metrics = {}
    for line in outcome.lines:
        if not line.startswith("#"):
            match = re.fullmatch(r"(\w+)\{(.*)\} ([\d.]+)", line)
            assert match, line
            metrics[match[1], tuple(re.findall(r'(\w+)="([^"]*)"', match[2]))] = float(match[3])
    store = ("store", str(path))
    found = (store, ("check", "orphaned-vectors"), ("level", "error"))
    assert metrics["memctl_doctor_findings", found] == 1
    assert metrics["memctl_doctor_bytes", (store, ("check", "orphaned-vectors"))] == 32
    assert metrics["memctl_doctor_check_failed", (store, ("check", "schema"))] == 0
    assert metrics["memctl_doctor_findings", (store, ("check", "values"), ("level", "error"))] == 0
    helps = [line.split()[2] for line in outcome.lines if line.startswith("# HELP")]
    assert len(helps) == len(set(helps))
    assert {name for name, _ in metrics} == set(helps)
    assert memctl("-s", path, "-o", "prometheus", "ls").code == 2


def test_a_check_that_fails_is_told_and_the_others_go_on(
    path: Path, memctl: Memctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, item: object) -> None:
        raise RuntimeError("no such luck")

    expected = by_id(memctl.json("-s", path, "doctor", code=4))
    monkeypatch.setattr(ExpiredUnswept, "item", broken)
    report = by_id(memctl.json("-s", path, "doctor", code=1))
    failed = report.pop("expired-unswept")
    assert (failed["status"], failed["count"]) == ("failed", 0)
    assert "no such luck" in failed["message"]
    del expected["expired-unswept"]
    assert report == expected
    error = memctl.refuse("-s", path, "doctor", "--fix", "expired-unswept", "--yes", code=1)
    assert "no such luck" in error["message"]


# --- repairs ------------------------------------------------------------------------------------------------


def test_what_is_suggested_can_be_pasted_and_repairs(path: Path, memctl: Memctl) -> None:
    report = by_id(memctl.json("-s", "memory.db", "doctor", code=4))
    for name in ("created-at-drift", "orphaned-vectors", "stale-vectors", "langmem-shape"):
        program, *arguments = shlex.split(report[name]["fix"])
        assert program == "memctl"
        outcome = memctl(*arguments, "--yes")
        assert outcome.code == 4, outcome.err
    report = by_id(memctl.json("-s", "memory.db", "doctor", code=4))
    found = {name for name, check in report.items() if check["status"] == "found"}
    assert found == {"expired-unswept", "namespaces", "index-coverage"}
    assert report["expired-unswept"]["fix"] == "memctl -s memory.db sweep"


def test_all_leaves_out_what_only_its_owner_can_decide(path: Path, memctl: Memctl) -> None:
    report = memctl.json("-s", path, "doctor", "--fix", "all", "--yes", "--assume-overwritten", code=4)
    assert [repair["id"] for repair in report["repairs"] if repair["items"]] == [
        "orphaned-vectors",
        "stale-vectors",
        "expired-unswept",
    ]
    assert {"langmem-shape", "values", "created-at-drift"} & {
        each["id"] for each in report["repairs"]
    } == set()
    assert by_id(report)["langmem-shape"]["status"] == "found"
    numbers = [report[name] for name in ("items", "vectors", "skipped", "rejected", "dry_run")]
    assert numbers == [4, 6, 0, 0, False]


def test_what_goes_is_kept_in_order_and_whole(path: Path, memctl: Memctl) -> None:
    before = {
        (".".join(item["namespace"]), item["key"]): item
        for item in memctl.json("-s", path, "search", "--vectors", "--limit", "100")
    }
    orphan = sqlite_rows(path, "SELECT embedding FROM store_vectors WHERE key = 'gone'")[0][0]
    fixes = "orphaned-vectors,stale-vectors,expired-unswept"
    memctl.json("-s", path, "doctor", "--fix", fixes, "--save", "gone.jsonl", "--yes", code=4)
    assert memctl("verify", "gone.jsonl").code == 0
    _, *kept, _ = (exact(line) for line in path.with_name("gone.jsonl").read_text().splitlines())
    names = [(".".join(line["namespace"]), line["key"]) for line in kept]
    assert names == sorted(names)
    lines = dict(zip(names, kept, strict=True))
    expired = lines.pop(("org.acme.facts", "cadence-1"))
    assert expired == before["org.acme.facts", "cadence-1"]
    assert base64.b64decode(lines["users.bo.prefs", "gone"]["vectors"][0]["embedding"]) == orphan
    for name, fields in ((("users.ana.prefs", "meal"), 3), (("users.ana.prefs", "seat"), 1)):
        assert lines[name]["vectors_only"] is True
        stale = before[name]["vectors"]
        assert [vector in stale for vector in lines[name]["vectors"]] == [True] * fields
    again = memctl.refuse("-s", path, "doctor", "--fix", fixes, "--save", "gone.jsonl", "--yes", code=2)
    assert again["code"] == "exists"


def test_what_was_kept_can_come_back(path: Path, memctl: Memctl) -> None:
    before = shutil.copy(path, path.with_name("before.db"))
    memctl.json(
        "-s",
        path,
        "doctor",
        "--fix",
        "stale-vectors,expired-unswept",
        "--save",
        "gone.jsonl",
        "--yes",
        code=4,
    )
    assert len(memctl.json("diff", before, path, code=4)) == 3
    assert memctl.json("-s", path, "import", "gone.jsonl")["items"] == 3
    assert memctl.json("diff", before, path) == []
    assert memctl.json("-s", path, "import", "gone.jsonl")["items"] == 0, "and once is enough"
    memctl.json("-s", path, "doctor", "--fix", "orphaned-vectors", "--save", "orphans.jsonl", "--yes", code=4)
    error = memctl.refuse("-s", path, "import", "orphans.jsonl", code=1)
    assert "vectors without their item" in error["message"]


def test_a_rehearsal_says_what_would_be_done(path: Path, memctl: Memctl) -> None:
    before = path.read_bytes()
    rehearsed = memctl.json("-s", path, "doctor", "--fix", "all", "--dry-run", "--save", "x.jsonl", code=4)
    assert path.read_bytes() == before
    assert not path.with_name("x.jsonl").exists()
    assert rehearsed["dry_run"] is True
    done = memctl.json("-s", path, "doctor", "--fix", "all", "--yes", code=4)
    assert rehearsed["repairs"] == done["repairs"]
    shutil.copy(DATA / "sqlite-3.1.2.db", path)
    checks = ("--check", "orphaned-vectors", "--fix", "orphaned-vectors")
    assert memctl("-s", path, "doctor", *checks, "--dry-run").code == 0, "as the repair would exit"
    assert memctl("-s", path, "doctor", *checks, "--yes").code == 0


def test_it_asks_before_it_repairs(path: Path, memctl: Memctl) -> None:
    before = path.read_bytes()
    error = memctl.refuse("-s", path, "doctor", "--fix", "stale-vectors", code=2)
    assert error["code"] == "needs-yes"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("--check", "weather"),
        ("--skip", "weather"),
        ("--fix", "weather"),
        ("--fix", "all,weather"),
        ("--check", "all"),
        ("--fix", "tenancy"),
        ("--fix", "values"),
        ("--save", "gone.jsonl"),
        ("--vacuum",),
        ("--dry-run",),
        ("--fix", "all", "--quick"),
        ("--fail-on", "never"),
        ("--dims", "0"),
        ("--threshold", "2"),
        ("--threshold", "high"),
        ("-o", "name"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused(path: Path, memctl: Memctl, arguments: tuple[str, ...]) -> None:
    before = path.read_bytes()
    outcome = memctl("-s", path, "doctor", *arguments, "--yes")
    assert outcome.code == 2, outcome.out
    assert not outcome.stdout
    assert path.read_bytes() == before


def test_dims_are_what_is_asked_for(path: Path, memctl: Memctl) -> None:
    check = ("doctor", "--check", "vector-shape")
    assert memctl("-s", path, *check, "--dims", "8").code == 0
    shape = by_id(memctl.json("-s", path, *check, "--dims", "384", code=4))["vector-shape"]
    assert shape["facts"]["expected_dims"] == 384
    assert shape["fix"] is None


def test_a_hot_journal_is_found_and_rolled_back_when_asked(path: Path, memctl: Memctl) -> None:
    hot = path.with_name("hot.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 2")
        connection.execute("BEGIN")
        connection.execute("UPDATE store SET value = zeroblob(40000)")
        shutil.copy(path, hot)
        shutil.copy(path.with_name("memory.db-journal"), path.with_name("hot.db-journal"))
        connection.execute("ROLLBACK")
    before = hot.read_bytes()
    report = by_id(memctl.json("-s", "hot.db", "doctor", code=11))
    assert report["integrity"]["status"] == "found"
    assert report["integrity"]["fix"] == "memctl -s hot.db doctor --fix integrity"
    assert {check["status"] for name, check in report.items() if name != "integrity"} == {"failed"}
    error = memctl.refuse("-s", "hot.db", "doctor", "--fix", "stale-vectors", "--yes", code=11)
    assert "--fix integrity" in error["hint"]
    assert memctl.refuse("-s", "hot.db", "doctor", "--fix", "integrity", "--dry-run", code=11)
    assert hot.read_bytes() == before
    report = memctl.json("-s", "hot.db", "doctor", "--fix", "integrity", "--yes", code=4)
    assert report["repairs"][0]["parts"] == 1
    assert by_id(report)["integrity"]["status"] == "ok"
    assert memctl.json("diff", path, hot) == []


def test_no_password_stands_in_a_command(postgres_sample: Database, memctl: Memctl) -> None:
    address = postgres_sample.tcp_url
    assert PASSWORD in address or "%" in address
    report = by_id(memctl.json("-s", address, "doctor", "--check", "stale-vectors", code=4))
    fix = report["stale-vectors"]["fix"]
    assert re.fullmatch(r"memctl -s postgresql://\S+ doctor --fix stale-vectors", fix)
