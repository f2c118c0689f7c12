"""What the doctor found, as output: the object for scripts, metrics for monitoring, and a page for people."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memctl.doctor.check import Settings, can_repair
from memctl.doctor.finding import Finding, Level, Sample, Status
from memctl.instants import to_datetime
from memctl.model import encode, is_clean, shown
from memctl.namespaces import show
from memctl.render import Column, Commands, Facts, Grid, Kind, Marks, Metric, Report, Row, Section
from memctl.render.units import counted, octets

if TYPE_CHECKING:
    from memctl.doctor.check import Check
    from memctl.doctor.surgery import Healed, Operation

CHECK_COLUMNS = (
    Column("id"),
    Column("level"),
    Column("finds", flexible=True),
    Column("repair", flexible=True),
)
_MARKS = {Level.ERROR: "E", Level.WARNING: "W", Level.NOTE: "N"}
_NAMES = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "note"}


def check_row(check: type[Check]) -> Row:
    """Return a check's row of `--list-checks`."""
    return {
        "id": check.id,
        "level": check.level.value,
        "finds": check.summary,
        "repair": check.remedy,
        "quick": check.is_quick,
        "by_name_only": check.by_name_only if can_repair(check) else None,
    }


def report_of(
    address: str,
    settings: Settings,
    findings: Sequence[Finding],
    operation: Operation | None,
    *,
    remarks: Sequence[str] = (),
    is_detailed: bool,
    is_rehearsal: bool,
    seconds: float,
) -> Report:
    """Return the answer. What was repaired, or would be, comes before what is there now."""
    data: dict[str, Any] = {"store": address, "checks": list(map(_row, findings))}
    sections: list[Section] = []
    if operation is not None:
        data |= _operation_data(operation, is_rehearsal=is_rehearsal, seconds=seconds)
        if pairs := [*planned(operation, is_done=not is_rehearsal), *(("VACUUM", text) for text in remarks)]:
            sections.append(Facts("Would be repaired" if is_rehearsal else "Repaired", tuple(pairs)))
    sections += _details(findings) if is_detailed else _summary(settings, findings)
    return Report(data, tuple(sections), _headline(address, findings), _metrics(address, settings, findings))


def planned(operation: Operation, *, is_done: bool = False) -> list[tuple[str, str]]:
    """Say of each repair what it does, or did, and what it cannot do: pairs of its id and words."""
    pairs: list[tuple[str, str]] = []
    for healed in operation.healed:
        parts = _parts(healed)
        if parts:
            pairs.append((healed.id, ", ".join(parts)))
        elif is_done and not healed.remarks:
            pairs.append((healed.id, "nothing to repair"))
        pairs += (("" if parts else healed.id, remark) for remark in healed.remarks)
    return pairs


def _parts(healed: Healed) -> list[str]:
    parts = []
    if healed.items:
        parts.append(counted(healed.items, "item"))
    if healed.vectors:
        parts.append(f"{counted(healed.vectors, 'vector')} removed")
    if healed.octets:
        parts.append(octets(healed.octets))
    if healed.parts:
        parts.append(f"{counted(healed.parts, 'part')} put right")
    return parts


def _operation_data(operation: Operation, *, is_rehearsal: bool, seconds: float) -> dict[str, Any]:
    healed = operation.healed
    return {
        "repairs": [
            {
                "id": each.id,
                "items": each.items,
                "vectors": each.vectors,
                "bytes": each.octets,
                "parts": each.parts,
                "remarks": each.remarks,
            }
            for each in healed
        ],
        "items": sum(each.items for each in healed),
        "vectors": sum(each.vectors for each in healed),
        "bytes": sum(each.octets for each in healed),
        "skipped": operation.left,
        "rejected": 0,
        "dry_run": is_rehearsal,
        "seconds": round(seconds, 3),
    }


def _row(finding: Finding) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": finding.id,
        "level": finding.level.value,
        "status": finding.status.value,
        "count": finding.count,
        "bytes": finding.octets,
        "samples": list(map(_sample, finding.samples)),
        "message": shown(finding.message),
        "fix": finding.fix,
    }
    if finding.facts is not None:
        row["facts"] = finding.facts
    if finding.table:
        row["table"] = list(finding.table)
    return row


def _sample(sample: Sample) -> dict[str, Any]:
    row: dict[str, Any] = {
        "namespace": None if sample.prefix is None else shown(sample.prefix).split("."),
        "key": None if sample.key is None else shown(sample.key),
        "detail": shown(sample.detail),
    }
    for name, text in (("prefix_base64", sample.prefix), ("key_base64", sample.key)):
        if text is not None and not is_clean(text):
            row[name] = base64.b64encode(encode(text)).decode("ascii")
    return row


