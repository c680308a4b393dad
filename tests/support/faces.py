"""A client of a whole daemon in memory, over the real bytes of either face, for tests that both must pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fake_panel import fake_agent
from memory_stream import MemoryClient
from sidecar.acp import AcpConnection, AcpOptions
from sidecar.boot import Daemon
from sidecar.commands.launch import server_info
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend

__all__ = ["FACES", "FaceClient"]

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
