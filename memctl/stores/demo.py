"""The sample store of `memctl demo`: three people of Acme Bicycles and what their assistant remembers.

Most of it is in good order; the rest has some of each fault that these stores are known for. `demo.json`
holds the rows, with times as seconds from the moment at which the demo is made, and real vectors of the
model in the wheel `wordllama`. `tests/tools/make_demo.py` generates it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

from memctl.errors import MemctlError, Refused
from memctl.stores.sqlite import schema as sqlite_schema

INSERT_ITEM = (
    "INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)"
    " VALUES (?, CAST(? AS TEXT), ?, ?, ?, ?, ?)"
)
INSERT_VECTOR = (
    "INSERT INTO store_vectors (prefix, key, field_name, embedding, created_at, updated_at)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
INSERT_CHECKPOINT = (
    "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata)"
    " VALUES (?, '', ?, 'json', ?, ?)"
)

SUGGESTIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("ls", "--tree"), "what is remembered, and about whom"),
    (("search", "kestrel"), "everything that mentions the new bicycle"),
    (("search", "--like", "acme.ana.facts", "diet"), "what is close to this memory: one contradicts it"),
    (("get", "acme.ana.filesystem", "/notes.md"), "a file that an agent keeps"),
    (("stats",), "sizes, ages, and what expires when"),
)
"""What to try next: the arguments of a command, to be shown with the store named, and what it shows."""


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What the demo holds: `items` and `vectors` are rows, orphaned vectors included."""

    items: int
    vectors: int
    namespaces: int
    expired: int
    dims: int
    users: tuple[str, ...]
    organisations: tuple[str, ...]


def create_demo(path: Path, now: datetime) -> DemoSummary:
    """Make the sample store at `path`, as of `now` (aware): the same rows for the same `now`.

    The file appears under its name when it is complete, and never replaces another. Raises MemctlError with
    the code `file-exists` when there is something at `path`, `no-folder` when there is no folder for it,
    Refused when the folder cannot be written.
    """
    if os.path.lexists(path):
        raise _exists(path)
    if not path.parent.is_dir():
        raise MemctlError(f"there is no folder {path.parent}", code="no-folder")
    data = json.loads(resources.files("memctl.stores").joinpath("demo.json").read_bytes())
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with closing(_new_file(unfinished)) as connection:
            _fill(connection, data, now.astimezone(UTC))
        _publish(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    expiries = [_moment(item.get("expires_at"), now) for item in data["items"]]
    return DemoSummary(
        items=len(data["items"]),
        vectors=len(data["vectors"]),
        namespaces=len({item["prefix"] for item in data["items"]}),
        expired=sum(expiry is not None and expiry <= now for expiry in expiries),
        dims=data["dims"],
        users=tuple(data["users"]),
        organisations=tuple(data["organisations"]),
    )


def _new_file(path: Path) -> sqlite3.Connection:
    try:
        path.touch(exist_ok=False)
    except OSError as error:
        raise Refused(f"cannot write in {path.parent}: {error.strerror}") from error
    return sqlite3.connect(path, isolation_level=None)


def _publish(unfinished: Path, path: Path) -> None:
    """Give the finished file its name, unless something has taken that name meanwhile."""
    try:
        path.hardlink_to(unfinished)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without hard links: the name is taken first, and then filled
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            raise _exists(path) from None
        unfinished.replace(path)


def _exists(path: Path) -> MemctlError:
    return MemctlError(
        f"{path} is there already, and the demo replaces nothing",
        hint="name another file, or remove this one",
        code="file-exists",
    )


def _fill(connection: sqlite3.Connection, data: dict[str, Any], now: datetime) -> None:
    sqlite_schema.create(connection, vectors=True)
    connection.execute("BEGIN")
    for statement in sqlite_schema.CHECKPOINTER:
        connection.execute(statement)
    connection.executemany(INSERT_ITEM, (_item_row(item, now) for item in data["items"]))
    connection.executemany(INSERT_VECTOR, (_vector_row(vector, now) for vector in data["vectors"]))
    threads = data["threads"].items()
    connection.executemany(INSERT_CHECKPOINT, (_checkpoint_row(name, at, now) for name, at in threads))
    connection.execute("COMMIT")


def _item_row(item: dict[str, Any], now: datetime) -> tuple[object, ...]:
    key, value = item.get("key"), item.get("value")
    return (
        item["prefix"],
        base64.b64decode(item["key_base64"]) if key is None else key.encode(),
        base64.b64decode(item["value_base64"]) if value is None else _json_text(value, now),
        *(_stamp(item.get(column), now) for column in ("created_at", "updated_at", "expires_at")),
        item.get("ttl_minutes"),
    )


def _vector_row(vector: dict[str, Any], now: datetime) -> tuple[object, ...]:
    return (
        *(vector[column] for column in ("prefix", "key", "field")),
        base64.b64decode(vector["embedding"]),
        *(_stamp(vector[column], now) for column in ("created_at", "updated_at")),
    )


def _checkpoint_row(thread: str, seconds: int, now: datetime) -> tuple[object, ...]:
    """Return the one checkpoint of a conversation that has nothing in its channels."""
    moment = _at(seconds, now).isoformat()
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{thread}/{moment}"))
    checkpoint = {
        "v": 4,
        "id": identity,
        "ts": moment,
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }
    metadata = {"source": "loop", "step": 1, "parents": {}}
    return (thread, identity, _json_text(checkpoint, now), _json_text(metadata, now))


def _json_text(value: object, now: datetime) -> bytes:
    """Return a value as the bytes that `orjson.dumps`, and so the library, makes of it.

    An object `{"$at": SECONDS}` becomes the ISO 8601 text of that instant.
    """

    def resolve(mapping: dict[str, Any]) -> Any:
        return _at(mapping["$at"], now).isoformat() if mapping.keys() == {"$at"} else mapping

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if '{"$at":' in text:
        text = json.dumps(json.loads(text, object_hook=resolve), ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _at(seconds: float, now: datetime) -> datetime:
    return now + timedelta(seconds=seconds)


def _seconds(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


_SPELLINGS: dict[str, Callable[[datetime], str | int]] = {
    "put": lambda moment: moment.isoformat(" "),
    "iso": lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S}Z",
    "zone": lambda moment: f"{_seconds(moment + timedelta(hours=2))}+02:00",
    "epoch": lambda moment: int(moment.timestamp()),
}
"""How an instant can be written besides the library's usual whole seconds; `put` is the library's expiry."""


def _stamp(stamp: float | dict[str, Any] | None, now: datetime) -> str | int | None:
    """Return what stands in a timestamp column; `{"raw": TEXT}` stands there as it is."""
    if stamp is None:
        return None
    if not isinstance(stamp, dict):
        return _seconds(_at(stamp, now))
    ((spelling, value),) = stamp.items()
    return str(value) if spelling == "raw" else _SPELLINGS[spelling](_at(value, now))


def _moment(stamp: float | dict[str, Any] | None, now: datetime) -> datetime | None:
    """Return the instant that a stamp means."""
    seconds = next(iter(stamp.values())) if isinstance(stamp, dict) else stamp
    return None if seconds is None else _at(seconds, now)
