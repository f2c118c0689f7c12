"""History in a SQLite file: triggers, and three tables that `off --drop` removes.

The same holds of the library's `INSERT OR REPLACE` as in `guard`: the former row is noted before an insert and
fetched after it. With `recursive_triggers` a replaced row is reported as deleted in between; that entry is taken
back. No AUTOINCREMENT, which leaves a table of its own: the next number stands in the meta table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memctl.history import Entry, Operation, Status
from memctl.instants import to_datetime
from memctl.model import Instant, Scope, encode
from memctl.stores.sqlite.decode import instant_of, item_of
from memctl.stores.sqlite.ranges import Bound, Cut, parts_of

VERSION = 1
PAGE_ROWS = 500

_NEW = "prefix = NEW.prefix AND key = NEW.key"
_ROW = "value, created_at, updated_at, {expires_at}, {ttl_minutes}"
_NEXT = "(SELECT value FROM \"{meta}\" WHERE name = 'next')"
_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
_COUNT_ON = "UPDATE \"{meta}\" SET value = value + 1 WHERE name = 'next'"
_SCOPE = """EXISTS (SELECT 1 FROM "{meta}" WHERE name = 'scope'
AND (value IS NULL OR {row}.prefix = value OR substr({row}.prefix, 1, length(value) + 1) = value || '.'))"""
_OLD_ROW = "OLD.value, OLD.created_at, OLD.updated_at, {old_expiry}"
_GONE = """CASE WHEN {old_expires_at} IS NOT NULL AND datetime({old_expires_at}) <= datetime('now')
THEN 'expired' ELSE 'deleted' END"""

TABLES = {
    "meta": 'CREATE TABLE "{name}" (name TEXT PRIMARY KEY, value) WITHOUT ROWID',
    "history": """CREATE TABLE "{name}" (seq INTEGER PRIMARY KEY, at TEXT NOT NULL, operation TEXT NOT NULL,
prefix text NOT NULL, key text NOT NULL, value, created_at, updated_at, expires_at, ttl_minutes)""",
    "index": 'CREATE INDEX "{name}" ON "{history}" (prefix, key, seq)',
    "pending": """CREATE TABLE "{name}" (prefix text, key text, seq, value, created_at, updated_at, expires_at,
ttl_minutes, PRIMARY KEY (prefix, key)) WITHOUT ROWID""",
}
TRIGGERS = {
    "before_insert": 'CREATE TRIGGER "{name}" BEFORE INSERT ON "{table}" WHEN '
    + _SCOPE.replace("{row}", "NEW")
    + """ BEGIN
DELETE FROM "{pending}" WHERE """
    + _NEW
    + """;
INSERT INTO "{pending}" SELECT prefix, key, """
    + _NEXT
    + ", "
    + _ROW
    + ' FROM "{table}" WHERE '
    + _NEW
    + """;
END""",
    "after_insert": 'CREATE TRIGGER "{name}" AFTER INSERT ON "{table}" WHEN '
    + _SCOPE.replace("{row}", "NEW")
    + """ BEGIN
DELETE FROM "{history}" WHERE """
    + _NEW
    + """ AND operation IN ('deleted', 'expired')
AND seq >= (SELECT seq FROM "{pending}" WHERE """
    + _NEW
    + """);
INSERT INTO "{history}" SELECT """
    + _NEXT
    + ", "
    + _NOW
    + """, CASE WHEN was.seq IS NULL THEN 'created' ELSE 'changed' END,
NEW.prefix, NEW.key, was.value, was.created_at, was.updated_at, was.expires_at, was.ttl_minutes
FROM (SELECT 1) LEFT JOIN "{pending}" AS was ON was.prefix = NEW.prefix AND was.key = NEW.key;
"""
    + _COUNT_ON
    + """;
DELETE FROM "{pending}" WHERE """
    + _NEW
    + """;
END""",
    "after_update": 'CREATE TRIGGER "{name}" AFTER UPDATE OF value ON "{table}" WHEN '
    + _SCOPE.replace("{row}", "NEW")
    + """ AND OLD.prefix = NEW.prefix AND OLD.key = NEW.key BEGIN
DELETE FROM "{pending}" WHERE """
    + _NEW
    + """;
INSERT INTO "{history}" SELECT """
    + _NEXT
    + ", "
    + _NOW
    + ", 'changed', OLD.prefix, OLD.key, "
    + _OLD_ROW
    + """;
"""
    + _COUNT_ON
    + """;
END""",
    "after_rename": """CREATE TRIGGER "{name}" AFTER UPDATE OF prefix, key ON "{table}"