def _headline(address: str, findings: Sequence[Finding]) -> str:
    found = [finding for finding in findings if finding.status is Status.FOUND]
    counts = [
        counted(number, name)
        for level, name in _NAMES.items()
        if (number := sum(finding.level is level for finding in found))
    ]
    failed = sum(finding.status is Status.FAILED for finding in findings)
    if failed:
        counts.append(f"{counted(failed, 'check')} could not run")
    return f"{address}: {', '.join(counts) if counts else 'nothing found wrong'}"


def _summary(settings: Settings, findings: Sequence[Finding]) -> Iterator[Section]:
    """One line for each finding, the gravest first, and what to do next."""
    told = [finding for finding in findings if finding.status in (Status.FOUND, Status.FAILED)]
    told.sort(key=lambda finding: -finding.level.gravity)
    if told:
        yield Marks("", tuple(map(_line, told)))
    rest: list[tuple[str, str]] = []
    for status, word in ((Status.OK, "fine"), (Status.SKIPPED, "skipped")):
        names = [finding.id for finding in findings if finding.status is status]
        if names:
            rest.append((word, ", ".join(names)))
    if told:
        command = shlex.join(settings.invocation)
        rest.append(("more", f"{command} doctor --check ID"))
    if rest:
        yield Facts("", tuple(rest))


def _line(finding: Finding) -> tuple[str, str, str, str, str]:
    if finding.status is Status.FAILED:
        return "error", "?", finding.id, "", finding.message
    size = f" ({octets(finding.octets)})" if finding.octets else ""
    words = shown(finding.brief or finding.message) + size
    return _NAMES[finding.level], _MARKS[finding.level], finding.id, f"{finding.count:,}", words


def _details(findings: Sequence[Finding]) -> Iterator[Section]:
    """A part for each check: what it found, examples, the numbers and the command."""
    for finding in findings:
        pairs: list[tuple[str, str]] = []
        if finding.status is Status.FOUND:
            title = f"{finding.id}: {finding.level.value}, {finding.count:,}"
            if finding.octets:
                title += f" ({octets(finding.octets)})"
        else:
            title = f"{finding.id}: {finding.status.value}"
        if finding.message:
            pairs.append(("", shown(finding.message)))
        samples = finding.samples if finding.samples and finding.samples[0].prefix is not None else ()
        pairs += [("-", _spelled(sample)) for sample in samples]
        yield Facts(title, tuple(pairs))
        if finding.table:
            yield Grid("", _columns(finding.table[0]), finding.table)
        if finding.fix:
            yield Commands("", (finding.fix,))


def _spelled(sample: Sample) -> str:
    name = ""
    if sample.prefix is not None:
        name = show(shown(sample.prefix)) or '""'
    if sample.key is not None:
        name += f"  {shown(sample.key) or chr(34) * 2}"
    detail = shown(sample.detail)
    return f"{name}: {detail}" if name and detail else name or detail


def _columns(row: Row) -> tuple[Column, ...]:
    def kind(name: str, value: object) -> Kind:
        if name in ("namespace", "prefix"):
            return Kind.NAMESPACE
        return Kind.COUNT if isinstance(value, int) else Kind.TEXT

    return tuple(Column(name, kind(name, value)) for name, value in row.items())


def _metrics(address: str, settings: Settings, findings: Sequence[Finding]) -> tuple[Metric, ...]:
    def labels(finding: Finding, **more: str) -> dict[str, str]:
        return {"store": address, "check": finding.id, **more}

    ran = [finding for finding in findings if finding.status in (Status.OK, Status.FOUND)]
    return (
        Metric(
            "memctl_doctor_findings",
            "Things that a check found wrong.",
            [(labels(each, level=each.level.value), each.count) for each in ran],
        ),
        Metric(
            "memctl_doctor_bytes",
            "Octets that what a check found wrong takes.",
            [(labels(each), each.octets) for each in ran if each.octets is not None],
        ),
        Metric(
            "memctl_doctor_check_failed",
            "Whether a check could not run.",
            [
                (labels(each), each.status is Status.FAILED)
                for each in findings
                if each.status is not Status.SKIPPED
            ],
        ),
        Metric(
            "memctl_doctor_run_timestamp_seconds",
            "When the store was examined, by its own clock.",
            [({"store": address}, to_datetime(settings.now).timestamp())],
        ),
    )
