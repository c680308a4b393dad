"""Clients: which are connected, which sessions they follow, and the terminals and tool servers they provide.

Nothing here sends a message by itself, except the one warning about tool servers that were not started again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.capabilities.contract import RunInTerminal, Tool
from sidecar.capabilities.mcp.contract import McpServer, ServerHost, ServerState
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.events import Notice
from sidecar.conductor.ports import ClientPort, SessionTools
from sidecar.conductor.workbench.editor.context import Editors
from sidecar.workspace.path_index import PathIndexes


class _Attachment(Value):
    client: ClientPort
    controls: bool


class Audience:
    """The connected clients. A client is attached to a session once, as a listener or as a controller.

    Attributes:
        editors: the editors that clients have reported.
        path_indexes: the paths of folders, for completion.
    """

    def __init__(self) -> None:
        self._clients: dict[str, ClientPort] = {}
        self.path_indexes = PathIndexes()
        self._attached: dict[str, dict[str, _Attachment]] = {}
        self.editors = Editors(self._attached)

    @property
    def clients(self) -> tuple[ClientPort, ...]:
        """Every connected client."""
        return tuple(self._clients.values())

    def join(self, client: ClientPort) -> None:
        """Add a client that has connected."""
        self._clients[client.client_id] = client

    def leave(self, client: ClientPort) -> None:
        """Remove a client, and detach it from every session."""
        self._clients.pop(client.client_id, None)
        self.editors.forget(client.client_id)
        for attached in self._attached.values():
            attached.pop(client.client_id, None)

    def attach(self, client: ClientPort, sid: str, *, controls: bool) -> None:
        """Attach *client* to session *sid*; one that *controls* it may also answer its questions."""
        self._attached.setdefault(sid, {})[client.client_id] = _Attachment(client, controls)

    def detach(self, client: ClientPort, sid: str) -> None:
        """Detach *client* from session *sid*."""
        self._attached.get(sid, {}).pop(client.client_id, None)

    def dismiss(self, sid: str) -> None:
        """Detach every client from session *sid*."""
        self._attached.pop(sid, None)

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that may answer a session's questions."""
        return tuple(each.client for each in self._attached.get(sid, {}).values() if each.controls)

    def listeners(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that follow a session, controllers included."""
        return tuple(each.client for each in self._attached.get(sid, {}).values())


class Terminals:
    """The terminals that clients lend to sessions; a session uses the one that was lent last."""

    def __init__(self) -> None:
        self._lent: dict[str, list[RunInTerminal]] = {}

    def lend(self, sid: str, run: RunInTerminal) -> Callable[[], None]:
        """Let session *sid* run commands with *run*, until the returned function is called."""
        self._lent.setdefault(sid, []).append(run)

        def take_back() -> None:
            lent = self._lent.get(sid, [])
            if run in lent:
                lent.remove(run)
            if not lent:
                self._lent.pop(sid, None)

        return take_back

    def find(self, sid: str) -> RunInTerminal | None:
        """Return the terminal of session *sid*, None when no client lends one."""
        lent = self._lent.get(sid)
        return lent[-1] if lent else None


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

    def __init__(
        self,
        deps: SessionDeps,
        folder: Path,
        offered: SessionTools,
        emit: Callable[[Notice], object],
        stored: Sequence[Mapping[str, Any]],
    ) -> None:
        """Make the runner of servers that work in *folder*; their tools join those *offered*."""
        self.named: tuple[McpServer, ...] = ()
        self.configured: tuple[McpServer, ...] = ()
        self.tools: tuple[Tool, ...] = ()
        self._emit = emit

        def offer(tools: Sequence[Tool]) -> None:
            self.tools = tuple(tools)
            offered.offer("servers", tools)

        self._servers = deps.tool_servers(ServerHost(folder, offer, self.warn, deps.child_started))
        self.missing = ", ".join(str(server.get("name", "?")) for server in stored)

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
