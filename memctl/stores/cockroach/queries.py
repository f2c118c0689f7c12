"""What the store asks: pages of key ranges, never an OFFSET, a held cursor or a system column.

Strings compare bytewise in CockroachDB, and so they do in PostgreSQL under the collation C. Identifiers go
through `psycopg.sql`, values are bound.
"""

from __future__ import annotations

from memctl.model import Position, Scope

ITEMS = """
SELECT prefix, key, CASE WHEN octet_length(value::TEXT) <= {inline} THEN value::TEXT END,
       octet_length(value::TEXT), created_at::VARCHAR, updated_at::VARCHAR, expires_at::VARCHAR, ttl_minutes
FROM {items} WHERE {condition} ORDER BY prefix, key LIMIT {rows}
"""
SIZES = """
SELECT prefix, key, NULL::TEXT, octet_length(value::TEXT), created_at::VARCHAR, updated_at::VARCHAR,
       expires_at::VARCHAR, ttl_minutes
FROM {items} WHERE {condition} ORDER BY prefix, key LIMIT {rows}
"""
VALUE = "SELECT value::TEXT FROM {items} WHERE prefix = %(prefix)s AND key = %(key)s"
VECTORS = """
SELECT prefix, key, field_name, {embedding} FROM {vectors} WHERE {condition}
ORDER BY prefix, key, field_name LIMIT {rows}
"""
NAMESPACES = """
SELECT prefix, count(*), sum(octet_length(value::TEXT))::INT8,
       (max(updated_at) FILTER (WHERE updated_at >= '0001-01-01 00:00:00+00'
                                  AND updated_at < '10000-01-01 00:00:00+00'))::VARCHAR
FROM {items} WHERE {condition} GROUP BY prefix ORDER BY prefix LIMIT {rows}
"""
VECTOR_COUNTS = """
SELECT vector.prefix, count(*) FROM {vectors} AS vector
JOIN {items} AS item ON item.prefix = vector.prefix AND item.key = vector.key
WHERE {condition} GROUP BY vector.prefix ORDER BY vector.prefix LIMIT {rows}
"""
ORPHANS = """
SELECT vector.prefix, vector.key, vector.field_name, {embedding} FROM {vectors} AS vector
LEFT JOIN {items} AS item ON item.prefix = vector.prefix AND item.key = vector.key
WHERE item.key IS NULL AND {condition} ORDER BY vector.prefix, vector.key, vector.field_name LIMIT {rows}
"""
PREFIXES = "SELECT DISTINCT prefix FROM {items} WHERE {condition} ORDER BY prefix LIMIT {rows}"
EXPIRED = """
SELECT prefix, key, NULL::TEXT, octet_length(value::TEXT), created_at::VARCHAR, updated_at::VARCHAR,
       expires_at::VARCHAR, ttl_minutes
FROM {items}
WHERE (expires_at <= %(until)s::TIMESTAMPTZ OR expires_at >= '10000-01-01 00:00:00+00') AND {condition}
ORDER BY prefix, key LIMIT {rows}
"""
"""Those past the year 9999 too, which no instant can say: their expiry is a problem."""
UNEQUAL = """
SELECT item.prefix, item.key FROM {items} AS item
WHERE EXISTS (SELECT 1 FROM {vectors} AS vector WHERE vector.prefix = item.prefix AND vector.key = item.key
              AND (vector.expires_at IS DISTINCT FROM item.expires_at
                   OR vector.ttl_minutes IS DISTINCT FROM item.ttl_minutes)) AND {condition}
ORDER BY item.prefix, item.key LIMIT {rows}
"""
CUTS = """
SELECT prefix, key
FROM (SELECT prefix, key, row_number() OVER (ORDER BY prefix, key) AS place, count(*) OVER () AS total
      FROM {items} WHERE {condition}) AS numbered
WHERE mod(place, {rows}) = 0 AND place < total ORDER BY place
"""
COUNT = "SELECT count(*) FROM {items} WHERE {condition}"
COUNT_VECTORS = "SELECT count(*) FROM {vectors} WHERE {condition}"
COUNT_OWNED = """
SELECT count(*) FROM {vectors} AS vector
JOIN {items} AS item ON item.prefix = vector.prefix AND item.key = vector.key WHERE {condition}
"""

WHOLE = "TRUE"
EXACTLY = "{prefix} = %(prefix)s"
SUBTREE = "({prefix} = %(prefix)s OR ({prefix} >= %(prefix)s || '.' AND {prefix} < %(prefix)s || '/'))"
"""A namespace and what is below it; `/` is the character after the dot."""
AFTER = "({prefix}, {key}) > (%(after_prefix)s, %(after_key)s)"
AFTER_FIELD = "({prefix}, {key}, field_name) > (%(after_prefix)s, %(after_key)s, %(after_field)s)"
AFTER_PREFIX = "{prefix} > %(after_prefix)s"
AMONG = "prefix = %(prefix)s AND key = ANY(%(keys)s)"
OF_ONE = "prefix = %(prefix)s AND key = %(key)s"


def condition(scope: Scope, *more: str, table: str = "") -> tuple[str, dict[str, object]]:
    """Return the condition for a part of the store and what it binds; `table` stands before its columns, if any."""
    dot = f"{table}." if table else ""
    parts = list(more)
    bound: dict[str, object] = {}
    if scope.prefix is not None:
        parts.insert(0, SUBTREE if scope.descend else EXACTLY)
        bound["prefix"] = scope.prefix
    where = " AND ".join(parts or [WHOLE])
    return where.replace("{prefix}", f"{dot}prefix").replace("{key}", f"{dot}key"), bound


def after(position: Position) -> dict[str, object]:
    """Return what `AFTER` binds."""
    return {"after_prefix": position.prefix, "after_key": position.key}
