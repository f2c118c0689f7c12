"""A LangGraph server, over the routes that `langgraph-sdk` 0.4.14 uses: `http(s)://…`.

What the server does not keep was seen on `langgraph-api` 0.16.7: it writes NUL as U+FFFD, rounds integers past
64 bits, and takes values so deeply nested that it then fails to hand out any page they stand on.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from memctl.errors import UsageError
from memctl.stores.api.holding import depth_fault, number_fault
from memctl.stores.api.http import Http, no_server
from memctl.stores.api.interface import Found, Labels

CONNECTIONS = 8
KEYS = ("LANGGRAPH_API_KEY", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
_ITEMS, _SEARCH = "store/items", "store/items/search"
_DEEPEST = 200


class _Item(msgspec.Struct, gc=False):
    namespace: tuple[str, ...]
    key: str
    value: msgspec.Raw
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def found(self) -> Found:
        return Found(self.namespace, self.key, bytes(self.value), self.created_at, self.updated_at)


class _Page(msgspec.Struct):
    items: list[_Item]


_PAGE = msgspec.json.Decoder(_Page)
_ONE = msgspec.json.Decoder(_Item | None)


class ServerInterface:
    """A server's store."""

    kind = "server"
    concurrency = CONNECTIONS

    def __init__(self, http: Http) -> None:
        self.address = http.name
        self._http = http

    def search(self, labels: Labels, *, limit: int, offset: int) -> list[Found]:
        """Return a page of what begins with `labels`."""
        asked = {"namespace_prefix": labels, "limit": limit, "offset": offset, "refresh_ttl": False}
        answer = self._http.send("POST", _SEARCH, body=msgspec.json.encode(asked))
        try:
            return [item.found for item in _PAGE.decode(answer).items]
        except msgspec.DecodeError:
            raise no_server(self.address, "its answer to a search is none") from None

    def get(self, labels: Labels, key: str) -> Found | None:
        """Return one item."""
        asked = {"namespace": ".".join(labels), "key": key, "refresh_ttl": "false"}
        answer = self._http.send("GET", _ITEMS, params=asked)
        try:
            item = _ONE.decode(answer)
        except msgspec.DecodeError:
            raise no_server(self.address, "its answer to a question for an item is none") from None
        return None if item is None else item.found

    def put(self, labels: Labels, key: str, value: bytes, *, ttl: float | None) -> None:
        """Write one item; its value goes out as the text it is."""
        item = {"namespace": labels, "key": key, "value": msgspec.Raw(value)}
        self._http.send("PUT", _ITEMS, body=msgspec.json.encode(item if ttl is None else item | {"ttl": ttl}))

    def delete(self, labels: Labels, key: str) -> None:
        """Delete one item."""
        self._http.send("DELETE", _ITEMS, body=msgspec.json.encode({"namespace": labels, "key": key}))

    def fault(self, value: bytes) -> str | None:
        """Say what of a value the server would change, or not be able to hand out."""
        if b"\\u0000" in value:
            return "a NUL character"
        return depth_fault(value, _DEEPEST) or number_fault(value, bits=64)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def open_server(url: str, *, timeout: float, variables: Mapping[str, str]) -> ServerInterface:
    """Open the server at `url`, after one question that only a LangGraph server answers.

    Raises UsageError for a malformed address, which is not echoed: it may hold a password.
    """
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and not parts.query and not parts.fragment and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or not url.isascii() or not url.isprintable():
        raise UsageError(
            "that is no address of a server",
            hint="https://host or http://host:port, with a path if the server is below one",
        )
    interface = ServerInterface(
        Http(
            _shown(parts),
            _shown(parts),
            timeout=timeout,
            key=_key(variables),
            auth=(unquote(parts.username), unquote(parts.password or "")) if parts.username else None,
            connections=CONNECTIONS,
        )
    )
    try:
        interface.search((), limit=1, offset=0)
    except BaseException:
        interface.close()
        raise
    return interface


def _shown(parts: SplitResult) -> str:
    """Return an address without what may be secret in it."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme.lower()}://{host}{port}{parts.path.rstrip('/')}"


def _key(variables: Mapping[str, str]) -> str | None:
    """Return the key, as the SDK finds it."""
    for name in KEYS:
        if key := variables.get(name, "").strip().strip("\"'"):
            if not key.isascii() or not key.isprintable():
                raise UsageError(f"{name} holds no key: a key has printable ASCII characters only")
            return key
    return None
