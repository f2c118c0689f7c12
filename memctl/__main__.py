"""`python -m memctl`."""

import gc

# A thousand rows are more objects than the collector is used to see between two looks, and make no cycles.
gc.set_threshold(100_000)

from memctl.cli.app import main  # noqa: E402 importing makes many objects too

if __name__ == "__main__":
    main()
