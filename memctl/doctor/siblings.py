"""Labels that are told apart too little: by a careless search, or by the people and programs that write them.

Two namespaces can only be taken for each other where they part: at two labels under one parent. So it is
labels beside each other that are compared, in bounded memory, while the namespaces pass in byte order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

COMPARED = 50_000
"""Labels under one parent that are compared with each other by the searches of old; with more of them, the
next ones make a new group. As many spellings with capitals or blanks are remembered per parent."""
_MOST_MASKS = 200_000
"""Comparisons with a wildcard that one group is worth; twice a second's work would be too much."""

Tell = Callable[[str, list[str]], None]
"""Takes a parent and labels of its children."""


def folded(label: str) -> str:
    """Return a label without what people overlook: case and white space."""
    return "".join(label.split()).casefold()


class Siblings:
    """Walks namespaces in byte order and tells about labels that stand beside each other.

    `look_alike(parent, [odd, other])`: two labels that differ in case or white space only; whichever is not
    all small letters without blanks is the odd one, and each comes once. `mixed(parent, labels)`: those with
    which a search before 3.1.1 of `langgraph-checkpoint-sqlite` and `-postgres` (`LIKE 'label%'`, unescaped;
    SQLite ignores the case of ASCII) would have read a sibling too. A parent is the text before its
    children's labels: empty, or with a dot at its end.
    """

    def __init__(self, *, ignores_case: bool, look_alike: Tell, mixed: Tell) -> None:
        self._ignores_case = ignores_case
        self._look_alike, self._mixed = look_alike, mixed
        self._open = [_Family("")]
        self.is_complete = True
        """False when there was more beside each other than is compared."""

    def add(self, prefix: str) -> None:
        """Take the next namespace."""
        families = self._open
        while not prefix.startswith(families[-1].parent):
            self._close(families.pop())
        while True:
            family = families[-1]
            start = len(family.parent)
            label, dot, _ = prefix[start:].partition(".")
            if label not in family.labels:
                self._meet(family, label)
            if not dot:
                return
            families.append(_Family(prefix[: start + len(label) + 1]))

    def finish(self) -> None:
        """Tell about what is still open."""
        while self._open:
            self._close(self._open.pop())

    def _meet(self, family: _Family, label: str) -> None:
        plain = folded(label)
        if plain != label:
            if (other := family.odd.get(plain)) is None and plain in family.labels:
                other = plain
            if other is not None and other != label:
                self._look_alike(family.parent, [label, other])
            elif len(family.odd) < COMPARED:
                family.odd[plain] = label
            else:
                self.is_complete = False
        elif label in family.odd:
            self._look_alike(family.parent, [family.odd[label], label])
        if len(family.labels) >= COMPARED:
            self.is_complete = False
            self._compare(family)
            family.labels.clear()
        family.labels[label] = None

    def _close(self, family: _Family) -> None:
        if len(family.labels) > 1:
            self._compare(family)

    def _compare(self, family: _Family) -> None:
        pairs = sorted((self._seen(label), label) for label in family.labels if label)
        mixed = set(_begun_by_another(pairs))
        masks = _Masks(pairs)
        mixed.update(masks.matching())
        self.is_complete = self.is_complete and not masks.is_exhausted
        if mixed:
            self._mixed(family.parent, [label for label in family.labels if label in mixed])

    def _seen(self, label: str) -> str:
        return label.translate(_LOWER) if self._ignores_case else label


class _Family:
    """The children of one parent that have been met: `labels` in their order, `odd` by what they fold to."""

    __slots__ = ("labels", "odd", "parent")

    def __init__(self, parent: str) -> None:
        self.parent = parent
        self.labels: dict[str, None] = {}
        self.odd: dict[str, str] = {}


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _begun_by_another(pairs: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the labels with which another one begins; pairs of (as seen, label), sorted."""
    beginnings: list[tuple[str, str]] = []
    for pair in pairs:
        while beginnings and not pair[0].startswith(beginnings[-1][0]):
            beginnings.pop()
        for seen, label in beginnings:
            yield label
            if seen == pair[0]:
                yield pair[1]
        beginnings.append(pair)


class _Masks:
    """Labels that hold `_` or `%`, and whether they match another label as the pattern that they are."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._left = _MOST_MASKS
        self.is_exhausted = False

    def matching(self) -> Iterator[str]:
        """Yield the labels that match another one."""
        shapes: defaultdict[tuple[int, ...], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for seen, label in self._pairs:
            if "%" in seen:
                if self._matches_by_pattern(seen, label):
                    yield label
            elif "_" in seen:
                places = tuple(place for place, char in enumerate(seen) if char == "_")
                shapes[(len(seen), *places)][seen].append(label)
        for shape, patterns in shapes.items():
            yield from self._matching(shape[0], shape[1:], patterns)

    def _matching(self, length: int, places: Sequence[int], patterns: dict[str, list[str]]) -> Iterator[str]:
        """Yield those labels of one shape that match another one."""
        for seen, _ in self._pairs:
            if len(seen) < length:
                continue
            if not self._left:
                self.is_exhausted = True
                return
            self._left -= 1
            head = seen[:length]
            masked = head
            for place in places:
                masked = f"{masked[:place]}_{masked[place + 1 :]}"
            if masked != head and masked in patterns:
                yield from patterns[masked]

    def _matches_by_pattern(self, seen: str, label: str) -> bool:
        pattern = re.compile("".join(_WILD.get(char) or re.escape(char) for char in seen), re.DOTALL)
        for other, original in self._pairs:
            if not self._left:
                self.is_exhausted = True
                return False
            self._left -= 1
            if original != label and pattern.match(other):
                return True
        return False


_WILD = {"_": ".", "%": ".*"}