WHEN OLD.prefix <> NEW.prefix OR OLD.key <> NEW.key BEGIN
INSERT INTO "{history}" SELECT """
    + _NEXT
    + ", "
    + _NOW
    + ", 'deleted', OLD.prefix, OLD.key, "
    + _OLD_ROW
    + " WHERE "
    + _SCOPE.replace("{row}", "OLD")
    + """;
"""
    + _COUNT_ON
    + """;
INSERT INTO "{history}" SELECT """
    + _NEXT
    + ", "
    + _NOW
    + ", 'created', NEW.prefix, NEW.key, NULL, NULL, NULL, NULL, NULL WHERE "
    + _SCOPE.replace("{row}", "NEW")
    + """;
"""
    + _COUNT_ON
    + """;
END""",
    "after_delete": 'CREATE TRIGGER "{name}" AFTER DELETE ON "{table}" WHEN '
    + _SCOPE.replace("{row}", "OLD")
    + """ BEGIN
INSERT INTO "{history}" SELECT """
    + _NEXT
    + ", "
    + _NOW
    + ", "
    + _GONE
    + ", OLD.prefix, OLD.key, "
    + _OLD_ROW
    + """;
"""
    + _COUNT_ON
    + """;
END""",
}
_ENTRIES = """SELECT prefix, key, value, 0, created_at, updated_at, expires_at, ttl_minutes, 0, seq, at, operation
FROM "{history}" """


class History:
    """The history of one table in one file; `sql` fills a template with the store's columns."""

    def __init__(
        self, connection: sqlite3.Connection, table: str, sql: Callable[..., str], *, expiry: bool
    ) -> None:
        self._connection, self._table = connection, table
        self._names = _names(table)
        quoted = {part: name.replace('"', '""') for part, name in self._names.items()}
        old = ("OLD.expires_at", "OLD.ttl_minutes") if expiry else ("NULL", "NULL")
        self._parts = {
            **quoted,
            "table": table.replace('"', '""'),
            "old_expiry": ", ".join(old),
            "old_expires_at": old[0],
        }
        self._fill = sql

    def status(self) -> Status | None:
        """Return how it stands."""
        found = self._found()
        if self._names["history"] not in found:
            return None
        wanted = {self._names[part]: " ".join(self._sql(sql, part).split()) for part, sql in TRIGGERS.items()}
        triggers = {name: " ".join(sql.split()) for name, sql in found.items() if name in wanted}
        meta = {_text(name): value for name, value in self._rows('SELECT name, value FROM "{meta}"')}
        ((entries, octets),) = self._rows('SELECT count(*), coalesce(sum(length(value)), 0) FROM "{history}"')
        retain = meta.get("retain")
        return Status(
            is_on=bool(triggers),
            scope=None if meta.get("scope") is None else _text(meta["scope"]),
            retain_minutes=None if retain is None else float(retain),
            since=_text(meta["since"]),
            entries=entries,
            octets=int(octets),
            is_current=triggers == wanted or not triggers,
        )

    def entries(
        self,
        scope: Scope,
        *,
        key: str | None,
        after: int,
        since: Instant | None,
        operations: Sequence[Operation],
        oldest_first: bool,
    ) -> Iterator[Entry]:
        """Yield entries, a page at a time."""
        last: int | None = None
        while True:
            conditions, values = ["seq > ?"], [after]
            if last is not None:
                conditions.append(f"seq {'>' if oldest_first else '<'} ?")
                values.append(last)
            more, bound = _within(scope, key)
            sql = _ENTRIES + " WHERE " + " AND ".join([*conditions, *more])
            bound = [*values, *bound]
            if since is not None:
                sql += " AND at >= ?"
                bound.append(_at(since))
            if operations:
                sql += f" AND operation IN ({', '.join('?' * len(operations))})"
                bound += [operation.value for operation in operations]
            sql += f" ORDER BY seq {'ASC' if oldest_first else 'DESC'} LIMIT {PAGE_ROWS}"
            rows = self._rows(sql, bound)
            yield from map(_entry, rows)
            if len(rows) < PAGE_ROWS:
                return
            last = rows[-1][9]

    def former(self, scope: Scope, *, seq: int | None, at: Instant | None) -> Iterator[Entry]:
        """Yield the first entry of each name that counts."""
        if at is not None:
            found = self._rows('SELECT min(seq) FROM "{history}" WHERE at > ?', [_at(at)])
            seq = found[0][0]
            if seq is None:
                return
        pending = list(reversed(parts_of(scope)))
        while pending:
            part = pending.pop()
            where, values = part.condition
            sql = _ENTRIES.replace("seq,", "min(seq),") + (
                f" WHERE {where} AND seq >= ? GROUP BY prefix, key ORDER BY prefix, key LIMIT {PAGE_ROWS}"
            )
            rows = self._rows(sql, (*values, seq))
            yield from map(_entry, rows)
            if len(rows) == PAGE_ROWS:
                cut = Cut(Bound(rows[-1][0]), Bound(rows[-1][1]))
                pending.extend(reversed(part.after(cut)))

    def switch_on(self, scope: str | None, retain: float | None, now: Instant) -> None:
        """Make tables and triggers, inside a transaction that is under way."""
        status = self.status()
        if status is None:
            for part, sql in TABLES.items():
                self._connection.execute(self._sql(sql, part))
            self._connection.execute(self._sql("INSERT INTO \"{meta}\" VALUES ('next', 1)"))
        if status is None or not status.is_on or not status.is_current or status.scope != scope:
            self._drop_triggers()
            for part, sql in TRIGGERS.items():
                self._connection.execute(self._sql(sql, part))
            if status is None or not status.is_on or status.scope != scope:
                self._set("since", now)
        self._set("version", VERSION)
        self._set("scope", scope)
        self._set("retain", retain)

    def switch_off(self, *, drop: bool) -> None:
        """Remove the triggers, and with `drop` the tables, inside a transaction that is under way."""
        self._drop_triggers()
        if drop:
            for part in ("pending", "history", "meta"):
                self._connection.execute(self._sql('DROP TABLE IF EXISTS "{' + part + '}"'))
        elif self.status() is not None:
            self._connection.execute(self._sql('DELETE FROM "{pending}"'))

    def prune(self, until: Instant) -> int:
        """Delete entries up to `until`, inside a transaction that is under way."""
        gone = self._connection.execute(
            self._sql('DELETE FROM "{history}" WHERE at <= ?'), [_at(until)]
        ).rowcount
        status = self.status()
        if status is not None and status.since < until:
            self._set("since", until)
        return gone

    def forget(self, scope: Scope) -> int:
        """Delete all entries of the items in `scope`, inside a transaction that is under way."""
        gone = 0
        for part in parts_of(scope):
            where, values = part.condition
            for name in ("history", "pending"):
                cursor = self._connection.execute(
                    self._sql('DELETE FROM "{' + name + '}" WHERE ' + where), values
                )
                gone += cursor.rowcount if name == "history" else 0
        return gone

    def _found(self) -> dict[str, str]:
        rows = self._connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {_text(name): _text(sql) for name, sql in rows}

    def _drop_triggers(self) -> None:
        for part in TRIGGERS:
            self._connection.execute(self._sql('DROP TRIGGER IF EXISTS "{' + part + '}"'))

    def _set(self, name: str, value: object) -> None:
        self._connection.execute(self._sql('INSERT OR REPLACE INTO "{meta}" VALUES (?, ?)'), (name, value))

    def _rows(self, template: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(self._sql(template), values).fetchall()

    def _sql(self, template: str, part: str = "") -> str:
        return self._fill(template, **self._parts, name=self._parts.get(part, ""))


def _names(table: str) -> dict[str, str]:
    head = "memctl_history" if table == "store" else f"memctl_history_{table}"
    names = {"history": head, "meta": f"{head}_meta", "pending": f"{head}_pending", "index": f"{head}_item"}
    return names | {part: f"{head}_{part}" for part in TRIGGERS}


def _within(scope: Scope, key: str | None) -> tuple[list[str], list[Any]]:
    """Return the condition for a part of the store, and what it binds."""
    conditions: list[str] = []
    values: list[Any] = []
    if scope.prefix is not None:
        prefix = encode(scope.prefix)
        if scope.descend:
            conditions.append(
                "(prefix = CAST(? AS TEXT) OR (prefix >= CAST(? AS TEXT) AND prefix < CAST(? AS TEXT)))"
            )
            values += [prefix, prefix + b".", prefix + b"/"]
        else:
            conditions.append("prefix = CAST(? AS TEXT)")
            values.append(prefix)
    if key is not None:
        conditions.append("key = CAST(? AS TEXT)")
        values.append(encode(key))
    return conditions, values


def _at(instant: Instant) -> str:
    """Spell an instant as the triggers do: to the millisecond, rounded down."""
    moment = to_datetime(instant)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"


def _entry(row: tuple[Any, ...]) -> Entry:
    seq, at, operation = row[9:]
    item = item_of(row[:9], ())
    kind = Operation(_text(operation))
    moment, _ = instant_of(_bytes(at))
    return Entry(seq, moment or "", kind, item.prefix, item.key, None if kind is Operation.CREATED else item)


def _text(cell: bytes | str) -> str:
    return cell.decode() if isinstance(cell, bytes) else cell


def _bytes(cell: bytes | str) -> bytes:
    return cell.encode() if isinstance(cell, str) else cell
