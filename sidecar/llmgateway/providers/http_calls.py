"""Requests with a key, over HTTP, and the bodies of their answers: server-sent events with JSON in them.

An SDK takes a second to import, and a person waits for it. A request with a key needs an address, a few
headers, and the body of a refusal, and no SDK. All adapters but one send their requests here.

The parsers of SDKs cost three quarters of a delta, as they build typed models of which little is read, and
skip everything that is not an event. A login page, or an error that comes with status 200, then looks like an
answer that was cut off. So events are parsed here, into plain JSON values.

Servers depart from the formats. An event without a type has the one that its field ``event`` names; the mark
at the end of a stream is an event like others; a body that is JSON and no stream is one event, or a list.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.request import getproxies

import msgspec

from sidecar import __version__
from sidecar._internal.env import read_raw
from sidecar.llmgateway.providers.adapter import CONNECT_S, Endpoint, SdkArguments
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.windows import direct_mounts

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

_PROBE_S: Final = 60
_PROBES: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), _PROBE_S)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL")
        if hasattr(socket, name)
    ),
)
"""The socket options for probes of a silent connection, so that no router forgets it while a model thinks."""

T = TypeVar("T")
_HEAD_BYTES: Final = 65_536
_DONE: Final = b"[DONE]"
END_MARK: Final = "[DONE]"
"""The type of the event for the mark at the end of a stream; some servers send no other sign of it."""

EVENTS_A_TURN: Final = 16
"""The most events that are passed on together. After so many the other tasks of the loop have their turn."""

MAX_EVENT_BYTES: Final = 64 << 20
"""The longest event of a stream; a longer one would fill the memory."""

Events: TypeAlias = AsyncIterator[list[dict[str, Any]]]
"""The events of an answer as JSON values: those that came together, one or more at a time."""


class RefusedRequestError(Exception):
    """A server has refused a request.

    Attributes:
        status: the HTTP status.
        headers: the headers of the answer.
        text: its body.
        body: the JSON value of that, else the text.
        message: its text where that is not JSON, else a sentence with the status.
    """

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        self.status = status
        self.headers = dict(headers)
        self.text = text.strip()
        self.message = f"Error code: {status}"
        self.body: Any = self.text
        try:
            self.body = json.loads(self.text)
        except (ValueError, RecursionError):
            self.message = self.text or self.message
        super().__init__(self.message)


def open_client(
    endpoint: Endpoint, address: str, headers: Mapping[str, str], variable: str | None = None
) -> AsyncClient:
    """Return an HTTP client; blocks.

    Args:
        endpoint: the provider.
        address: the address that the paths of requests are appended to.
        headers: the headers of every request.
        variable: the environment variable that adds headers to the requests of an SDK, a line for each; they
            go before *headers*.
    """
    # Imported here, in the thread that connects: it takes tenths of a second.
    from httpx2 import AsyncClient, AsyncHTTPTransport, Headers, Limits, Timeout

    all_headers = Headers({"Accept": "application/json", "Content-Type": "application/json"})
    all_headers["User-Agent"] = f"editor-sidecar/{__version__}"
    all_headers.update(headers)
    added = read_raw(variable) if variable is not None else None
    for line in (added or "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            all_headers[name.strip()] = value.strip()
    limits = Limits(max_connections=1000, max_keepalive_connections=100)
    # With a transport of its own a client ignores the proxies of the environment.
    probed = None if getproxies() else AsyncHTTPTransport(limits=limits, socket_options=_PROBES)
    return AsyncClient(
        base_url=address,
        headers=all_headers,
        timeout=Timeout(endpoint.idle_timeout_s, connect=CONNECT_S),
        limits=limits,
        follow_redirects=True,
        transport=probed,
        mounts=direct_mounts(endpoint.base_url),
    )


@asynccontextmanager
async def post(
    client: AsyncClient, path: str, request: SdkArguments, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Response]:
    """Send *request* to *path* and stream the answer. Raises RefusedRequestError."""
    content = msgspec.json.encode(request)
    async with client.stream("POST", path, content=content, headers=headers) as response:
        if not response.is_success:
            await response.aread()
            raise refusal_in(response)
        yield response


@asynccontextmanager
async def stream_events(
    client: AsyncClient, path: str, request: SdkArguments, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Events]:
    """Send *request* to *path* and stream the events of the answer. Raises RefusedRequestError."""
    async with post(client, path, request, headers) as response:
        yield EventBody(response).events()


def refusal_in(response: Response) -> RefusedRequestError:
    """Return the refusal in *response*, which was read."""
    return RefusedRequestError(response.status_code, response.headers, response.text)


class ReportedFailureError(Exception):
    """The provider reports in its answer that there will be none."""

    def __init__(self, failure: ProviderFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class EventBody:
    """The events in the body of *response*, a streamed response of ``httpx``."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._head: list[bytes] = []
        self._n_head_bytes = 0
        self._kind = b""
        self._data: list[bytes] = []
        self._n_data_bytes = 0

    async def events(self) -> Events:
        """Yield the JSON values of the events that came together.

        Raises ReportedFailureError for a failure in place of an event, behind the events before it.
        """
        n_events, has_events = 0, False
        try:
            async for lines, is_last in read_lines(self._response):
                if not has_events:
                    self._keep_head(lines)
                # A server may end its last event with the stream; one that was cut off is no JSON.
                for together in batches(self._read([*lines, b""] if is_last else lines, is_last=is_last)):
                    has_events = True
                    yield together
                    n_events += len(together)
                    if n_events >= EVENTS_A_TURN:
                        n_events = 0
                        await asyncio.sleep(0)  # a server faster than this process must not hold its loop
        finally:
            await self._response.aclose()
        if not has_events and (answers := read_whole(b"".join(self._head))):
            yield answers

    def _keep_head(self, lines: list[bytes]) -> None:
        """Keep the beginning of a body without events so far, and all of a body that may be JSON."""
        for line in lines:
            if not self._head and not line.strip():
                continue
            if self._n_head_bytes < _HEAD_BYTES or self._head[0].lstrip()[:1] in (b"{", b"["):
                self._head.append(line + b"\n")
                self._n_head_bytes = check_event_size(self._n_head_bytes + len(line))

    def _read(self, lines: list[bytes], *, is_last: bool = False) -> Iterator[dict[str, Any]]:
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._n_data_bytes = check_event_size(self._n_data_bytes + len(line))
            elif line.startswith(b"event:"):
                self._kind = line[6:].strip()
            elif not line and self._data:
                data, self._data, self._n_data_bytes = b"\n".join(self._data), [], 0
                kind, self._kind = self._kind, b""
                if data.startswith(_DONE):
                    yield {"type": END_MARK}
                    continue
                try:
                    event = decode(data)
                except ValueError:
                    if is_last:
                        return
                    raise
                if event is None:
                    continue
                if isinstance(event, dict) and event.get("error"):
                    raise ReportedFailureError(
                        failure_in(event) or ProviderFailure("an error without a reason")
                    )
                if kind and isinstance(event, dict) and not event.get("type"):
                    event["type"] = kind.decode("utf-8", "replace")
                yield event


