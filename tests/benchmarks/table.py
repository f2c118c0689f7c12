"""The table of results, printed line by line as they come in."""

from collections.abc import Callable, Iterable

from .harness import Row

_COLUMNS: tuple[tuple[str, int], ...] = (
    ("memctl s", 9),
    ("baseline s", 10),
    ("ratio", 7),
    ("target", 8),
    ("peak MB", 8),
    ("limit", 6),
)
_NAME = 58


def head() -> str:
    """The titles and a rule."""
    titles = "".join(title.rjust(width + 1) for title, width in _COLUMNS)
    line = f"{'comparison':<{_NAME}}{titles}  verdict"
    return f"{line}\n{'-' * len(line)}"


def line(row: Row) -> str:
    """One result; a note or what went wrong follows on lines of its own."""
    cells = (
        _number(row.seconds, 3),
        _number(row.baseline, 3),
        _number(row.ratio, 2),
        _target(row),
        _number(row.peak_mb, 0),
        _number(row.peak_target, 0),
    )
    body = "".join(cell.rjust(width + 1) for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
    text = f"{row.name:<{_NAME}}{body}  {row.verdict}".rstrip()
    remarks = (remark for remark in (row.note, row.problem) if remark)
    return "\n    ".join([text, *(part for remark in remarks for part in remark.splitlines())])


def show(rows: Iterable[Row], write: Callable[[str], object]) -> int:
    """Writes the rows as they are measured and a summary; returns how many are over or failed."""
    write(head())
    verdicts: list[str] = []
    for row in rows:
        write(line(row))
        verdicts.append(row.verdict)
    counts = {verdict: verdicts.count(verdict) for verdict in ("ok", "over", "failed")}
    shown = len(verdicts) - sum(counts.values())
    write(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + f", {shown} not judged")
    return counts["over"] + counts["failed"]


def _target(row: Row) -> str:
    return f"{row.limit:.3f} s" if row.limit is not None else _number(row.target, 2)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
