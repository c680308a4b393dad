"""``sidecar serve``: the daemon on standard input and output, for one client, until it leaves.

The client's first byte says which protocol it speaks; what the other one needs is never loaded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sidecar._internal.loading import loading
from sidecar.transport.stdio import ProtocolFds, take_stdio

if TYPE_CHECKING:
    from argparse import Namespace

    from sidecar.transport.lifetime import Lifetime
    from sidecar.transport.streams import ByteStream

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Serve; the process ends from within."""
    fds = take_stdio()
    # Imported once nothing but the protocol can reach the client any more.
    with loading():
        from sidecar.commands.logs import log_to_stderr
        from sidecar.transport.lifetime import run as run_to_end

    log_to_stderr(options.log)
    run_to_end(lambda lifetime: _serve(fds, lifetime, options.client_process_id))


async def _serve(fds: ProtocolFds, lifetime: Lifetime, client_process_id: int | None) -> int:
    with loading():
        from sidecar.protocol.framing import is_line_framed
        from sidecar.transport.streams import open_stdio

    lifetime.watch_parent()
    lifetime.watch_process(client_process_id)
    stream = await open_stdio(fds)
    if is_line_framed(await _first_bytes(stream, lifetime)):
        return await _serve_agent(stream, lifetime)
    return await _serve_editor(stream, lifetime)


async def _first_bytes(stream: ByteStream, lifetime: Lifetime) -> bytes:
    """Return how the client begins; nothing when it, or this process, ends before it has."""
    first, ending = asyncio.ensure_future(stream.peek()), asyncio.ensure_future(lifetime.wait())
    await asyncio.wait((first, ending), return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    return first.result() if first.done() else b""


async def _serve_agent(stream: ByteStream, lifetime: Lifetime) -> int:
    with loading():
        from sidecar.commands.acp import serve_agent

    return await serve_agent(stream, lifetime)


async def _serve_editor(stream: ByteStream, lifetime: Lifetime) -> int:
    with loading():
        from sidecar.commands.handshake import server_info
        from sidecar.commands.late import LateDaemon
        from sidecar.server import LspOptions, serve_lsp

    return await serve_lsp(stream, LspOptions(info=server_info(), open_backend=LateDaemon().open), lifetime)
