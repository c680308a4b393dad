"""All tool servers of one session: who they are, what they offer together, and when a prompt may go on.

Nothing is awaited when they start: a session is there at once, its servers follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module

from sidecar._internal.async_cancel import unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.mcp.connection import Connection, Patience
from sidecar.capabilities.mcp.contract import Link, McpServer, OpenLink, ServerHost
from sidecar.capabilities.mcp.naming import server_slugs, tool_names
from sidecar.capabilities.mcp.tool import McpTool

__all__ = ["SessionToolServers"]


@asynccontextmanager
async def _open_with_package(server: McpServer, host: ServerHost) -> AsyncIterator[Link]:
    """Open a link with the ``mcp`` package. Loading that takes about a second, once, in a thread."""
    speaker = await asyncio.to_thread(import_module, "sidecar.capabilities.mcp.link")
    async with speaker.open_link(server, host) as link:
        yield link


class SessionToolServers:
    """The servers of one session; see :class:`~sidecar.capabilities.mcp.contract.ToolServers`."""

    def __init__(
        self,
        host: ServerHost,
        *,
        open_link: OpenLink = _open_with_package,
        patience: Patience | None = None,
    ) -> None:
        self._host = host
        self._open_link = open_link
        self._patience = patience or Patience()
        self._connections: tuple[Connection, ...] = ()
        self._leaving: set[asyncio.Task[None]] = set()
        self._wait_until_s = 0.0

    def use(self, servers: Sequence[McpServer]) -> None:
        """Let *servers* be the ones from now on; who runs and is named again stays. Returns at once."""
        running = {each.server: each for each in self._connections if not each.is_lost}
        wanted = dict.fromkeys(servers)
        self._connections = tuple(
            running.pop(server) if server in running else self._connect(server) for server in wanted
        )
        for left in running.values():
            task = asyncio.ensure_future(left.aclose())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        self._wait_until_s = asyncio.get_running_loop().time() + self._patience.prompt_s
        self._offer()

    async def ready(self, cancel: CancelToken) -> None:
        """Wait until every server is ready or has failed, but no longer than a prompt can bear.

        A prompt that goes on without some of them tells the user so; those after it wait for nobody.
        """
        if self._late() and asyncio.get_running_loop().time() < self._wait_until_s:
            await unless_cancelled(self._wait(), cancel)

    async def aclose(self) -> None:
        """End every server and what it started; bounded in time."""
        connections, self._connections = self._connections, ()
        await asyncio.gather(*(each.aclose() for each in connections), *self._leaving)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout_at(self._wait_until_s):
                for connection in self._late():
                    await connection.settled.wait()
        except TimeoutError:
            names = ", ".join(repr(each.server.name) for each in self._late())
            self._host.tell(
                f"Still starting: {names}", "The prompt goes on without the tools of these servers."
            )

    def _connect(self, server: McpServer) -> Connection:
        return Connection(server, self._host, self._open_link, self._patience, self._offer)

    def _late(self) -> list[Connection]:
        return [each for each in self._connections if not each.settled.is_set()]

    def _offer(self) -> None:
        self._host.offer(tuple(self._tools()))

    def _tools(self) -> Iterator[Tool]:
        slugs = server_slugs(each.server.name for each in self._connections)
        for slug, connection in zip(slugs, self._connections, strict=True):
            names = tool_names(slug, (tool.name for tool in connection.tools))
            for name, tool in zip(names, connection.tools, strict=True):
                yield McpTool(name, slug, connection.server.name, tool, connection.call)
