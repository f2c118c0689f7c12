"""Ten thousand items into a LangGraph server and out of it again, against bare loops over its own SDK.

python -m tests.benchmarks.serving plain ARCHIVE     namespace, key and value of each item, as JSON Lines
python -m tests.benchmarks.serving put URL FILE      one `put_item` after the other
python -m tests.benchmarks.serving read URL          `search_items` page by page, as JSON Lines
python -m tests.benchmarks.serving server            starts a server; a new one in its place for each line of
                                                     stdin; says its address each time
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from . import checks
from .harness import Comparison, Row, compare, memctl, program, run
from .workshop import Workshop, remove

PEAK_MB = 150.0
_ITEMS = 10_000
_PAGE = 1_000
_TARGET = 1.3


def server(workshop: Workshop) -> Iterator[Row]:
    """Import into an empty server, each time a new one; then export what the last import left."""
    items, folder = workshop.count(_ITEMS), workshop.folder
    archive, plain = folder / "export.jsonl", folder / "plain.jsonl"
    remove(archive)
    store = workshop.sqlite(items, journal="wal")
    made = run(memctl("-s", store, "export", "--no-vectors", "-f", archive), folder / "export.out")
    made = made if made.code else run(program("serving", "plain", archive), plain)
    if made.code:
        yield Row("server", problem=f"nothing to import: {made.failure}")
        return
    with closing(workshop.langgraph()) as running:
        yield compare(
            Comparison(
                f"import, server, {items:,} items / SDK loop",
                memctl("-s", running.url, "import", plain, before=running.renew),
                program("serving", "put", running.url, plain, before=running.renew),
                _TARGET,
                PEAK_MB,
                repeat=1,
            ),
            folder,
        )
        yield compare(
            Comparison(
                f"export, server, {items:,} items / SDK loop",
                memctl("-s", running.url, "export"),
                program("serving", "read", running.url),
                _TARGET,
                PEAK_MB,
                check=partial(checks.same_items, items),
            ),
            folder,
        )


GROUPS = (server,)


def _plain(archive: str) -> None:
    import orjson

    with Path(archive).open("rb") as lines:
        for line in lines:
            item = orjson.loads(line)
            if "key" in item:
                bare = {name: item[name] for name in ("namespace", "key", "value")}
                sys.stdout.buffer.write(orjson.dumps(bare, option=orjson.OPT_APPEND_NEWLINE))


def _put(url: str, file: str) -> None:
    import orjson

    client = _client(url)
    with Path(file).open("rb") as lines:
        for line in lines:
            item = orjson.loads(line)
            client.put_item(item["namespace"], item["key"], item["value"])


def _read(url: str) -> None:
    import orjson

    client = _client(url)
    offset = 0
    while page := client.search_items([], limit=_PAGE, offset=offset, refresh_ttl=False)["items"]:
        offset += len(page)
        for item in page:
            sys.stdout.buffer.write(orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE))


def _client(url: str) -> Any:
    from langgraph_sdk import get_sync_client

    return get_sync_client(url=url, api_key=None).store


def _server() -> None:
    from tests.langgraph_server import start, stop
    from tests.servers import free_port

    port = free_port()
    with tempfile.TemporaryDirectory(prefix="memctl-benchmarks-") as folder:
        for number, _ in enumerate(_with_one_more(sys.stdin)):
            stop(Path(folder, str(number - 1)))
            print(start(Path(folder, str(number)), port), flush=True)
        stop(Path(folder, str(number)))


def _with_one_more(lines: Iterator[str]) -> Iterator[str]:
    yield "\n"
    yield from lines


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    {"plain": _plain, "put": _put, "read": _read, "server": _server}[name](*arguments)
