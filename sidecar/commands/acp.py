"""``sidecar acp``: the daemon as an agent of the Agent Client Protocol on standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar._internal.loading import loading
from sidecar.transport.stdio import ProtocolFds, take_stdio

if TYPE_CHECKING:
    from argparse import Namespace

    from sidecar.transport.lifetime import Lifetime
    from sidecar.transport.streams import ByteStream

__all__ = ["run", "serve_agent"]


def run(options: Namespace) -> int:
    """Serve; the process ends from within."""
    fds = take_stdio()
    # Imported once nothing but the protocol can reach the client any more.
    with loading():
        import sidecar.acp  # noqa: F401  # loaded before the loop runs
        from sidecar.commands.logs import log_to_stderr
        from sidecar.transport.lifetime import run as run_to_end

    log_to_stderr(options.log)
    run_to_end(lambda lifetime: _serve(fds, lifetime))


async def _serve(fds: ProtocolFds, lifetime: Lifetime) -> int:
    from sidecar.transport.streams import open_stdio

    lifetime.watch_parent()
    return await serve_agent(await open_stdio(fds), lifetime)


async def serve_agent(stream: ByteStream, lifetime: Lifetime) -> int:
    """Serve the agent panel at the other end of *stream*; return the exit code."""
    with loading():
        from sidecar.acp import AcpOptions, serve_acp
        from sidecar.commands.handshake import agent_info
        from sidecar.commands.late import LateDaemon

    return await serve_acp(stream, AcpOptions(agent_info(), LateDaemon().open), lifetime)
