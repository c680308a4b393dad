"""One JSON-RPC connection, whatever its face: bytes in, calls out; answers and requests of our own back.

Every request gets exactly one answer, also when it is refused, fails or is cancelled. Requests begin in the
order they came. While the client does not read, nothing more is taken from it. Knows no method; never decides
what a call means, and never lets the text of an unexpected exception out.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from sidecar._internal.errors import SidecarError, log_fault
from sidecar.protocol import jsonrpc
from sidecar.protocol.errors import RequestCancelled, RequestRefused, error_data
from sidecar.protocol.framing import MAX_BODY_BYTES, Broken, Decoder, Frame, Oversized
from sidecar.protocol.jsonrpc import Id
from sidecar.transport.outbox import Outbox
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.service.contract import Answer

__all__ = ["Dialect", "Frontend", "Limits", "Peer", "PeerGone", "PeerRefused"]


_LARGE_BYTES: Final = 256 * 1024

_SLICE_S: Final = 0.0005
"""How long one client's messages are handled at a stretch while others wait for theirs."""


class PeerGone(SidecarError):
    """The client is gone, so that it will not answer."""

    kind: ClassVar[str] = "clientGone"


class PeerRefused(SidecarError):
    """The client answered a request of ours with an error; *code* is its JSON-RPC code."""

    kind: ClassVar[str] = "clientRefused"

    def __init__(self, method: str, code: int) -> None:
        super().__init__(f"the client answered {method!r} with error {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may cost: bytes of one body, requests open at once."""

    max_body_bytes: int = MAX_BODY_BYTES
    max_in_flight: int = 1024


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a face speaks JSON-RPC.

    *code* maps an error's kind to its number; *cancel* makes the notification that takes a request back.
    """

    decoder: Callable[[int], Decoder]
    frame: Callable[[bytes], bytes]
    code: Callable[[str], int]
    cancel: Callable[[Id], tuple[str, dict[str, Any]]]


class Frontend(Protocol):
    """Who knows the methods."""

    def request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer a request, now or later. Raises SidecarError, now or when awaited."""
        ...

    def notification(self, method: str, params: Any) -> None:
        """Take a notification. What it raises is logged and nothing else."""
        ...

    def answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Learn that a request was answered; *error_kind* is None for a result. Does not raise."""
        ...


class Peer:
    """The connection over *stream*. It is silent until :meth:`start`."""

    def __init__(self, stream: ByteStream, dialect: Dialect, face: Frontend, limits: Limits) -> None:
        self.outbox = Outbox(stream, dialect.frame, self._go_on)
        self._stream = stream
        self._dialect = dialect
        self._face = face
        self._max_body_bytes = limits.max_body_bytes
        self._decoder = dialect.decoder(limits.max_body_bytes)
        self._in_flight = jsonrpc.InFlight(limits.max_in_flight)
        self._tasks: dict[Id, asyncio.Future[Answer]] = {}
        self._asked: dict[Id, tuple[str, asyncio.Future[Any]]] = {}
        self._numbers = itertools.count(1)
        self._is_input_over = False
        self._is_closing = False
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._next: Frame | None = None

    @property
    def requests_open(self) -> int:
        """How many requests of the client wait for their answer."""
        return len(self._in_flight)

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._stream.is_lost

    @property
    def is_over(self) -> bool:
        """Whether the client will say nothing more."""
        return self._ended.is_set()

    def start(self) -> None:
        """Begin to listen."""
        self._stream.open(self)

    def cancel(self, request_id: Any) -> None:
        """Cancel an open request, begun or not; it is answered as cancelled. Others are nothing to cancel."""
        task = self._tasks.get(request_id) if isinstance(request_id, int | str) else None
        if task is not None:
            task.cancel()

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.outbox.put(jsonrpc.encode_notification(method, params))

    async def request(self, method: str, params: Any) -> Any:
        """Return the client's result. Raises PeerRefused, PeerGone; cancelling it tells the client so."""
        if self._is_closing or self.is_over:
            raise PeerGone(f"the client is gone and cannot answer {method!r}")
        request_id = f"s{next(self._numbers)}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = (method, future)
        self.outbox.put(jsonrpc.encode_request(request_id, method, params))
        try:
            return await future
        except asyncio.CancelledError:
            self.notify(*self._dialect.cancel(request_id))
            raise
        finally:
            self._asked.pop(request_id, None)

    async def wait_ended(self) -> None:
        """Return once the client will say nothing more: end of input, a lost or an unreadable stream."""
        await self._ended.wait()

    def end(self) -> None:
        """Take the client's word that it will say nothing more."""
        self.stop_accepting()
        self._ended.set()

    def stop_accepting(self) -> None:
        """Take nothing more from the client; what is open goes on."""
        self._is_closing = True
        self._stream.pause_reading()

    async def wait_answered(self, seconds: float) -> None:
        """Return once every open request has its answer, or after *seconds*."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks.values()), timeout=seconds)

    async def aclose(self, seconds: float) -> None:
        """Cancel what is open, flush what is queued, let go of the stream; each for *seconds* at most."""
        self.stop_accepting()
        for task in tuple(self._tasks.values()):
            task.cancel()
        await self.wait_answered(seconds)
        self._let_go_of_asked()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.outbox.drain(), seconds)
        self.outbox.close()
        self._stream.close()
        self._ended.set()

    # What the stream tells.

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        if not self._is_closing:
            self._decoder.feed(data)
            self._go_on()

    def writable(self) -> None:
        """Send more."""
        self.outbox.pump()

    def ended(self) -> None:
        """Take the end of the client's input, or of everything."""
        self._is_input_over = True
        if self.is_lost:
            self.outbox.close()
            self._let_go_of_asked()
        self._go_on()

    def _go_on(self) -> None:
        """Handle what is there, as long as the client reads what it gets for it and others do not wait."""
        self._unschedule()
        is_all = self._take_frames()
        if not is_all:
            self._stream.pause_reading()
            self._soon = self._loop.call_soon(self._go_on)
        elif self._is_input_over:
            self._ended.set()
        elif self.outbox.is_full or self._is_closing:
            self._stream.pause_reading()
        else:
            self._stream.resume_reading()

    def _take_frames(self) -> bool:
        """Handle frames, one at least and more for a slice of time; False when it was over before."""
        until = self._loop.time() + _SLICE_S
        while not self._is_closing and not self.outbox.is_full and self._find_frame():
            frame, self._next = self._next, None
            assert frame is not None
            self._take_frame(frame)
            if self._loop.time() >= until and self._find_frame():
                return False
        return True

    def _find_frame(self) -> bool:
        """Whether there is a next frame."""
        if self._next is None:
            self._next = self._decoder.next()
        return self._next is not None

    def _unschedule(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def _take_frame(self, frame: Frame) -> None:
        match frame:
            case bytes():
                self._take_message(_decode(frame))
            case Oversized(id=request_id, is_response=True):
                self._take_response(jsonrpc.Response(request_id, None, {}))
            case Oversized(size, request_id):
                message = f"a message of {size} bytes is over the limit of {self._max_body_bytes}"
                self._refuse(request_id, RequestRefused("messageTooLarge", message))
            case Broken(kind, reason):
                hint = "the connection ends here: the next message cannot be found"
                self._refuse(None, RequestRefused(kind, reason, hint=hint))
                self._is_input_over = True

    def _take_message(self, message: jsonrpc.Message) -> None:
        match message:
            case jsonrpc.Request():
                self._take_request(message)
            case jsonrpc.Notification(method, params):
                self._take_notification(method, params)
            case jsonrpc.Response():
                self._take_response(message)
            case jsonrpc.Malformed(request_id, problem):
                self._refuse(request_id, problem)

    def _take_request(self, request: jsonrpc.Request) -> None:
        try:
            self._in_flight.admit(request.id)
        except RequestRefused as error:
            self._refuse(request.id, error)
            return
        try:
            outcome = self._face.request(request.method, request.params, request.id)
        except Exception as error:
            self._fail(request, error)
            return
        if inspect.isawaitable(outcome):
            task = asyncio.ensure_future(outcome)
            self._tasks[request.id] = task
            task.add_done_callback(partial(self._finish, request))
        else:
            self._succeed(request, outcome)

    def _take_notification(self, method: str, params: Any) -> None:
        try:
            self._face.notification(method, params)
        except Exception as error:
            log_fault(f"notification {method!r}", error)

    def _take_response(self, response: jsonrpc.Response) -> None:
        method, future = self._asked.get(response.id or "", ("", None))
        if future is None:
            if response.is_bare:
                problem = RequestRefused("invalidRequest", "a message has a method, a result or an error")
                self._refuse(response.id, problem)
        elif not future.done():
            if response.error is None:
                future.set_result(response.result)
            else:
                future.set_exception(PeerRefused(method, _code_of(response.error)))

    def _finish(self, request: jsonrpc.Request, task: asyncio.Future[Answer]) -> None:
        del self._tasks[request.id]
        if task.cancelled():
            self._fail(request, RequestCancelled(f"{request.method!r} was cancelled"))
        elif (error := task.exception()) is not None:
            self._fail(request, error)
        else:
            self._succeed(request, task.result())

    def _succeed(self, request: jsonrpc.Request, answer: Answer) -> None:
        try:
            body = jsonrpc.encode_result(request.id, answer.value)
        except (TypeError, ValueError, RecursionError) as error:
            self._fail(request, error)
            return
        self._settle(request, body, None)
        if answer.then is not None:
            try:
                answer.then()
            except Exception as error:
                log_fault(f"what follows {request.method!r}", error)

    def _fail(self, request: jsonrpc.Request, error: BaseException) -> None:
        if not isinstance(error, SidecarError):
            log_fault(f"request {request.method!r}", error)
            error = SidecarError(f"{request.method!r} failed with {type(error).__name__}, see the log")
        self._settle(request, self._error_body(request.id, error), error.kind)

    def _settle(self, request: jsonrpc.Request, body: bytes, error_kind: str | None) -> None:
        if self._in_flight.settle(request.id):
            self.outbox.put(body)
            self._face.answered(request.method, request.id, error_kind)

    def _refuse(self, request_id: Id | None, problem: SidecarError) -> None:
        self.outbox.put(self._error_body(request_id, problem))

    def _error_body(self, request_id: Id | None, error: SidecarError) -> bytes:
        code = self._dialect.code(error.kind)
        try:
            return jsonrpc.encode_error(request_id, code, error.message, error_data(error))
        except (TypeError, ValueError, RecursionError) as fault:  # the details are no JSON
            log_fault(f"telling a {error.kind!r}", fault)
            bare = {"kind": error.kind, "retryable": error.retryable}
            return jsonrpc.encode_error(request_id, code, error.message, bare)

    def _let_go_of_asked(self) -> None:
        for method, future in self._asked.values():
            if not future.done():
                future.set_exception(PeerGone(f"the client is gone and did not answer {method!r}"))


def _decode(frame: bytes) -> jsonrpc.Message:
    """Return the message in *frame*.

    The garbage collector would look again and again at what a large one is just being made of, and everybody
    would wait three times as long.
    """
    if len(frame) < _LARGE_BYTES or not gc.isenabled():
        return jsonrpc.decode(frame)
    gc.disable()
    try:
        return jsonrpc.decode(frame)
    finally:
        gc.enable()


_UNKNOWN_CODE: Final = -32603


def _code_of(error: dict[str, Any]) -> int:
    code = error.get("code")
    return code if type(code) is int else _UNKNOWN_CODE
