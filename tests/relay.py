"""A TCP relay in front of a server, which breaks off when so much has come back: a server that dies."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(slots=True)
class Relay:
    """Where it listens, and how many more octets it lets through from the server before it is gone for good."""

    url: str
    octets_left: int
    is_broken: bool = False
    _sockets: list[socket.socket] = field(default_factory=list, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def _keep(self, opened: socket.socket) -> None:
        with self._lock:
            self._sockets.append(opened)

    def _let_through(self, octets: int) -> int:
        """Return how many of these octets still go through."""
        with self._lock:
            allowed = min(octets, self.octets_left)
            self.octets_left -= allowed
            return allowed

    def close(self) -> None:
        """Break every connection, and take no more."""
        with self._lock:
            self.is_broken = True
            for opened in self._sockets:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)
                opened.close()
            self._sockets.clear()


@contextlib.contextmanager
def relay(upstream: str, octets: int) -> Iterator[Relay]:
    """A relay to the server at an address."""
    parts = urlsplit(upstream)
    listener = socket.create_server(("127.0.0.1", 0))
    made = Relay(f"http://127.0.0.1:{listener.getsockname()[1]}", octets)
    made._keep(listener)
    threads: list[threading.Thread] = []

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection((parts.hostname, parts.port))
            except OSError:
                return
            for source, sink, is_counted in ((client, server, False), (server, client, True)):
                made._keep(source)
                thread = threading.Thread(target=pump, args=(source, sink, is_counted), daemon=True)
                threads.append(thread)
                thread.start()

    def pump(source: socket.socket, sink: socket.socket, is_counted: bool) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(65536):
                allowed = made._let_through(len(block)) if is_counted else len(block)
                sink.sendall(block[:allowed])
                if allowed < len(block):
                    made.close()
                    return
            sink.shutdown(socket.SHUT_WR)

    accepting = threading.Thread(target=serve, daemon=True)
    accepting.start()
    try:
        yield made
    finally:
        made.close()
        accepting.join(5)
        for thread in threads:
            thread.join(5)
