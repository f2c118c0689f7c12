"""What may be put: the rules of `BaseStore.put` (`langgraph-checkpoint 4.3.2`), for names and values.

The library writes by them and reads by them: a namespace with an empty label is one that no agent reaches.
"""

from __future__ import annotations

import msgspec

from memctl.errors import UsageError
from memctl.legibility import illegible
from memctl.model import is_clean, shown
from memctl.namespaces import show
from memctl.values import fault_of

RESERVED = "langgraph"


def check_namespace(prefix: str) -> None:
    """Raise UsageError for a namespace, as stored, that the library's put would refuse."""
    labels = prefix.split(".")
    named = repr(show(shown(prefix)))
    if "" in labels:
        raise _refused(f"{named} has an empty label")
    if "\0" in prefix:
        raise _refused(f"{named} has a NUL in it")
    if labels[0] == RESERVED:
        raise _refused(f"{named} begins with {RESERVED!r}, which LangGraph reserves for itself")
    check_text(prefix, "the namespace")


def check_text(text: str, what: str) -> None:
    """Raise UsageError for text that is no UTF-8, which no Python agent can spell."""
    if not is_clean(text):
        raise UsageError(f"{what} is no UTF-8", code="invalid-name")


def check_value(text: bytes, kind: str | None = None) -> bytes:
    """Return the JSON text of a value in its shortest spelling, every number as it was written.

    Raises UsageError for what is no JSON object, and for what the library would not write into a store of this
    `kind`, or of any without one.
    """
    fault = fault_of(text)
    if fault is not None:
        reason = "a value has to be a JSON object" if fault.is_json else fault.reason
        if fault.is_json and "object" not in fault.reason:
            reason = f"{fault.reason}, which LangGraph cannot write"
        raise UsageError(reason, hint='for example \'{"text": "likes tea"}\'', code="invalid-value")
    check_legible(text, kind)
    return bytes(msgspec.json.format(text, indent=-1))


def check_legible(text: bytes, kind: str | None) -> None:
    """Raise UsageError for what the library would refuse in the JSON object `text`, see `legibility`."""
    if (part := illegible(text, kind)) is not None:
        hint = "`memctl import` carries such values as they are"
        raise UsageError(str(part), hint=hint, code="invalid-value")


def _refused(message: str) -> UsageError:
    return UsageError(f"{message}: the library's put refuses it", code="invalid-namespace")
