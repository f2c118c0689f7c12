"""Namespaces as people write them: labels joined with dots, `*` for any one label.

A label that would read as something else is written with one more mark, so that every namespace has exactly
one spelling and what memctl prints can be pasted back: the literal label `*` is `\\*`, `{name}` is `{{name}}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memctl.errors import UsageError
from memctl.model import EVERYTHING, Scope

_STARRED = re.compile(r"\\*\*")
_WILDCARD = "*"


def show(prefix: str) -> str:
    """Spell a stored namespace so that `parse` reads it back as exactly that."""
    if "*" not in prefix and "{" not in prefix:
        return prefix
    return ".".join(map(_show_label, prefix.split(".")))


def parse(text: str) -> Pattern:
    """Read a namespace with its wildcards; descendants are covered."""
    return Pattern(tuple(map(_parse_label, text.split("."))))


def parse_exact(text: str) -> str:
    """Read a namespace that names exactly one, and return it as stored.

    Raises UsageError for a wildcard.
    """
    labels = tuple(map(_parse_label, text.split(".")))
    if None in labels:
        raise UsageError(
            f"{text!r} names many namespaces, and here it has to be one",
            hint=r"write \* for a label that is a star; `memctl search --in` takes wildcards",
        )
    return ".".join(label for label in labels if label is not None)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A namespace in which some labels, those that are None, may be anything."""

    labels: tuple[str | None, ...]
    descend: bool = True

    @property
    def is_literal(self) -> bool:
        """Whether it names one namespace (and its descendants): a miss is then an error."""
        return None not in self.labels

    @property
    def scope(self) -> Scope:
        """The smallest key range that holds every match: what a store reads before `matches` decides."""
        if self.is_literal:
            return Scope(".".join(label for label in self.labels if label is not None), self.descend)
        fixed = self.labels[: self.labels.index(None)]
        return Scope(".".join(label for label in fixed if label is not None)) if fixed else EVERYTHING

    def matches(self, prefix: str) -> bool:
        """Tell whether a stored namespace, or an ancestor of it, fits label by label."""
        labels = prefix.split(".")
        if len(labels) < len(self.labels) or (len(labels) > len(self.labels) and not self.descend):
            return False
        return all(want is None or want == have for want, have in zip(self.labels, labels, strict=False))


def ends_with(suffix: Pattern, prefix: str) -> bool:
    """Tell whether the last labels of a stored namespace fit `suffix`."""
    labels = prefix.split(".")[-len(suffix.labels) :]
    return len(labels) == len(suffix.labels) and all(
        want is None or want == have for want, have in zip(suffix.labels, labels, strict=True)
    )


def _show_label(label: str) -> str:
    if _STARRED.fullmatch(label):
        return "\\" + label
    if len(label) >= 2 and label[0] == "{" and label[-1] == "}":
        return "{" + label + "}"
    return label


def _parse_label(label: str) -> str | None:
    if label == _WILDCARD:
        return None
    if _STARRED.fullmatch(label):
        return label[1:]
    if len(label) >= 4 and label.startswith("{{") and label.endswith("}}"):
        return label[1:-1]
    return label
