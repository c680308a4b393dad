"""An editor in memory, connected to a real LSP connection, over a fake service and a fake workspace.

For tests of the face: every message passes the real framing, envelope, states and types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Self

from fake_service import FakeConnection, FakeService
from fake_workspace import FakeWorkspace
from memory_stream import MemoryClient
from sidecar.protocol.handshake import ServerInfo
from sidecar.server.connection import LspConnection, LspOptions
from sidecar.service.contract import Backend
from sidecar.transport.peer import Limits

__all__ = ["FAKE_INFO", "FakeEditor"]

FAKE_INFO: Final = ServerInfo(
    name="sidecar", version="0", build="test", engines=("windowBudget",), faces=("lsp",), event_buffer=20_000
)


class FakeEditor(MemoryClient):
    """A client that speaks LSP. *settings* are further fields of its options.

    Attributes:
        opened: the options the backend was opened with.
        on_open: takes those options; may raise to refuse them.
        processes: the process ids that it should watch.
    """

    def __init__(
        self,
        *,
        service: FakeService | None = None,
        workspace: FakeWorkspace | None = None,
        limits: Limits | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.service = service or FakeService()
        self.workspace = workspace or FakeWorkspace()
        self.opened: list[Mapping[str, Any]] = []
        self.on_open: Callable[[Mapping[str, Any]], None] = self.opened.append
        self.processes: list[int | None] = []
        options = LspOptions(
            info=FAKE_INFO,
            open_backend=self._open,
            watch_process=self.processes.append,
            limits=limits or Limits(),
        )
        self.connection = LspConnection(self.stream, replace(options, **settings))
        self.connection.start()

    @classmethod
    async def ready(cls, *, workspace: FakeWorkspace | None = None, **handshake: Any) -> Self:
        """Return a client that has shaken hands; *handshake* goes to :meth:`initialize`."""
        editor = cls(workspace=workspace)
        await editor.initialize(**handshake)
        return editor

    @property
    def port(self) -> FakeConnection:
        """The service's side of this client."""
        return self.service.connections[-1]

    async def initialize(
        self, *, capabilities: Mapping[str, Any] | None = None, sidecar: Any = None, **params: Any
    ) -> dict[str, Any]:
        """Shake hands, as a client with *capabilities* and with *sidecar* as ``experimental.sidecar``."""
        declared = dict(capabilities or {})
        if sidecar is not None:
            declared["experimental"] = {"sidecar": sidecar}
        handshake = {"processId": None, "rootUri": None, "capabilities": declared, **params}
        answer = await self.request("initialize", "initialize", handshake)
        if "result" in answer:
            self.notify("initialized", {})
        return answer

    def _open(self, options: Mapping[str, Any]) -> Backend:
        self.on_open(options)
        return self.service.behind(self.workspace)
