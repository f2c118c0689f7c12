"""Parts of the key order that SQLite serves from the primary key, however they are cut.

`(prefix, key) > (?, ?) AND prefix < ?` looks like one range, but SQLite then seeks by the prefix alone and
walks through all keys before the position again; a namespace of a million keys would cost its square. So a
part is always either keys of one namespace or whole namespaces, and cutting one makes up to two of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from memctl.model import Position, Scope, encode


class Bound(NamedTuple):
    """A text column's octets; `blob` where a row holds them as a BLOB, which sorts behind all text."""

    octets: bytes
    blob: bool = False

    @property
    def sql(self) -> str:
        """Bound as octets and cast, so that invalid UTF-8 and NUL compare as they are stored."""
        return "?" if self.blob else "CAST(? AS TEXT)"


class Cut(NamedTuple):
    """A row's place in the key order."""

    prefix: Bound
    key: Bound


@dataclass(frozen=True, slots=True)
class Keys:
    """The items of one namespace: keys past `low`, up to and including `high`."""

    prefix: Bound
    low: Bound | None = None
    high: Bound | None = None

    @property
    def condition(self) -> tuple[str, tuple[bytes, ...]]:
        """SQL and its parameters."""
        sql, parameters = f"prefix = {self.prefix.sql}", [self.prefix.octets]
        if self.low is not None:
            sql += f" AND key > {self.low.sql}"
            parameters.append(self.low.octets)
        if self.high is not None:
            sql += f" AND key <= {self.high.sql}"
            parameters.append(self.high.octets)
        return sql, tuple(parameters)

    def upto(self, cut: Cut) -> tuple[Part, ...]:
        """What lies before a row of this part, and the row itself."""
        return (replace(self, high=cut.key),)

    def after(self, cut: Cut) -> tuple[Part, ...]:
        """What lies behind a row of this part."""
        return (replace(self, low=cut.key),)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Whole namespaces: past `low` (or from it on, when `inclusive`), before `high`."""

    low: Bound | None = None
    high: Bound | None = None
    inclusive: bool = False

    @property
    def condition(self) -> tuple[str, tuple[bytes, ...]]:
        """SQL and its parameters."""
        terms: list[str] = []
        parameters: list[bytes] = []
        if self.low is not None:
            terms.append(f"prefix {'>=' if self.inclusive else '>'} {self.low.sql}")
            parameters.append(self.low.octets)
        if self.high is not None:
            terms.append(f"prefix < {self.high.sql}")
            parameters.append(self.high.octets)
        return " AND ".join(terms) or "1", tuple(parameters)

    def upto(self, cut: Cut) -> tuple[Part, ...]:
        """What lies before a row of this part, and the row itself."""
        return replace(self, high=cut.prefix), Keys(cut.prefix, high=cut.key)

    def after(self, cut: Cut) -> tuple[Part, ...]:
        """What lies behind a row of this part."""
        return Keys(cut.prefix, low=cut.key), Namespaces(cut.prefix, self.high)


Part = Keys | Namespaces


def parts_of(scope: Scope, after: Position | None = None) -> tuple[Part, ...]:
    """Return the parts of a scope in key order, without what lies before `after` or is `after`."""
    parts = _parts_of(scope)
    if after is None:
        return parts
    cut = Cut(Bound(encode(after.prefix)), Bound(encode(after.key)))
    return tuple(rest for part in parts for rest in _rest(part, cut))


def _parts_of(scope: Scope) -> tuple[Part, ...]:
    if scope.prefix is None:
        return (Namespaces(),)
    prefix = encode(scope.prefix)
    itself = Keys(Bound(prefix))
    if not scope.descend:
        return (itself,)
    # "." is followed by "/": the descendants, and nothing else, lie between the two. They do not adjoin the
    # namespace itself, because a blank or a "-" sorts before the dot.
    return itself, Namespaces(Bound(prefix + b"."), Bound(prefix + b"/"), inclusive=True)


def _rest(part: Part, cut: Cut) -> tuple[Part, ...]:
    if isinstance(part, Keys):
        if cut.prefix == part.prefix:
            return part.after(cut)
        return () if part.prefix.octets < cut.prefix.octets else (part,)
    if part.high is not None and part.high.octets <= cut.prefix.octets:
        return ()
    if part.low is not None and part.low.octets > cut.prefix.octets:
        return (part,)
    return part.after(cut)
