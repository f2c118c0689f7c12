"""Requests to a server, sent again where that is safe and may help, and what its refusals mean.

Everything sent here may be sent twice: reading, writing an item whole, and deleting one by name.
"""

from __future__ import annotations

import email.utils
import logging
import random
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from memctl.errors import Busy, MemctlError, NoStore, Refused, Unreachable

_LOG = logging.getLogger("memctl.stores.api")
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0
_SLOW_ANSWER = 60.0
"""Seconds that a server known to be there may take for an answer."""
_FAILURES_OF_ONE_REQUEST = 3
"""How often a request is sent that the server fails at (500): some it fails at each time."""
_KEY_HINT = "the key is taken from LANGGRAPH_API_KEY, LANGSMITH_API_KEY or LANGCHAIN_API_KEY"


class Http:
    """A server at one address, which is shown as `name`.

    Redirects are not followed: a key is for the host that was named. `timeout` is in seconds: for connecting, for
    the first answer, and for how long a request is sent again.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        timeout: float,
        key: str | None,
        auth: tuple[str, str] | None,
        connections: int,
    ) -> None:
        self.name = name
        self._timeout = timeout
        self._has_key = key is not None
        self._is_known = False
        self._client = httpx.Client(
            base_url=url,
            headers={"x-api-key": key} if key is not None else None,
            auth=auth,
            timeout=timeout,
            follow_redirects=False,
            verify=url.startswith("https:"),  # reading certificates takes a while, and plain HTTP needs none
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )

    def send(
        self, method: str, path: str, *, params: dict[str, str] | None = None, body: bytes | None = None
    ) -> bytes:
        """Return what the server answers to a request that may be sent twice."""
        _LOG.debug("%s %s", method, path)
        request = self._client.build_request(
            method,
            path,
            params=params,
            content=body,
            headers={"content-type": "application/json"} if body else None,
        )
        until = time.monotonic() + self._timeout
        wait, failures = _FIRST_WAIT, 0
        while True:
            try:
                response = self._client.send(request)
            except httpx.TransportError as error:
                failed, after = self._lost(error), None
                may_help = self._is_known
            else:
                if response.is_success:
                    self._recognise()
                    return response.content
                failed, after = self._refusal(response), _retry_after(response)
                failures += response.status_code == httpx.codes.INTERNAL_SERVER_ERROR
                may_help = _is_passing(response) and failures < _FAILURES_OF_ONE_REQUEST
            pause = wait * random.uniform(0.5, 1) if after is None else after  # noqa: S311 no secret
            if not may_help or time.monotonic() + pause > until:
                raise failed
            _LOG.debug("again in %.1f s: %s", pause, failed.message)
            time.sleep(pause)
            wait = min(_LONGEST_WAIT, wait * 2)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _recognise(self) -> None:
        """From the first answer on, the server may take its time, and is worth a second attempt."""
        if not self._is_known:
            self._is_known = True
            self._client.timeout = httpx.Timeout(self._timeout, read=max(self._timeout, _SLOW_ANSWER))

    def _lost(self, error: httpx.TransportError) -> MemctlError:
        if isinstance(error, httpx.TimeoutException):
            return Unreachable(f"{self.name} does not answer", hint="--timeout waits longer")
        reason = str(error) or type(error).__name__
        if self._is_known:
            return MemctlError(f"the connection to {self.name} was lost: {reason}", code="connection-lost")
        return Unreachable(f"{self.name} cannot be reached: {reason}")

    def _refusal(self, response: httpx.Response) -> MemctlError:
        status = response.status_code
        said = f"{status} {_said(response)}".strip()
        match status:
            case 401 | 403 if not self._has_key:
                return Refused(f"{self.name} refuses: {said}", hint=_KEY_HINT)
            case 401 | 403:
                return Refused(f"{self.name} refuses this key: {said}", hint=_KEY_HINT)
            case 429:
                return Busy(f"{self.name} takes no more requests for now: {said}")
            case 502 | 503 | 504:
                return Unreachable(f"{self.name} cannot be reached: {said}")
            case _ if status >= 500:
                return MemctlError(f"{self.name} failed: {said}", code="server-failed")
            case _ if 300 <= status < 400:
                return NoStore(
                    f"{self.name} sends on to {_origin(response.headers.get('location', ''))}",
                    hint="memctl takes its key to no other host: name the address where the server is",
                    code="redirected",
                )
            case _ if not self._is_known:
                return no_server(self.name, f"it answers {said}")
        return MemctlError(f"{self.name}: {said}", code="request-refused")


def no_server(name: str, reason: str) -> NoStore:
    """Return the error for an address at which something else answers."""
    return NoStore(f"{name} is no LangGraph server: {reason}", code="no-server")


def _is_passing(response: httpx.Response) -> bool:
    return response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds that a server asks to wait, None where it asks for nothing that can be read."""
    asked = response.headers.get("retry-after", "").strip()
    if asked.isdecimal():
        return float(asked)
    try:
        moment = email.utils.parsedate_to_datetime(asked)
        return max(0.0, (moment - datetime.now(moment.tzinfo and UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _said(response: httpx.Response) -> str:
    """Return what a server says about a refusal, on one line and short."""
    try:
        answer: Any = msgspec.json.decode(response.content)
        text = answer.get("detail", answer.get("error")) if isinstance(answer, dict) else None
    except msgspec.DecodeError:
        text = None
    line = " ".join(text.split()) if isinstance(text, str) else response.reason_phrase
    return line if len(line) <= 300 else f"{line[:300]}…"


def _origin(location: str) -> str:
    try:
        parts = urlsplit(location)
    except ValueError:
        return "somewhere else"
    return f"{parts.scheme}://{parts.hostname}" if parts.hostname else "another path"
