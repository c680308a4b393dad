"""One ACP client from its first byte: the handshake, and everything else once there is somebody to ask.

``initialize`` is answered before sessions, models and tools are loaded: an editor waits for that answer with
its window open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sidecar._internal.errors import SidecarError
from sidecar.acp.handshake import AcpProfile, AgentInfo, profile_of, welcome
from sidecar.protocol.errors import RequestRefused, acp_code
from sidecar.protocol.framing import LineDecoder, frame_with_newline
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer, Backend, OpenBackend
from sidecar.transport.lifetime import ExitReason
from sidecar.transport.peer import Dialect, Limits, Peer
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.acp.client import AcpClient

__all__ = ["AcpConnection", "AcpOptions"]

_LAST_ANSWERS_S: Final = 0.25
"""How long requests may still be answered after the end of input, as in ``printf ... | sidecar acp``."""

_DIALECT: Final = Dialect(
    LineDecoder,
    frame_with_newline,
    acp_code,
    lambda request_id: ("$/cancel_request", {"requestId": request_id}),
)


@dataclass(frozen=True, slots=True)
class AcpOptions:
    """What the composition root gives to every ACP connection.

    Attributes:
        info: what the daemon says of itself.
        open_backend: called with ``_meta.sidecar`` of ``initialize``, again when it failed.
        limits: what one connection may cost.
    """

    info: AgentInfo
    open_backend: OpenBackend
    limits: Limits = field(default_factory=Limits)


class AcpConnection:
    """A :class:`~sidecar.transport.peer.Frontend`, and what serves it; one for each client."""

    def __init__(self, stream: ByteStream, options: AcpOptions) -> None:
        self._options = options
        self._peer = Peer(stream, _DIALECT, self, options.limits)
        self._profile: AcpProfile | None = None
        self._backend: Backend | None = None
        self._client: AcpClient | None = None

    def start(self) -> None:
        """Begin to listen."""
        self._peer.start()

    async def wait_ended(self) -> ExitReason:
        """Return once the client has closed the connection; the protocol has no other way to end it."""
        await self._peer.wait_ended()
        await self._peer.wait_answered(_LAST_ANSWERS_S)
        return ExitReason("the client closed the connection", 0)

    def announce_end(self, reason: str, in_s: float) -> None:
        """Tell a client that is still there that the process will end, and take nothing more from it."""
        if self._client is not None and not self._peer.is_over:
            self._client.announce_end(reason, round(in_s * 1000))
        self._peer.stop_accepting()

    async def settle(self) -> None:
        """Let the service settle, if it was ever asked anything."""
        if self._backend is not None:
            await self._backend.service.aclose()

    async def aclose(self, seconds: float) -> None:
        """Leave the service, answer what is open, flush, let go; in about *seconds*."""
        if self._client is not None:
            self._client.leave()
        await self._peer.aclose(seconds)

    # What the peer tells.

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer one request, if it may be asked now."""
        if method == "initialize":
            return self._initialize(params)
        if self._profile is None:
            hint = "send initialize first"
            raise RequestRefused("notInitialized", f"{method!r} came before initialize", hint=hint)
        return self._open(self._profile).handle_request(method, params, request_id)

    def handle_notification(self, method: str, params: Any) -> None:
        """Take one notification; before there is a client there is nothing to say."""
        if self._client is None:
            return
        if method == "$/cancel_request":
            self._client.cancel_request(params.get("requestId") if isinstance(params, Mapping) else None)
        else:
            self._client.handle_notification(method, params)

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Learn that a request was answered; nobody is told."""

    def _initialize(self, params: Any) -> Answer:
        if self._profile is not None:
            raise RequestRefused("alreadyInitialized", "initialize came a second time")
        info = self._options.info
        profile = profile_of(params, info.server.faces)
        if profile.options:
            self._open(profile)  # before the answer, which is a refusal if they are wrong
        self._profile = profile
        said = welcome(info, self._options.limits, profile.version)
        return Answer(said, lambda: self._open_soon(profile))

    def _open_soon(self, profile: AcpProfile) -> None:
        """Load everything once the answer is out, while the client is busy with it."""
        asyncio.get_running_loop().call_soon(self._open_ahead, profile)

    def _open_ahead(self, profile: AcpProfile) -> None:
        """Open before anything is asked; what fails now fails again, and is told, when something is."""
        if not self._peer.is_over:
            with suppress(SidecarError):
                self._open(profile)

    def _open(self, profile: AcpProfile) -> AcpClient:
        if self._client is None:
            from sidecar.acp.client import AcpClient  # not before: it loads what a session is made of

            backend = self._backend = self._backend or self._options.open_backend(profile.options)
            self._client = AcpClient(self._peer, profile, backend.service, backend.workspace)
        return self._client
