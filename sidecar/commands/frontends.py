"""The front end of a client at a socket, for the protocol of its first byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sidecar.acp import AcpConnection, AcpOptions
from sidecar.attach.streams import SocketStream
from sidecar.commands.launch import agent_info, server_info
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
