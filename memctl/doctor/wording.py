"""Words that several checks use."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from memctl.model import Instant, encode


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with what it counts: `1 item`, `2,000 items`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def verb(count: int, singular: str, plural: str) -> str:
    """Return the form of a verb that goes with a number."""
    return singular if count == 1 else plural


def listed(parts: Iterable[str], *, most: int = 3) -> str:
    """Join a few parts by commas, and say how many more there are."""
    every = list(parts)
    shown = ", ".join(every[:most])
    return f"{shown} and {len(every) - most} more" if len(every) > most else shown


def command(*words: str) -> str:
    """Return a command line that a shell reads back as exactly these words."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Quote a word; one with characters that do not show, or of broken UTF-8, as bash and zsh read it: `$'…'`."""
    if word.isprintable():
        return shlex.quote(word)
    octets = encode(word)
    spelled = (
        chr(octet) if 32 <= octet < 127 and octet not in b"'\\" else f"\\x{octet:02x}" for octet in octets
    )
    return f"$'{''.join(spelled)}'"


def second(instant: Instant) -> str:
    """Return an instant to the second, UTC: `2026-11-30 07:42:43`."""
    return f"{instant[:10]} {instant[11:19]}"


def minute(instant: Instant) -> str:
    """Return an instant to the minute, UTC: `2026-11-30 07:42`."""
    return f"{instant[:10]} {instant[11:16]}"
