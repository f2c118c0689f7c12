"""The benchmarks measure what they say: the stores, the baselines and the harness. No time is asserted."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

from tests.benchmarks import checks, sweeping, table
from tests.benchmarks.__main__ import main
from tests.benchmarks.corpus import NEEDLE, Corpus
from tests.benchmarks.harness import ROOT, Command, Comparison, Row, compare, program, run
from tests.benchmarks.make_store import make_postgres, make_sqlite, postgres_schema
from tests.benchmarks.workshop import Workshop
from tests.databases import Database

CORPUS = Corpus.of(500, now=datetime(2026, 11, 30, 12, tzinfo=UTC))
NOW = "2026-11-30 12:00:00"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "store.db"
    make_sqlite(target, CORPUS)
    return target


def select(path: Path, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, parameters).fetchall()


def python(code: str) -> Command:
    return Command((sys.executable, "-c", code))


def test_a_corpus_is_a_function_of_the_index() -> None:
    once = list(CORPUS.rows(range(500)))
    assert list(CORPUS.rows([499, 3])) == [once[499], once[3]]
    assert (CORPUS.embeddings([40, 0]) == CORPUS.embeddings(range(0, 50, 10))[[4, 0]]).all()
    assert Corpus.of(1_000_000).needles == 10
    assert [row.number for row in once if NEEDLE.encode() in row.value] == [77]


def test_the_sqlite_store_holds_what_it_says(path: Path) -> None:
    assert select(path, "SELECT count(*), count(DISTINCT prefix), count(DISTINCT value) FROM store") == [
        (500, 10, 500)
    ]
    assert select(path, "SELECT DISTINCT typeof(value) FROM store") == [("blob",)]
    ((octets,),) = select(path, "SELECT avg(length(value)) FROM store")
    assert 550 < octets < 650
    values = "SELECT count(*) FROM store WHERE CAST(value AS TEXT) "
    ((odd,),) = select(path, values + r"GLOB '*\*' OR length(value) != length(CAST(value AS TEXT))")
    assert 50 < odd < 250
    vectors = "SELECT count(*), count(DISTINCT embedding), min(length(embedding)), max(length(embedding))"
    assert select(path, f"{vectors} FROM store_vectors JOIN store USING (prefix, key)") == [
        (50, 50, 384 * 4, 384 * 4)
    ]
    expiries = "SELECT count(*) FILTER (WHERE {}) FROM store WHERE expires_at NOTNULL"
    for condition, low, high in (
        (f"expires_at <= '{NOW}'", 20, 120),
        (f"expires_at > '{NOW}'", 10, 120),
        ("typeof(ttl_minutes) = 'real'", 60, 140),
        ("length(expires_at) = 19", 10, 90),
        ("expires_at LIKE '%+00:00'", 20, 120),
    ):
        ((count,),) = select(path, expiries.format(condition))
        assert low < count < high, condition


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_the_library_finds_its_own_schema(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "store.db"
    make_sqlite(path, CORPUS, journal=journal)
    assert select(path, "PRAGMA journal_mode") == [(journal,)]
    assert select(path, "SELECT group_concat(v) FROM store_migrations") == [("0,1,2,3,4",)]
    schema = select(path, "SELECT type, name, sql FROM sqlite_master ORDER BY name")
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        assert len(store.search((), limit=1_000)) == 500
        row = next(iter(CORPUS.rows([123])))
        item = store.get(tuple(row.prefix.split(".")), row.key)
        assert item is not None
        assert item.value == json.loads(row.value)
    assert select(path, "SELECT type, name, sql FROM sqlite_master ORDER BY name") == schema
    assert {name for kind, name, sql in schema if kind == "index" and sql} == {
        "store_prefix_idx",
        "idx_store_expires_at",
    }


def test_orders_hold_the_same_items(path: Path, tmp_path: Path) -> None:
    ordered = tmp_path / "ordered.db"
    make_sqlite(ordered, CORPUS, order="key")
    names = "SELECT prefix, key FROM store ORDER BY rowid"
    assert select(ordered, names) == sorted(select(path, names))
    assert select(path, names) != sorted(select(path, names))
    everything = "SELECT * FROM store ORDER BY prefix, key"
    assert select(ordered, everything) == select(path, everything)


@pytest.mark.parametrize("namespaces", [1, 37, 500])
def test_every_namespace_has_an_item(tmp_path: Path, namespaces: int) -> None:
    path = tmp_path / "store.db"
    make_sqlite(path, Corpus.of(500, namespaces))
    assert select(path, "SELECT count(DISTINCT prefix) FROM store") == [(namespaces,)]


POSTGRES_VECTORS = "SELECT prefix, key, embedding::real[]::float8[] FROM store_vectors ORDER BY 1, 2"


def test_the_postgres_store_holds_the_same(path: Path, database: Database) -> None:
    make_postgres(database.url, CORPUS, index="hnsw")
    expected = sorted(
        (row.prefix, row.key, json.loads(row.value), *row[4:]) for row in CORPUS.rows(range(500))
    )
    assert database.execute("SELECT * FROM store ORDER BY prefix, key") == expected
    carriers = range(0, 500, 10)
    vectors = zip(CORPUS.rows(carriers), CORPUS.embeddings(carriers), strict=True)
    assert database.execute(POSTGRES_VECTORS) == sorted(
        (row.prefix, row.key, vector.tolist()) for row, vector in vectors
    )
    indexes = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'store_vectors_embedding_idx'::regclass"
    assert database.execute(indexes) == [(True,)]
    assert database.execute("SELECT v FROM vector_migrations ORDER BY v") == [(0,), (1,), (2,)]
    with PostgresStore.from_conn_string(database.url) as store:
        assert len(store.search((), limit=1_000)) == 500


def test_half_precision(database: Database) -> None:
    make_postgres(database.url, CORPUS, vector_type="halfvec")
    ((kind, count),) = database.execute("SELECT min(pg_typeof(embedding)::text), count(*) FROM store_vectors")
    assert (kind, count) == ("halfvec", 50)


def test_bare_copy_moves_all_of_it(path: Path, database: Database, tmp_path: Path) -> None:
    postgres_schema(database.url, CORPUS.dims)
    moved = run(program("baselines", "copy_in", path, database.url, "hnsw"), tmp_path / "out")
    assert (moved.code, moved.said) == (0, "")
    created, expires = (
        f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
        for column in ("created_at", "expires_at")
    )
    found = database.execute(
        f"SELECT prefix, key, value::text, {created}, {expires}, ttl_minutes FROM store ORDER BY prefix, key"
    )
    source = "SELECT prefix, key, value, created_at, substr(expires_at, 1, 19), ttl_minutes FROM store"
    stored = select(path, f"{source} ORDER BY prefix, key")
    assert [(row[0], row[1], json.loads(row[2]), *row[3:]) for row in found] == [
        (row[0], row[1], json.loads(row[2]), *row[3:]) for row in stored
    ]
    embeddings = {row[:2]: row[2] for row in database.execute(POSTGRES_VECTORS)}
    row = next(iter(CORPUS.rows([490])))
    assert embeddings[row.prefix, row.key] == CORPUS.embeddings([490])[0].tolist()
    assert len(embeddings) == 50
    assert database.execute("SELECT count(*) FROM store_vectors WHERE created_at > now()") == [(0,)]


def test_the_script_over_the_api_loses_what_it_says(path: Path, database: Database, tmp_path: Path) -> None:
    postgres_schema(database.url, CORPUS.dims)
    output = tmp_path / "out"
    moved = run(program("baselines", "api_move", path, database.url), output)
    assert moved.code == 0, moved.said
    ((expiring,),) = select(path, "SELECT count(expires_at) FROM store")
    assert json.loads(output.read_text()) | {"creation times": 0} == {
        "items": 0,
        "creation times": 0,
        "expiries": expiring,
        "TTLs": expiring,
        "vectors": 50,
    }
    assert f"{expiring} expiries" in checks.lost(output, output)
    for store in (path, database.url):
        assert run(program("baselines", "api_read", store), output).code == 0
        assert checks.lines(500, output, output) is None


@pytest.mark.parametrize(
    "arguments", [("sqlite_rows",), ("postgres_rows",), ("copy_out", "store"), ("copy_out", "store_vectors")]
)
def test_baselines_run(path: Path, database: Database, tmp_path: Path, arguments: Sequence[str]) -> None:
    name, *tables = arguments
    store: str | Path = path
    if name != "sqlite_rows":
        store = database.url
        make_postgres(store, CORPUS)
    output = tmp_path / "out"
    assert run(program("baselines", name, store, *tables), output).code == 0
    written = {"store": 500, "store_vectors": 50}[tables[0]] if tables else 0
    assert checks.count(output) == written


def test_the_bare_sweep_takes_what_has_expired(path: Path, database: Database, tmp_path: Path) -> None:
    make_postgres(database.url, CORPUS)
    output = tmp_path / "out"
    for store in (path, database.url):
        assert run(program("baselines", "expire", store, "60", "20"), output).code == 0
        assert run(program("baselines", "bare_sweep", store, "25", "0"), output).code == 0
    counted = "SELECT count(*), count(expires_at), (SELECT count(*) FROM store_vectors) FROM store"
    assert select(path, counted) == database.execute(counted) == [(440, 0, 30)]


def test_a_subtree_is_renamed_and_removed_by_bare_statements(
    path: Path, database: Database, tmp_path: Path
) -> None:
    make_postgres(database.url, CORPUS)
    output = tmp_path / "out"
    for store, hold in ((path, ("0.02",)), (database.url, ())):
        assert run(program("baselines", "gather", store, "a", "60", "20"), output).code == 0
        assert run(program("baselines", "bare_mv", store, "a", "b.c", "25", "0", *hold), output).code == 0
    counted = "SELECT " + ", ".join(
        f"(SELECT count(*) FROM {held} WHERE prefix LIKE '{name}')"
        for held in ("store", "store_vectors")
        for name in ("%", "a.%", "b.c.%")
    )
    assert select(path, counted) == database.execute(counted) == [(500, 0, 60, 50, 0, 20)]
    for store in (path, database.url):
        assert run(program("baselines", "bare_rm", store, "b.c", "25", "0"), output).code == 0
    assert select(path, counted) == database.execute(counted) == [(440, 0, 0, 30, 0, 0)]


def test_the_agent_says_how_long_each_put_took(path: Path) -> None:
    argv = [sys.executable, "-m", "tests.benchmarks.agent", str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "ready\n"
        while not select(path, "SELECT 1 FROM store WHERE prefix = 'users.agent.memories' LIMIT 1"):
            pass
        puts = json.loads(agent.communicate()[0])
    assert [(seconds > 0, error) for _, seconds, error in puts] == [(True, None)] * len(puts)
    assert puts == sorted(puts)


def test_a_comparison_measures_both_sides(tmp_path: Path) -> None:
    prepared: list[str] = []
    ours = Command(python("print(len('x' * 80_000_000))").argv, before=lambda: prepared.append("ours"))
    theirs = Command(python("print(80_000_000)").argv, before=lambda: prepared.append("theirs"))

    def same(one: Path, other: Path) -> str | None:
        return None if one.read_text() == other.read_text() == "80000000\n" else "not the same"

    row = compare(Comparison("name", ours, theirs, 1_000, 100_000, repeat=2, check=same), tmp_path)
    assert prepared == ["theirs", "ours"] * 2
    assert row.seconds is not None
    assert row.baseline is not None
    assert row.peak_mb is not None
    assert row.ratio == row.seconds / row.baseline > 0
    assert row.peak_mb > 80  # a child begins with the peak of its parent, which here is a worker of pytest
    assert row.verdict == "ok"


def test_commands_see_no_configuration_of_memctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMCTL_STORE", "somewhere")
    code = "import os; print(os.environ.get('MEMCTL_STORE'), os.environ['ADDED'])"
    run(Command(python(code).argv, env={"ADDED": "yes"}), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "None yes\n"


@pytest.mark.parametrize("broken", ["memctl", "the baseline"])
def test_a_failure_is_no_result(tmp_path: Path, broken: str) -> None:
    good, bad = python(""), python("import sys; sys.exit('no such thing')")
    ours, theirs = (bad, good) if broken == "memctl" else (good, bad)
    row = compare(Comparison("name", ours, theirs), tmp_path)
    assert (row.seconds, row.verdict) == (None, "failed")
    assert row.problem == f"{broken}: exit 1: no such thing"


def test_different_work_is_no_result(tmp_path: Path) -> None:
    row = compare(Comparison("name", python(""), python(""), 9, check=lambda *_: "they differ"), tmp_path)
    assert row.verdict == "failed"
    assert "they differ" in table.line(row)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Row("", 3.0, 2.0, 1.5), "ok"),
        (Row("", 3.1, 2.0, 1.5), "over"),
        (Row("", 3.1, 2.0), ""),
        (Row("", 3.0, 2.0, 1.5, 121, 120), "over"),
        (Row("", 1.0, peak_mb=119, peak_target=120), "ok"),
        (Row("", 0.09, 0.01, limit=0.1), "ok"),
        (Row("", 0.11, 0.01, limit=0.1), "over"),
        (Row("", 0.09, 0.01, limit=0.1, problem="a put failed"), "failed"),
    ],
)
def test_verdicts(row: Row, verdict: str) -> None:
    assert row.verdict == verdict


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row("one", 3.0, 2.0, 1.5, note="a remark"), Row("two", 0.2, 0.01, limit=0.1), Row("three")]
    assert table.show(rows, print) == 1
    title, _, *lines, last = capsys.readouterr().out.splitlines()
    assert title.split()[-1] == "verdict"
    assert [line.split() for line in lines] == [
        ["one", "3.000", "2.000", "1.50", "1.50", "ok"],
        ["a", "remark"],
        ["two", "0.200", "0.010", "20.00", "0.100", "s", "over"],
        ["three"],
    ]
    assert last == "1 ok, 1 over, 0 failed, 1 not judged"


def test_namespaces_are_compared_one_by_one(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    entry = {
        "namespace": ["a", "b"],
        "items": 2,
        "vectors": 1,
        "bytes": 9,
        "newest": "2026-11-30T12:00:00.000000Z",
    }
    ours.write_text(json.dumps(entry) + "\n")
    theirs.write_text("a.b\t2\t1\t9\t2026-11-30 12:00:00.25+00\n")
    assert checks.same_namespaces(ours, theirs) is None
    for other in ("a.b\t2\t1\t8\t2026-11-30 12:00:00\n", "", theirs.read_text() * 2):
        theirs.write_text(other)
        assert checks.same_namespaces(ours, theirs) is not None


def test_the_same_items_in_another_order(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    rows = [{"namespace": ["a"], "key": str(number), "value": {"n": number}} for number in range(3)]
    written = [json.dumps(row | {"created_at": "now"}) for row in rows]
    ours.write_text("\n".join(['{"memctl_archive": 1}', *written, '{"end": true}']))
    theirs.write_text("\n".join(json.dumps(row | {"score": None}) for row in reversed(rows)))
    assert checks.same_items(3, ours, theirs) is None
    assert checks.same_items(4, ours, theirs) == "memctl has 3 items, the script 3, 3 in common"
    theirs.write_text(json.dumps(rows[0] | {"value": {"n": 9}}))
    assert checks.same_items(3, ours, theirs) == "memctl has 3 items, the script 1, 0 in common"


def test_an_unknown_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--only", "ls,nothing"])
    assert stop.value.code == 2
    assert "no group nothing" in capsys.readouterr().err


def test_puts_are_the_librarys(tmp_path: Path, database: Database) -> None:
    path = tmp_path / "puts.db"
    for store in (path, database.url):
        assert run(program("puts", store, "4"), tmp_path / "out").code == 0
    counted = "SELECT count(*) FROM store WHERE prefix LIKE 'users.u_.facts' AND key IN ('0', '1')"
    assert select(path, counted) == database.execute(counted) == [(4,)]


def test_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At this size a process's start is all there is to time, so only the failures count."""
    main(["--items", "500", "--only", "search,mv", "--postgres", "--keep", str(tmp_path)])
    summary = capsys.readouterr().out.splitlines()[-1]
    assert ", 0 failed," in summary


def test_a_subtree_is_checked(tmp_path: Path) -> None:
    ours = ("mv", "tenant", "client", "--yes")
    with Workshop(tmp_path, 500) as workshop:
        bare = ("bare_mv", "tenant", "client")
        rows = list(sweeping.subtree(workshop, "mv", ours, bare, gone=False))
        assert [row.problem for row in rows] == [None, None]
        [wrong, _] = sweeping.subtree(workshop, "mv", ours, bare, gone=True)
    assert "['500', '0', '0', '0', '50', '15'], not [450, 0, 0, 0, 0, 0]" in str(wrong.problem)
