"""A peer: one JSON-RPC connection of any front end. Bytes in, calls out; answers and our own requests back.

Every request gets exactly one answer, also when it is refused, fails or is cancelled. Requests begin in the
order in which they came. While the client does not read, nothing more is accepted from it. A peer knows no
method, and never sends the text of an unexpected exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from msgspec import field

from sidecar._internal.errors import SidecarError, log_fault
from sidecar._internal.values import Value
from sidecar.protocol import jsonrpc
from sidecar.protocol.errors import RequestCancelled, RequestRefused, error_data
from sidecar.protocol.framing import MAX_BODY_BYTES, BrokenStream, Decoder, Frame, Oversized
from sidecar.protocol.jsonrpc import Id
from sidecar.transport.bounds import HeldBytes
from sidecar.transport.outbox import Outbox
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.service.contract import Answer

_UNKNOWN_CODE: Final = -32603
_SLICE_S: Final = 0.0005
"""How long one client's messages are handled before other clients get a turn."""


class PeerGoneError(SidecarError):
    """The client is gone, so it will not answer."""

    kind: ClassVar[str] = "clientGone"


class PeerRefused(SidecarError):
    """The client answered a request of ours with an error; *code* is its JSON-RPC code."""

    kind: ClassVar[str] = "clientRefused"

    def __init__(self, method: str, code: int) -> None:
        super().__init__(f"the client answered {method!r} with error {code}")
        self.code = code


class Limits(Value):
    """The limits of one connection: bytes of one body, and requests open at once.

    *held* is the bound that it shares with all other connections of its daemon.
    """

    max_body_bytes: int = MAX_BODY_BYTES
    max_in_flight: int = 1024
    held: HeldBytes = field(default_factory=HeldBytes)


class Dialect(Value):
    """The JSON-RPC dialect of a front end.

    Attributes:
        decoder: makes the decoder for a largest body, in bytes.
        frame: wraps one body for the wire.
        code: maps the kind of an error to its JSON-RPC code.
        cancel: returns method and params of the notification that cancels a request.
    """

    decoder: Callable[[int], Decoder]
    frame: Callable[[bytes], bytes]
    code: Callable[[str], int]
    cancel: Callable[[Id], tuple[str, dict[str, Any]]]


def session_of(message: Any) -> str | None:
    """Return the session that params or a result name in the words of any front end, None for none.

    >>> session_of({"sid": "s"}), session_of({"sessionId": "s"}), session_of([])
    ('s', 's', None)
    >>> session_of({"command": "sidecar.prompt", "arguments": [{"sid": "s"}]})
    's'
    """
    match message:
        case {"sid": str(sid)} | {"sessionId": str(sid)} | {"arguments": [{"sid": str(sid)}]}:
            return sid
    return None


class Frontend(Protocol):
    """The part of a connection that knows the methods."""

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer a request, now or later. Raises SidecarError, now or when awaited."""
        ...

    def handle_notification(self, method: str, params: Any) -> None:
        """Handle a notification. Exceptions are logged and go no further."""
        ...

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Note that a request was answered; *error_kind* is None for a result. Does not raise."""
        ...


