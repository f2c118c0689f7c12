"""An agent's puts, one by one through the real library, half of which overwrite.

    python -m tests.benchmarks.puts STORE COUNT

STORE is a file or a `postgresql://` address whose tables are there. Every item has one vector of 8 dims.
"""

import sys

from tests.writers import Index, postgres_store, sqlite_store


def main() -> None:
    """Puts as many as the second argument says."""
    address, count = sys.argv[1], int(sys.argv[2])
    opened = postgres_store if address.startswith("postgresql:") else sqlite_store
    with opened(address, index=Index(dims=8, fields=["fact"], text_fields=["fact"])) as store:
        for number in range(count):
            value = {"fact": f"number {number} of the facts that an agent puts", "turn": number}
            store.put(("users", f"u{number % 50}", "facts"), str(number % (count // 2)), value)


if __name__ == "__main__":
    main()