def batches(events: Iterable[T]) -> Iterator[list[T]]:
    """Yield *events* in lists of at most ``EVENTS_A_TURN``; those before a failure come before it."""
    batch: list[T] = []
    try:
        for event in events:
            batch.append(event)
            if len(batch) == EVENTS_A_TURN:
                yield batch
                batch = []
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


async def read_lines(response: Any) -> AsyncIterator[tuple[list[bytes], bool]]:
    """Yield the lines of the body of *response* that a piece of it completes, and whether they are the last.

    Lines end with LF, CR or both. Raises ReportedFailureError for a line without an end.
    """
    pending: list[bytes] = []
    n_pending = 0
    async for piece in response.aiter_bytes():
        has_half_an_end = bool(pending) and pending[-1].endswith(b"\r")
        pending.append(piece)
        if not has_half_an_end and b"\n" not in piece and b"\r" not in piece:
            n_pending = check_event_size(n_pending + len(piece))
            continue  # joined once, however many pieces a long line comes in
        text = b"".join(pending)
        if b"\r" in text:
            # The second half of a line end may still come.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        *lines, rest = text.split(b"\n")
        pending, n_pending = [rest], len(rest)
        yield lines, False
    yield [b"".join(pending).rstrip(b"\r")], True


def check_event_size(n_bytes: int) -> int:
    """Return *n_bytes*, the size of an event so far; ReportedFailureError for one that will not end."""
    if n_bytes > MAX_EVENT_BYTES:
        sentence = f"it sent more than {MAX_EVENT_BYTES >> 20} MiB without the end of an event"
        raise ReportedFailureError(ProviderFailure(sentence, code="endless_event"))
    return n_bytes


