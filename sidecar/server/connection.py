"""One LSP client: its handshake, the states it may be in, and where each of its messages goes.

``sidecar/*`` goes straight to the service, the rest to the language server; neither is decided here beyond
whether it may be asked now.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final

from sidecar._internal.errors import SidecarError
from sidecar.protocol.errors import MethodNotFound, RequestRefused, lsp_code
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar.protocol.handshake import ServerInfo, advertise
from sidecar.protocol.jsonrpc import Id
from sidecar.server.client import LspClient
from sidecar.server.commands import resolve_command
from sidecar.server.documents import Documents
from sidecar.server.edits import edit_applier
from sidecar.server.lsp import LspServer
from sidecar.server.profile import profile_of, sidecar_options
from sidecar.service.contract import Answer, ServicePort
from sidecar.transport.faults import log_fault
from sidecar.transport.lifetime import Stop
from sidecar.transport.peer import Dialect, Limits, Peer
from sidecar.transport.streams import ByteStream
from sidecar.workspace.contract import WorkspacePort

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
    """What boot gives to every LSP connection.

    Attributes:
        info: what the server says of itself.
        configure: takes ``initializationOptions.sidecar``; raises InvalidInput to refuse the client.
        on_workspace_folders: hears of the folders the client has open, first at ``initialize``.
        watch_process: hears of the client's process id, None when it has none.
        on_shutdown: awaited, within *shutdown_s*, before ``shutdown`` is answered; None where others stay.
        limits: what one connection may cost.
    """

    info: ServerInfo
    configure: Callable[[Mapping[str, Any]], None] = _nothing
    on_workspace_folders: Callable[[tuple[Path, ...]], None] = _nothing
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
    """A :class:`~sidecar.transport.peer.Face`, and what serves it; one for each client."""

    def __init__(
        self, stream: ByteStream, service: ServicePort, workspace: WorkspacePort, options: LspOptions
    ) -> None:
        self._service = service
        self._workspace = workspace
        self._options = options
        self._peer = Peer(stream, _DIALECT, self, options.limits)
        self._documents = Documents(workspace, self._warn)
        self._server = LspServer(options.info, _advertised(options), self._documents, self._folders_changed)
        self._phase = _Phase.NEW
        self._has_exited = False
        self._client: LspClient | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Begin to listen."""
        self._peer.start()

    async def wait_ended(self) -> Stop:
        """Return once the client has ended the connection, with the exit code its last words call for."""
        await self._peer.wait_ended()
        if not self._has_exited:
            await self._peer.wait_answered(_LAST_ANSWERS_S)
        reason = "exit" if self._has_exited else "the client closed the connection"
        return Stop(reason, 0 if self._phase is _Phase.SHUT_DOWN else 1)

    def announce_end(self, reason: str, in_s: float) -> None:
        """Tell a client that is still there that the process will end, and take nothing more from it."""
        if self._client is not None and not self._peer.is_over:
            self._client.link.notify("sidecar/closing", {"reason": reason, "inMs": round(in_s * 1000)})
        self._peer.stop_accepting()

    async def aclose(self, seconds: float) -> None:
        """Leave the service, answer what is open, flush, let go; in about *seconds*."""
        self._documents.close_all()
        if self._client is not None:
            self._client.leave()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=seconds)
        await self._peer.aclose(seconds)

    # What the peer tells.

    def request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer one request, if it may be asked now."""
        self._check_phase(method)
        if self._client is None:
            return self._initialize(params)
        self._trace(f"Received request '{method}' - ({request_id})")
        if method.startswith("sidecar/"):
            return self._client.port().call(method, params)
        match method:
            case "shutdown":
                return self._shut_down()
            case "workspace/executeCommand":
                return self._client.port().call(*resolve_command(params))
        outcome = self._server.call(method, params)
        return _answer_later(outcome) if inspect.isawaitable(outcome) else Answer(outcome)

    def notification(self, method: str, params: Any) -> None:
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

    def answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
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
        self._options.configure(sidecar_options(typed))
        profile = profile_of(typed)
        client = LspClient(self._peer, profile, self._service, self._workspace)
        client.offer_views(self._server, self._spawn)
        result = self._server.initialize(typed)
        encoding = self._server.encoding
        self._documents.negotiated(encoding, edit_applier(self._peer, profile, encoding))
        self._options.on_workspace_folders(self._server.folders)
        self._client, self._phase = client, _Phase.READY
        return Answer(result, lambda: self._options.watch_process(typed.process_id))

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
        assert self._client is not None
        try:
            match method:
                case "initialized":
                    self._client.port()
                    self._cover_folders()
                case "window/workDoneProgress/cancel":
                    self._client.progress.cancel(_member(params, "token"))
                case _:
                    self._server.call(method, params)
        except MethodNotFound:
            _log.debug("ignoring notification %.100r", method)
        except SidecarError as error:
            _log.warning("notification %.100r is left: %s", method, error.kind)

    def _folders_changed(self) -> None:
        self._options.on_workspace_folders(self._server.folders)
        self._cover_folders()

    def _cover_folders(self) -> None:
        assert self._client is not None
        self._spawn(self._client.watcher.cover(self._server.folder_uris), "registering a watcher")

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
        if self._client is not None and self._server.is_traced:
            self._peer.notify("$/logTrace", {"message": message})

    def _warn(self, message: str) -> None:
        self._peer.notify("window/logMessage", {"type": 2, "message": message})


async def _answer_later(outcome: Awaitable[Any]) -> Answer:
    return Answer(await outcome)


def _member(params: Any, name: str) -> Any:
    return params.get(name) if isinstance(params, Mapping) else None


def _advertised(options: LspOptions) -> dict[str, Any]:
    limits = options.limits
    return advertise(
        options.info, max_message_bytes=limits.max_body_bytes, max_in_flight=limits.max_in_flight
    )
