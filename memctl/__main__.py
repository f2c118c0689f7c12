"""`python -m memctl`."""

import gc

# A thousand rows are more objects than the collector is used to see between two looks, and make no cycles.
gc.set_threshold(100_000)

try:
    from memctl.cli.app import main  # importing makes many objects too
except KeyboardInterrupt:  # as quiet as it is later on
    raise SystemExit(130) from None

if __name__ == "__main__":
    main()
