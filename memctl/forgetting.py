"""Erasing a subject: what is theirs, what names them elsewhere, and proof that nothing else was touched."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby

import msgspec

from memctl.history import Entry, Remembering
from memctl.model import EVERYTHING, Detail, Item, Scope, decode, encode
from memctl.namespaces import Pattern
from memctl.selection import TextMatch
from memctl.sorting import Sorter
from memctl.store import Examined, Store

NAME_OCTETS = 4 * 1024 * 1024
"""How much of the erased names is held in memory; the rest waits in a file without a name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Somebody's namespaces, descendants included."""

    patterns: tuple[Pattern, ...]

    def owns(self, prefix: str) -> bool:
        """Tell whether a namespace is the subject's."""
        return any(pattern.matches(prefix) for pattern in self.patterns)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Key ranges in which everything of the subject's lies; none is part of another."""
        return disjoint(pattern.scope for pattern in self.patterns)

    @property
    def surroundings(self) -> tuple[Scope, ...]:
        """Key ranges of the subject's namespaces and their siblings: what lies under the same parents."""
        return disjoint(_parent(pattern.scope) for pattern in self.patterns)

    @property
    def labels(self) -> frozenset[str]:
        """What the subject is called: the last label of each of their namespaces, where it is not any one."""
        return frozenset(label for pattern in self.patterns if (label := pattern.labels[-1]))

    def items(self, store: Store) -> Iterator[Item]:
        """Yield what is theirs, range by range in byte order, without values and with vectors in shape."""
        for scope in self.scopes:
            found = store.scan(scope, values=False, vectors=Detail.SHAPE)
            yield from (item for item in found if self.owns(item.prefix))

    def orphans(self, store: Store) -> Iterator[Item]:
        """Yield the vectors under their names that have no item; nothing where a store cannot tell."""
        if isinstance(store, Examined):
            for scope in self.scopes:
                found = store.orphans(scope, detail=Detail.SHAPE)
                yield from (item for item in found if self.owns(item.prefix))

    def past(self, store: Store) -> Iterator[Entry]:
        """Yield what the store's own history holds of them; nothing where it keeps none."""
        if isinstance(store, Remembering) and store.history() is not None:
            for scope in self.scopes:
                yield from (entry for entry in store.entries(scope) if self.owns(entry.prefix))

    def beside(self, store: Store) -> Iterator[Print]:
        """Take the prints of all namespaces beside the subject's, range by range in byte order."""
        for part, scope in enumerate(self.surroundings):
            found = store.scan(scope, values=True, vectors=Detail.FULL)
            yield from _prints(part, (item for item in found if not self.owns(item.prefix)))


class Mention(msgspec.Struct, frozen=True, gc=False):
    """An item elsewhere that names the subject, and where: `namespace`, `key`, `value`."""

    item: Item
    where: tuple[str, ...]


class Naming:
    """Decides whether text names somebody: one text as a part of it, in any case; labels as whole words."""

    def __init__(self, text: str | None = None, labels: Iterable[str] = ()) -> None:
        self._needle = text.casefold() if text is not None else None
        self._values = [TextMatch(text)] if text is not None else []
        words = "|".join(re.escape(label) for label in sorted(labels))
        self._words = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) if words else None
        if words:
            self._values.append(TextMatch(rf"(?i)(?<!\w)(?:{words})(?!\w)", regex=True))

    def mentions(self, store: Store, subject: Subject) -> Iterator[Mention]:
        """Yield the items outside the subject's namespaces that name them, in byte order, without values."""
        for item in store.scan(EVERYTHING):
            if not subject.owns(item.prefix) and (where := self.where(item)):
                yield Mention(msgspec.structs.replace(item, value=None), where)

    def where(self, item: Item) -> tuple[str, ...]:
        """Return the parts of an item that name them."""
        found = [
            part
            for part, text in (("namespace", item.prefix), ("key", item.key))
            if (self._needle is not None and self._needle in text.casefold())
            or (self._words is not None and self._words.search(text))
        ]
        if any(match.matches(item.value) for match in self._values):
            found.append("value")
        return tuple(found)


