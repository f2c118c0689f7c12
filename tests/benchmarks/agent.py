"""An agent that goes on writing while memctl works: how long does each of its puts take?

    python -m tests.benchmarks.agent FILE

Puts through the real `SqliteStore` until stdin ends, one every few milliseconds, then prints a JSON array
of `[start, seconds, error]` with starts on the machine's monotonic clock. A handle that has failed is thrown
away, because the library's own cannot be used again.
"""

import json
import random
import select
import sys
import time
from contextlib import ExitStack

from langgraph.store.sqlite import SqliteStore

_PAUSE = 0.005
_KEYS = 200


def main() -> None:
    """Writes to the store at the file that the first argument names."""
    path = sys.argv[1]
    puts: list[tuple[float, float, str | None]] = []
    dice = random.Random(0)
    with ExitStack() as handle:
        store = handle.enter_context(SqliteStore.from_conn_string(path))
        store.setup()
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], _PAUSE)[0]:
            value = {"fact": "x" * dice.randrange(400, 800), "turn": len(puts)}
            start = time.monotonic()
            try:
                store.put(("users", "agent", "memories"), f"turn-{len(puts) % _KEYS}", value)
                error = None
            except Exception as failure:
                error = str(failure)
            puts.append((start, time.monotonic() - start, error))
            if error:
                handle.close()
                store = handle.enter_context(SqliteStore.from_conn_string(path))
    json.dump(puts, sys.stdout)


if __name__ == "__main__":
    main()
