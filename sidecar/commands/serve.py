"""``sidecar serve`` and ``sidecar acp``: the daemon on standard input and output, for one client.

With ``serve`` the first byte of the client decides which protocol is spoken; the modules of the other one are
never loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sidecar._internal.allocator import keep_collections_brief
from sidecar._internal.loading import take_short_turns
from sidecar.transport.processes import was_left_behind
from sidecar.transport.stdio import take_stdio

if TYPE_CHECKING:
    from argparse import Namespace

    from sidecar.attach.listening import Listener
    from sidecar.attach.streams import SocketStream
    from sidecar.commands.launch import LazyDaemon
    from sidecar.transport.lifetime import Lifetime, SupervisedConnection
    from sidecar.transport.peer import Limits
    from sidecar.transport.streams import ByteStream

_FOR_ALL: Final = (
    "sidecar.protocol.messages",
    "sidecar.runtime.store",
    "sidecar.capabilities.toolbox",
    "sidecar.conductor.session_ops",
    "sidecar.conductor.deps",
    "sidecar.conductor.session",
    "sidecar.boot",
)
"""The modules of every daemon, in steps of about 20 ms: each loads a part of those after it."""


def run(options: Namespace) -> int:
    """Serve until the client leaves; the process ends from within."""
    fds = take_stdio()
    if was_left_behind(fds.read_fd):
        return 1
    # Imported when nothing but the protocol can reach the client any more.
    if options.command == "acp":
        import sidecar.acp  # noqa: F401  # loaded before the event loop runs
    from sidecar.commands.launch import log_to_stderr
    from sidecar.transport.lifetime import run as run_to_end

    async def serve(lifetime: Lifetime) -> int:
        from sidecar.protocol.framing import is_line_framed
        from sidecar.transport.streams import open_stdio

        lifetime.watch_parent()
        stream = await open_stdio(fds)
        if options.command == "acp":
            return await _serve_agent_panel(stream, lifetime)
        lifetime.watch_process(options.client_process_id)
        peeking, ending = asyncio.ensure_future(stream.peek()), asyncio.ensure_future(lifetime.wait())
        await load_until(peeking, ending)
        await asyncio.wait((peeking, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not peeking.done():  # it ends before the client has sent a byte: there is nothing to settle
            return (await lifetime.wait()).code
        if is_line_framed(peeking.result()):  # no byte when the client has ended
            return await _serve_agent_panel(stream, lifetime)
        from sidecar.commands.launch import server_info
        from sidecar.server import LspOptions, serve_lsp

        with _daemon_with_guests() as (daemon, limits):
            lsp = LspOptions(info=server_info(), open_backend=daemon.open, limits=limits)
            return await serve_lsp(stream, lsp, lifetime)

    keep_collections_brief()
    take_short_turns()
    log_to_stderr(options.log)
    return run_to_end(serve)


async def load_until(*events: asyncio.Future[Any]) -> None:
    """Load the daemon step by step, until one of *events*: the client speaks, or the process is to end.

    Commands start their daemon before they have loaded themselves. An editor has spoken by now.
    """
    for name in _FOR_ALL:
        happened, _ = await asyncio.wait(events, timeout=0, return_when=asyncio.FIRST_COMPLETED)
        if happened:
            return
        with suppress(Exception):  # an error is reported where the module is used
            import_module(name)


async def _serve_agent_panel(stream: ByteStream, lifetime: Lifetime) -> int:
    from sidecar.acp import AcpOptions, serve_acp
    from sidecar.commands.launch import agent_info

    with _daemon_with_guests() as (daemon, limits):
        return await serve_acp(stream, AcpOptions(agent_info(), daemon.open, limits), lifetime)


@contextmanager
def _daemon_with_guests() -> Iterator[tuple[LazyDaemon, Limits]]:
    """Give the daemon of the client, and the limits of each connection.

    Others of its user can join it from then on.
    """
    from sidecar.commands.launch import LazyDaemon
    from sidecar.transport.peer import Limits

    limits = Limits()
    listeners: list[Listener] = []

    def admit() -> None:
        from sidecar._internal.env import indusagi_home
        from sidecar.attach.broker import admit_guests

        if (listener := admit_guests(indusagi_home(), open_frontend)) is not None:
            listeners.append(listener)

    async def open_frontend(stream: SocketStream) -> SupervisedConnection:
        from sidecar.commands.host import open_frontend  # with both faces: only a guest needs it

        return await open_frontend(stream, daemon.open, limits)

    daemon = LazyDaemon(admit)
    try:
        yield daemon, limits
    finally:
        for listener in listeners:
            listener.close()
