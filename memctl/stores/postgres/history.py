"""History in a PostgreSQL database: one trigger, and two tables that `off --drop` removes.

The function runs as its owner, so that a role that knows LangGraph's tables only goes on writing; its `search_path`
is pinned and nobody else may call it. `session_user` is the role recorded. It fires on `prefix`, `key` and `value`:
a TTL refresh by a read sets neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from psycopg import sql

from memctl.history import Entry, Operation, Status
from memctl.instants import from_datetime
from memctl.model import Instant, Scope
from memctl.stores.postgres import decode as rows_as
from memctl.stores.postgres.layout import Layout
from memctl.stores.postgres.transactions import Cursor

VERSION = 1
PAGE_ROWS = 500
Fetch = Callable[..., list[tuple[Any, ...]]]

META = "CREATE TABLE {meta} (name text PRIMARY KEY, value text)"
HISTORY = """
CREATE TABLE {history} (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    operation text NOT NULL,
    prefix text NOT NULL,
    key text NOT NULL,
    value jsonb,
    created_at timestamptz,
    updated_at timestamptz,
    expires_at timestamptz,
    ttl_minutes {ttl_type},
    role text NOT NULL DEFAULT session_user,
    application text DEFAULT current_setting('application_name', true))
"""
INDEX = "CREATE INDEX {index} ON {history} (prefix text_pattern_ops, key, seq)"
BODY = """
DECLARE
    scope text := (SELECT value FROM {meta} WHERE name = 'scope');
    kind text := 'changed';
BEGIN
    IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND (OLD.prefix, OLD.key) <> (NEW.prefix, NEW.key)) THEN
        IF scope IS NULL OR NEW.prefix = scope OR starts_with(NEW.prefix, scope || '.') THEN
            INSERT INTO {history} (operation, prefix, key) VALUES ('created', NEW.prefix, NEW.key);
        END IF;
        kind := 'deleted';
    END IF;
    IF TG_OP <> 'INSERT' AND (scope IS NULL OR OLD.prefix = scope OR starts_with(OLD.prefix, scope || '.')) THEN
        IF TG_OP = 'DELETE' THEN
            kind := CASE WHEN {expired} THEN 'expired' ELSE 'deleted' END;
        END IF;
        INSERT INTO {history} (operation, prefix, key, value, created_at, updated_at{columns})
        VALUES (kind, OLD.prefix, OLD.key, OLD.value, OLD.created_at, OLD.updated_at{cells});
    END IF;
    RETURN NULL;
END"""
FUNCTION = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS {body}
"""
PRIVATE = "REVOKE ALL ON FUNCTION {function}() FROM PUBLIC"
TRIGGER = """
CREATE TRIGGER {name} AFTER INSERT OR DELETE OR UPDATE OF prefix, key, value ON {items}
FOR EACH ROW EXECUTE FUNCTION {function}()
"""
DROP_TRIGGER = "DROP TRIGGER IF EXISTS {name} ON {items}"
DROP_FUNCTION = "DROP FUNCTION IF EXISTS {function}()"
DROP_TABLE = "DROP TABLE IF EXISTS {table}"
SET = "INSERT INTO {meta} VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value"
FOUND = """
SELECT to_regclass(%s) IS NOT NULL,
       (SELECT p.prosrc FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = %s AND t.tgname = %s AND t.tgenabled <> 'D')
"""
READ_META = "SELECT name, value FROM {meta}"
READ_SIZE = "SELECT count(*), coalesce(sum(octet_length(value::text)), 0)::int8 FROM {history}"
ENTRIES = """
SELECT prefix, key, value::text, octet_length(value::text), created_at::varchar, updated_at::varchar,
       expires_at::varchar, ttl_minutes, seq, at, operation, role, application
FROM {history} WHERE {condition} ORDER BY seq {direction} LIMIT {rows}
"""
FORMER = """
SELECT DISTINCT ON (prefix COLLATE "C", key COLLATE "C")
       prefix, key, value::text, octet_length(value::text), created_at::varchar, updated_at::varchar,
       expires_at::varchar, ttl_minutes, seq, at, operation, role, application
FROM {history} WHERE {condition} ORDER BY prefix COLLATE "C", key COLLATE "C", seq
"""
PRUNE = "DELETE FROM {history} WHERE at <= %s RETURNING 1"
FORGET = "DELETE FROM {history} WHERE {condition} RETURNING 1"
SUBTREE = "(prefix = %(prefix)s OR (prefix ~>=~ (%(prefix)s || '.') AND prefix ~<~ (%(prefix)s || '/')))"


