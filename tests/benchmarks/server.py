"""A PostgreSQL server for one run: prints an address for any database, and stops when stdin ends.

A process of its own, so that the driver does not count as memory of what the harness measures.
"""

import sys

from tests.servers import Servers

from .workshop import PLACEHOLDER


def main() -> None:
    """`python -m tests.benchmarks.server MAJOR`."""
    with Servers.run() as servers:
        print(servers.get(int(sys.argv[1])).url(PLACEHOLDER), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
