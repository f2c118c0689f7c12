"""How fast memctl is and how much memory it takes, as ratios to what anyone has at hand.

    python -m tests.benchmarks                                  1,000,000 items (300,000 where memories move)
    python -m tests.benchmarks --only ls,start --items 20000    a quick look at two groups
    python -m tests.benchmarks --postgres                       with a PostgreSQL server of its own as well

`corpus` says what the memories are, `make_store` writes them, `workshop` keeps the stores of one run,
`baselines` and `agent` are the programs that memctl is measured against and beside, `harness` measures
one comparison, `reading` and `moving` list the comparisons, and `__main__` prints the table.
"""
