"""An agent in a process of its own, which goes on writing through the real library while memctl works.

    python -m tests.agent STORE NAMESPACE…

STORE is a SQLite file or a PostgreSQL address; namespaces have dots. It opens the store with an index and
TTLs, prints `ready`, and puts item after item, the namespaces in turn, `KEYS` keys each, until stdin ends.
Then it prints a JSON object: `written`, by namespace and key the `turn` that its last put wrote and that the
item's value holds; `errors`, what the library raised; `longest`, the seconds that its slowest put took.
"""

from __future__ import annotations

import json
import select
import sys
import time
from contextlib import AbstractContextManager
from typing import Any

from tests.writers import Index, postgres_store, sqlite_store

KEYS = 10
TTL = 60.0
_PAUSE = 0.002


def opened(address: str) -> AbstractContextManager[Any]:
    """The library's store there."""
    index, ttl = Index(text_fields=["text"]), {"refresh_on_read": True}
    if address.startswith("postgresql://"):
        return postgres_store(address, index=index, ttl=ttl)  # type: ignore[arg-type]
    return sqlite_store(address, index=index, ttl=ttl)  # type: ignore[arg-type]


def main() -> None:
    """Write until stdin ends, then tell."""
    address, *names = sys.argv[1:]
    namespaces = [tuple(name.split(".")) for name in names]
    written: dict[str, dict[str, int]] = {name: {} for name in names}
    errors: list[str] = []
    longest, turn = 0.0, 0
    with opened(address) as store:
        print("ready", flush=True)
        while not errors and not select.select([sys.stdin], [], [], _PAUSE)[0]:
            turn += 1
            place = turn % len(namespaces)
            key = f"k{turn // len(namespaces) % KEYS:02}"
            began = time.monotonic()
            try:
                store.put(namespaces[place], key, {"turn": turn, "text": f"turn {turn}"}, ttl=TTL)
                written[names[place]][key] = turn
                if turn % 5 == 0:
                    store.get(namespaces[place], key, refresh_ttl=True)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
            longest = max(longest, time.monotonic() - began)
    json.dump({"written": written, "errors": errors, "longest": longest}, sys.stdout)


if __name__ == "__main__":
    main()