def read_whole(body: bytes) -> list[dict[str, Any]]:
    """Return the answers in *body*, which is no stream: a JSON object or a list of them, else none.

    Raises ReportedFailureError when it is an error or a page.

    >>> read_whole(b'{"choices": []}'), read_whole(b": ping")
    ([{'choices': []}], [])
    """
    raise_page(body)
    try:
        answer = decode(body)
    except (ValueError, RecursionError):
        return []
    answers = answer if isinstance(answer, list) else [answer]
    return [each for each in answers if isinstance(each, dict)]


def raise_page(head: bytes) -> None:
    """Raise ReportedFailureError when *head*, the beginning of a body, is an error or a page."""
    text = head.decode("utf-8", "replace").strip()
    if text.startswith("<"):
        page = "it sent a web page instead of an answer; check its address, and the login of the network"
        raise ReportedFailureError(ProviderFailure(page, code="web_page"))
    if text.startswith("{") and (failure := read_failure(text)) is not None:
        raise ReportedFailureError(failure)


def decode(data: bytes) -> Any:
    """Return the JSON value of *data*; half of a surrogate pair, which only Python's parser takes, too."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data)


def read_failure(text: str) -> ProviderFailure | None:
    """Return the failure that the JSON *text* reports, None when it reports none.

    >>> read_failure('{"error": {"message": "no credit", "code": 402}}')
    ProviderFailure(message='no credit', status=402, code='402', headers={}, retry_after_ms=None)
    """
    try:
        return failure_in(json.loads(text))
    except (ValueError, RecursionError):
        return None


def failure_in(body: Any) -> ProviderFailure | None:
    """Return the failure that a JSON value reports, None when it reports none."""
    found = body.get("error") or body.get("base_resp") or body if isinstance(body, dict) else None
    if isinstance(found, str):
        return ProviderFailure(found, code="api_error")
    if not isinstance(found, dict):
        return None
    sentences = (found.get(name) for name in ("message", "status_msg", "detail", "msg"))
    message = next((each for each in sentences if isinstance(each, str) and each), None)
    if message is not None:
        message = f"{message}{describe_upstream(found.get('metadata'))}"
    code = found.get("code") or found.get("status_code") or found.get("type")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    return ProviderFailure(message, status, code=str(code or "api_error")) if message is not None else None


def describe_upstream(metadata: Any) -> str:
    """Return the reason of the service behind a router in brackets, empty when *metadata* has none.

    >>> describe_upstream({"provider_name": "Mistral", "raw": '{"message": "no such role"}'})
    ' (Mistral: no such role)'
    """
    if not isinstance(metadata, dict) or not isinstance(metadata.get("raw"), str):
        return ""
    inner = read_failure(metadata["raw"])
    words = inner.message if inner is not None else metadata["raw"]
    return f" ({metadata.get('provider_name') or 'the service behind it'}: {words})"
