"""How much goes: counted item by item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memctl.model import Item


@dataclass(slots=True)
class Tally:
    """How much of something; `octets` are those of the values."""

    items: int = 0
    vectors: int = 0
    octets: int = 0

    def add(self, item: Item) -> None:
        """Count one item with its vectors."""
        self.items += 1
        self.vectors += len(item.vectors)
        self.octets += item.size

    def columns(self) -> dict[str, int]:
        """Return it as a row shows it."""
        return {"items": self.items, "vectors": self.vectors, "bytes": self.octets}