class Peer:
    """The connection over *stream*. It reads nothing until :meth:`start`.

    Args:
        stream: the client's bytes.
        dialect: framing, error codes and cancellation.
        frontend: answers the client's messages.
        limits: the limits of this connection.
    """

    def __init__(self, stream: ByteStream, dialect: Dialect, frontend: Frontend, limits: Limits) -> None:
        self.outbox = Outbox(stream, dialect.frame, self._proceed, limits.held.open(stream.close))
        self._incoming = limits.held.open(stream.close)
        self._stream = stream
        self._dialect = dialect
        self._frontend = frontend
        self._max_body_bytes = limits.max_body_bytes
        self._decoder = dialect.decoder(limits.max_body_bytes)
        self._in_flight = jsonrpc.InFlight(limits.max_in_flight)
        self._tasks: dict[Id, asyncio.Future[Answer]] = {}
        self._own_requests: dict[Id, tuple[str, asyncio.Future[Any]]] = {}
        self._numbers = itertools.count(1)
        self._is_input_over = False
        self._is_closing = False
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._next: Frame | None = None

    @property
    def requests_open(self) -> int:
        """The number of the client's requests that wait for their answer."""
        return len(self._in_flight)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come from the client."""
        return self._ended.is_set()

    def start(self) -> None:
        """Begin to read."""
        self._stream.open(self)

    def cancel(self, request_id: Any) -> None:
        """Cancel an open request once it has begun; it is answered as cancelled. Unknown ids are ignored."""
        task = self._tasks.get(request_id) if isinstance(request_id, int | str) else None
        if task is not None:
            # Not at once: a task that never takes its first step would leave the work that it wraps behind.
            self._loop.call_soon(task.cancel)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.outbox.put(jsonrpc.encode_notification(method, params))

    async def request(self, method: str, params: Any) -> Any:
        """Send a request and return the client's result. Cancelling this notifies the client.

        Raises:
            PeerRefused: the client answered with an error.
            PeerGoneError: the client is gone, or went before it answered.
        """
        if self._is_closing or self.is_over:
            raise PeerGoneError(f"the client is gone and cannot answer {method!r}")
        request_id = f"s{next(self._numbers)}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._own_requests[request_id] = (method, future)
        sid = session_of(params)
        self.outbox.put(jsonrpc.encode_request(request_id, method, params), sid)
        try:
            return await future
        except asyncio.CancelledError:
            self.outbox.put(jsonrpc.encode_notification(*self._dialect.cancel(request_id)), sid)
            raise
        finally:
            self._own_requests.pop(request_id, None)

    async def wait_ended(self) -> None:
        """Return once nothing more will come: end of input, or a lost or unreadable stream."""
        await self._ended.wait()

    def end(self) -> None:
        """End the input, as the client has asked for."""
        self.stop_accepting()
        self._ended.set()

    def stop_accepting(self) -> None:
        """Accept nothing more from the client; open requests go on."""
        self._is_closing = True
        self._stream.pause_reading()

    async def wait_answered(self, seconds: float) -> None:
        """Return once every open request has its answer, or after *seconds*."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks.values()), timeout=seconds)

    async def aclose(self, seconds: float) -> None:
        """Cancel open requests, flush the queue, close the stream; each step takes at most *seconds*."""
        self.stop_accepting()
        for task in tuple(self._tasks.values()):
            task.cancel()
        await self.wait_answered(seconds)
        self._fail_own_requests()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.outbox.drain(), seconds)
        self._incoming.set(0)
        self.outbox.close()
        self._stream.close()
        self._ended.set()

    # The receiver of the stream.

    def on_data(self, data: bytes) -> None:
        """Decode bytes of the client."""
        if not self._is_closing:
            self._decoder.feed(data)
            self._proceed()

    def on_writable(self) -> None:
        """Send more."""
        self.outbox.pump()

    def on_end(self) -> None:
        """Handle the end of the client's input, or of the whole connection."""
        self._is_input_over = True
        if self._stream.is_lost:
            self._incoming.set(0)
            self.outbox.close()
            self._fail_own_requests()
        self._proceed()

    def _proceed(self) -> None:
        """Handle the present frames, at least one, while the client reads and for one slice of time."""
        if self._soon is not None:
            self._soon.cancel()
        next_slice: asyncio.Handle | None = None
        until = self._loop.time() + _SLICE_S
        self.outbox.is_corked = True
        while not self._is_closing and not self.outbox.is_full and self._has_frame() and not next_slice:
            frame, self._next = self._next, None
            assert frame is not None
            self._handle_frame(frame)
            if self._loop.time() >= until and self._has_frame():
                next_slice = self._loop.call_soon(self._proceed)
        self._soon = next_slice
        self._incoming.set(self._decoder.waiting)
        self.outbox.uncork()
        if self._soon is not None:
            self._stream.pause_reading()
        elif self._is_input_over:
            self._ended.set()
        elif self.outbox.is_full or self._is_closing:
            self._stream.pause_reading()
        else:
            self._stream.resume_reading()

    def _has_frame(self) -> bool:
        """Whether there is a next frame."""
        if self._next is None:
            self._next = self._decoder.next()
        return self._next is not None

    def _handle_frame(self, frame: Frame) -> None:
        match jsonrpc.decode(frame) if isinstance(frame, bytes) else frame:
            case jsonrpc.Request() as request:
                self._handle_request(request)
            case jsonrpc.Notification(method, params):
                try:
                    self._frontend.handle_notification(method, params)
                except Exception as error:
                    log_fault(f"notification {method!r}", error)
            case jsonrpc.Response() as response:
                self._handle_response(response)
            case jsonrpc.Malformed(request_id, problem):
                self._refuse(request_id, problem)
            case Oversized(id=request_id, is_response=True):
                self._handle_response(jsonrpc.Response(request_id, None, {}))
            case Oversized(size, request_id):
                message = f"a message of {size} bytes is over the limit of {self._max_body_bytes}"
                self._refuse(request_id, RequestRefused("messageTooLarge", message))
            case BrokenStream(kind, reason):
                hint = "the connection ends here: the next message cannot be found"
                self._refuse(None, RequestRefused(kind, reason, hint=hint))
                self._is_input_over = True

    def _handle_request(self, request: jsonrpc.Request) -> None:
        def on_done(task: asyncio.Future[Answer]) -> None:
            del self._tasks[request.id]
            if task.cancelled():
                self._answer_error(request, RequestCancelled(f"{request.method!r} was cancelled"))
            elif (error := task.exception()) is not None:
                self._answer_error(request, error)
            else:
                self._answer(request, task.result())

        try:
            self._in_flight.admit(request.id)
        except RequestRefused as error:
            self._refuse(request.id, error)
            return
        try:
            outcome = self._frontend.handle_request(request.method, request.params, request.id)
        except Exception as error:
            self._answer_error(request, error)
            return
        if isinstance(outcome, Awaitable):
            task = asyncio.ensure_future(outcome)
            self._tasks[request.id] = task
            task.add_done_callback(on_done)
        else:
            self._answer(request, outcome)

    def _handle_response(self, response: jsonrpc.Response) -> None:
        method, future = self._own_requests.get(response.id or "", ("", None))
        if future is None:
            if response.is_bare:
                problem = RequestRefused("invalidRequest", "a message has a method, a result or an error")
                self._refuse(response.id, problem)
        elif not future.done():
            if response.error is None:
                future.set_result(response.result)
            else:
                code = response.error.get("code")
                future.set_exception(PeerRefused(method, code if type(code) is int else _UNKNOWN_CODE))

    def _answer(self, request: jsonrpc.Request, answer: Answer) -> None:
        try:
            body = jsonrpc.encode_result(request.id, answer.value)
        except (TypeError, ValueError, RecursionError) as error:
            self._answer_error(request, error)
            return
        self._settle(request, body, None, answer.value)
        if answer.then is not None:
            try:
                answer.then()
            except Exception as error:
                log_fault(f"the work that follows {request.method!r}", error)

    def _answer_error(self, request: jsonrpc.Request, error: BaseException) -> None:
        if not isinstance(error, SidecarError):
            log_fault(f"request {request.method!r}", error)
            error = SidecarError(f"{request.method!r} failed with {type(error).__name__}, see the log")
        self._settle(request, self._encode_error(request.id, error), error.kind)

    def _settle(
        self, request: jsonrpc.Request, body: bytes, error_kind: str | None, result: Any = None
    ) -> None:
        if self._in_flight.settle(request.id):
            sid = None
            if self.outbox.has_lanes:
                # An answer that introduces a session goes in front of its events.
                sid = session_of(result) or session_of(request.params)
            self.outbox.put(body, sid)
            self._frontend.on_answered(request.method, request.id, error_kind)

    def _refuse(self, request_id: Id | None, problem: SidecarError) -> None:
        self.outbox.put(self._encode_error(request_id, problem))

    def _encode_error(self, request_id: Id | None, error: SidecarError) -> bytes:
        code = self._dialect.code(error.kind)
        try:
            return jsonrpc.encode_error(request_id, code, error.message, error_data(error))
        except (TypeError, ValueError, RecursionError) as fault:  # the details cannot be JSON
            log_fault(f"encoding a {error.kind!r} error", fault)
            bare = {"kind": error.kind, "retryable": error.retryable}
            return jsonrpc.encode_error(request_id, code, error.message, bare)

    def _fail_own_requests(self) -> None:
        for method, future in self._own_requests.values():
            if not future.done():
                future.set_exception(PeerGoneError(f"the client is gone and did not answer {method!r}"))
