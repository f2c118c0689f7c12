"""Looking at a store of a million items: `ls`, `search`, `stats`, `get`, start-up, memory, and who waits.

A group is a function from the workshop to the rows of the table, measured one by one.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from . import checks
from .harness import ROOT, Command, Comparison, Row, compare, memctl, program, run, script
from .workshop import Workshop

PEAK_MB = 120.0
_ITEMS = 1_000_000
_WAIT = 0.1
_ALONE = 2.0
_BESIDE = 3.0
_OFTEN = 15
# xylotheque: the rare word of `corpus.NEEDLE`, which is not imported because numpy would come with it.
_NEEDLE = "xylotheque"

_TAB = r"""
source "$1"
specification=$(complete -p memctl)
function=${specification##*-F }
COMP_WORDS=(memctl sea) COMP_CWORD=1 COMP_LINE='memctl sea' COMP_POINT=10
"${function%% *}" "$2" sea memctl
printf '%s\n' "${COMPREPLY[@]}"
"""
_NAMESPACES = """
SELECT s.prefix, s.items, coalesce(v.vectors, 0), s.bytes, s.newest
FROM (SELECT prefix, count(*) AS items, sum({octets}) AS bytes, max(updated_at) AS newest
      FROM store GROUP BY prefix) s
LEFT JOIN (SELECT prefix, count(*) AS vectors
           FROM store_vectors JOIN store USING (prefix, key) GROUP BY prefix) v USING (prefix)
ORDER BY s.prefix
"""
_SQLITE_NAMESPACES = _NAMESPACES.format(octets="length(CAST(value AS BLOB))")
_POSTGRES_NAMESPACES = _NAMESPACES.format(octets="octet_length(value::text)")


def ls(workshop: Workshop) -> Iterator[Row]:
    """Namespaces, against the same aggregation in the database's own shell."""
    items = workshop.count(_ITEMS)
    path = workshop.sqlite(items)
    shell = Command(("sqlite3", "-readonly", "-separator", "\t", path, _SQLITE_NAMESPACES))
    for output in ("table", "jsonl"):
        check = checks.same_namespaces if output == "jsonl" else None
        ours = memctl("-s", path, "ls", "-o", output)
        name = f"ls -o {output}, SQLite, {items:,} items / sqlite3 shell"
        yield compare(Comparison(name, ours, shell, 1.5, PEAK_MB, check=check), workshop.folder)
    if workshop.major is None:
        return
    address = workshop.postgres(items)
    query = ("-A", "-t", "-F", "\t", "-c", _POSTGRES_NAMESPACES)
    psql = Command(("psql", "-X", "-q", *query, address), env={"PGTZ": "UTC"})
    for output in ("table", "jsonl"):
        check = checks.same_namespaces if output == "jsonl" else None
        ours = memctl("-s", address, "ls", "-o", output)
        name = f"ls -o {output}, Postgres, {items:,} items / psql"
        yield compare(Comparison(name, ours, psql, 1.3, PEAK_MB, check=check), workshop.folder)


def search(workshop: Workshop) -> Iterator[Row]:
    """A rare word, and everything about the store, against a bare ordered read into Python."""
    items = workshop.count(_ITEMS)
    hits = len(range(77, items, 100_000))
    for backend, store in _stores(workshop, items):
        rows = program("baselines", f"{backend.lower()}_rows", store)
        for arguments, check in (
            (("search", _NEEDLE, "-o", "jsonl"), partial(checks.lines, hits)),
            (("stats",), partial(checks.mentions, items)),
        ):
            name = f"{arguments[0]}, {backend}, {items:,} items / ordered read"
            ours = memctl("-s", store, *arguments)
            yield compare(Comparison(name, ours, rows, 3.0, PEAK_MB, check=check), workshop.folder)


def start(workshop: Workshop) -> Iterator[Row]:
    """What a user waits for before anything happens, against tools that are known to be quick."""
    folder = workshop.folder
    typer = Command((sys.executable, "-c", "import typer"))
    for name, target, command, check in (
        ("--version", 1.5, script("memctl", "--version"), None),
        ("completion bash", 1.5, script("memctl", "completion", "bash"), None),
        ("TAB after `memctl sea`", 1.5, _completing(folder), checks.offers_search),
        ("--help", 2.5, script("memctl", "--help"), None),
        ("ls --help", 2.5, script("memctl", "ls", "--help"), None),
    ):
        title = f"{name} / python -c 'import typer'"
        yield compare(Comparison(title, command, typer, target, repeat=_OFTEN, check=check), folder)
    items = workshop.count(_ITEMS)
    small, large = workshop.sqlite(500), workshop.sqlite(items)
    for name, path, arguments in (
        ("ls, 500 items", small, ("ls",)),
        ("get, 500 items", small, ("get", *_some_item(small, folder))),
        (f"get, {items:,} items", large, ("get", *_some_item(large, folder))),
    ):
        title = f"{name} / sqlite-utils tables FILE"
        tables = script("sqlite-utils", "tables", path)
        command = script("memctl", "-s", path, *arguments)
        yield compare(Comparison(title, command, tables, 1.0, repeat=_OFTEN), folder)


def memory(workshop: Workshop) -> Iterator[Row]:
    """The peak of whatever prints a row for each item; at the end, of a store with a namespace for each."""
    items = workshop.count(_ITEMS)
    every_item = (
        ("ls", "--items"),
        ("ls", "--items", "-o", "json"),
        ("ls", "--items", "-o", "csv"),
        ("search", "-o", "table"),
        ("search", "-o", "jsonl"),
    )
    runs: list[tuple[str, str, tuple[str, ...]]] = [
        (*store, arguments) for store in _stores(workshop, items) for arguments in every_item
    ]
    scattered = str(workshop.sqlite(items, namespaces=items))
    runs += [("SQLite, each its own namespace", scattered, (name,)) for name in ("ls", "stats")]
    for backend, store, arguments in runs:
        name = f"{' '.join(arguments)}, {items:,} items, {backend}"
        ours = memctl("-s", store, *arguments)
        yield compare(Comparison(name, ours, peak_target=PEAK_MB, repeat=1), workshop.folder)


def wait(workshop: Workshop) -> Iterator[Row]:
    """How long a writing agent's slowest put takes beside memctl (first column) and alone (second)."""
    items = workshop.count(_ITEMS)
    for journal in ("delete", "wal"):
        path = workshop.copy(workshop.sqlite(items, journal=journal), "written.db")
        for arguments in (("ls",), ("search", _NEEDLE), ("stats",)):
            name = f"longest put beside {arguments[0]}, journal {journal}, {items:,} items"
            yield beside_an_agent(name, path, memctl("-s", path, *arguments), workshop.folder)


def api(workshop: Workshop) -> Iterator[Row]:
    """Everything there is, read by memctl and by a script over the store's own interface."""
    for items in (20_000, 100_000) if workshop.items is None else (workshop.items,):
        for backend, store in _stores(workshop, items):
            name = f"search -o jsonl, {backend}, {items:,} items / store.search pages"
            ours = memctl("-s", store, "search", "-o", "jsonl")
            script_over_api = program("baselines", "api_read", store)
            check, remark = partial(checks.lines, items), partial(checks.read_by_api, items)
            yield compare(
                Comparison(name, ours, script_over_api, repeat=1, check=check, remark=remark), workshop.folder
            )


def _stores(workshop: Workshop, items: int) -> list[tuple[str, str]]:
    stores = [("SQLite", str(workshop.sqlite(items)))]
    if workshop.major is not None:
        stores.append(("Postgres", workshop.postgres(items)))
    return stores


def _completing(folder: Path) -> Command:
    """What bash does at TAB after `memctl sea`, with the script that memctl generates."""
    generated = folder / "completion.bash"
    run(script("memctl", "completion", "bash"), generated)
    installed = Path(sys.executable).with_name("memctl")
    return Command(("bash", "--norc", "-c", _TAB, "bash", generated, installed))


def _some_item(path: Path, folder: Path) -> list[str]:
    """A namespace, as memctl spells it, and a key of the store."""
    output = folder / "item.tsv"
    run(
        Command(("sqlite3", "-readonly", "-separator", "\t", path, "SELECT prefix, key FROM store LIMIT 1")),
        output,
    )
    return output.read_text().strip().split("\t")


def beside_an_agent(name: str, path: Path, command: Command, folder: Path) -> Row:
    """Puts that overlap a run of the command against those before the first run."""
    argv = [sys.executable, "-m", "tests.benchmarks.agent", str(path)]
    agent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    assert agent.stdout is not None
    agent.stdout.readline()
    time.sleep(_ALONE)
    runs: list[tuple[float, float]] = []
    failure = None
    while len(runs) < 2 or runs[-1][1] - runs[0][0] < _BESIDE:
        begun = time.monotonic()
        sample = run(command, folder / "memctl.out")
        runs.append((begun, time.monotonic()))
        if sample.code:
            failure = sample.failure
            break
    puts = json.loads(agent.communicate()[0])
    beside = [put for put in puts if any(put[0] < end and put[0] + put[1] > begun for begun, end in runs)]
    alone = [put for put in puts if put[0] + put[1] <= runs[0][0]]
    errors = [error for *_, error in puts if error]
    return Row(
        name,
        max(seconds for _, seconds, _ in beside),
        max(seconds for _, seconds, _ in alone),
        limit=_WAIT,
        problem=failure or (f"{len(errors)} puts failed: {errors[0]}" if errors else None),
        note=f"{len(beside):,} puts beside {len(runs)} runs",
    )


GROUPS = (ls, search, start, memory, wait, api)
