"""What is wrong with the store's tables as such, and with their schema, as far as the catalog tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from memctl.store import Ailment, Capability, Description
from memctl.stores.ledgers import ledger_faults

if TYPE_CHECKING:
    from memctl.stores.postgres.store import PostgresStore

DEAD_ROWS = 10_000
"""Dead rows are worth a word from here on, and from `DEAD_SHARE` of the live ones on: autovacuum's own scale."""
DEAD_SHARE = 0.4
BLOAT = 3.0
"""How many times its expected size an index may have, from `BLOAT_OCTETS` on."""
BLOAT_OCTETS = 16 * 1024 * 1024
_INDEX_DIMS = {"vector": 2_000, "halfvec": 4_000}
"""What an ANN index of pgvector holds at most."""

DEAD = """
SELECT c.relname, s.n_dead_tup, s.n_live_tup, coalesce(s.last_autovacuum, s.last_vacuum) IS NOT NULL
FROM pg_catalog.pg_stat_user_tables s JOIN pg_catalog.pg_class c ON c.oid = s.relid
WHERE s.relid = ANY(%s::oid[]) ORDER BY c.relname
"""
BLOATED = """
SELECT i.relname, pg_relation_size(i.oid),
       (i.reltuples * (24 + coalesce((
           SELECT sum(st.avg_width) FROM pg_catalog.pg_attribute a
           JOIN pg_catalog.pg_stats st ON st.attname = a.attname
           WHERE a.attrelid = i.oid AND st.tablename = t.relname AND st.schemaname = n.nspname), 0)) / 0.7)::float8
FROM pg_catalog.pg_index x
JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
JOIN pg_catalog.pg_am m ON m.oid = i.relam AND m.amname = 'btree'
WHERE x.indrelid = ANY(%s::oid[]) AND i.reltuples > 0 ORDER BY i.relname
"""
"""Each B-tree's size, and the size that its rows would have at 70 % full: 24 octets and their columns each."""

_EFFECTS = (
    "the table {table}",
    "the index {table}_prefix_idx",
    "the columns expires_at and ttl_minutes",
    "the index idx_{table}_expires_at",
)
_VECTOR_EFFECTS = (
    "the extension vector",
    "the table {table}_vectors",
    "the index {table}_vectors_embedding_idx",
)
_ANN_STEP = 2


def ailments(store: PostgresStore) -> Iterator[Ailment]:
    """Yield what the statistics tell, see `store.Examined`."""
    oids = _oids(store)
    for name, dead, live, was_vacuumed in store._session.fetch(DEAD, [oids]):
        if dead >= DEAD_ROWS and dead >= DEAD_SHARE * live:
            when = "autovacuum does not keep up" if was_vacuumed else "it was never vacuumed"
            yield Ailment(
                f"dead-rows:{name}",
                f"{name} holds {dead:,} dead rows beside {live:,} live ones: {when}",
                brief=f"{name}: {dead:,} dead rows",
                remedy="VACUUM",
            )
    for name, octets, expected in store._session.fetch(BLOATED, [oids]):
        if octets >= BLOAT_OCTETS and expected and octets > BLOAT * expected:
            yield Ailment(
                f"bloat:{name}",
                f"the index {name} is {octets / expected:.1f} times as large as its rows would need",
                brief=f"the index {name} is bloated",
                octets=int(octets - expected),
                remedy="rebuild it concurrently",
            )


def schema_faults(store: PostgresStore) -> Iterator[Ailment]:
    """Yield where the schema is not what the library would have made, see `store.Examined`."""
    description = store.describe()
    table = store._layout.items.name
    invalid = {index.name for index in description.indexes if not index.valid}
    for index in description.indexes:
        if not index.valid:
            yield Ailment(
                f"invalid:{index.name}",
                f"the index {index.name} is invalid: what built it failed, the library takes it for there,"
                " and every search does without",
                brief=f"the index {index.name} is invalid",
                remedy=_rebuilding(description, index.name),
            )
    for ledger in description.ledgers:
        is_vectors = ledger.table == store._layout.vector_ledger
        effects = [effect.format(table=table) for effect in (_VECTOR_EFFECTS if is_vectors else _EFFECTS)]
        yield from ledger_faults(
            ledger,
            effects,
            remedy=partial(_absence, is_vectors, effects),
            again="runs it again",
            told=invalid,
        )
    vectors = store._layout.vectors
    if vectors is not None and Capability.CASCADE not in store.capabilities:
        yield Ailment(
            "foreign-key",
            f"{vectors.name} has no foreign key to {table} that cascades: deletes leave vectors behind",
            brief=f"{vectors.name} has no foreign key",
            remedy="add the library's foreign key",
        )
    for name in description.facts.get("unreadable", ()):
        yield Ailment(
            f"unreadable:{name}",
            f"{name} may not be read by this role: GRANT SELECT ON it, to have it compared",
            brief=f"{name} may not be read",
        )


def _absence(is_vectors: bool, effects: Sequence[str], version: int) -> str | None:
    """Return what can be done about a migration without effect. Only the agent knows dims and metric."""
    if is_vectors and version == _ANN_STEP:
        return "take it off the ledger, so that the agent's next setup() builds it with its own metric"
    return None if is_vectors else f"make {effects[version]}"


def _rebuilding(description: Description, name: str) -> str | None:
    setup = description.vectors
    if setup and name.endswith("_embedding_idx") and setup.dims:
        most = _INDEX_DIMS.get(setup.type, 0)
        if setup.dims[0] > most:
            return None  # it cannot be built at all
    return "rebuild it concurrently"


def _oids(store: PostgresStore) -> list[int]:
    layout = store._layout
    return [relation.oid for relation in (layout.items, layout.vectors) if relation is not None]
