"""Memories in any number, each one a pure function of its index.

Item `i` of a corpus is the same in every run, whatever the order in which items are asked for: its
random numbers are a hash of `i` and of what they are for. So a store can be written in the order of
arrival or in key order and holds the same items. Only the times hang on `Corpus.now`.

A tenth of the items carry a vector, no two of them alike; a fifth expire, and some of those have
expired already. Values are JSON text of about 600 octets as `orjson` writes it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import orjson

NEEDLE = "xylotheque"
"""A word that only the items of `Corpus.needles` hold."""

_NEEDLE_EVERY = 100_000
_NEEDLE_FIRST = 77
_AGE = timedelta(days=180)
_TTL_MINUTES = (60, 1_440, 43_200, 388_800)
_TALK = """
    prefers the window seat and an early train to Lisbon on weekdays when meetings with Ana run late she asked
    not to be called before nine because of school runs dark roast coffee without sugar invoices go out on the
    first Monday of each month payments in euros renewal contract legal wants a signed copy allergic to
    peanuts vegetarian knee marathon training plan physiotherapy budget quarterly forecast migration database
    index rollback deploy Friday never staging review pull request dark mode keyboard shortcuts larger font
"""
_SPICE = r"""café Zürich naïve résumé "quoted" back\slash 東京 привет 🚲 50% <b>bold</b> [red]x[/red]"""
_PLAIN = _TALK.split()
_ODD = _PLAIN + [*_SPICE.split(), "tab\there", "line\nbreak"] * 3
"""Words of which some need escapes in JSON or more than one octet; about a quarter of the items have them."""


class Row(NamedTuple):
    """One item; `number` is its index in the corpus, times carry UTC."""

    number: int
    prefix: str
    key: str
    value: bytes
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ttl_minutes: int | None


def _hash(counters: "np.ndarray") -> "np.ndarray":
    """64 random bits for each counter (splitmix64)."""
    mixed = counters.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _draws(indexes: Sequence[int], width: int, stream: int) -> "np.ndarray":
    """`width` hashes for each index; streams are independent of each other."""
    counters = np.asarray(indexes, dtype=np.uint64)[:, None] * np.uint64(width)
    return _hash(_hash(counters + np.arange(width, dtype=np.uint64)) + np.uint64(stream))


def _sentences(count: int) -> list[str]:
    picks = _draws(range(count), 18, stream=1).tolist()
    vocabularies = [_ODD if number % 16 == 0 else _PLAIN for number in range(count)]
    return [
        " ".join(words[pick % len(words)] for pick in line)
        for words, line in zip(vocabularies, picks, strict=True)
    ]


_SENTENCES = _sentences(2_048)


@dataclass(frozen=True, slots=True)
class Corpus:
    """`items` memories over `namespaces` namespaces (about fifty items each unless told otherwise)."""

    items: int
    namespaces: int
    now: datetime
    dims: int = 384

    @classmethod
    def of(cls, items: int, namespaces: int | None = None, now: datetime | None = None) -> "Corpus":
        """A corpus whose namespaces all hold an item at least."""
        wanted = max(1, items // 50) if namespaces is None else namespaces
        return cls(items, max(1, min(wanted, items)), now or datetime.now(UTC).replace(microsecond=0))

    @property
    def vectors(self) -> int:
        """How many items carry a vector."""
        return math.ceil(self.items / 10)

    @property
    def needles(self) -> int:
        """How many items hold `NEEDLE`."""
        return max(0, math.ceil((self.items - _NEEDLE_FIRST) / _NEEDLE_EVERY))

    def written(self) -> Sequence[int]:
        """All indexes in the order in which agents wrote them."""
        return range(self.items)

    def sorted(self) -> Sequence[int]:
        """All indexes in byte order of (prefix, key)."""
        identities: list[tuple[str, str, int]] = []
        for start in range(0, self.items, 50_000):
            indexes = range(start, min(start + 50_000, self.items))
            names = self._identities(indexes)
            identities += ((*name, index) for name, index in zip(names, indexes, strict=True))
        identities.sort()
        return [index for _, _, index in identities]

    def rows(self, indexes: Sequence[int]) -> Iterator[Row]:
        """The items at `indexes`, in that order."""
        draws = _draws(indexes, 9, stream=2)
        picks = (draws[:, :4] % np.uint64(len(_SENTENCES))).tolist()
        rest = draws[:, 4:].tolist()
        step = _AGE / self.items
        said = _SENTENCES
        for index, (prefix, key), (fact, one, two, three), (kind, ttl, source, score, late) in zip(
            indexes, self._identities(indexes), picks, rest, strict=True
        ):
            created = self.now - _AGE + step * index
            updated = created + (self.now - created) * (late % 1000 / 1000) if late % 10 == 3 else created
            minutes = _TTL_MINUTES[ttl % len(_TTL_MINUTES)] if ttl % 5 == 0 else None
            value = {
                "subject": prefix.split(".")[1],
                "fact": said[fact],
                "text": f"{said[one]} {said[two]} {said[three]}",
                "source": f"thread-{source:016x}",
                "confirmed": kind % 3 > 0,
                "confidence": score % 10_000 / 10_000,
                "tags": [_PLAIN[kind % len(_PLAIN)], _PLAIN[score % len(_PLAIN)]],
                "revision": index,
            }
            if index % _NEEDLE_EVERY == _NEEDLE_FIRST:
                value["fact"] = f"keeps a {NEEDLE} of 1,200 specimens"
            expires = None if minutes is None else updated + timedelta(minutes=minutes)
            yield Row(index, prefix, key, orjson.dumps(value), created, updated, expires, minutes)

    def embeddings(self, indexes: Sequence[int]) -> "np.ndarray":
        """Unit vectors of float32, one line for each index."""
        draws = _draws(indexes, self.dims, stream=3) >> np.uint64(40)
        raw = draws.astype(np.float32) / np.float32(2**23) - np.float32(1)
        unit: np.ndarray = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        return unit

    def carries_vector(self, index: int) -> bool:
        return index % 10 == 0

    def _identities(self, indexes: Sequence[int]) -> Iterator[tuple[str, str]]:
        draws = _draws(indexes, 3, stream=4)
        skewed = (draws[:, 0] >> np.uint64(11)).astype(np.float64) / 2**53
        places = (skewed**2 * self.namespaces).astype(np.int64).tolist()
        for index, place, (_, high, low) in zip(indexes, places, draws.tolist(), strict=True):
            # The first items give each namespace one, and the rest fall where most of the talking is done.
            spot = index * 2_654_435_761 % self.namespaces if index < self.namespaces else place
            if spot % 7 == 6:
                yield f"org.acme-{spot:07d}.facts", f"{high:016x}{low:016x}"
            elif spot % 2:
                yield f"users.u{spot // 2:07d}.prefs", f"pref-{high % 1_000:03d}-{index}"
            else:
                yield f"users.u{spot // 2:07d}.memories", f"{high:016x}{low:016x}"
