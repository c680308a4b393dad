"""``sidecar acp``: the daemon as an agent of the Agent Client Protocol on standard input and output."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sidecar import __version__
from sidecar.transport.stdio import ProtocolFds, take_stdio

if TYPE_CHECKING:
    from sidecar.acp import AgentInfo, Backend
    from sidecar.transport.lifetime import Lifetime
    from sidecar.transport.streams import ByteStream

__all__ = ["agent_info", "run", "serve_agent"]


def run(options: argparse.Namespace) -> int:
    """Serve; the process ends from within."""
    fds = take_stdio()
    gc.disable()  # until run_to_end: nothing that is imported will ever be garbage
    # Imported once nothing but the protocol can reach the client any more.
    import sidecar.acp  # noqa: F401  # loaded before the loop runs
    from sidecar.transport.lifetime import run as run_to_end

    logging.basicConfig(level=options.log.upper(), format="%(asctime)s %(name)s %(levelname)s %(message)s")
    run_to_end(lambda lifetime: _serve(fds, lifetime))


async def _serve(fds: ProtocolFds, lifetime: Lifetime) -> int:
    from sidecar.transport.pipes import open_stdio

    lifetime.watch_parent()
    return await serve_agent(await open_stdio(fds), lifetime)


async def serve_agent(stream: ByteStream, lifetime: Lifetime) -> int:
    """Serve the agent panel at the other end of *stream*; return the exit code."""
    from sidecar.acp import AcpOptions, serve_acp

    return await serve_acp(stream, AcpOptions(agent_info(), _open_backend), lifetime)


def agent_info() -> AgentInfo:
    """Return what the daemon says of itself before it has loaded anything that it could be asked."""
    from sidecar.acp import AgentInfo
    from sidecar.protocol.handshake import FACES

    build = f"python-{'.'.join(map(str, sys.version_info[:3]))}"
    has_mcp = find_spec("mcp") is not None
    return AgentInfo("sidecar", "Sidecar", __version__, build, FACES, reaches_mcp=has_mcp)


def _open_backend(options: Mapping[str, Any]) -> Backend:
    from sidecar.acp import Backend

    gc.disable()
    from sidecar.boot import build

    gc.freeze()
    gc.enable()
    daemon = build()
    daemon.configure(options)
    return Backend(daemon.service, daemon.workspace)
