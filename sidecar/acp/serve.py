"""Serve one ACP client from its first byte to the end of the process."""

from __future__ import annotations

from sidecar.acp.connection import AcpConnection, AcpOptions
from sidecar.transport.lifetime import Lifetime, supervise
from sidecar.transport.streams import ByteStream

__all__ = ["serve_acp"]


async def serve_acp(stream: ByteStream, options: AcpOptions, lifetime: Lifetime) -> int:
    """Serve the one client this process belongs to; return the exit code, 0 when it closed its end.

    The service ends with the client. A daemon with several clients makes an
    :class:`~sidecar.acp.connection.AcpConnection` for each instead, over one backend.
    """
    connection = AcpConnection(stream, options)
    connection.start()
    return await supervise(lifetime, connection, connection.settle)
