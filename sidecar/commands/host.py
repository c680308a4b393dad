"""The host of a shared daemon: one service and one workspace, and a front end for each client.

Apart from the command that starts it, which loads this only when no other daemon is running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import sidecar.server.lsp
import sidecar.server.sink  # noqa: F401  # loaded before the first client comes
from sidecar._internal.allocator import exclude_loaded_modules
from sidecar._internal.errors import InvalidInput
from sidecar.acp import AcpConnection, AcpOptions
from sidecar.attach.broker import Broker
from sidecar.attach.paths import DaemonPaths
from sidecar.attach.streams import SocketStream
from sidecar.boot import build
from sidecar.commands.launch import WARM_UP_AFTER_S, agent_info, server_info
from sidecar.protocol.framing import is_line_framed
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend
from sidecar.transport.lifetime import SupervisedConnection
from sidecar.transport.peer import Limits


async def open_frontend(
    stream: SocketStream,
    open_backend: Callable[[Mapping[str, Any]], Backend],
    limits: Limits,
    socket: str | None = None,
) -> SupervisedConnection:
    """Return the front end of a client, started.

    Args:
        stream: the client.
        open_backend: returns its backend for its options.
        limits: its limits; it shares a bound with the other clients of the daemon.
        socket: where more clients may attach; the handshake has it.
    """
    connection: AcpConnection | LspConnection
    if is_line_framed(await stream.peek()):
        connection = AcpConnection(stream, AcpOptions(agent_info(socket), open_backend, limits))
    else:
        lsp = LspOptions(
            info=server_info(socket),
            open_backend=open_backend,
            watch_process=stream.close_after_process,
            limits=limits,
        )
        connection = LspConnection(stream, lsp)
    connection.start()
    return connection


_MAX_IDLE_S: Final = 7 * 24 * 3600
_FIRST_S: Final = 5.0


class Host:
    """The daemon of *paths* and its clients; it leaves after *idle_s* seconds without clients and work."""

    def __init__(self, paths: DaemonPaths, idle_s: float) -> None:
        socket = str(paths.socket)
        self.daemon = build(paths.home, lifetime="shared")
        exclude_loaded_modules()
        self.daemon.warm_up(WARM_UP_AFTER_S)
        limits = Limits()
        self.broker = Broker(
            lambda stream: open_frontend(stream, self._open_backend, limits, socket),
            lambda: any(session.is_busy for session in self.daemon.service.hub.sessions),
            idle_s,
            first_s=_FIRST_S,
        )

    def _open_backend(self, options: Mapping[str, Any]) -> Backend:
        """Apply a client's options and return its backend. Raises InvalidInput."""
        self.daemon.configure(options)
        if "idleExitSeconds" in options:
            idle_s = options["idleExitSeconds"]
            if type(idle_s) not in (int, float) or not 0 <= idle_s <= _MAX_IDLE_S:
                raise InvalidInput(f"idleExitSeconds must be a number from 0 to {_MAX_IDLE_S}")
            # The longest time counts: no client makes the daemon leave earlier than another one expects.
            self.broker.idle_s = max(self.broker.idle_s, float(idle_s))
        return Backend(self.daemon.service, self.daemon.workspace)
