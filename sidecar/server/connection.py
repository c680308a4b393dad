"""The connection of one LSP client: its handshake, its phases, and the way of each of its messages.

``sidecar/*`` goes straight to the service, the rest to the language server; nothing is decided here except
whether a message is allowed now. Serving the only client of a process stands here, too.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import field

from sidecar._internal.async_cancel import apply_to_outcome
from sidecar._internal.errors import InvalidInput, SidecarError, log_fault
from sidecar._internal.values import Value
from sidecar.protocol.errors import MethodNotFound, RequestRefused, lsp_code
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar.protocol.handshake import ServerInfo, advertise
from sidecar.protocol.jsonrpc import Id, member
from sidecar.server.handshake import (
    ClientProfile,
    InitializeParams,
    answer_initialize,
    profile_of,
    read_initialize,
    resolve_command,
)
from sidecar.service.contract import Answer, OpenBackend
from sidecar.service.frontend import FrontendConnection
from sidecar.transport.lifetime import ExitReason, Lifetime, supervise
from sidecar.transport.peer import Dialect, Limits
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.server.lsp import LspServer
    from sidecar.server.sink import LspClient

_log = logging.getLogger("sidecar.server")

_DIALECT: Final = Dialect(
    HeaderDecoder, frame_with_header, lsp_code, lambda request_id: ("$/cancelRequest", {"id": request_id})
)


_SERVER: Final = "sidecar.server.lsp"
_LOAD_SERVER_AFTER_S: Final = 1.0
"""When the language server is loaded for an editor; a prompt that is sent at once does not wait for it."""


SERVER_NOTIFICATIONS: Final = frozenset(
    {
        "$/setTrace",
        "workspace/didChangeWatchedFiles",
        "workspace/didChangeWorkspaceFolders",
        "workspace/didCreateFiles",
        "workspace/didDeleteFiles",
        "workspace/didRenameFiles",
    }
)
SERVER_REQUESTS: Final = frozenset({"textDocument/codeLens", "workspace/textDocumentContent"})
"""The messages that the language server is loaded for; any other is ignored or refused without it."""


class LspOptions(Value, kw_only=True):
    """The options of every LSP connection of a daemon.

    Attributes:
        info: the description of the daemon that clients receive.
        open_backend: called with ``initializationOptions.sidecar``, and again when it failed.
        watch_process: called with the client's process id, or None when it sent none.
        on_shutdown: awaited before ``shutdown`` is answered; None when other clients remain.
        shutdown_s: how long the answer to ``shutdown`` waits for that, in seconds.
        limits: the limits of one connection.
    """

    info: ServerInfo
    open_backend: OpenBackend
    watch_process: Callable[[int | None], None] = lambda _process_id: None
    on_shutdown: Callable[[], Awaitable[None]] | None = None
    shutdown_s: float = 1.5
    limits: Limits = field(default_factory=Limits)


class _Phase(Enum):
    """The phase of a connection; it decides which messages are allowed."""

    NEW = "new"
    READY = "ready"
    SHUT_DOWN = "shut down"


class LspConnection(FrontendConnection["LspClient"]):
    """The connection of one LSP client."""

    def __init__(self, stream: ByteStream, options: LspOptions) -> None:
        super().__init__(stream, _DIALECT, options.limits, options.open_backend)
        self._options = options
        self._phase = _Phase.NEW
        self._has_exited = False
        self._asked: InitializeParams | None = None
        self._profile: ClientProfile | None = None
        self._is_traced = False
        self._loading: asyncio.Future[None] | None = None
        self._loading_soon: asyncio.TimerHandle | None = None
        self._early: list[tuple[str, Any]] = []
        self._tasks: set[asyncio.Future[None]] = set()

    async def wait_ended(self) -> ExitReason:
        """Return once the client has ended the connection: code 0 after ``shutdown``, else 1."""
        await self._peer.wait_ended()
        if not self._has_exited:
            await self.wait_answered()
        reason = "exit" if self._has_exited else "the client closed the connection"
        return ExitReason(reason, 0 if self._phase is _Phase.SHUT_DOWN else 1)

    async def aclose(self, seconds: float) -> None:
        """Leave the service, answer the open requests, flush and close, in about *seconds*."""
        if self._client is not None:
            self._client.close()
        if self._loading_soon is not None:
            self._loading_soon.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=seconds)
        await self._peer.aclose(seconds)

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer one request, if it is allowed now. Raises SidecarError, now or when awaited."""
        match self._phase, method == "initialize":
            case _Phase.NEW, True:
                return self._initialize(params)
            case _Phase.NEW, False:
                hint = "send initialize first"
                raise RequestRefused("notInitialized", f"{method!r} came before initialize", hint=hint)
            case _Phase.READY, True:
                raise RequestRefused("alreadyInitialized", "initialize came a second time")
            case _Phase.SHUT_DOWN, _:
                raise RequestRefused("invalidRequest", f"{method!r} came after shutdown", hint="send exit")
        if self._is_traced:
            self._trace(f"Received request '{method}' - ({request_id})")
        if method.startswith("sidecar/"):
            return (self._client or self.open_client()).call(method, params)
        match method:
            case "shutdown":
                return self._shut_down()
            case "workspace/diagnostic/refresh":
                return Answer(None)  # diagnostics are pulled anew each time
            case "workspace/executeCommand":
                return self.open_client().call(*resolve_command(params))
        if method.startswith("textDocument/did") and self.open_client().documents.take(method, params):
            return Answer(None)
        if method not in SERVER_REQUESTS:
            raise MethodNotFound(method)

        async def call_when_loaded() -> Any:
            await asyncio.shield(self._load_server())
            outcome = self._server.call(method, params)
            return await outcome if inspect.isawaitable(outcome) else outcome

        outcome = self._server.call(method, params) if self._has_loaded else call_when_loaded()
        return apply_to_outcome(outcome, Answer)

    def handle_notification(self, method: str, params: Any) -> None:
        """Handle one notification; before the handshake and after ``shutdown`` most are ignored."""
        match method:
            case "exit":
                self._has_exited = True
                self._peer.end()
            case "$/cancelRequest":
                self._peer.cancel(member(params, "id"))
            case _ if self._phase is _Phase.READY:
                if self._is_traced and not method.startswith("$/"):
                    self._trace(f"Received notification '{method}'")
                try:
                    match method:
                        case "initialized":
                            self.open_client().connect()
                            assert self._asked is not None
                            self._cover(self._asked.folder_uris)
                        case "window/workDoneProgress/cancel":
                            self.open_client().progress.cancel(member(params, "token"))
                        case "sidecar/editor/context":
                            self.open_client().report_editor(params)
                        case "textDocument/publishDiagnostics":
                            self.open_client().report_editor({"diagnostics": [params]})
                        case _ if self.open_client().documents.take(method, params):
                            pass
                        case _ if method not in SERVER_NOTIFICATIONS:
                            _log.debug("ignoring notification %.100r", method)
                        case _ if self._has_loaded:
                            self._notify_server(method, params)
                        case _:
                            self._early.append((method, params))
                            self._load_server()
                except SidecarError as error:
                    self._log_ignored(method, params, error)

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Trace an answer."""
        failed = f" Request failed: {error_kind}." if error_kind else ""
        if self._is_traced:
            self._trace(f"Sending response '{method} - ({request_id})'.{failed}")

    def _initialize(self, params: Any) -> Answer:
        asked = read_initialize(params)
        profile = profile_of(asked)
        if profile.options:
            self.open_backend(profile.options)  # before the answer, which refuses wrong options
        info, limits = self._options.info, self._options.limits
        advertised = advertise(
            info, max_message_bytes=limits.max_body_bytes, max_in_flight=limits.max_in_flight
        )
        self._asked, self._profile = asked, profile
        self._phase = _Phase.READY
        self._is_traced = asked.trace_level != "off"

        def follow_up() -> None:
            self._options.watch_process(asked.process_id)
            self.open_soon()

        return Answer(answer_initialize(asked, profile, info, advertised), follow_up)

    def _log_ignored(self, method: str, params: Any, error: SidecarError) -> None:
        """Ignore a notification that is refused."""
        why = error if isinstance(error, InvalidInput) else error.kind
        _log.warning("notification %.100r was ignored: %.300s", method, why)
        if method == "textDocument/didChange":
            self.open_client().documents.drop(member(params, "textDocument", "uri"))

    def _notify_server(self, method: str, params: Any) -> None:
        outcome = self._server.call(method, params)
        if inspect.isawaitable(outcome):
            self._spawn(outcome, method)
        if method == "$/setTrace":
            self._is_traced = self._server.is_traced

    @property
    def _has_loaded(self) -> bool:
        return _SERVER in sys.modules if self._loading is None else self._loading.done()

    def _load_server(self) -> asyncio.Future[None]:
        """Begin to load the language server in a thread, which takes tenths of a second."""

        def notify_early(loading: asyncio.Future[None]) -> None:
            """Handle the notifications that came meanwhile, in their order."""
            early, self._early = self._early, []
            for method, params in () if loading.cancelled() else early:
                try:
                    self._notify_server(method, params)
                except SidecarError as error:
                    self._log_ignored(method, params, error)

        if self._loading is None:
            self._loading = self._spawn(asyncio.to_thread(load_server), "loading the language server")
            self._loading.add_done_callback(notify_early)
        return self._loading

    @cached_property
    def _server(self) -> LspServer:
        """The server of the messages that are not ours; made when its modules are loaded."""
        from sidecar.server.lsp import LspServer

        assert self._asked is not None
        assert self._profile is not None
        server = LspServer(self._options.info, self.open_client, self._cover)
        server.offer(self._profile)
        server.begin(self._asked)
        return server

    def make_client(self) -> LspClient:
        assert self._profile is not None
        backend = self.open_backend(self._profile.options)
        from sidecar.server.sink import LspClient  # not above: it loads everything that a session needs

        if self._profile.is_editor:
            loop = asyncio.get_running_loop()
            self._loading_soon = loop.call_later(_LOAD_SERVER_AFTER_S, self._load_server)
        return LspClient(self._peer, backend, self._profile, self._spawn)

    def open_ahead(self) -> None:
        if self._phase is _Phase.READY:
            super().open_ahead()

    def _shut_down(self) -> Answer | Awaitable[Answer]:
        self._phase = _Phase.SHUT_DOWN
        if self._options.on_shutdown is None:
            return Answer(None)
        settling = self._spawn(self._options.on_shutdown(), "settling")

        async def wait() -> Answer:
            """Settling that takes longer goes on while the client already has its answer."""
            await asyncio.wait({settling}, timeout=self._options.shutdown_s)
            return Answer(None)

        return wait()

    def _cover(self, folder_uris: tuple[str, ...]) -> None:
        self._spawn(self.open_client().watcher.cover(folder_uris), "registering a watcher")

    def _spawn(self, work: Awaitable[None], action: str) -> asyncio.Future[None]:
        """Run *work* as a task of this connection; an error is logged as one of *action*."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def on_done(task: asyncio.Future[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log_fault(action, error)

        task.add_done_callback(on_done)
        return task

    def _trace(self, message: str) -> None:
        self._peer.notify("$/logTrace", {"message": message})


async def serve_lsp(stream: ByteStream, options: LspOptions, lifetime: Lifetime) -> int:
    """Serve the one client that this process belongs to, and return the exit code.

    The service ends with the client: before ``shutdown`` is answered, and at the end in any case. A
    daemon with several clients makes an :class:`LspConnection` for each instead.

    Args:
        stream: the client.
        options: the options of the connection; its ``on_shutdown`` and ``watch_process`` are replaced.
        lifetime: ends the process, and watches the client's process.
    """
    settling: asyncio.Future[None] | None = None

    async def settle_once() -> None:
        """A client that sends ``exit`` right behind ``shutdown`` must not cancel the settling."""
        nonlocal settling
        if settling is None:
            settling = asyncio.ensure_future(connection.settle())
        await asyncio.shield(settling)

    bound = replace(options, on_shutdown=settle_once, watch_process=lifetime.watch_process)
    connection = LspConnection(stream, bound)
    connection.start()
    return await supervise(lifetime, connection, settle_once)


def load_server() -> None:
    """Load the modules of the language server; blocks."""
    import_module(_SERVER)
