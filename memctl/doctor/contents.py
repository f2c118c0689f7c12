"""Whether values, keys and namespaces are what the library and PostgreSQL can read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import orjson

from memctl.doctor.check import Check, Patient
from memctl.doctor.finding import Finding, Level
from memctl.doctor.wording import counted
from memctl.model import Item, is_clean
from memctl.store import Capability, Change
from memctl.values import fault_of

MOST_OCTETS = 4 * 1024 * 1024
"""A value above this is oversized: more text than a model can be given, and read by every search that hits it."""
_AT_ONCE = 250
_OCTETS_AT_ONCE = 1024 * 1024

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_BLANKS = b" \t\r\n"
_OPENING, _CLOSING = b"{}"
_PROBLEMS, _SIZE, _VALUE = attrgetter("problems"), attrgetter("size"), attrgetter("value")
_FIRST, _LAST = itemgetter(0), itemgetter(-1)

NOT_JSON, NO_OBJECT, BAD_TEXT, NUL, SURROGATE, TWICE, OVERSIZED = (
    "no valid JSON",
    "not an object",
    "invalid UTF-8",
    "a NUL",
    "a lone surrogate",
    "a key twice",
    f"above {MOST_OCTETS >> 20} MiB",
)


def fault_in(item: Item) -> str | None:
    """Return what is wrong with an item's value, key or namespace, the worst first; None if nothing is."""
    value = item.value
    if not is_clean(item.key) or not is_clean(item.prefix):
        return f"{BAD_TEXT} in its {'key' if is_clean(item.prefix) else 'namespace'}"
    if "\0" in item.key or "\0" in item.prefix:
        return f"{NUL} in its {'key' if chr(0) in item.key else 'namespace'}"
    for problem in item.problems:
        if problem.part in ("key", "namespace"):
            return f"{problem.part} {problem.reason}"
    if value is not None and len(value) > MOST_OCTETS:
        return OVERSIZED  # and nothing is made of it that is larger still
    fault = fault_of(value)
    if value is None or fault is not None:
        reason = fault.reason if fault else ""
        return {"not an object": NO_OBJECT, "an escaped lone surrogate": SURROGATE}.get(reason, reason)
    if b"\\u0000" in value and _NUL.search(value):
        return NUL
    return TWICE if has_key_twice(value) else None


def has_key_twice(value: bytes) -> bool:
    """Tell whether an object in valid JSON has two members of one name, of which every reader drops one."""
    try:
        # What the library writes comes back as it was; a repeated key would not.
        again = orjson.dumps(orjson.loads(value))
        if again == value or again.translate(None, _BLANKS) == value.translate(None, _BLANKS):
            return False
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass
    try:
        _STRICT.decode(value.decode())
    except _TwiceError:
        return True
    except (ValueError, RecursionError):
        pass
    return False


class _TwiceError(Exception):
    """A member's name came again."""


def _single(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _TwiceError


_STRICT = json.JSONDecoder(object_pairs_hook=_single, parse_int=len, parse_float=len)


class Values(Check):
    """Values that somebody cannot read."""

    id = "values"
    level = Level.ERROR
    summary = (
        "values that are no JSON object, hold invalid UTF-8, a NUL, a lone surrogate or a key twice, or exceed"
        f" {MOST_OCTETS >> 20} MiB"
    )
    remedy = "moves the items to the archive of --save"
    values = True
    must_save = True

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._kinds: Counter[str] = Counter()
        self._octets = 0
        self._waiting: list[Item] = []
        self._held = 0
        self._is_raw = Capability.RAW_TEXT in patient.capabilities

    def items(self, items: Sequence[Item]) -> None:
        """Collect items, to be looked at many at once: most are well, and that can be seen of all together."""
        self._waiting += items
        self._held += sum(map(_SIZE, items))
        if len(self._waiting) >= _AT_ONCE or self._held >= _OCTETS_AT_ONCE:
            self._judge()

    def _judge(self) -> None:
        waiting, self._waiting, self._held = self._waiting, [], 0
        if waiting and self._is_raw and _are_well(waiting):
            return
        for item in waiting:
            if fault := self._fault(item):
                self.count += 1
                self._octets += item.size
                self._kinds[fault.partition(":")[0]] += 1
                self.sample(item.prefix, item.key, fault)

    def _fault(self, item: Item) -> str | None:
        is_well = _is_well(item) if self._is_raw else _is_well_in_jsonb(item)
        return None if is_well else fault_in(item)

    def finish(self) -> Finding:
        """Tell the kinds apart."""
        self._judge()
        if not self.count:
            return self.fine(facts={"most_octets": MOST_OCTETS})
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._kinds.most_common())
        return self.found(
            f"{counted(self.count, 'item')} that the library, PostgreSQL or a model cannot take: {kinds}."
            " The repair moves them to an archive, from which they can be mended and imported.",
            brief="values that not everybody can read",
            octets=self._octets,
            fix=self.patient.fix_command(self.id, "--save", "bad-values.jsonl"),
            facts={"most_octets": MOST_OCTETS},
        )

    def cure(self, item: Item) -> Change | None:
        """Remove it; the archive has it by then."""
        return Change(item, None) if self._fault(item) else None


def _are_well(items: list[Item]) -> bool:
    """Tell of many items at once whether all are well for sure; a doubt about one is a doubt about all.

    An object has at least as many colons as members. Where there are no more colons than different keys,
    there are no two members of one name, and none further down. And as no object goes on with a brace behind
    a brace, the objects that are found can only be the values themselves.
    """
    if any(map(_PROBLEMS, items)) or max(map(_SIZE, items)) > MOST_OCTETS:
        return False
    if "\0" in "".join([item.key for item in items]) or "\0" in "".join({item.prefix for item in items}):
        return False
    try:
        values = list(map(_VALUE, items))
        if {*map(_FIRST, values)} != {_OPENING} or {*map(_LAST, values)} != {_CLOSING}:
            return False
        b"".join([value for value in values if not value.isascii()]).decode()
        text = b"\n".join(values)
        members = _members.decode_lines(text)
    except (TypeError, IndexError, ValueError):  # null, empty, or no JSON
        return False
    return (
        len(members) == len(items) and sum(map(len, members)) == text.count(b":") and b"\\u0000" not in text
    )


def _is_well(item: Item) -> bool:
    """Tell of one item whether it is well for sure, which is quicker than to say what is wrong."""
    value = item.value
    if value is None or item.problems or len(value) > MOST_OCTETS or "\0" in item.key or "\0" in item.prefix:
        return False
    try:
        if not value.isascii():
            value.decode()
        return len(_members.decode(value)) == value.count(b":") and b"\\u0000" not in value
    except ValueError:
        return False


def _is_well_in_jsonb(item: Item) -> bool:
    """Tell of an item whose value is a jsonb's text: that is valid, with every key once."""
    value = item.value
    return value is not None and value[:1] == b"{" and len(value) <= MOST_OCTETS and not item.problems
