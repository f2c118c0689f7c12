"""The tests of memctl, its benchmarks, and the stores they are run on."""
