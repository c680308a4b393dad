"""Tool servers that behave as a test chooses: links without a wire, a session's servers without links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sidecar._internal.async_cancel import unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.mcp.contract import (
    CallResult,
    ListedTool,
    McpServer,
    OnProgress,
    ServerHost,
    ServerState,
)
from sidecar.capabilities.mcp.servers import SessionToolServers


@dataclass(slots=True)
class FakeLink:
    """Lists *listing* and answers every call with what *act* makes of it, its own name by default."""

    listing: tuple[ListedTool, ...] = ()
    act: Callable[[str, Mapping[str, Any], OnProgress], Awaitable[CallResult]] | None = None
    why: str = "it left"
    is_over: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def learn(self, *tools: ListedTool) -> None:
        """Offer *tools* from now on, and report the change."""
        self.listing = tools
        self.news.set()

    def end(self, why: str = "it left") -> None:
        """Come to the end."""
        self.is_over, self.why = True, why
        self.news.set()

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return the listing."""
        return self.listing

    async def call(self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress) -> CallResult:
        """Answer a call."""
        return CallResult(name) if self.act is None else await self.act(name, arguments, on_progress)

    async def wait_for_change(self) -> bool:
        """Wait for :meth:`learn` or :meth:`end`."""
        await self.news.wait()
        self.news.clear()
        return not self.is_over

    async def why_ended(self) -> str:
        """Return the reason given."""
        return self.why


@dataclass(slots=True)
class FakeSpeaker:
    """Opens links by the servers' names: one that is an error is raised, one that is missing never opens."""

    links: dict[str, FakeLink | Exception]
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def open(self, server: McpServer, host: ServerHost) -> AsyncIterator[FakeLink]:
        """Open the link of *server*."""
        self.opened.append(server.name)
        try:
            found = self.links.get(server.name)
            if isinstance(found, Exception):
                raise found
            if found is None:
                await asyncio.Event().wait()
            else:
                yield found
        finally:
            self.closed.append(server.name)


class FakeToolServers(SessionToolServers):
    """The servers of one session: remembers who was named, and is ready when a test says so."""

    def __init__(self, host: ServerHost) -> None:
        super().__init__(host)
        self.host = host
        self.used: list[tuple[McpServer, ...]] = []
        self.may_go_on = asyncio.Event()
        self.is_waited_for = asyncio.Event()
        self.is_closed = False

    def use(self, servers: Sequence[McpServer]) -> None:
        """Remember *servers*."""
        self.used.append(tuple(servers))

    async def ready(self, cancel: CancelToken) -> None:
        """Wait for *may_go_on* when servers are named."""
        if any(self.used[-1:]):
            self.is_waited_for.set()
            await unless_cancelled(self.may_go_on.wait(), cancel)

    def states(self) -> Sequence[ServerState]:
        """Return the last servers as running ones."""
        return [ServerState(each.name, "running", 1) for servers in self.used[-1:] for each in servers]

    async def aclose(self) -> None:
        """Remember that."""
        self.is_closed = True
