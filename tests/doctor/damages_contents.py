"""Stores whose namespaces, values or items are damaged."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.backends import DIMS, Backend, RawItem, RawVector, SqliteBackend
from tests.doctor.damages import POSTGRES, SQLITE, Damage, agent

SPACE = ("acme", "ana", "memories")
PREFIX = "acme.ana.memories"
THEN, LATER = "2024-10-01T08:00:00.000000Z", "2024-11-01T08:00:00.000000Z"
BOTH = (SQLITE, POSTGRES)


def _put(backend: Backend, *items: tuple[tuple[str, ...], str, dict[str, Any]]) -> None:
    """A healthy store by the real library, and these items."""
    backend.create(vectors=False)
    with agent(backend, index=False) as store:
        store.put(("acme", "ana", "facts"), "home", {"subject": "home", "fact": "Ana lives in Lisbon"})
        for namespace, key, value in items:
            store.put(namespace, key, value)


def _insert(backend: Backend, *items: RawItem) -> None:
    """A healthy store by the real library, and rows that it would not write."""
    _put(backend)
    backend.insert(items)


def _row(key: str, value: str = "{}", prefix: str = "acme.ana.facts") -> RawItem:
    """A row of some time ago."""
    return RawItem(prefix, key, value, THEN, THEN)


def _reads_home(backend: Backend) -> None:
    with agent(backend, index=False) as store:
        store.put(("acme", "ana", "facts"), "desk", {"fact": "by the door"})
        assert {item.key for item in store.search(("acme", "ana"))} >= {"home", "desk"}
        assert store.list_namespaces()


# --- names --------------------------------------------------------------------------------------------------


def _unmeant_names(backend: Backend, folder: Path) -> None:
    """What `batch` took before it checked anything, and templates that were filled with nothing."""
    _put(
        backend,
        (("acme", "{user_id}", "memories"), "1", {"n": 1}),
        (("acme", "None", "memories"), "1", {"n": 1}),
        (("acme", "Ana", "facts"), "1", {"n": 1}),
        (("acme", "bo\n", "facts"), "1", {"n": 1}),
    )
    backend.insert(
        _row("1", prefix=prefix)
        for prefix in ("acme..facts", ".acme", "langgraph.probe", "acme.dana@example.com.facts")
    )


def _mixed_names(backend: Backend, folder: Path) -> None:
    spaces = [("al",), ("alice",), ("x", "a_1"), ("x", "ab1")]
    _put(backend, *((space, "1", {"n": 1}) for space in spaces))


def _category_first(backend: Backend, folder: Path) -> None:
    spaces = [("preferences", "ana"), ("preferences", "bo", "display"), ("memories",)]
    _put(backend, *((space, "1", {"n": 1}) for space in spaces))


# --- values and times ---------------------------------------------------------------------------------------


def _bad_values(backend: Backend, folder: Path) -> None:
    assert isinstance(backend, SqliteBackend)
    _put(backend)
    values = {
        "cut": b'{"fact": "Ana li',
        "list": b"[1, 2]",
        "latin": '{"fact": "café"}'.encode("latin-1"),
        "half": b'{"fact": "\\ud83d"}',
        "nul": b'{"fact": "\\u0000"}',
        "twice": b'{"fact": 1, "fact": 2}',
    }
    for key, value in values.items():
        backend.execute(
            "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES"
            f" ('acme.ana.facts', '{key}', x'{value.hex()}', '2024-10-01 08:00:00', '2024-10-01 08:00:00')"
        )
    backend.execute("UPDATE store SET key = CAST(x'636166e9' AS TEXT) WHERE key = 'cut'")


def _no_objects(backend: Backend, folder: Path) -> None:
    _insert(backend, _row("list", "[1, 2]"), _row("null", "null"), _row("n", "5"))


def _bad_times(backend: Backend, folder: Path) -> None:
    _insert(backend, *(_row(key) for key in ("null", "word", "number")))
    for key, cell in {"null": "NULL", "word": "'yesterday'", "number": "1727769600"}.items():
        backend.set_time("created_at", cell, key)


def _misspelled_times(backend: Backend, folder: Path) -> None:
    _insert(backend, *(_row(key) for key in ("t", "zone")))
    for key, cell in {"t": "'2024-10-01T08:00:00Z'", "zone": "'2024-10-01 10:00:00+02:00'"}.items():
        for column in ("created_at", "updated_at"):
            backend.set_time(column, cell, key)


def _no_times(backend: Backend, folder: Path) -> None:
    _insert(backend, replace(_row("null"), created_at=None), _row("never"))
    backend.set_time("created_at", "'-infinity'", "never")


# --- what agents write --------------------------------------------------------------------------------------


def _tool_among_managers(backend: Backend, folder: Path) -> None:
    """LangMem's own tool and background manager in one namespace, and the tool below it."""
    backend.create(vectors=False)
    with agent(backend, index=False) as store:
        langmem_pass(store)
        tool_note(store, SPACE, "Ana likes early trains")
        tool_note(store, (*SPACE, "work"), "Ana draws frames")
        tool_note(store, ("acme", "bo", "memories"), "Bo drinks his coffee black")
        with pytest.raises(KeyError, match="kind"):
            langmem_pass(store)
    backend.execute("UPDATE store SET key = 'early' WHERE prefix = 'acme.ana.memories' AND key <> 'default'")
    backend.execute("UPDATE store SET key = 'draws' WHERE prefix = 'acme.ana.memories.work'")


