"""One LSP client: its handshake, the states it may be in, and where each of its messages goes.

``initialize`` is answered before sessions, models and tools are loaded, unless it brings options for them: an
editor waits for that answer with its window open. ``sidecar/*`` goes straight to the service, the rest to the
language server; neither is decided here beyond whether it may be asked now.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sidecar._internal.errors import SidecarError, log_fault
from sidecar.protocol.errors import MethodNotFound, RequestRefused, lsp_code
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar.protocol.handshake import ServerInfo, advertise
from sidecar.protocol.jsonrpc import Id
from sidecar.server.commands import resolve_command
from sidecar.server.lsp import LspServer
from sidecar.server.profile import Handshake, profile_of, sidecar_options
from sidecar.service.contract import Answer, Backend, OpenBackend
from sidecar.transport.lifetime import ExitReason
from sidecar.transport.peer import Dialect, Limits, Peer
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.server.client import LspClient

__all__ = ["LspConnection", "LspOptions"]

_log = logging.getLogger("sidecar.server")

_LAST_ANSWERS_S: Final = 0.25
"""How long requests may still be answered after the end of input, as in ``printf ... | sidecar``."""

_DIALECT: Final = Dialect(
    HeaderDecoder, frame_with_header, lsp_code, lambda request_id: ("$/cancelRequest", {"id": request_id})
)


def _nothing(_value: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class LspOptions:
    """What the composition root gives to every LSP connection.

    Attributes:
        info: what the server says of itself.
        open_backend: called with ``initializationOptions.sidecar``, again when it failed.
        watch_process: hears of the client's process id, None when it has none.
        on_shutdown: awaited, within *shutdown_s*, before ``shutdown`` is answered; None where others stay.
        limits: what one connection may cost.
    """

    info: ServerInfo
    open_backend: OpenBackend
    watch_process: Callable[[int | None], None] = _nothing
    on_shutdown: Callable[[], Awaitable[None]] | None = None
    shutdown_s: float = 1.5
    limits: Limits = field(default_factory=Limits)


class _Phase(Enum):
    """Where the client is in its life; what may be asked depends on it."""

    NEW = "new"
    READY = "ready"
    SHUT_DOWN = "shut down"


class LspConnection:
    """A :class:`~sidecar.transport.peer.Frontend`, and what serves it; one for each client."""

    def __init__(self, stream: ByteStream, options: LspOptions) -> None:
        self._options = options
        self._peer = Peer(stream, _DIALECT, self, options.limits)
        self._server = LspServer(options.info, _advertised(options), self._open, self._cover_folders)
        self._phase = _Phase.NEW
        self._has_exited = False
        self._introduction: Handshake | None = None
        self._backend: Backend | None = None
        self._client: LspClient | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Begin to listen."""
        self._peer.start()

    async def wait_ended(self) -> ExitReason:
        """Return once the client has ended the connection, with the exit code its last words call for."""
        await self._peer.wait_ended()
        if not self._has_exited:
            await self._peer.wait_answered(_LAST_ANSWERS_S)
        reason = "exit" if self._has_exited else "the client closed the connection"
        return ExitReason(reason, 0 if self._phase is _Phase.SHUT_DOWN else 1)

    def announce_end(self, reason: str, in_s: float) -> None:
        """Tell a client that is still there that the process will end, and take nothing more from it."""
        if self._client is not None and not self._peer.is_over:
            self._client.link.notify("sidecar/closing", {"reason": reason, "inMs": round(in_s * 1000)})
        self._peer.stop_accepting()

    async def settle(self) -> None:
        """Let the service settle, if it was ever loaded."""
        if self._backend is not None:
            await self._backend.service.aclose()

    async def aclose(self, seconds: float) -> None:
        """Leave the service, answer what is open, flush, let go; in about *seconds*."""
        if self._client is not None:
            self._client.leave()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=seconds)
        await self._peer.aclose(seconds)

    # What the peer tells.

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer one request, if it may be asked now."""
        self._check_phase(method)
        if self._phase is _Phase.NEW:
            return self._initialize(params)
        self._trace(f"Received request '{method}' - ({request_id})")
        if method.startswith("sidecar/"):
            return self._open().port().call(method, params)
        match method:
            case "shutdown":
                return self._shut_down()
            case "workspace/executeCommand":
                return self._open().port().call(*resolve_command(params))
        outcome = self._server.call(method, params)
        return _answer_later(outcome) if inspect.isawaitable(outcome) else Answer(outcome)

    def handle_notification(self, method: str, params: Any) -> None:
        """Take one notification; before the handshake and after ``shutdown`` most are nothing."""
        if method == "exit":
            self._has_exited = True
            self._peer.end()
        elif method == "$/cancelRequest":
            self._peer.cancel(_member(params, "id"))
        elif self._phase is _Phase.READY:
            if not method.startswith("$/"):
                self._trace(f"Received notification '{method}'")
            self._handle(method, params)

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Trace an answer."""
        failed = f" Request failed: {error_kind}." if error_kind else ""
        self._trace(f"Sending response '{method} - ({request_id})'.{failed}")

    def _check_phase(self, method: str) -> None:
        match self._phase, method == "initialize":
            case _Phase.NEW, False:
                hint = "send initialize first"
                raise RequestRefused("notInitialized", f"{method!r} came before initialize", hint=hint)
            case _Phase.READY, True:
                raise RequestRefused("alreadyInitialized", "initialize came a second time")
            case _Phase.SHUT_DOWN, _:
                raise RequestRefused("invalidRequest", f"{method!r} came after shutdown", hint="send exit")

    def _initialize(self, params: Any) -> Answer:
        typed = self._server.read_initialize(params)
        profile, options = profile_of(typed), sidecar_options(typed)
        if options:
            self._open_backend(options)  # before the answer, which is a refusal if they are wrong
        self._server.offer(profile)
        result = self._server.initialize(typed)
        self._introduction = Handshake(profile, self._server.encoding, options)
        self._phase = _Phase.READY
        return Answer(result, lambda: self._answered_handshake(typed.process_id))

    def _answered_handshake(self, client_process_id: int | None) -> None:
        """Load everything while the client is busy with the answer."""
        self._options.watch_process(client_process_id)
        asyncio.get_running_loop().call_soon(self._open_ahead)

    def _open_ahead(self) -> None:
        """Open before anything is asked; what fails now fails again, and is told, when something is."""
        if not self._peer.is_over and self._phase is _Phase.READY:
            with suppress(SidecarError):
                self._open()

    def _open(self) -> LspClient:
        if self._client is None:
            from sidecar.server.client import LspClient  # not before: it loads what a session is made of

            assert self._introduction is not None
            backend = self._open_backend(self._introduction.options)
            self._client = LspClient(self._peer, backend, self._introduction, self._spawn)
        return self._client

    def _open_backend(self, options: Mapping[str, Any]) -> Backend:
        self._backend = self._backend or self._options.open_backend(options)
        return self._backend

    def _shut_down(self) -> Answer | Awaitable[Answer]:
        self._phase = _Phase.SHUT_DOWN
        if self._options.on_shutdown is None:
            return Answer(None)
        return self._settle(self._options.on_shutdown())

    async def _settle(self, settle: Awaitable[None]) -> Answer:
        """Give settling its time; what takes longer goes on while the client already has its answer."""
        settling = self._spawn(settle, "settling")
        await asyncio.wait({settling}, timeout=self._options.shutdown_s)
        return Answer(None)

    def _handle(self, method: str, params: Any) -> None:
        try:
            match method:
                case "initialized":
                    self._open().port()
                    self._cover_folders()
                case "window/workDoneProgress/cancel":
                    self._open().progress.cancel(_member(params, "token"))
                case _:
                    self._server.notify(method, params)
        except MethodNotFound:
            _log.debug("ignoring notification %.100r", method)
        except SidecarError as error:
            _log.warning("notification %.100r is left: %s", method, error.kind)

    def _cover_folders(self) -> None:
        self._spawn(self._open().watcher.cover(self._server.folder_uris), "registering a watcher")

    def _spawn(self, work: Awaitable[None], what: str) -> asyncio.Future[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._reap, what))
        return task

    def _reap(self, what: str, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log_fault(what, error)

    def _trace(self, message: str) -> None:
        if self._phase is not _Phase.NEW and self._server.is_traced:
            self._peer.notify("$/logTrace", {"message": message})


async def _answer_later(outcome: Awaitable[Any]) -> Answer:
    return Answer(await outcome)


def _member(params: Any, name: str) -> Any:
    return params.get(name) if isinstance(params, Mapping) else None


def _advertised(options: LspOptions) -> dict[str, Any]:
    limits = options.limits
    return advertise(
        options.info, max_message_bytes=limits.max_body_bytes, max_in_flight=limits.max_in_flight
    )
