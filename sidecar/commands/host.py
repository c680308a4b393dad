"""What the clients of a shared daemon come to: one service and one workspace, and a face for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.acp import AcpConnection, AcpOptions
from sidecar.attach.broker import Broker
from sidecar.attach.paths import DaemonPaths
from sidecar.attach.streams import SocketStream
from sidecar.boot import build
from sidecar.commands.handshake import agent_info, server_info
from sidecar.protocol.framing import is_line_framed
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend
from sidecar.transport.lifetime import SupervisedConnection

__all__ = ["Host"]

_MAX_IDLE_S: Final = 7 * 24 * 3600
_FIRST_S: Final = 5.0


class Host:
    """The daemon of *place* and its clients; it leaves after *idle_s* without one and without work."""

    def __init__(self, paths: DaemonPaths, idle_s: float) -> None:
        self.daemon = build(paths.home, lifetime="shared")
        self.broker = Broker(self._open_face, self._is_busy, idle_s, first_s=_FIRST_S)
        socket = str(paths.socket)
        self._lsp = LspOptions(info=server_info(socket), open_backend=self._open_backend)
        self._acp = AcpOptions(agent_info(socket), self._open_backend)

    async def _open_face(self, stream: SocketStream) -> SupervisedConnection:
        """Return the face that the client's first byte asks for."""
        face = self._acp_face(stream) if is_line_framed(await stream.peek()) else self._lsp_face(stream)
        face.start()
        return face

    def _lsp_face(self, stream: SocketStream) -> LspConnection:
        options = replace(self._lsp, watch_process=stream.close_after_process)
        return LspConnection(stream, options)

    def _acp_face(self, stream: SocketStream) -> AcpConnection:
        return AcpConnection(stream, self._acp)

    def _open_backend(self, options: Mapping[str, Any]) -> Backend:
        self._configure(options)
        return Backend(self.daemon.service, self.daemon.workspace)

    def _is_busy(self) -> bool:
        return any(session.is_busy for session in self.daemon.service.hub.sessions)

    def _configure(self, options: Mapping[str, Any]) -> None:
        """Take a client's options. Raises InvalidInput."""
        self.daemon.configure(options)
        if "idleExitSeconds" in options:
            # The longest wish counts: no client makes the daemon leave earlier than another expects.
            self.broker.idle_s = max(self.broker.idle_s, _seconds(options["idleExitSeconds"]))


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= _MAX_IDLE_S:
        raise InvalidInput(f"idleExitSeconds must be a number from 0 to {_MAX_IDLE_S}")
    return float(value)
