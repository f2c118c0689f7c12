"""The forms in which agents, LangMem and Deep Agents write their memories."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from demo_history import History, dated


def named(text: str) -> str:
    """Return a random-looking UUID, as LangMem gives its items, always the same for the same text."""
    return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))


def fact(
    history: History,
    user: str,
    age: str,
    key: str,
    text: str,
    source: str,
    *,
    confirmed: bool = True,
    ttl: float | None = None,
    index: bool = True,
    **more: Any,
) -> None:
    """Write a fact about a user, learnt in the conversation `source`."""
    subject = key.removesuffix("-2")
    value = {"subject": subject, "fact": text, "source": source, "confirmed": confirmed, **more}
    history.put(age, f"acme.{user}.facts", key, value, ttl=ttl, index=index)


def manager_memory(history: History, age: str, prefix: str, text: str) -> None:
    """Write a memory as LangMem's background manager does."""
    history.put(age, prefix, named(text), {"kind": "Memory", "content": {"content": text}})


def tool_memory(history: History, age: str, prefix: str, text: str) -> None:
    """Write a memory as LangMem's tool for the agent itself does."""
    history.put(age, prefix, named(text), {"content": text})


def file(history: History, created: str, modified: str, user: str, path: str, content: object) -> None:
    """Write a file as Deep Agents' StoreBackend does."""
    prefix = f"acme.{user}.filesystem"
    value = {
        "content": content,
        "encoding": "utf-8",
        "created_at": dated(created, f"{prefix}/{path}"),
        "modified_at": dated(modified, f"{prefix}/{path}"),
    }
    history.put(modified, prefix, path, value)
