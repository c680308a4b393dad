"""The connection of one ACP client: its handshake, and the way of its messages once there is a client.

Serving the only client of a process stands here, too.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from msgspec import field

from sidecar._internal.values import Value
from sidecar.acp.handshake import AcpProfile, AgentInfo, profile_of, welcome
from sidecar.protocol.errors import RequestRefused, acp_code
from sidecar.protocol.framing import LineDecoder, frame_with_newline
from sidecar.protocol.jsonrpc import Id, member
from sidecar.service.contract import Answer, OpenBackend
from sidecar.service.frontend import FrontendConnection
from sidecar.transport.lifetime import ExitReason, Lifetime, supervise
from sidecar.transport.peer import Dialect, Limits
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.acp.client import AcpClient

_DIALECT: Final = Dialect(
    LineDecoder,
    frame_with_newline,
    acp_code,
    lambda request_id: ("$/cancel_request", {"requestId": request_id}),
)


class AcpOptions(Value):
    """The options of every ACP connection of a daemon.

    Attributes:
        info: the description of the agent that clients receive.
        open_backend: called with ``_meta.sidecar`` of ``initialize``, and again when it failed.
        limits: the limits of one connection.
    """

    info: AgentInfo
    open_backend: OpenBackend
    limits: Limits = field(default_factory=Limits)


class AcpConnection(FrontendConnection["AcpClient"]):
    """The connection of one ACP client."""

    def __init__(self, stream: ByteStream, options: AcpOptions) -> None:
        super().__init__(stream, _DIALECT, options.limits, options.open_backend)
        self._options = options
        self._profile: AcpProfile | None = None

    async def wait_ended(self) -> ExitReason:
        """Return once the client has closed the connection; the protocol has no other way to end it."""
        await self._peer.wait_ended()
        await self.wait_answered()
        return ExitReason("the client closed the connection", 0)

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer one request, if it is allowed now. Raises SidecarError, now or when awaited."""
        if method == "initialize":
            return self._initialize(params)
        if self._profile is None:
            hint = "send initialize first"
            raise RequestRefused("notInitialized", f"{method!r} came before initialize", hint=hint)
        return self.open_client().handle_request(method, params, request_id)

    def handle_notification(self, method: str, params: Any) -> None:
        """Handle one notification; before there is a client all are ignored."""
        if self._client is None:
            return
        if method == "$/cancel_request":
            self._client.cancel_request(member(params, "requestId"))
        else:
            self._client.handle_notification(method, params)

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Do nothing: the protocol has no trace."""

    def _initialize(self, params: Any) -> Answer:
        if self._profile is not None:
            raise RequestRefused("alreadyInitialized", "initialize came a second time")
        info = self._options.info
        profile = profile_of(params, info.server.faces)
        if profile.options:
            self.open_backend(profile.options)  # before the answer, which refuses wrong options
        self._profile = profile
        return Answer(welcome(info, self._options.limits, profile.version), self.open_soon)

    def make_client(self) -> AcpClient:
        from sidecar.acp.client import AcpClient  # not above: it loads everything that a session needs

        assert self._profile is not None
        backend = self.open_backend(self._profile.options)
        return AcpClient(self._peer, self._profile, backend)


async def serve_acp(stream: ByteStream, options: AcpOptions, lifetime: Lifetime) -> int:
    """Serve the one client that this process belongs to, and return the exit code.

    The service ends with the client. A daemon with several clients makes an :class:`AcpConnection` for each
    instead, over one backend.

    Args:
        stream: the client.
        options: the options of the connection.
        lifetime: ends the process.

    Returns:
        0 when the client closed its end.
    """
    connection = AcpConnection(stream, options)
    connection.start()
    return await supervise(lifetime, connection, connection.settle)
