"""The guard in a PostgreSQL database.

Functions run as their owner, so that a role with rights on the library's tables alone can go on writing; their
`search_path` is pinned, every name in them is qualified, and nobody else may call them. memctl's own
transactions say `memctl.exact` and write as they do into a bare store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from psycopg import sql

from memctl.guard import RULES, Guard, State
from memctl.stores.postgres.layout import Layout
from memctl.stores.postgres.transactions import Cursor

VERSION = 1
Fetch = Callable[..., list[tuple[Any, ...]]]

FUNCTION = """
CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS {body}
"""
PRIVATE = "REVOKE ALL ON FUNCTION {function}() FROM PUBLIC"
BODIES = {
    "fresh-vectors": """
BEGIN
    IF current_setting('memctl.exact', true) IS DISTINCT FROM 'on' THEN
        DELETE FROM {vectors} WHERE prefix = NEW.prefix AND key = NEW.key;
    END IF;
    RETURN NULL;
END""",
    "cascade-vectors": """
BEGIN
    DELETE FROM {vectors} WHERE prefix = OLD.prefix AND key = OLD.key;
    RETURN NULL;
END""",
    "whole-ttl": """
BEGIN
    IF current_setting('memctl.exact', true) IS DISTINCT FROM 'on' THEN
        NEW.ttl_minutes := 1;
    END IF;
    RETURN NEW;
END""",
}
TRIGGERS = {
    "fresh-vectors": """
CREATE TRIGGER {name} AFTER UPDATE ON {items} FOR EACH ROW
WHEN (OLD.updated_at IS DISTINCT FROM NEW.updated_at OR OLD.value IS DISTINCT FROM NEW.value)
EXECUTE FUNCTION {function}()""",
    "cascade-vectors": "CREATE TRIGGER {name} AFTER DELETE ON {items} FOR EACH ROW EXECUTE FUNCTION {function}()",
    "whole-ttl": """
CREATE TRIGGER {name} BEFORE INSERT OR UPDATE OF ttl_minutes ON {items} FOR EACH ROW
WHEN (NEW.ttl_minutes = 0) EXECUTE FUNCTION {function}()""",
}
"""A refresh of the TTL by a read changes neither `updated_at` nor `value`."""
DROP_TRIGGER = "DROP TRIGGER IF EXISTS {name} ON {items}"
DROP_FUNCTION = "DROP FUNCTION IF EXISTS {function}()"
FOUND = """
SELECT p.proname, p.prosrc,
       EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgfoid = p.oid AND t.tgrelid = %s AND t.tgenabled <> 'D')
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %s AND p.proname LIKE 'memctl\\_guard\\_%%' ORDER BY p.proname
"""
RIGHTS = """
SELECT has_schema_privilege(%s, 'CREATE'), has_table_privilege(%s::oid, 'TRIGGER'),
       coalesce(has_table_privilege(%s::oid, 'DELETE'), TRUE)
"""
_LONGEST_NAME = 63


def guards(fetch: Fetch, layout: Layout) -> tuple[Guard, ...]:
    """Return how each rule stands; `fetch` runs a statement with its parameters."""
    found = {
        str(name): (str(body), bool(fires))
        for name, body, fires in fetch(FOUND, [layout.items.oid, layout.schema])
    }
    vectors = layout.vectors.oid if layout.vectors else None
    ((may_create, may_trigger, may_delete),) = fetch(RIGHTS, [layout.schema, layout.items.oid, vectors])
    lacking = ", ".join(
        right
        for right, is_there in (
            (f"CREATE on the schema {layout.schema}", may_create),
            (f"TRIGGER on {layout.items.name}", may_trigger),
            (f"DELETE on {layout.items.name}_vectors", may_delete),
        )
        if not is_there
    )
    return tuple(_guard(rule, layout, found, lacking) for rule in RULES)


def install(cursor: Cursor, layout: Layout, found: Sequence[Guard], rules: Sequence[str]) -> None:
    """Install rules, inside a transaction that is under way; `found` says how they stand."""
    for guard in found:
        if guard.rule not in rules or guard.state not in (State.ABSENT, State.OUTDATED):
            continue
        _drop(cursor, layout, guard.rule)
        parts = _parts(layout, _name(layout, guard.rule))
        body = sql.SQL(BODIES[guard.rule]).format(**parts).as_string(None)
        cursor.execute(sql.SQL(FUNCTION).format(body=sql.Literal(body), **parts))
        cursor.execute(sql.SQL(PRIVATE).format(**parts))
        cursor.execute(sql.SQL(TRIGGERS[guard.rule]).format(**parts))


def remove(cursor: Cursor, layout: Layout, rules: Sequence[str]) -> None:
    """Remove rules, inside a transaction that is under way."""
    for rule in rules:
        _drop(cursor, layout, rule)


def _guard(rule: str, layout: Layout, found: dict[str, tuple[str, bool]], lacking: str) -> Guard:
    reason = needless(rule, layout)
    own = {name: part for name, part in found.items() if _rule_of(name, layout) == rule}
    if reason and not own:
        return Guard(rule, State.NEEDLESS, reason=reason)
    name = _name(layout, rule)
    if not own:
        state = State.OFF if lacking else State.ABSENT
        return Guard(rule, state, (name,), f"the role lacks {lacking}" if lacking else "")
    body = sql.SQL(BODIES[rule]).format(**_parts(layout, name)).as_string(None)
    return Guard(rule, State.INSTALLED if own == {name: (body, True)} else State.OUTDATED, (name,))


def needless(rule: str, layout: Layout) -> str:
    """Say why a store does not need a rule; nothing where it does."""
    if rule == "keep-created-at":
        return "the library itself keeps created_at here"
    if rule == "whole-ttl":
        column = layout.items.columns.get("ttl_minutes")
        if column is None:
            return "the store has no TTL columns"
        return "" if column.type in ("int2", "int4", "int8") else "the column keeps fractions of a minute"
    if layout.vectors is None:
        return "the store has no vectors"
    if rule == "cascade-vectors" and layout.cascade:
        return "the foreign key does that"
    return ""


def _drop(cursor: Cursor, layout: Layout, rule: str) -> None:
    for name, _, _ in cursor.execute(FOUND, layout.items.oid, layout.schema):
        if _rule_of(str(name), layout) == rule:
            parts = _parts(layout, str(name))
            cursor.execute(sql.SQL(DROP_TRIGGER).format(**parts))
            cursor.execute(sql.SQL(DROP_FUNCTION).format(**parts))


def _name(layout: Layout, rule: str) -> str:
    """Name a rule's function and trigger; a table with a long name gives only its beginning."""
    tail = f"_{rule.replace('-', '_')}_{VERSION}"
    head = f"memctl_guard_{layout.items.name}"
    return head.encode()[: _LONGEST_NAME - len(tail)].decode(errors="ignore") + tail


def _rule_of(name: str, layout: Layout) -> str | None:
    """Tell to which rule of this store a function belongs, whatever version made it."""
    for rule in RULES:
        stem = _name(layout, rule).removesuffix(str(VERSION))
        if re.fullmatch(re.escape(stem) + r"\d+", name):
            return rule
    return None


def _parts(layout: Layout, name: str) -> dict[str, sql.Composable]:
    return {
        "name": sql.Identifier(name),
        "function": sql.Identifier(layout.schema, name),
        "items": sql.Identifier(layout.schema, layout.items.name),
        "vectors": sql.Identifier(layout.schema, f"{layout.items.name}_vectors"),
    }
