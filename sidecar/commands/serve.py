"""``sidecar serve``: the daemon on standard input and output, for one client, until it leaves."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from sidecar.transport.stdio import ProtocolFds, take_stdio

if TYPE_CHECKING:
    from sidecar.transport.lifetime import Lifetime

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Serve; the process ends from within."""
    fds = take_stdio()
    # Imported once nothing but the protocol can reach the client any more.
    from sidecar.transport.lifetime import run as run_to_end

    logging.basicConfig(level=options.log.upper(), format="%(asctime)s %(name)s %(levelname)s %(message)s")
    run_to_end(lambda lifetime: _serve(fds, lifetime, options.client_process_id))


async def _serve(fds: ProtocolFds, lifetime: Lifetime, client_process_id: int | None) -> int:
    from sidecar.boot import build, server_info
    from sidecar.server import LspOptions, serve_lsp
    from sidecar.transport.pipes import open_stdio

    lifetime.watch_parent()
    lifetime.watch_process(client_process_id)
    daemon = build()
    options = LspOptions(server_info(daemon), configure=daemon.configure)
    return await serve_lsp(await open_stdio(fds), daemon.service, daemon.workspace, options, lifetime)
