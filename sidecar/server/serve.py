"""Serve one LSP client from its first byte to the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from sidecar.server.connection import LspConnection, LspOptions
from sidecar.transport.lifetime import Lifetime, supervise
from sidecar.transport.streams import ByteStream

__all__ = ["serve_lsp"]


async def serve_lsp(stream: ByteStream, options: LspOptions, lifetime: Lifetime) -> int:
    """Serve the one client this process belongs to; return the exit code.

    The service ends with the client: before ``shutdown`` is answered, and at the end whatever the reason. The
    process of the client is watched by *lifetime*. A daemon with several clients makes an
    :class:`~sidecar.server.connection.LspConnection` for each instead.
    """
    settle = _once(lambda: connection.settle())
    bound = replace(options, on_shutdown=settle, watch_process=lifetime.watch_process)
    connection = LspConnection(stream, bound)
    connection.start()
    return await supervise(lifetime, connection, settle)


def _once(work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return *work* as something that is done once, however many wait for it and give up waiting.

    A client that sends ``exit`` on the heels of ``shutdown`` must not end the settling it asked for.
    """
    doing: asyncio.Future[None] | None = None

    async def wait() -> None:
        nonlocal doing
        if doing is None:
            doing = asyncio.ensure_future(work())
        await asyncio.shield(doing)

    return wait
