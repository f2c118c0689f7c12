"""Whether agents' own libraries can read what others of them have written: LangMem and Deep Agents."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted
from memctl.model import Item, Scope
from memctl.store import Change

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MAY_BE_LANGMEM = re.compile(rb'\s*\{\s*"(?:content|kind)"').match
_THIRD = b'ck"{ \t\r\n'
"""What can be the third octet of a value that begins so: one look at it rules most others out."""
_TOOL, _MANAGER = {"content"}, {"kind", "content"}
Shape = Literal["tool", "manager"]


def shape_of(value: bytes | None) -> Shape | None:
    """Tell which part of LangMem wrote a value: the agent's tool, or the background manager.

    The tool writes `{"content": …}`, the manager `{"kind": SCHEMA, "content": {…}}` (`langmem 0.0.30`).
    """
    if value is None or not _MAY_BE_LANGMEM(value):
        return None
    try:
        members = _members.decode(value)
    except ValueError:
        return None
    names = members.keys()
    if names == _TOOL:
        return "tool"
    return "manager" if names == _MANAGER and bytes(members["kind"]).startswith(b'"') else None


def wrapped(value: bytes) -> bytes:
    """Return a tool's value as the manager would have written it, its text as it is spelled.

    The schema `Memory` takes only text, so what the tool of another schema has written becomes JSON in a text.
    """
    content = bytes(_members.decode(value)["content"])
    if not content.startswith(b'"'):
        content = msgspec.json.encode(content.decode())
    return b'{"kind":"Memory","content":{"content":' + content + b"}}"


class LangmemShape(Check):
    """Items of LangMem's tool where its background manager searches, which reads `kind` of every item.

    The manager searches the namespace it writes into, with all below it; its pass dies with a KeyError as
    soon as one of the tool's items is among the hits.
    """

    id = "langmem-shape"
    level = Level.ERROR
    summary = "items of LangMem's tool where its manager's items are, so that the manager's pass dies"
    remedy = 'wraps them as {"kind": "Memory", …}; only when named, for the tool then finds them wrapped'
    by_name_only = True
    values = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._octets = 0
        self._managed = _Managed(patient)
        self._undecided: list[Item] = []
        self._undecided_count = self._undecided_octets = 0
        self._late: set[str] = set()
        """Namespaces in which the manager's first item comes behind one of the tool's: for the second pass."""

    def namespace(self, prefix: str) -> None:
        """Forget what lay in a namespace where no manager writes."""
        self._undecided, self._undecided_count, self._undecided_octets = [], 0, 0
        self._managed.enter(prefix)

    def item(self, item: Item) -> None:
        """Count what the tool wrote, once it is known that the manager writes here as well."""
        value = item.value
        if value is None or len(value) < 3 or value[2] not in _THIRD:
            return
        shape = shape_of(value)
        if shape == "manager":
            if not self._managed.is_here:
                self._managed.mark()
                if self._undecided_count and len(self._late) < _REMEMBERED:
                    self._late.add(item.prefix)
                self.count += self._undecided_count
                self._octets += self._undecided_octets
                for earlier in self._undecided:
                    self._sample(earlier)
        elif shape == "tool" and not item.key.startswith("/"):
            if self._managed.is_here or self._managed.is_above:
                self.count += 1
                self._octets += item.size
                self._sample(item)
            else:
                self._undecided_count += 1
                self._undecided_octets += item.size
                if len(self._undecided) < _FEW:
                    self._undecided.append(msgspec.structs.replace(item, value=None, vectors=()))

    def _sample(self, item: Item) -> None:
        self.sample(item.prefix, item.key, "has no kind")

    def finish(self) -> Finding:
        """Say what it does to the manager."""
        self._managed = _Managed(self.patient)  # for the pass that heals
        if not self.count:
            return self.fine()
        return self.found(
            f"{counted(self.count, 'item')} of LangMem's tool among those of its background manager, which reads"
            " value['kind'] of whatever its search returns: its pass dies with KeyError."
            " Give the two separate namespaces, and wrap what is there.",
            brief="items on which LangMem's manager dies",
            octets=self._octets,
            fix=self.patient.fix_command(self.id),
        )

    def cure(self, item: Item) -> Change | None:
        """Wrap an item of the tool; times, expiry and vectors stay as they are."""
        self._managed.enter(item.prefix)
        shape = shape_of(item.value)
        if shape == "manager":
            self._managed.mark()
        if shape != "tool" or item.key.startswith("/") or item.value is None:
            return None
        if not (self._managed.is_above or self._managed.is_here or self._is_late(item.prefix)):
            return None
        value = wrapped(item.value)
        return Change(item, msgspec.structs.replace(item, value=value, size=len(value)))

    def _is_late(self, prefix: str) -> bool:
        """Tell whether an item of the manager is yet to come in this namespace."""
        if prefix in self._late:
            return True
        return len(self._late) >= _REMEMBERED and self._managed.is_held(prefix)


_FEW = 5
_REMEMBERED = 50_000
_LOOKED_UP = 1_000


class _Managed:
    """Where the manager's items are, while namespaces pass in byte order: in this one, or in one above it.

    What they pass over because it is not examined is looked up when it comes to matter.
    """

    def __init__(self, patient: Patient) -> None:
        self._patient = patient
        self._prefix: str | None = None
        self._passed: list[str] = []
        self._is_above: bool | None = None
        self.is_here = False
        pattern = patient.settings.pattern
        self._unseen_labels = len(pattern.labels) - 1 if pattern else 0
        self.is_held = lru_cache(maxsize=_LOOKED_UP)(self._holds)
        """Tells, from the store itself, whether a namespace directly holds an item of the manager."""

    @property
    def is_above(self) -> bool:
        """Whether a namespace above this one directly holds an item of the manager."""
        if self._is_above is None:
            prefix = self._prefix or ""
            labels = prefix.split(".")
            unseen = range(1, min(self._unseen_labels, len(labels) - 1) + 1)
            self._is_above = any(prefix.startswith(f"{name}.") for name in self._passed) or any(
                self.is_held(".".join(labels[:depth])) for depth in unseen
            )
        return self._is_above

    def enter(self, prefix: str) -> None:
        """Go on to a namespace."""
        if prefix == self._prefix:
            return
        if self.is_here and self._prefix is not None:
            self._passed.append(self._prefix)
        # Between `a` and `a.b` may lie `a-b`: only what nothing to come can lie below is forgotten.
        self._passed = [name for name in self._passed if prefix.startswith(name)]
        self._prefix, self._is_above, self.is_here = prefix, None, False

    def mark(self) -> None:
        """Remember that there is an item of the manager here."""
        self.is_here = True

    def _holds(self, prefix: str) -> bool:
        # Read to its end, for a cursor on a server would stay open.
        found = self._patient.store.scan(Scope(prefix, descend=False), keep=_is_managers)
        return sum(1 for _ in found) > 0


def _is_managers(value: bytes | None) -> bool:
    return shape_of(value) == "manager"


class DeepagentsShape(Check):
    """Files of Deep Agents whose content the agent cannot read."""

    id = "deepagents-shape"
    level = Level.WARNING
    summary = "files of Deep Agents whose content its StoreBackend cannot read"
    values = True

    def items(self, items: Sequence[Item]) -> None:
        """Look at what lies under a path."""
        for item in items:
            if item.key[:1] == "/":
                self.item(item)

    def item(self, item: Item) -> None:
        """Look at a file."""
        if fault := unreadable(self.patient.value_of(item)):
            self.count += 1
            self.sample(item.prefix, item.key, fault)

    def finish(self) -> Finding:
        """Say what the backend would take."""
        if not self.count:
            return self.fine()
        return self.found(
            f"{counted(self.count, 'file')} of Deep Agents whose content is neither text nor a list of lines: reading"
            " it fails, and so may ls of its folder. Write it anew with put, the text under 'content'.",
            brief="files that Deep Agents cannot read",
        )


_FILE_MARKS = {"created_at", "modified_at"}


def unreadable(value: Any) -> str | None:
    """Return why StoreBackend cannot read the value of a file, or None; as `deepagents 0.7.32` decides.

    What has neither content nor anything else of a file is no file, whatever its key looks like. The older
    form, a list of lines, is as good as text.
    """
    if not isinstance(value, dict) or not ("content" in value or value.keys() >= _FILE_MARKS):
        return None
    content = value.get("content")
    if content is None:
        return "has no content"
    if isinstance(content, list):
        if not all(isinstance(line, str) for line in content):
            return "its content is a list of something else than lines"
        content = "\n".join(content)
    if not isinstance(content, str):
        return f"its content is {_NAMES.get(type(content), 'a number')}"
    if value.get("encoding") == "base64":
        try:
            base64.standard_b64decode(content)
        except (binascii.Error, ValueError):
            return "its content is not base64, as it says"
    return None


_NAMES: dict[type, str] = {dict: "an object", bool: "true or false"}
