"""A whole daemon in this process, for tests that drive it with the Python client and kill nothing.

It has the bytes and the front end of the process that ``SidecarClient.spawn`` starts, and no start.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Unpack

from memory_stream import MemoryStream
from sidecar.boot import build
from sidecar.commands.launch import server_info
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend
from sidecar_client import SidecarClient
from sidecar_client.client import Setup
from sidecar_client.rpc import RpcConnection


class _DaemonEnd(MemoryStream):
    """The stream of the daemon, whose bytes the client reads at once."""

    def __init__(self, client: RpcConnection) -> None:
        super().__init__()
        self._client = client

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._client.on_data, data)


class _ClientEnd:
    """The link of the client; the daemon ends with it."""

    exit_code: int | None = None
    stderr_tail = ""

    def __init__(self, client: RpcConnection) -> None:
        self._stream = _DaemonEnd(client)
        self._daemon = build()
        options = LspOptions(info=server_info(), open_backend=self._open_backend)
        self._connection = LspConnection(self._stream, options)
        self._connection.start()

    def _open_backend(self, options: Any) -> Backend:
        self._daemon.configure(options)
        return Backend(self._daemon.service, self._daemon.workspace)

    def write(self, data: bytes) -> None:
        self._stream.send(data)

    async def drain(self) -> None:
        """Do nothing: the daemon has read everything."""

    def resume_writing(self) -> None:
        """Do nothing."""

    async def close(self, grace_s: float) -> None:
        self._stream.hang_up()
        await self._daemon.service.aclose()
        await self._connection.aclose(grace_s)
        self.exit_code = 0


def client_in_memory(cwd: Path, **setup: Unpack[Setup]) -> SidecarClient:
    """Return the client of a new daemon with the workspace *cwd*, as ``SidecarClient.spawn`` does."""

    async def open_link(receiver: RpcConnection) -> _ClientEnd:
        return _ClientEnd(receiver)

    return SidecarClient(open_link, cwd, setup)
