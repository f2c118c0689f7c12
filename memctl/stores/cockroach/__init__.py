"""CockroachDB: the stores of `langchain-cockroachdb` 0.5.

Its SQL is kept to what CockroachDB and PostgreSQL both know wherever that costs nothing, so that it is tested on
PostgreSQL too, in tables of this layout; what only CockroachDB knows is sent to CockroachDB alone.
"""
