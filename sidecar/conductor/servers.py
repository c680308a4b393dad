"""The tool servers of one session, as its turns see them: named by a client, and by nobody else.

What is stored with a session says which servers it had and not how to start them. So a session that is loaded
again has none of their tools until a client names them again, and says so before its next answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.mcp.contract import McpServer, ServerHost, ToolServers

__all__ = ["SessionServers"]


class SessionServers:
    """The servers of one session; *kept* is what is stored of those it had.

    Attributes:
        named: the servers a client has named for this session.
    """

    def __init__(
        self,
        make: Callable[[ServerHost], ToolServers],
        host: ServerHost,
        kept: Sequence[Mapping[str, Any]],
    ) -> None:
        self.named: tuple[McpServer, ...] = ()
        self._servers = make(host)
        self._host = host
        self._missing = ", ".join(str(server.get("name", "?")) for server in kept)

    def add(self, servers: Sequence[McpServer]) -> None:
        """Let *servers* be among them from now on. Returns at once.

        One of the same name makes way, and no other: who loads a session takes nothing from other clients.
        """
        names = {server.name for server in servers}
        others = (server for server in self.named if server.name not in names)
        self.named, self._missing = (*others, *servers), ""
        self._servers.use(self.named)

    async def ready(self, cancel: CancelToken) -> None:
        """Tell which servers are missing, and wait for the others; see ``ToolServers.ready``."""
        if self._missing:
            title, self._missing = f"Tool servers are not connected: {self._missing}", ""
            self._host.tell(
                title, "How to start them is not stored. Load the session with mcpServers for them."
            )
        await self._servers.ready(cancel)

    async def aclose(self) -> None:
        """End every server."""
        await self._servers.aclose()
