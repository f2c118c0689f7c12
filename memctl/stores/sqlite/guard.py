"""The guard in a SQLite file.

`INSERT OR REPLACE`, by which the library puts (`langgraph-checkpoint-sqlite` 3.1.2), fires no delete trigger
unless `recursive_triggers` is on, and an upsert fires BEFORE INSERT without AFTER INSERT: a row that was noted
and not fetched is dropped when its key is inserted, or updated, the next time. The library writes items before
their vectors. No trigger relies on the order among the triggers of one event.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence

from memctl.guard import RULES, Guard, State

VERSION = 1
NEW = "prefix = NEW.prefix AND key = NEW.key"
OLD = "prefix = OLD.prefix AND key = OLD.key"

PARTS: dict[str, dict[str, str]] = {
    "keep-created-at": {
        "created": """CREATE TABLE "{name}" (prefix text, key text, created_at TIMESTAMP, PRIMARY KEY (prefix, key))
WITHOUT ROWID""",
        "before_insert": """CREATE TRIGGER "{name}" BEFORE INSERT ON "{table}" BEGIN
DELETE FROM "{created}" WHERE """
        + NEW
        + """;
INSERT INTO "{created}" SELECT prefix, key, created_at FROM "{table}"
WHERE """
        + NEW
        + """ AND created_at GLOB '????-??-?? ??:??:??*';
END""",
        "after_insert": """CREATE TRIGGER "{name}" AFTER INSERT ON "{table}"
WHEN EXISTS (SELECT 1 FROM "{created}" WHERE """
        + NEW
        + """) BEGIN
UPDATE "{table}" SET created_at = (SELECT created_at FROM "{created}" WHERE """
        + NEW
        + """)
WHERE """
        + NEW
        + """;
DELETE FROM "{created}" WHERE """
        + NEW
        + """;
END""",
        "after_update": """CREATE TRIGGER "{name}" AFTER UPDATE OF value ON "{table}" BEGIN
DELETE FROM "{created}" WHERE """
        + NEW
        + """;
END""",
    },
    "cascade-vectors": {
        "after_delete": """CREATE TRIGGER "{name}" AFTER DELETE ON "{table}" BEGIN
DELETE FROM "{table}_vectors" WHERE """
        + OLD
        + """;
END""",
    },
    "fresh-vectors": {
        "after_insert": """CREATE TRIGGER "{name}" AFTER INSERT ON "{table}" BEGIN
DELETE FROM "{table}_vectors" WHERE """
        + NEW
        + """;
END""",
    },
}
"""What each rule is made of, in the order in which it is made."""

_FOUND = """SELECT type, name, sql FROM sqlite_master WHERE name LIKE 'memctl\\_guard\\_%' ESCAPE '\\'
ORDER BY type, name"""


def guards(connection: sqlite3.Connection, table: str, *, has_vectors: bool) -> tuple[Guard, ...]:
    """Return how each rule stands."""
    found = _found(connection, table)
    return tuple(_guard(rule, table, found, has_vectors) for rule in RULES)


def install(connection: sqlite3.Connection, table: str, rules: Sequence[str], *, has_vectors: bool) -> None:
    """Install rules, inside a transaction that is under way."""
    for guard in guards(connection, table, has_vectors=has_vectors):
        if guard.rule in rules and guard.state in (State.ABSENT, State.OUTDATED):
            _drop(connection, table, guard.rule)
            for statement in _statements(guard.rule, table).values():
                connection.execute(statement)


def remove(connection: sqlite3.Connection, table: str, rules: Sequence[str]) -> None:
    """Remove rules, inside a transaction that is under way."""
    for rule in rules:
        _drop(connection, table, rule)


def _guard(rule: str, table: str, found: dict[str, tuple[str, str]], has_vectors: bool) -> Guard:
    if rule not in PARTS:
        return Guard(rule, State.NEEDLESS, reason="a file keeps fractions of a minute")
    own = {name: sql for name, (_, sql) in found.items() if _rule_of(name, table) == rule}
    if not own and not has_vectors and rule != "keep-created-at":
        return Guard(rule, State.NEEDLESS, reason="the store has no vectors")
    wanted = _statements(rule, table)
    if not own:
        return Guard(rule, State.ABSENT, tuple(wanted))
    same = {name: _plain(sql) for name, sql in own.items()} == {
        name: _plain(sql) for name, sql in wanted.items()
    }
    return Guard(rule, State.INSTALLED if same else State.OUTDATED, tuple(wanted))


def _statements(rule: str, table: str) -> dict[str, str]:
    """Return the objects of a rule by name, each with the statement that makes it."""
    names = {part: _name(rule, table, part) for part in PARTS[rule]}
    quoted = {part: name.replace('"', '""') for part, name in names.items()}
    created = quoted.get("created", "")
    return {
        names[part]: sql.format(name=quoted[part], table=table.replace('"', '""'), created=created)
        for part, sql in PARTS[rule].items()
    }


def _name(rule: str, table: str, part: str) -> str:
    return f"memctl_guard_{table}_{rule.replace('-', '_')}_{part}_{VERSION}"


def _rule_of(name: str, table: str) -> str | None:
    """Tell to which rule an object belongs, whatever version made it."""
    for rule in RULES:
        if re.fullmatch(re.escape(f"memctl_guard_{table}_{rule.replace('-', '_')}_") + r"[a-z_]+_\d+", name):
            return rule
    return None


def _found(connection: sqlite3.Connection, table: str) -> dict[str, tuple[str, str]]:
    rows = (tuple(map(_text, row)) for row in connection.execute(_FOUND))
    return {name: (kind, sql) for kind, name, sql in rows if _rule_of(name, table)}


def _drop(connection: sqlite3.Connection, table: str, rule: str) -> None:
    for name, (kind, _) in _triggers_first(_found(connection, table)):
        if _rule_of(name, table) == rule and kind in ("trigger", "table"):
            quoted = name.replace('"', '""')
            connection.execute(f'DROP {kind.upper()} "{quoted}"')


def _triggers_first(found: dict[str, tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    return iter(sorted(found.items(), key=lambda entry: entry[1][0] != "trigger"))


def _plain(sql: str) -> str:
    return " ".join(sql.split())


def _text(cell: bytes | str | None) -> str:
    return cell.decode() if isinstance(cell, bytes) else cell or ""
