"""Measures programs against each other.

A comparison runs two commands in turn, each in a process of its own, and takes the shortest wall time of
each and the largest peak memory of memctl's. Both write to a file.

A process starts with the peak of the one that started it, so this module and its callers stay small: numpy,
langgraph and the database drivers are imported by children only. Anything below some 25 MB is that floor.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments; `before` runs ahead of it every time and is not timed."""

    argv: Sequence[str | Path]
    stdin: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], object] | None = None


def memctl(*arguments: str | Path, before: Callable[[], object] | None = None) -> Command:
    """`python -m memctl …`."""
    return Command((sys.executable, "-m", "memctl", *arguments), before=before)


def script(name: str, *arguments: str | Path) -> Command:
    """An installed command of this interpreter's environment, or its module where it is not installed."""
    installed = Path(sys.executable).with_name(name)
    start = (installed,) if installed.exists() else (sys.executable, "-m", name.replace("-", "_"))
    return Command((*start, *arguments))


def program(module: str, *arguments: str | Path, before: Callable[[], object] | None = None) -> Command:
    """One of the programs of this package, in a process of its own."""
    return Command((sys.executable, "-m", f"tests.benchmarks.{module}", *arguments), before=before)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: wall seconds, peak resident memory in MB (10⁶ octets), exit code, what it said on stderr."""

    seconds: float
    peak_mb: float
    code: int
    said: str

    @property
    def failure(self) -> str:
        """What to tell of a run that failed: the end of what it said is what counts, of a traceback too."""
        return f"exit {self.code}: " + " | ".join(line.strip() for line in self.said.splitlines()[-2:])


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to measure. A target is the largest ratio that is right; None is measured and not judged.

    `check` gets the outputs of the last runs, memctl's first, and says what is wrong with them, if anything.
    `remark` gets the same and says what is worth knowing.
    """

    name: str
    memctl: Command
    baseline: Command | None = None
    target: float | None = None
    peak_target: float | None = None
    repeat: int = 3
    check: Callable[[Path, Path], str | None] | None = None
    remark: Callable[[Path, Path], str | None] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `limit` is for the seconds themselves, `problem` what keeps it from counting."""

    name: str
    seconds: float | None = None
    baseline: float | None = None
    target: float | None = None
    peak_mb: float | None = None
    peak_target: float | None = None
    limit: float | None = None
    problem: str | None = None
    note: str | None = None

    @property
    def ratio(self) -> float | None:
        """memctl's seconds to the baseline's."""
        if self.seconds is None or not self.baseline:
            return None
        return self.seconds / self.baseline

    @property
    def verdict(self) -> str:
        """`failed`, `over`, `ok`, or nothing where there is no target."""
        if self.problem:
            return "failed"
        pairs = (self.ratio, self.target), (self.peak_mb, self.peak_target), (self.seconds, self.limit)
        judged = [measured <= most for measured, most in pairs if measured is not None and most is not None]
        return ("ok" if all(judged) else "over") if judged else ""


def run(command: Command, output: Path) -> Sample:
    """Runs a command to its end with stdout in the file `output`, without memctl's environment variables."""
    if command.before is not None:
        command.before()
    env = {name: value for name, value in os.environ.items() if not name.startswith("MEMCTL_")}
    errors = output.with_suffix(".stderr")
    with output.open("wb") as out, errors.open("wb") as err, _source(command) as source:
        start = time.perf_counter()
        child = subprocess.Popen(
            [str(part) for part in command.argv],
            stdin=source,
            stdout=out,
            stderr=err,
            cwd=ROOT,
            env={**env, **command.env},
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    said = errors.read_text(errors="replace").strip()
    return Sample(seconds, _megabytes(usage), child.returncode, said)


def compare(comparison: Comparison, scratch: Path) -> Row:
    """Runs both sides in turn, the baseline first, so that memctl is never the one to find a cold cache."""
    best = fastest = None
    peak = 0.0
    ours, theirs = scratch / "memctl.out", scratch / "baseline.out"
    for _ in range(comparison.repeat):
        if comparison.baseline is not None:
            sample = run(comparison.baseline, theirs)
            if sample.code:
                return _failure(comparison, "the baseline", sample)
            fastest = min(sample.seconds, fastest or sample.seconds)
        sample = run(comparison.memctl, ours)
        if sample.code:
            return _failure(comparison, "memctl", sample, fastest)
        best = min(sample.seconds, best or sample.seconds)
        peak = max(peak, sample.peak_mb)
    return Row(
        comparison.name,
        best,
        fastest,
        comparison.target,
        peak,
        comparison.peak_target,
        problem=comparison.check(ours, theirs) if comparison.check else None,
        note=comparison.remark(ours, theirs) if comparison.remark else None,
    )


def _failure(comparison: Comparison, who: str, sample: Sample, baseline: float | None = None) -> Row:
    problem = f"{who}: {sample.failure}"
    return Row(comparison.name, None, baseline, comparison.target, problem=problem)


def _source(command: Command) -> IO[bytes]:
    return Path(command.stdin or os.devnull).open("rb")


def _megabytes(usage: resource.struct_rusage) -> float:
    """Linux counts KiB, macOS octets."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