class Print(msgspec.Struct, frozen=True, gc=False):
    """What one namespace held at a time: how much, and SHA-256 over all of it; `part` is the range it was read in."""

    part: int
    prefix: str
    items: int
    vectors: int
    digest: bytes

    @property
    def order(self) -> tuple[int, bytes]:
        """The sort key."""
        return self.part, encode(self.prefix)


def _prints(part: int, items: Iterable[Item]) -> Iterator[Print]:
    for prefix, group in groupby(items, lambda item: item.prefix):
        digest = hashlib.sha256()
        count = vectors = 0
        for item in group:
            digest.update(msgspec.msgpack.encode(_parts(item)))
            count += 1
            vectors += len(item.vectors)
        yield Print(part, prefix, count, vectors, digest.digest())


@dataclass(slots=True)
class Proof:
    """The namespaces beside a subject's, before and after.

    `digest_before` and `digest_after` are SHA-256 over those of all of them. Where an agent goes on writing they
    differ, and `changed` names some of the namespaces that make the difference.
    """

    namespaces: int = 0
    items_before: int = 0
    items_after: int = 0
    vectors_before: int = 0
    vectors_after: int = 0
    digest_before: str = ""
    digest_after: str = ""
    changed_count: int = 0
    changed: list[str] = field(default_factory=list)

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing beside the subject's namespaces has changed at all."""
        return self.digest_before == self.digest_after


def prove(before: Iterable[Print], after: Iterable[Print], *, most: int = 20) -> Proof:
    """Compare prints, both as `Subject.beside` gives them."""
    proof = Proof()
    totals = hashlib.sha256(), hashlib.sha256()
    paired = groupby(
        merge(((each, 0) for each in before), ((each, 1) for each in after), key=lambda pair: pair[0].order),
        lambda pair: pair[0].order,
    )
    for (_, name), pairs in paired:
        found: list[Print | None] = [None, None]
        for each, side in pairs:
            found[side] = each
            totals[side].update(name + b"\0" + each.digest)
        old, new = found
        proof.namespaces += old is not None
        proof.items_before += old.items if old else 0
        proof.vectors_before += old.vectors if old else 0
        proof.items_after += new.items if new else 0
        proof.vectors_after += new.vectors if new else 0
        if old != new:
            proof.changed_count += 1
            if len(proof.changed) < most:
                proof.changed.append(decode(name))
    proof.digest_before, proof.digest_after = (total.hexdigest() for total in totals)
    return proof


def disjoint(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """Return scopes, which descend, in byte order and without those that are part of another."""
    found: list[Scope] = []
    for scope in sorted(scopes, key=lambda scope: encode(scope.prefix or "") + b"."):
        if scope == EVERYTHING:
            return (EVERYTHING,)
        if not any(f"{scope.prefix}.".startswith(f"{other.prefix}.") for other in found):
            found.append(scope)
    return tuple(found)


class Names:
    """The names of all that was erased, of which one digest is left."""

    def __init__(self, salt: bytes) -> None:
        self.salt = salt
        self._sorter: Sorter[tuple[bytes, bytes]] = Sorter(
            lambda name: name, size=lambda name: len(name[0]) + len(name[1]), octets=NAME_OCTETS
        )

    def __enter__(self) -> Names:
        return self

    def __exit__(self, *_: object) -> None:
        self._sorter.__exit__()

    def add(self, item: Item) -> None:
        """Remember one name."""
        self._sorter.add((encode(item.prefix), encode(item.key)))

    def digest(self) -> str:
        """Return SHA-256 over the salt and the names in byte order, each once: prefix, tab, key, line feed."""
        digest = hashlib.sha256(self.salt)
        for name, _ in groupby(self._sorter):
            digest.update(b"\t".join(name) + b"\n")
        return digest.hexdigest()


def _parent(scope: Scope) -> Scope:
    if scope.prefix is None or "." not in scope.prefix:
        return EVERYTHING
    return Scope(scope.prefix.rpartition(".")[0])


def _parts(item: Item) -> Sequence[object]:
    """All of an item, text as its octets."""
    return (
        encode(item.key),
        item.value,
        (item.created_at, item.updated_at, item.expires_at),
        item.ttl_minutes,
        [(encode(each.field), each.embedding, each.created_at, each.updated_at) for each in item.vectors],
        repr(item.problems),
    )
