"""Every format streams: memory stays flat, rows come out as they come in, a closed pipe is heard of."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memctl.errors import UsageError
from memctl.render import FORMATS, Format, Target, open_format
from tests.render.samples import ITEMS, LISTED, NAMESPACES, item_row, listed_row, namespace_row

FEW, MANY = 6_000, 18_000
"""Both fill the output's buffer, which also is memory held."""
KINDS = [*((name, False) for name in FORMATS), ("table", True)]


class Nowhere(io.RawIOBase):
    """Counts what it is given."""

    written = 0

    def write(self, octets: Any) -> int:
        self.written += len(octets)
        return len(octets)


def peak(write: Callable[[], None]) -> int:
    """Return the most memory that was held, in octets."""
    tracemalloc.start()
    try:
        write()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "is_terminal"), KINDS)
@pytest.mark.no_cover
def test_memory_is_flat(name: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memctl.render.writer.monotonic", lambda: 0)  # a slow machine flushes early

    def write(count: int) -> None:
        rows = (namespace_row(["users", f"u{number}", "prefs"], number) for number in range(count))
        open_format(name, Target(Nowhere(), is_terminal)).rows(NAMESPACES, rows)

    write(10)  # imports
    few = peak(lambda: write(FEW))
    assert peak(lambda: write(MANY)) < few + 200_000


@pytest.mark.parametrize(("name", "is_terminal"), [*KINDS, ("json", True)])
def test_a_large_value_is_copied_a_few_times_at_most(name: str, is_terminal: bool) -> None:
    size = 4_000_000
    value = b'{"text":"' + b"x" * size + b'"}'

    def write() -> None:
        open_format(name, Target(Nowhere(), is_terminal)).items(ITEMS, iter([item_row(["a"], "k", value)]))

    assert peak(write) < 5 * size


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"table"}))
def test_rows_do_not_wait_for_each_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    seen: list[int] = []
    clock = iter(range(1_000))
    monkeypatch.setattr("memctl.render.writer.monotonic", lambda: next(clock))

    def rows() -> Iterator[dict[str, Any]]:
        for number in range(5):
            seen.append(len(stream.getvalue()))
            yield listed_row(["a"], f"k{number}")

    open_format(name, Target(stream)).rows(LISTED, rows())
    assert sorted(set(seen)) == seen
    assert len(seen) == 5


@pytest.mark.parametrize(("name", "is_terminal"), KINDS)
def test_a_closed_pipe_is_an_error_that_goes_through(name: str, is_terminal: bool) -> None:
    class Closed(Nowhere):
        def write(self, octets: Any) -> int:
            raise BrokenPipeError

    rows = (listed_row(["a"], f"k{number}") for number in range(FEW))
    with pytest.raises(BrokenPipeError):
        open_format(name, Target(Closed(), is_terminal)).rows(LISTED, rows)


@pytest.mark.parametrize("name", ["jsonl", "csv", "tsv", "markdown", "name"])
def test_what_came_before_a_failure_is_written(name: str) -> None:
    stream = io.BytesIO()

    def rows() -> Iterator[dict[str, Any]]:
        yield listed_row(["a"], "first")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        open_format(name, Target(stream)).rows(LISTED, rows())
    assert b"first" in stream.getvalue()


def test_an_array_that_failed_is_no_json() -> None:
    stream = io.BytesIO()

    def rows() -> Iterator[dict[str, Any]]:
        yield listed_row(["a"], "first")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        open_format("json", Target(stream)).rows(LISTED, rows())
    assert not stream.getvalue().rstrip().endswith(b"]")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_one(name: str) -> None:
    def use(format: Format) -> None:
        assert callable(format.rows)
        assert callable(format.items)
        assert callable(format.report)

    use(open_format(name, Target(io.BytesIO())))


def test_an_unknown_format_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'xml' is no output format") as caught:
        open_format("xml", Target(io.BytesIO()))
    assert "jsonl" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "is_terminal", "kept_out"),
    [
        *((name, False, {"rich", "tabulate"}) for name in FORMATS if name != "table"),
        ("table", False, {"rich"}),
        ("table", True, {"tabulate"}),
    ],
)
def test_a_format_imports_only_what_it_needs(name: str, is_terminal: bool, kept_out: set[str]) -> None:
    program = f"""
import io, sys
from memctl.render import Column, Kind, Target, open_format
columns = [Column("namespace", Kind.NAMESPACE), Column("key", Kind.KEY), Column("value", Kind.JSON)]
rows = [{{"namespace": ["a"], "key": "k", "value": {{}}}}]
open_format({name!r}, Target(io.BytesIO(), is_terminal={is_terminal})).rows(columns, rows)
open_format({name!r}, Target(io.BytesIO(), is_terminal={is_terminal})).items(columns, rows)
print(*sorted({{module.partition(".")[0] for module in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not kept_out & set(done.stdout.split())
