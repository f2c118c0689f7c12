"""Whether namespaces are named as they were meant."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from typing import NamedTuple

from memctl.doctor.check import MOST_SAMPLES, Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.siblings import COMPARED, Siblings
from memctl.doctor.wording import counted
from memctl.model import encode, is_clean
from memctl.namespaces import show

RESERVED = "langgraph"
"""The root that `put` refuses (`langgraph-checkpoint 4.3.2`), and only `put`."""
UNFILLED = frozenset({"None", "null", "undefined", "[object Object]"})
"""What becomes of a missing or unsuitable user id in Python, JSON and JavaScript."""
_TEMPLATE = re.compile(r"\{[^{}]*\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_AT = re.compile(r"[^@\s]+@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_DOMAINS = frozenset({
    "ac", "ai", "app", "arpa", "biz", "ch", "cloud", "co", "com", "de", "dev", "edu", "es", "eu", "fr",
    "gov", "info", "int", "io", "it", "me", "mil", "net", "nl", "no", "org", "pl", "pro", "se", "tech",
    "uk", "us", "xyz",
})  # fmt: skip
"""Last labels of the addresses that one meets."""
_UNKNOWN = "unassigned"
_FREE_ROOT = "app"

EMPTY, RESERVED_ROOT, CONTROL, TEMPLATE, ADDRESS, LOOK_ALIKE = (
    "an empty label",
    "the reserved root",
    "a control character",
    "a template never filled in",
    "an e-mail address split at its dots",
    "differs only in case or white space",
)
_KINDS = (EMPTY, RESERVED_ROOT, CONTROL, TEMPLATE, ADDRESS, LOOK_ALIKE)
_EXPLAINED = {
    EMPTY: "with an empty label or a stray dot, where today's library refuses to get and delete",
    RESERVED_ROOT: f"under the reserved root {RESERVED!r}, where it refuses to put",
    CONTROL: "with a control character",
    TEMPLATE: "with a template never filled in, which everybody shares",
    ADDRESS: "with an e-mail address split at its dots",
    LOOK_ALIKE: "told from a sibling by case or white space only",
}


class Fault(NamedTuple):
    """What is wrong with a name; `better` is one that has not this fault, where there is one to propose.

    It may have another one; see `mended`.
    """

    kind: str
    detail: str
    better: str | None


def fault_of(prefix: str) -> Fault | None:
    """Return the gravest thing that is wrong with a namespace by itself."""
    labels = prefix.split(".")
    if "" in labels:
        what = "the empty namespace" if not prefix else EMPTY
        if prefix and prefix[0] == ".":
            what = "begins with a dot"
        elif prefix and prefix[-1] == ".":
            what = "ends with a dot"
        return Fault(EMPTY, what, ".".join(filter(None, labels)) or _UNKNOWN)
    if labels[0] == RESERVED:
        return Fault(RESERVED_ROOT, RESERVED_ROOT, ".".join([_FREE_ROOT, *labels[1:]]))
    if _CONTROL.search(prefix):
        return Fault(CONTROL, CONTROL, _CONTROL.sub("", prefix) or _UNKNOWN)
    for place, label in enumerate(labels):
        if label in UNFILLED or _TEMPLATE.search(label):
            detail = f"{label} was never filled in"
            return Fault(TEMPLATE, detail, ".".join([*labels[:place], _UNKNOWN, *labels[place + 1 :]]))
        if "@" in label and (end := _end_of_address(labels, place)):
            address = labels[place:end]
            detail = f"{'.'.join(address)} became {len(address)} labels"
            return Fault(ADDRESS, detail, ".".join([*labels[:place], "_".join(address), *labels[end:]]))
    return None


def mended(fault: Fault) -> str | None:
    """Return a name to propose that nothing is wrong with by itself."""
    better = fault.better
    while better is not None and (next_fault := fault_of(better)):
        better = next_fault.better
    return better


def _end_of_address(labels: list[str], place: int) -> int:
    """Return where an address that begins with this label, split at its dots, ends; 0 if it is none."""
    if not _AT.fullmatch(labels[place]):
        return 0
    end = 0
    for after in range(place + 1, min(place + 4, len(labels))):
        if labels[after].lower() in _DOMAINS:
            end = after + 1
        elif end:
            break
    return end


class Namespaces(Check):
    """Names that were not meant, and names that older libraries did not tell apart."""

    id = "namespaces"
    level = Level.WARNING
    summary = (
        "namespaces with empty labels, the reserved root, control characters, unfilled templates, split e-mail"
        " addresses, or that differ only in case or white space; those that searches before 3.1.1 mixed up"
    )
    is_quick = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._kinds: Counter[str] = Counter()
        self._mixed = 0
        self._first: list[_Sampled] = []
        self._first_mixed: list[_Sampled] = []
        self._siblings = Siblings(
            ignores_case=patient.store.kind == "sqlite", look_alike=self._look_alike, mixed=self._mix
        )

    def namespace(self, prefix: str) -> None:
        """Judge a name, and compare it with those beside it."""
        if fault := fault_of(prefix):
            self._note(prefix, fault)
        self._siblings.add(prefix)

    def _look_alike(self, parent: str, labels: list[str]) -> None:
        odd, other = labels
        self._note(parent + odd, Fault(LOOK_ALIKE, f"beside {show(parent + other)}", parent + other))

    def _mix(self, parent: str, labels: list[str]) -> None:
        self._mixed += len(labels)
        for label in labels:
            fault = Fault("", "a search before 3.1.1 also read a sibling", None)
            _remember(self._first_mixed, _Sampled.of(parent + label, fault))

    def _note(self, prefix: str, fault: Fault) -> None:
        self.count += 1
        self._kinds[fault.kind] += 1
        _remember(self._first, _Sampled.of(prefix, fault))

    def finish(self) -> Finding:
        """Name what was found, and the `mv` for the first of it."""
        self._siblings.finish()
        facts = {"mixed_before_3_1_1": self._mixed, "compared_all": self._siblings.is_complete}
        if not self.count and not self._mixed:
            return self.fine(self._limits().strip(), facts=facts)
        chosen = sorted(self._first or self._first_mixed, key=lambda entry: entry.order)[:MOST_SAMPLES]
        for entry in chosen:
            self.sample(entry.prefix, None, entry.fault.detail)
        moves = [(entry, fix) for entry in chosen if (fix := self._move(entry))]
        if not self.count:
            return self.found(
                self._about_mixing() + self._limits(),
                brief="namespaces that old searches mixed up",
                count=self._mixed,
                level=Level.NOTE,
                facts=facts,
            )
        kinds = ", ".join(f"{self._kinds[kind]:,} {_EXPLAINED[kind]}" for kind in _KINDS if self._kinds[kind])
        also = f" {self._about_mixing()}" if self._mixed else ""
        return self.found(
            f"{counted(self.count, 'namespace')} that nobody meant: {kinds}."
            f" Rename with mv, and mend the program that writes there.{also}{self._limits()}",
            brief="namespaces that nobody meant",
            fix=moves[0][1] if moves else None,
            facts=facts,
            table=[
                {"namespace": entry.prefix.split("."), "rename_to": show(mended(entry.fault) or "")}
                for entry, _ in moves
            ],
        )

    def _move(self, entry: _Sampled) -> str | None:
        """Return the command that renames a namespace; none for a name that no command line can hold."""
        better = mended(entry.fault)
        if better is None or "\0" in entry.prefix or not is_clean(entry.prefix):
            return None
        return self.patient.command("mv", names=(show(entry.prefix), show(better)))

    def _about_mixing(self) -> str:
        return (
            f"In {counted(self._mixed, 'namespace')} a search by a library older than 3.1.1 also returned the memories"
            " of another whose name begins alike; see that no agent runs one."
        )

    def _limits(self) -> str:
        if self._siblings.is_complete:
            return ""
        return f" Of more than {COMPARED:,} labels under one parent not each was compared with all others."


class _Sampled(NamedTuple):
    order: bytes
    prefix: str
    fault: Fault

    @classmethod
    def of(cls, prefix: str, fault: Fault) -> _Sampled:
        return cls(encode(prefix), prefix, fault)


def _remember(first: list[_Sampled], entry: _Sampled) -> None:
    """Keep the first few in byte order, whatever the order of the calls."""
    first.append(entry)
    if len(first) > 2 * MOST_SAMPLES:
        first[:] = heapq.nsmallest(MOST_SAMPLES, first, key=lambda each: each.order)
