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


def every_check_ran(ours: Path, _: Path) -> str | None:
    """None of the doctor's checks may have failed, and one that reads values has to be among them."""
    statuses = {check["id"]: check["status"] for check in json.loads(ours.read_text())["checks"]}
    failed = [name for name, status in statuses.items() if status == "failed"]
    if failed or statuses.get("values") != "ok":
        return f"not run: {', '.join(failed) or 'values'}"
    return None


def same_numbers(times: int, ours: Path, theirs: Path) -> str | None:
    """Both print one number so many times."""
    one, other = ours.read_text().split(), theirs.read_text().split()
    return None if one == other and len(one) == times else f"memctl has {one[:1]}, the shell {other[:1]}"


def same_items(expected: int, ours: Path, theirs: Path) -> str | None:
    """An archive beside JSON Lines in another order; of each item what the script knows, told by its digest."""
    one, other = _digests(ours), _digests(theirs)
    if one == other and len(one) == expected:
        return None
    return f"memctl has {len(one):,} items, the script {len(other):,}, {len(one & other):,} in common"


def _digests(path: Path) -> set[int]:
    with path.open() as file:
        rows = (row for row in map(json.loads, file) if "key" in row)
        return {hash(json.dumps([row["namespace"], row["key"], row["value"]])) for row in rows}


def read_by_api(items: int, _: Path, theirs: Path) -> str:
    return f"the script read {count(theirs):,} rows of {items:,}"


def lost(_: Path, theirs: Path) -> str:
    """What the script that printed a JSON object of counts did not bring over."""
    counts: dict[str, int] = json.loads(theirs.read_text())
    return "the script lost " + ", ".join(f"{count:,} {part}" for part, count in counts.items() if count)
