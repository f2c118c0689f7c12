"""`memctl verify`: whether an archive is whole and as it was written, and what is left of one that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memctl.cli.context import Context

if TYPE_CHECKING:
    from memctl.archive import Verdict
    from memctl.render import Report, Section

_KINDS = {"archive": "an archive", "lines": "JSON Lines", "array": "a JSON array"}


def verify(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="An archive; - reads standard input.")],
) -> None:
    """Check an archive: its hashes, its counts, its order and every line. Exits 4 if it is bad.

    Of one that was cut off or edited it tells which lines are still good and how many items are missing.
    JSON Lines and arrays are checked line by line; nothing proves that they are complete.

    Examples:
      memctl verify backup.jsonl.gz
    """
    from memctl.archive import Unreadable, read
    from memctl.archive import verify as check
    from memctl.cli.progress import progress
    from memctl.cli.sides import opened
    from memctl.render import Report

    context: Context = ctx.obj
    stream = context.environment.stdin if file == "-" else opened(context, file)
    try:
        reader = read(stream)
    except Unreadable as error:
        data: dict[str, Any] = {"file": file, "good": False, "kind": None, "reason": error.message}
        context.emit_report(Report(data, headline=f"{file}: {error.message}"))
        context.outcomes.add(1 if error.code == "no-zstd" else 4)
        return
    with progress(context, "checking", reader.header.items if reader.header else None) as advance:
        verdict = check(reader, progress=advance)
    context.emit_report(_report(file, verdict))
    if not verdict.is_good:
        context.outcomes.add(4)
    elif verdict.kind != "archive":
        context.note(f"it is {_KINDS[verdict.kind]}, no archive: nothing proves that it is complete")


def _report(file: str, verdict: Verdict) -> Report:
    from memctl.render import Column, Facts, Grid, Kind, Report
    from memctl.render.units import octets

    header, unit = verdict.header, verdict.unit
    facts = [("kind", _KINDS[verdict.kind])]
    if header:
        facts += [
            ("written", f"{header.created}, from {header.source}"),
            ("of", ".".join(header.scope) if header.scope else "everything"),
        ]
        if header.missing:
            facts.append(("without", ", ".join(header.missing)))
    facts += [
        ("items", _of(verdict.read.items, header.items if header else None)),
        ("vectors", _of(verdict.read.vectors, header.vectors if header else None)),
        ("size", octets(verdict.read.octets)),
    ]
    if verdict.kind == "archive":
        facts.append(("proved", f"{verdict.proved:,} lines in {verdict.blocks:,} blocks"))
    if not verdict.is_good:
        facts.append((f"good up to {unit}", f"{verdict.good_line:,}" if verdict.good_line else "none"))
        if verdict.good:
            facts.append(("last good item", f"{verdict.good.prefix} {verdict.good.key}"))
        if verdict.missing:
            facts.append(("missing items", f"{verdict.missing:,}"))
    sections: list[Section] = [Facts("", facts)]
    found = [{"where": str(damage).partition(": ")[0], "what": damage.reason} for damage in verdict.damages]
    found += [{"where": f"{unit} {line.number:,}", "what": line.fault or ""} for line in verdict.faults]
    if found:
        columns = (Column("where"), Column("what", Kind.TEXT, flexible=True))
        sections.append(Grid("What is wrong", columns, found))
    more = verdict.damage_count + verdict.fault_count - len(found)
    if verdict.is_good:
        headline = f"{file} is good"
    else:
        headline = f"{file} is bad" + (f": {more:,} faults more than are listed" if more else "")
    return Report(_data(file, verdict), sections, headline)


def _of(there: int, counted: int | None) -> str:
    return f"{there:,}" if counted is None or counted == there else f"{there:,} of {counted:,}"


def _data(file: str, verdict: Verdict) -> dict[str, Any]:
    import msgspec

    from memctl.model import shown

    good = verdict.good and {
        "namespace": shown(verdict.good.prefix).split("."),
        "key": shown(verdict.good.key),
    }
    return {
        "file": file,
        "good": verdict.is_good,
        "kind": verdict.kind,
        "header": msgspec.to_builtins(verdict.header) if verdict.header else None,
        "items": verdict.read.items,
        "vectors": verdict.read.vectors,
        "bytes": verdict.read.octets,
        "lines": verdict.lines,
        "blocks": verdict.blocks,
        "proved_lines": verdict.proved,
        "good_until": verdict.good_line,
        "last_good": good,
        "missing_items": verdict.missing,
        "damages": [
            {"block": each.block, "first": each.first, "last": each.last, "reason": each.reason}
            for each in verdict.damages
        ],
        "damage_count": verdict.damage_count,
        "faults": [{verdict.unit: line.number, "reason": line.fault} for line in verdict.faults],
        "fault_count": verdict.fault_count,
    }
