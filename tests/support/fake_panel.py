"""An agent panel in memory, connected to a real ACP connection, over a fake service and a fake workspace.

For tests of the face: every message passes the real framing, envelope and states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fake_service import FakeConnection, FakeService
from fake_workspace import FakeWorkspace
from memory_stream import MemoryClient
from sidecar.acp.connection import AcpConnection, AcpOptions
from sidecar.acp.handshake import AgentInfo
from sidecar.protocol.handshake import ServerInfo
from sidecar.service.contract import Backend
from sidecar.service.service import Service
from sidecar.transport.peer import Limits
from sidecar.workspace.workspace import Workspace

__all__ = ["FAKE_AGENT", "FakePanel", "fake_agent"]


def fake_agent(*faces: str, reaches_mcp: bool = False) -> AgentInfo:
    """Return an agent with these *faces*."""
    server = ServerInfo("sidecar", "0", "test", ("windowBudget",), faces, event_buffer=20_000)
    return AgentInfo("Sidecar", server, reaches_mcp)


FAKE_AGENT: Final = fake_agent("lsp", "acp1")


class FakePanel(MemoryClient):
    """A client that speaks ACP.

    Attributes:
        sent: the messages it has sent.
        opened: the options the backend was opened with.
        on_open: takes those options; raises InvalidInput to refuse the client.
    """

    def __init__(
        self,
        *,
        service: Service | FakeService | None = None,
        workspace: Workspace | None = None,
        limits: Limits | None = None,
        agent: AgentInfo = FAKE_AGENT,
    ) -> None:
        super().__init__(lines=True)
        self.service = service or FakeService()
        self.workspace = workspace or FakeWorkspace()
        self.sent: list[dict[str, Any]] = []
        self.opened: list[Mapping[str, Any]] = []
        self.on_open: Callable[[Mapping[str, Any]], None] = self.opened.append
        options = AcpOptions(agent, self._open, limits or Limits())
        self.connection = AcpConnection(self.stream, options)
        self.connection.start()

    @property
    def port(self) -> FakeConnection:
        """The fake service's side of this client."""
        assert isinstance(self.service, FakeService)
        return self.service.connections[-1]

    def send(self, message: Any) -> None:
        """Send one message as it is."""
        if isinstance(message, dict):
            self.sent.append(message)
        super().send(message)

    async def initialize(
        self, capabilities: Mapping[str, Any] | None = None, *, version: Any = 1, **params: Any
    ) -> dict[str, Any]:
        """Shake hands, as a client with *capabilities*."""
        handshake = {"protocolVersion": version, "clientCapabilities": dict(capabilities or {}), **params}
        return await self.request("initialize", "initialize", handshake)

    def updates(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the updates that have come, all or those of one kind."""
        updates = [call["params"]["update"] for call in self.calls("session/update")]
        return [update for update in updates if kind in (None, update["sessionUpdate"])]

    async def update(self, kind: str, n: int = 1) -> dict[str, Any]:
        """Return the *n*-th update of a kind once it has come."""
        await self.stream.wait_until(lambda: len(self.updates(kind)) >= n)
        return self.updates(kind)[n - 1]

    def _open(self, options: Mapping[str, Any]) -> Backend:
        self.on_open(options)
        if isinstance(self.service, FakeService):
            return self.service.behind(self.workspace)
        return Backend(self.service, self.workspace)
