"""Whether two programs that were timed did the same work; each check reads their outputs, memctl's first.

A check says what is wrong, or None. Outputs are read as streams: this process has to stay small.
"""

import json
import re
from itertools import zip_longest
from pathlib import Path


def offers_search(ours: Path, _: Path) -> str | None:
    return None if "search" in ours.read_text() else "`search` is not among what it offers"


def same_namespaces(ours: Path, theirs: Path) -> str | None:
    """Both are in order of the prefix; times are compared to the second, in UTC."""
    with ours.open() as one, theirs.open() as other:
        for line, row in zip_longest(one, other):
            found = None
            if line is not None:
                entry = json.loads(line)
                numbers = (str(entry[name]) for name in ("items", "vectors", "bytes"))
                found = [".".join(entry["namespace"]), *numbers, entry["newest"][:19].replace("T", " ")]
            expected = None
            if row is not None:
                expected = row.rstrip("\n").split("\t")
                expected[-1] = expected[-1][:19]
            if found != expected:
                return f"memctl has {found}, the shell {expected}"
    return None


def count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def lines(expected: int, ours: Path, _: Path) -> str | None:
    found = count(ours)
    return None if found == expected else f"{found:,} rows instead of {expected:,}"


def mentions(number: int, ours: Path, _: Path) -> str | None:
    digits = re.sub(r"(?<=\d)[,_ ](?=\d{3})", "", ours.read_text())
    return None if str(number) in digits else f"{number:,} is not in the output"


def read_by_api(items: int, _: Path, theirs: Path) -> str:
    return f"the script read {count(theirs):,} rows of {items:,}"


def lost(_: Path, theirs: Path) -> str:
    """What the script that printed a JSON object of counts did not bring over."""
    counts: dict[str, int] = json.loads(theirs.read_text())
    return "the script lost " + ", ".join(f"{count:,} {part}" for part, count in counts.items() if count)
