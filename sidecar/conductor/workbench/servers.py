"""The tool servers of one session, named by its clients or by the user's settings."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.mcp.contract import McpServer, ServerHost, ServerState
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.events import Notice
from sidecar.conductor.ports import SessionTools
from sidecar.conductor.record.session_record import SessionRecord


class SessionServers:
    """The tool servers that clients named for one session.

    A session's file names the servers that the session had, but not how to start them. A session that is
    loaded again therefore lacks their tools until a client names them again, and warns of that once, before
    its next answer.

    The user's settings may name servers as well: they start with the session, and a client's of the same
    name stand in their place.

    Attributes:
        named: the servers that clients named for this session since it was loaded.
        configured: the servers of the settings.
        tools: the tools of all servers that run.
        missing: the names of servers that it had before, until it was warned of them; empty for none.
    """

    def __init__(self, record: SessionRecord, deps: SessionDeps, offered: SessionTools) -> None:
        """Make the runner of servers that work in the session's folder; their tools join those *offered*."""
        self.named: tuple[McpServer, ...] = ()
        self.configured: tuple[McpServer, ...] = ()
        self.tools: tuple[Tool, ...] = ()
        self._emit = record.events.emit

        def offer(tools: Sequence[Tool]) -> None:
            self.tools = tuple(tools)
            offered.offer("servers", tools)

        self._servers = deps.tool_servers(ServerHost(record.roots[0], offer, self.warn, deps.child_started))
        self.missing = ", ".join(str(server.get("name", "?")) for server in record.info.mcp_servers)

    def warn(self, title: str, text: str) -> None:
        """Show the user a warning."""
        self._emit(Notice("warning", title, text))

    def add(self, servers: Sequence[McpServer]) -> None:
        """Add *servers*, each in place of one with the same name. Returns before they have started.

        Servers with other names stay: a client that loads a session takes nothing from other clients.
        """
        names = {server.name for server in servers}
        others = (server for server in self.named if server.name not in names)
        self.named, self.missing = (*others, *servers), ""
        self._use()

    def configure(self, servers: Sequence[McpServer]) -> None:
        """Use *servers* as the servers of the settings. Returns before they have started."""
        if tuple(servers) != self.configured:
            self.configured = tuple(servers)
            self._use()

    def states(self) -> Sequence[ServerState]:
        """Return the states of all servers."""
        return self._servers.states()

    def _use(self) -> None:
        names = {server.name for server in self.named}
        self._servers.use((*(each for each in self.configured if each.name not in names), *self.named))

    async def ready(self, cancel: CancelToken) -> None:
        """Warn of servers that are missing and wait for the others to start; see ``ToolServers.ready``."""
        if self.missing:
            title, self.missing = f"Tool servers are not connected: {self.missing}", ""
            self.warn(title, "How to start them is not stored. Load the session with mcpServers for them.")
        await self._servers.ready(cancel)

    async def aclose(self) -> None:
        """Stop every server."""
        await self._servers.aclose()