class History:
    """The history of one store; reading takes `fetch`, writing the cursor of a transaction."""

    def __init__(self, layout: Layout) -> None:
        head = "memctl_history" if layout.items.name == "store" else f"memctl_history_{layout.items.name}"
        self._layout, self._head = layout, head
        schema = layout.schema
        has_expiry = layout.items.has("expires_at", "ttl_minutes")
        self._names: dict[str, sql.Composable] = {
            "items": sql.Identifier(schema, layout.items.name),
            "history": sql.Identifier(schema, head),
            "meta": sql.Identifier(schema, f"{head}_meta"),
            "index": sql.Identifier(f"{head}_item"),
            "function": sql.Identifier(schema, f"{head}_record"),
            "name": sql.Identifier(f"{head}_record"),
            "ttl_type": sql.SQL(layout.items.columns["ttl_minutes"].type if has_expiry else "int4"),
            "expired": sql.SQL(
                "OLD.expires_at IS NOT NULL AND OLD.expires_at <= clock_timestamp()"
                if has_expiry
                else "FALSE"
            ),
            "columns": sql.SQL(", expires_at, ttl_minutes" if has_expiry else ""),
            "cells": sql.SQL(", OLD.expires_at, OLD.ttl_minutes" if has_expiry else ""),
        }

    def status(self, fetch: Fetch) -> Status | None:
        """Return how it stands."""
        table = self._sql("{history}").as_string(None)
        ((is_there, body),) = fetch(FOUND, [table, self._layout.items.oid, f"{self._head}_record"])
        if not is_there:
            return None
        meta: dict[str, str | None] = dict(fetch(self._sql(READ_META), []))
        ((entries, octets),) = fetch(self._sql(READ_SIZE), [])
        retain = meta.get("retain")
        return Status(
            is_on=body is not None,
            scope=meta.get("scope"),
            retain_minutes=None if retain is None else float(retain),
            since=str(meta["since"]),
            entries=int(entries),
            octets=int(octets),
            is_current=body in (None, self._body),
        )

    def entries(
        self,
        fetch_raw: Fetch,
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
            where, bound = _within(scope, key)
            where += " AND seq > %(after)s"
            bound["after"] = after
            if last is not None:
                where += f" AND seq {'>' if oldest_first else '<'} %(last)s"
                bound["last"] = last
            if since is not None:
                where += " AND at >= %(since)s::timestamptz"
                bound["since"] = since
            if operations:
                where += " AND operation = ANY(%(operations)s::text[])"
                bound["operations"] = [operation.value for operation in operations]
            query = self._sql(
                ENTRIES,
                condition=sql.SQL(where),
                direction=sql.SQL("ASC" if oldest_first else "DESC"),
                rows=sql.Literal(PAGE_ROWS),
            )
            rows = fetch_raw(query, bound)
            yield from map(_entry, rows)
            if len(rows) < PAGE_ROWS:
                return
            last = rows[-1][8]

    def former(
        self, fetch_raw: Fetch, scope: Scope, *, seq: int | None, at: Instant | None
    ) -> Iterator[Entry]:
        """Yield the first entry of each name that counts."""
        where, bound = _within(scope, None)
        if seq is not None:
            where += " AND seq >= %(seq)s"
            bound["seq"] = seq
        if at is not None:
            where += " AND at > %(at)s::timestamptz"
            bound["at"] = at
        yield from map(_entry, fetch_raw(self._sql(FORMER, condition=sql.SQL(where)), bound))

    def switch_on(
        self, cursor: Cursor, status: Status | None, scope: str | None, retain: float | None, now: Instant
    ) -> None:
        """Make tables and trigger."""
        if status is None:
            for statement in (META, HISTORY, INDEX):
                cursor.execute(self._sql(statement))
        if status is None or not status.is_on or not status.is_current:
            cursor.execute(self._sql(FUNCTION, body=sql.Literal(self._body)))
            cursor.execute(self._sql(PRIVATE))
            cursor.execute(self._sql(DROP_TRIGGER))
            cursor.execute(self._sql(TRIGGER))
        if status is None or not status.is_on or status.scope != scope:
            self._set(cursor, "since", now)
        self._set(cursor, "version", str(VERSION))
        self._set(cursor, "scope", scope)
        self._set(cursor, "retain", None if retain is None else repr(retain))

    def switch_off(self, cursor: Cursor, *, drop: bool) -> None:
        """Remove the trigger, and with `drop` the tables."""
        cursor.execute(self._sql(DROP_TRIGGER))
        cursor.execute(self._sql(DROP_FUNCTION))
        if drop:
            for table in ("history", "meta"):
                cursor.execute(self._sql(DROP_TABLE, table=self._names[table]))

    def prune(self, cursor: Cursor, status: Status, until: Instant) -> int:
        """Delete entries up to `until`."""
        gone = len(cursor.execute(self._sql(PRUNE), until))
        if status.since < until:
            self._set(cursor, "since", until)
        return gone

    def forget(self, cursor: Cursor, scope: Scope) -> int:
        """Delete all entries of the items in `scope`."""
        where = sql.SQL("TRUE")
        if scope.prefix is not None:
            text = SUBTREE if scope.descend else "prefix = %(prefix)s"
            literal = sql.Literal(scope.prefix)
            where = sql.SQL(text.replace("%(prefix)s", "{}")).format(*[literal] * text.count("%(prefix)s"))  # type: ignore[assignment]
        return len(cursor.execute(self._sql(FORGET, condition=where)))

    @property
    def _body(self) -> str:
        return self._sql(BODY).as_string(None)

    def _set(self, cursor: Cursor, name: str, value: str | None) -> None:
        cursor.execute(self._sql(SET), name, value)

    def _sql(self, template: str, **parts: sql.Composable) -> sql.Composed:
        return sql.SQL(template).format(**self._names | parts)


def _within(scope: Scope, key: str | None) -> tuple[str, dict[str, object]]:
    where, bound = "TRUE", dict[str, object]()
    if scope.prefix is not None:
        where += f" AND {SUBTREE if scope.descend else 'prefix = %(prefix)s'}"
        bound["prefix"] = scope.prefix
    if key is not None:
        where += " AND key = %(key)s"
        bound["key"] = key
    return where, bound


def _entry(row: tuple[Any, ...]) -> Entry:
    """Make an entry of a row whose text came as octets."""
    seq, at, operation, role, application = row[8:]
    kind = Operation(_text(operation))
    item = rows_as.item(row[:8], row[2])
    return Entry(
        seq,
        from_datetime(at),
        kind,
        item.prefix,
        item.key,
        None if kind is Operation.CREATED else item,
        _text(role),
        _text(application) or None,
    )


def _text(cell: bytes | str | None) -> str:
    return cell.decode(errors="replace") if isinstance(cell, bytes) else cell or ""
