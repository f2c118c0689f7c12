"""A real LangGraph server on loopback, one for a whole test run: `langgraph dev` with a graph of one node.

It comes from `langgraph-cli[inmem]` in an environment of its own, whose `langgraph` is named by
`MEMCTL_TEST_LANGGRAPH_CLI` (or is on PATH): what it needs is not what the tests need. Everybody shares its one
store, so whoever uses it holds a lock and empties it first.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.servers import Servers, UnavailableError, free_port, kill_daemon

_GRAPH = """\
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    n: int

builder = StateGraph(State)
builder.add_node("only", lambda state: {"n": 1})
builder.add_edge(START, "only")
builder.add_edge("only", END)
graph = builder.compile()
"""
_CONFIG = '{"dependencies": ["."], "graphs": {"only": "./graph.py:graph"}}'
_SECONDS = 60


@dataclass(slots=True)
class LanggraphServer:
    """The server, spoken to without memctl."""

    url: str
    client: httpx.Client = field(repr=False)

    def put(self, namespace: Sequence[str], key: str, value: Any) -> None:
        """Write an item."""
        self.client.put(
            "store/items", json={"namespace": namespace, "key": key, "value": value}
        ).raise_for_status()

    def put_text(self, namespace: Sequence[str], key: str, value: str) -> None:
        """Write an item whose value is this JSON text."""
        names = f'{{"namespace": {json.dumps(list(namespace))}, "key": {json.dumps(key)}, "value": {value}}}'
        self.client.put("store/items", content=names.encode()).raise_for_status()

    def delete(self, namespace: Sequence[str], key: str) -> None:
        """Delete an item."""
        item = {"namespace": namespace, "key": key}
        self.client.request("DELETE", "store/items", json=item).raise_for_status()

    def items(self) -> list[dict[str, Any]]:
        """Everything there is."""
        asked = {"namespace_prefix": [], "limit": 100_000, "refresh_ttl": False}
        found: list[dict[str, Any]] = self.client.post("store/items/search", json=asked).json()["items"]
        return found

    def clear(self) -> None:
        """Delete everything."""
        for item in self.items():
            self.delete(item["namespace"], item["key"])


@contextlib.contextmanager
def langgraph_server(servers: Servers) -> Iterator[LanggraphServer]:
    """The run's server, empty, for nobody else meanwhile; started if it does not run yet.

    Raises `UnavailableError` where there is no `langgraph`.
    """
    with servers.lock("langgraph"):
        folder = servers.folder / "langgraph"
        url = (folder / "url").read_text() if (folder / "url").exists() else start(folder, free_port())
        with httpx.Client(base_url=url, timeout=30) as client:
            server = LanggraphServer(url, client)
            server.clear()
            yield server


def start(folder: Path, port: int) -> str:
    """Start a server in a folder of its own, which is replaced; its address, when it answers.

    Raises `UnavailableError` where there is no `langgraph`.
    """
    program = os.environ.get("MEMCTL_TEST_LANGGRAPH_CLI") or shutil.which("langgraph")
    if not program:
        raise UnavailableError(
            "no LangGraph server: pip install 'langgraph-cli[inmem]' into an environment of its own, and name"
            " its `langgraph` in MEMCTL_TEST_LANGGRAPH_CLI"
        )
    shutil.rmtree(folder, ignore_errors=True)  # of a start that failed
    folder.mkdir()
    (folder / "graph.py").write_text(_GRAPH)
    (folder / "langgraph.json").write_text(_CONFIG)
    options = ["--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port)]
    options += ["--config", str(folder / "langgraph.json")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LANG")}
    # In the background of a shell that ends at once: the server outlives the test process that asked first.
    subprocess.run(
        ["/bin/sh", "-c", '"$@" >log 2>&1 & echo $! >pid', "sh", program, "dev", *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={**environment, "LANGSMITH_TRACING": "false", "LANG": "C.UTF-8"},
        start_new_session=True,
        check=True,
    )
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + _SECONDS
    while True:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/ok").is_success:
                break
        if time.monotonic() > until:
            kill_daemon(folder / "pid")
            raise RuntimeError((folder / "log").read_text())
        time.sleep(0.1)
    (folder / "url").write_text(url)
    return url


def stop(folder: Path) -> None:
    """End the server in a folder, if one runs there, and wait until it is gone."""
    kill_daemon(folder / "pid")
    with contextlib.suppress(FileNotFoundError):
        process = Path("/proc") / (folder / "pid").read_text().strip()
        while process.exists() and b"langgraph" in (process / "cmdline").read_bytes():
            time.sleep(0.02)
