"""Renaming namespaces by template: `--map OLD=NEW`, `--into NS`, `mv`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memctl import namespaces
from memctl.errors import UsageError

_VARIABLE = re.compile(r"\{([^{}.]+)\}")


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str


Label = str | _Variable


@dataclass(frozen=True, slots=True)
class Rule:
    """One template: a namespace that fits `old`, and all its descendants, are renamed after `new`."""

    old: tuple[Label, ...]
    new: tuple[Label, ...]

    @property
    def pattern(self) -> namespaces.Pattern:
        """The namespaces that may fit: all that do, and perhaps some that a variable met twice rules out."""
        return namespaces.Pattern(tuple(label if isinstance(label, str) else None for label in self.old))

    @property
    def sample(self) -> str:
        """A name that it could give, a letter in the place of each variable."""
        return ".".join(label if isinstance(label, str) else "x" for label in self.new)

    def apply(self, prefix: str) -> str | None:
        """Return the new name, the labels below those of the template appended; None when it does not fit."""
        labels = prefix.split(".")
        if len(labels) < len(self.old):
            return None
        bound: dict[str, str] = {}
        for want, have in zip(self.old, labels, strict=False):
            if isinstance(want, str):
                if want != have:
                    return None
            elif bound.setdefault(want.name, have) != have:
                return None
        renamed = [label if isinstance(label, str) else bound[label.name] for label in self.new]
        return ".".join([*renamed, *labels[len(self.old) :]])


@dataclass(frozen=True, slots=True)
class Mapping:
    """Rules of which the first that fits counts, and labels that are put in front of every namespace."""

    rules: tuple[Rule, ...] = ()
    into: str | None = None

    def __bool__(self) -> bool:
        return bool(self.rules) or self.into is not None

    def apply(self, prefix: str) -> str:
        """Return the new name of a namespace; one that no rule fits keeps its own."""
        renamed = next((new for rule in self.rules if (new := rule.apply(prefix)) is not None), prefix)
        return renamed if self.into is None else f"{self.into}.{renamed}"


def parse(rules: Sequence[str], into: str | None = None) -> Mapping:
    """Read `--map` options and `--into`. Raises UsageError."""
    return Mapping(tuple(map(_parse_rule, rules)), namespaces.parse_exact(into) if into is not None else None)


def rule(old: str, new: str) -> Rule:
    """Read one template. Raises UsageError for a wildcard, and for a variable that stands on one side only."""
    made = Rule(_parse_side(old), _parse_side(new))
    on_the_left = {label for label in made.old if isinstance(label, _Variable)}
    on_the_right = {label for label in made.new if isinstance(label, _Variable)}
    if on_the_left != on_the_right:
        lonely = ", ".join(f"{{{variable.name}}}" for variable in on_the_left ^ on_the_right)
        raise UsageError(
            f"{old}={new}: {lonely} stands on one side only",
            hint="every variable occurs on both sides; a literal label in braces is written {{name}}",
        )
    return made


def _parse_rule(text: str) -> Rule:
    old, equals, new = text.partition("=")
    if not equals:
        raise UsageError(f"--map {text!r}: OLD=NEW is expected", hint="--map 'prefs.{user}={user}.prefs'")
    return rule(old, new)


def _parse_side(text: str) -> tuple[Label, ...]:
    labels: list[Label] = []
    for written in text.split("."):
        if variable := _VARIABLE.fullmatch(written):
            labels.append(_Variable(variable[1]))
            continue
        label = namespaces.parse(written).labels[0]
        if label is None:
            raise UsageError(
                f"{text!r}: a wildcard cannot be renamed",
                hint=r"name it: {any}; a literal star is written \*",
            )
        labels.append(label)
    return tuple(labels)