def _manager_lives(backend: Backend) -> None:
    with agent(backend, index=False) as store:
        langmem_pass(store)
        found = {item.value.content for item in manager_of(store).search()}
        assert found >= {"Ana likes early trains", "Ana draws frames"}


def manager_of(store: Any) -> Any:
    """LangMem's background manager on a model that has nothing to add."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what langmem 0.0.30 imports
        from langmem import create_memory_store_manager

    class Silent(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "silent"

        def bind_tools(self, tools: Any, **rest: Any) -> Any:
            return self

        def _generate(self, *arguments: Any, **rest: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage("nothing new"))])

    return create_memory_store_manager(
        Silent(), namespace=SPACE, store=store, default={"content": "Ana is a designer"}
    )


def langmem_pass(store: Any) -> None:
    """Let the manager go over its memories; it puts its default where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manager_of(store).invoke({"messages": [{"role": "user", "content": "Good morning"}]})


def tool_note(store: Any, namespace: tuple[str, ...], text: str) -> None:
    """Let LangMem's tool write a memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langmem import create_manage_memory_tool

        create_manage_memory_tool(namespace, store=store).invoke({"content": text, "action": "create"})


def _unreadable_files(backend: Backend, folder: Path) -> None:
    files = ("acme", "ana", "filesystem")
    times = {"created_at": "2024-10-01T08:00:00+00:00", "modified_at": "2024-10-01T08:00:00+00:00"}
    good = {"content": "# Notes", "encoding": "utf-8"}
    _put(
        backend,
        (files, "/notes.md", {**times, **good}),
        (files, "/old.txt", {**times, "content": ["a", "b"]}),
        (files, "/todo.md", {**times, "content": {"open": []}}),
        (files, "/empty.md", times),
        (files, "/lines.txt", {**times, "content": ["a", 1]}),
        (files, "/photo.png", {**times, "content": "x", "encoding": "base64"}),
    )


def _like_vectors(backend: Backend, folder: Path) -> None:
    """Two memories that say nearly the same, by an embedder that hears it."""
    backend.create()
    numbers = [0.5, -0.25, 0.125, 0.75, 0.3, -0.1, 0.2, 0.4][:DIMS]
    near = [number + 0.02 * (-1) ** place for place, number in enumerate(numbers)]
    far = numbers[::-1]
    rows = {"diet": (numbers, THEN), "diet-2": (near, LATER), "home": (far, THEN)}
    backend.insert(
        RawItem(
            "acme.ana.facts",
            key,
            f'{{"subject": "{key.removesuffix("-2")}", "text": "{key}"}}',
            at,
            at,
            vectors=(RawVector("text", tuple(vector), at, at),),
        )
        for key, (vector, at) in rows.items()
    )


def _one_subject(backend: Backend, folder: Path) -> None:
    _put(backend, *((("acme", "ana", "facts"), key, {"subject": "home", "fact": key}) for key in ("a", "b")))


def _pile(backend: Backend, folder: Path) -> None:
    """A snippet a week under random keys."""
    text = "User said: can you look at the March figures again? Assistant answered with a table. " * 4
    _insert(
        backend,
        *(
            RawItem(
                "acme.chen.snippets",
                f"{week:08x}-0000-4000-8000-000000000000",
                f'{{"content": "{text}"}}',
                created_at=(at := f"2024-{9 + week // 4:02}-{1 + 7 * (week % 4):02}T08:00:00.000000Z"),
                updated_at=at,
            )
            for week in range(8)
        ),
    )


def _lost_thread(backend: Backend, folder: Path) -> None:
    """A thread that the real checkpointer deletes, and what was learnt in it."""
    facts = ("acme", "ana", "facts")
    _put(
        backend,
        (facts, "dog", {"fact": "called Pastel", "source": "thread-1"}),
        (facts, "summer", {"fact": "in Viana", "source": "thread-2"}),
    )
    saver_of(backend, "thread-1", "thread-2", deleted="thread-2")


def saver_of(backend: Backend, *threads: str, deleted: str) -> None:
    """Let the real checkpointer keep threads beside the store, and delete one."""
    import importlib

    is_sqlite = isinstance(backend, SqliteBackend)
    module = importlib.import_module(f"langgraph.checkpoint.{'sqlite' if is_sqlite else 'postgres'}")
    saver_type = getattr(module, "SqliteSaver" if is_sqlite else "PostgresSaver")
    with saver_type.from_conn_string(str(backend.path) if is_sqlite else backend.address) as saver:
        saver.setup()
        for thread in threads:
            config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
            checkpoint = {
                "v": 4,
                "id": f"1f0c0000-0000-6000-8000-{len(thread):012}",
                "ts": "2024-10-01T08:00:00+00:00",
                "channel_values": {},
                "channel_versions": {},
                "versions_seen": {},
            }
            saver.put(config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {})
        saver.delete_thread(deleted)


def _rows(
    *keys: str, part: str = "both", parts: tuple[str, ...] = ()
) -> tuple[tuple[str, str, str, Any], ...]:
    return tuple(("acme.ana.facts", key, part, parts) for key in keys)


DAMAGES: tuple[Damage, ...] = (
    Damage(
        "namespaces", "unmeant", _unmeant_names, {"namespaces": ("warning", 8)}, backends=BOTH, repaired=False
    ),
    Damage("namespaces", "mixed", _mixed_names, {"namespaces": ("note", 2)}, backends=BOTH, repaired=False),
    Damage(
        "tenancy", "category-first", _category_first, {"tenancy": ("note", 2)}, backends=BOTH, repaired=False
    ),
    Damage(
        "values",
        "unreadable",
        _bad_values,
        {"values": ("error", 6)},
        fix_options=("--save={folder}/gone.jsonl",),
        moved=_rows("half", "latin", "list", "nul", "twice", "caf\ufffd", part="a"),
        works=_reads_home,
    ),
    Damage(
        "values",
        "no-objects",
        _no_objects,
        {"values": ("error", 3)},
        backends=BOTH,
        fix_options=("--save={folder}/gone.jsonl",),
        moved=_rows("list", "n", "null", part="a"),
        works=_reads_home,
    ),
    Damage("timestamps", "garbage", _bad_times, {"timestamps": ("error", 3)}, repaired=False),
    Damage(
        "timestamps", "none", _no_times, {"timestamps": ("error", 2)}, backends=(POSTGRES,), repaired=False
    ),
    Damage(
        "timestamps",
        "misspelled",
        _misspelled_times,
        {"timestamps": ("error", 2)},  # the same instants, so that nothing differs afterwards
        works=_reads_home,
    ),
    Damage(
        "langmem-shape",
        "tool-among-managers",
        _tool_among_managers,
        {"langmem-shape": ("error", 2)},
        backends=BOTH,
        moved=(
            ("acme.ana.memories", "early", "both", ("value",)),
            ("acme.ana.memories.work", "draws", "both", ("value",)),
        ),
        works=_manager_lives,
    ),
    Damage(
        "deepagents-shape",
        "no-text",
        _unreadable_files,
        {"deepagents-shape": ("warning", 4)},
        backends=BOTH,
        repaired=False,
    ),
    Damage(
        "duplicates", "vectors", _like_vectors, {"duplicates": ("note", 1)}, backends=BOTH, repaired=False
    ),
    Damage(
        "duplicates",
        "one-subject",
        _one_subject,
        {"duplicates": ("note", 2)},
        backends=BOTH,
        options=("--subject-field", "subject"),
        repaired=False,
    ),
    Damage("append-only", "snippets", _pile, {"append-only": ("note", 1)}, backends=BOTH, repaired=False),
    Damage(
        "provenance",
        "deleted-thread",
        _lost_thread,
        {"provenance": ("note", 1)},
        backends=BOTH,
        options=("--source-field", "source"),
        repaired=False,
    ),
)
