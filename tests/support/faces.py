"""A client of a whole daemon in memory, over the real bytes of either face, for tests that both must pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

from fake_panel import fake_agent
from memory_stream import MemoryClient
from sidecar.acp import AcpConnection, AcpOptions
from sidecar.boot import Daemon
from sidecar.commands.launch import server_info
from sidecar.llmgateway.contract import ToolResultBlock
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend

__all__ = ["FACES", "EditorSession", "FaceClient"]

FACES: Final = ("lsp", "acp")


class FaceClient:
    """One client; the names of methods and params are those of the LSP face, and are translated."""

    def __init__(self, face: str, daemon: Daemon) -> None:
        backend = Backend(daemon.service, daemon.workspace)
        self.face = face
        self.daemon = daemon
        self.client = MemoryClient(lines=face == "acp")
        self._n_requests = 0
        if face == "acp":
            agent = AcpOptions(fake_agent("acp1"), lambda _: backend)
            self.connection: AcpConnection | LspConnection = AcpConnection(self.client.stream, agent)
        else:
            server = LspOptions(info=server_info(), open_backend=lambda _: backend)
            self.connection = LspConnection(self.client.stream, server)
        self.connection.start()

    async def request(self, method: str, params: Any) -> Any:
        """Return the result of a request; an error fails the test."""
        self._n_requests += 1
        request_id = f"r{self._n_requests}"
        self.client.ask(request_id, method, params)
        await self.client.stream.wait_until(lambda: bool(self.client.answers(request_id)))
        (answer,) = self.client.answers(request_id)
        assert "result" in answer, answer
        return answer["result"]

    async def call(self, method: str, params: Any) -> Any:
        """Return the result of one of our own methods."""
        return await self.request(f"_{method}" if self.face == "acp" else method, params)

    def notify(self, method: str, params: Any) -> None:
        """Send one of our own notifications."""
        self.client.notify(f"_{method}" if self.face == "acp" else method, params)

    async def open(self, folder: Path, model: str, *, encoding: str = "utf-16", **features: Any) -> str:
        """Shake hands, start a session in *folder* and return its id; *features* are declared as ours."""
        if self.face == "acp":
            ours = {"_meta": {"sidecar": {"protocol": [1], **features}}} if features else {}
            await self.request("initialize", {"protocolVersion": 1, "clientCapabilities": ours})
            given = {"cwd": str(folder), "mcpServers": [], "_meta": {"sidecar": {"model": model}}}
            return str((await self.request("session/new", given))["sessionId"])
        capabilities = {
            "general": {"positionEncodings": [encoding]},
            "experimental": {"sidecar": {"protocol": [1], **features}},
        }
        await self.request("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        return str((await self.request("sidecar/session/new", {"cwd": str(folder), "model": model}))["sid"])

    async def prompt(self, sid: str, words: str) -> Any:
        """Send a prompt and return once its turn has ended."""
        blocks = [{"type": "text", "text": words}]
        if self.face == "acp":
            return await self.request("session/prompt", {"sessionId": sid, "prompt": blocks})
        return await self.request("sidecar/turn/run", {"sid": sid, "input": blocks})


class EditorSession:
    """A client with an editor, and its one session.

    Attributes:
        desk: the daemon in memory, with its model and the folder of the session.
        client: the client of the session.
    """

    def __init__(self, face: str, desk: Any) -> None:
        self.desk = desk
        self.client = FaceClient(face, desk.daemon)
        self.folder: Path = desk.folder
        self.sid = ""

    async def open(self, *, may_edit: bool = False, **features: Any) -> Self:
        """Start the session; *features* are those of :meth:`FaceClient.open`."""
        self.sid = await self.client.open(self.folder, "scripted-1", **features)
        if may_edit:
            await self.set_option("permissions", "allowEdits")
        return self

    async def set_option(self, name: str, value: str) -> None:
        """Set one option of the session."""
        option = {"sid": self.sid, "configId": name, "value": value}
        await self.client.call("sidecar/session/setConfigOption", option)

    @property
    def session(self) -> Any:
        """The session itself."""
        return self.desk.daemon.service.hub.session(self.sid)

    def uri(self, name: str) -> str:
        """Return the URI of a file in the folder."""
        return (self.folder / name).as_uri()

    def write(self, name: str, text: str = "") -> Path:
        """Write a file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def report(self, **members: Any) -> None:
        """Report *members* of what the editor shows."""
        self.client.notify("sidecar/editor/context", members)

    async def prompt(self, words: str) -> Any:
        """Send a prompt and return once its turn has ended."""
        return await self.client.prompt(self.sid, words)

    def results(self) -> list[str]:
        """Return the results of the tools in the conversation."""
        blocks = (block for entry in self.session.record.history.current for block in entry.turn.blocks)
        return [str(block.output) for block in blocks if isinstance(block, ToolResultBlock)]

    def tools(self) -> set[str]:
        """Return the names of the tools that the last call of the model declared."""
        return {tool.name for tool in self.desk.model.calls[-1].conversation.tools}
