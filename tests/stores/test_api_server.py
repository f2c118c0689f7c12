"""What a server may answer instead of what it was asked for, and what memctl makes of that."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memctl import stores
from memctl.addresses import parse
from memctl.errors import Busy, MemctlError, NoStore, Refused, Unreachable, UsageError
from memctl.model import EVERYTHING, Item
from memctl.store import Batch, Store, Target
from memctl.stores import Surroundings
from tests.invocation import NOW

Answer = tuple[int, dict[str, str], bytes]
KEY = "lsv2_sk_secret"
TIME = "2026-11-30T07:00:00.000000+00:00"


class Scripted:
    """A LangGraph server that answers from a list of items, after what is to happen before that."""

    def __init__(self) -> None:
        self.items: dict[tuple[tuple[str, ...], str], Any] = {}
        self.before: Callable[[int, str], Answer | None] = lambda _number, _method: None
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.under_way = self.most_under_way = 0
        self._lock = threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        with self._lock:
            number = len(self.requests)
            self.requests.append(
                (
                    handler.command,
                    handler.path,
                    {name.lower(): value for name, value in handler.headers.items()},
                )
            )
        if handler.command == "PUT":
            time.sleep(0.005)
        special = self.before(number, handler.command)
        if special is not None:
            return special if special[0] else None
        asked = json.loads(body) if body else {}
        if handler.command == "PUT":
            self.items[tuple(asked["namespace"]), asked["key"]] = asked["value"]
            return 204, {}, b""
        if handler.command == "GET":
            return 200, {}, b"null"
        rows = [
            {"namespace": labels, "key": key, "value": value, "created_at": TIME, "updated_at": TIME}
            for (labels, key), value in self.items.items()
        ]
        first = asked["offset"]
        return 200, {}, json.dumps({"items": rows[first : first + asked["limit"]]}).encode()


@pytest.fixture
def scripted() -> Iterator[tuple[Scripted, str]]:
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answered(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            with script._lock:
                script.under_way += 1
                script.most_under_way = max(script.most_under_way, script.under_way)
            try:
                answer = script.answer(self, body)
            finally:
                with script._lock:
                    script.under_way -= 1
            if answer is None:  # hang up
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = answered  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield script, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def opened(url: str, *, timeout: float = 2.0, **variables: str) -> Iterator[Store]:
    store = stores.open_store(
        parse(url), timeout=timeout, clock=lambda: NOW, surroundings=Surroundings(variables=variables)
    )
    with contextlib.closing(store):
        yield store


@contextlib.contextmanager
def writing(url: str) -> Iterator[Target]:
    target = stores.open_writer(
        parse(url), timeout=2.0, clock=lambda: NOW, surroundings=Surroundings(variables={})
    )
    with contextlib.closing(target):
        yield target


def at(number: int, answer: Answer) -> Callable[[int, str], Answer | None]:
    return lambda request, _method: answer if request == number else None


def items(count: int) -> list[Item]:
    value = b'{"n": 1}'
    return [Item("a", f"k{number}", value, len(value), None, None, None, None) for number in range(count)]


HANG_UP: Answer = (0, {}, b"")


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        ((401, {}, b'{"detail": "no such key"}'), Refused, "refused"),
        ((403, {}, b""), Refused, "refused"),
        ((404, {}, b'{"detail": "Not Found"}'), NoStore, "no-server"),
        ((405, {}, b"<html>"), NoStore, "no-server"),
        ((200, {}, b"<html>welcome</html>"), NoStore, "no-server"),
        ((200, {}, b'{"items": 5}'), NoStore, "no-server"),
        ((200, {}, b"[]"), NoStore, "no-server"),
        ((204, {}, b""), NoStore, "no-server"),
        ((302, {"location": "https://login.example/x?token=1"}, b""), NoStore, "redirected"),
        ((307, {"location": "/elsewhere"}, b""), NoStore, "redirected"),
    ],
)
def test_what_is_no_server_for_us(
    scripted: tuple[Scripted, str], answer: Answer, kind: type[MemctlError], code: str
) -> None:
    script, url = scripted
    script.before = lambda _number, _method: answer
    with pytest.raises(kind) as caught, opened(url, LANGGRAPH_API_KEY=KEY):
        pass
    assert caught.value.code == code
    assert len(script.requests) == 1
    for text in (caught.value.message, caught.value.hint or ""):
        assert KEY not in text
        assert "token" not in text


def test_nobody_there(closed_port: int, silent_port: int) -> None:
    for port in (closed_port, silent_port):
        with pytest.raises(Unreachable), opened(f"http://127.0.0.1:{port}", timeout=0.3):
            pass
    with pytest.raises(Unreachable), opened("http://nobody.invalid", timeout=2):
        pass


@pytest.mark.parametrize(
    "url",
    ["http://", "http://host:port", "http://h/?schema=x", "http://h/#x", "http://u:s3cret@[", "http://h\u00e4:1",
     "http://h:99999", "http://h\n"],
)  # fmt: skip
def test_malformed_addresses_are_not_echoed(url: str) -> None:
    with pytest.raises(UsageError) as caught, opened(url):
        pass
    assert "s3cret" not in caught.value.message + (caught.value.hint or "")


def test_passwords_go_out_and_are_not_shown(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    with opened(url.replace("//", "//me:s3cr%20et@") + "/") as store:
        assert store.address == url
    assert script.requests[0][2]["authorization"] == "Basic bWU6czNjciBldA=="


def test_the_key_is_taken_as_the_sdk_takes_it(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    with opened(url):
        pass
    assert "x-api-key" not in script.requests[-1][2]
    others = {"LANGSMITH_API_KEY": "second", "LANGCHAIN_API_KEY": "third"}
    for variables, key in (
        ({"LANGGRAPH_API_KEY": f' "{KEY}" ', **others}, KEY),
        ({"LANGGRAPH_API_KEY": " ", **others}, "second"),
        ({"LANGCHAIN_API_KEY": "third"}, "third"),
    ):
        with opened(url, **variables):
            pass
        assert script.requests[-1][2]["x-api-key"] == key
    with pytest.raises(UsageError) as caught, opened(url, LANGGRAPH_API_KEY="s3cr\u00e9t"):
        pass
    assert "s3cr" not in caught.value.message


def test_every_read_leaves_expiry_alone(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    bodies: list[str] = []
    answer = script.answer

    def recorded(handler: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        bodies.append(body.decode() + handler.path)
        return answer(handler, body)

    script.answer = recorded  # type: ignore[method-assign]
    script.items[("a",), "k"] = {"n": 1}
    with opened(url) as store:
        assert len(list(store.scan(EVERYTHING))) == 1
        assert list(store.get("a", ["x"])) == []
    assert len(bodies) > 3
    assert all('"refresh_ttl":false' in text or "refresh_ttl=false" in text for text in bodies)


@pytest.mark.parametrize(
    "answer",
    [
        (429, {"retry-after": "0"}, b""),
        (429, {}, b"{}"),
        (500, {}, b"Internal Server Error"),
        (502, {}, b""),
        (503, {"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}, b""),
        HANG_UP,
    ],
    ids=str,
)
def test_what_passes_is_tried_again(scripted: tuple[Scripted, str], answer: Answer) -> None:
    script, url = scripted
    script.items = {(("a",), str(number)): {"n": number} for number in range(3)}
    with opened(url) as store:
        for number in (1, 3):
            script.before = at(len(script.requests) + number - 1, answer)
            assert len(list(store.scan(EVERYTHING))) == 3
        assert not store.moved


def test_a_server_that_asks_for_too_long_a_wait_is_busy(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    script.before = lambda _number, _method: (429, {"retry-after": "3600"}, b"")
    started = time.monotonic()
    with pytest.raises(Busy), opened(url):
        pass
    assert time.monotonic() - started < 1


def test_a_request_that_the_server_fails_at_each_time_is_given_up(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    with opened(url, timeout=30) as store:
        script.before = lambda _number, _method: (500, {}, b"Internal Server Error")
        with pytest.raises(MemctlError) as caught:
            list(store.scan(EVERYTHING))
    assert caught.value.code == "server-failed"
    assert len(script.requests) == 4


def test_a_connection_that_stays_lost_is_an_error(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    with opened(url, timeout=0.3) as store:
        script.before = lambda _number, _method: HANG_UP
        with pytest.raises(MemctlError) as caught:
            list(store.scan(EVERYTHING))
    assert (caught.value.code, caught.value.exit_code) == ("connection-lost", 1)


def test_writes_go_out_several_at_a_time_and_not_too_many(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    with writing(url) as target:
        list(target.scan(EVERYTHING))
        assert target.write(Batch(items(60))) == ()
    assert len(script.items) == 60
    assert 2 <= script.most_under_way <= 8
    puts = sum(method == "PUT" for method, _, _ in script.requests)
    assert (puts, len(script.requests) - puts <= 8) == (60, True)


@pytest.mark.parametrize("answer", [(503, {}, b""), HANG_UP], ids=str)
def test_a_write_that_may_have_arrived_is_sent_again(scripted: tuple[Scripted, str], answer: Answer) -> None:
    script, url = scripted
    failed: set[int] = set()

    def fail_every_fifth(number: int, method: str) -> Answer | None:
        if method == "PUT" and number % 5 == 0:
            failed.add(number)
            return answer
        return None

    with writing(url) as target:
        script.before = fail_every_fifth
        assert target.write(Batch(items(30))) == ()
    assert failed
    assert len(script.items) == 30


def test_a_refused_write_is_an_error(scripted: tuple[Scripted, str]) -> None:
    script, url = scripted
    with writing(url) as target:
        script.before = lambda _n, method: (422, {}, b'{"detail": "no"}') if method == "PUT" else None
        with pytest.raises(MemctlError, match="422 no"):
            target.write(Batch(items(12)))
        script.before = lambda _n, method: (403, {}, b"") if method == "PUT" else None
        with pytest.raises(Refused):
            target.write(Batch(items(12)))
