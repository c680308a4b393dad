"""A session's side of its tool servers: their tools, their warnings, their processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Form, FormAnswer, Tool
from sidecar.capabilities.mcp import McpServer, ServerHost, SessionToolServers, StdioServer
from sidecar.capabilities.mcp.contract import OpenLink
from sidecar.capabilities.mcp.servers import ServerTimeouts

PLAIN_SERVER = Path(__file__).with_name("plain_server.py")
REAL_SERVER = Path(__file__).with_name("real_server.py")


@dataclass
class Rig:
    """Tool servers and their session; :meth:`until` waits for a state of theirs."""

    folder: Path
    offered: dict[str, Tool] = field(default_factory=dict)
    n_offers: int = 0
    forms: list[Form] = field(default_factory=list)
    form_answer: FormAnswer | None = field(default_factory=lambda: FormAnswer("accept", {"port": 7013}))
    n_taken_back: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)
    children: dict[int, str] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    warned: asyncio.Event = field(default_factory=asyncio.Event)
    made: list[SessionToolServers] = field(default_factory=list)

    def servers(
        self, open_link: OpenLink | None = None, timeouts: ServerTimeouts | None = None
    ) -> SessionToolServers:
        host = ServerHost(self.folder, self._offer, self._warn, self._child_started, self._ask_form)
        bounds = timeouts or ServerTimeouts(prompt_s=30)
        if open_link is None:
            self.made.append(SessionToolServers(host, timeouts=bounds))
        else:
            self.made.append(SessionToolServers(host, open_link=open_link, timeouts=bounds))
        return self.made[-1]

    async def start(self, *wanted: McpServer, timeouts: ServerTimeouts | None = None) -> SessionToolServers:
        """Start *wanted* and wait until each is ready or has failed."""
        servers = self.servers(timeouts=timeouts)
        servers.use(wanted)
        await servers.ready(CancelToken())
        return servers

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                self.news.clear()
                await self.news.wait()

    def plain(self, behaviour: str = "sound", **env: str) -> StdioServer:
        """Return the server of ``plain_server.py``."""
        return StdioServer("plain", sys.executable, (str(PLAIN_SERVER), behaviour), tuple(env.items()))

    def real(self) -> StdioServer:
        """Return the server of ``real_server.py``."""
        return StdioServer("real", sys.executable, (str(REAL_SERVER), "stdio"))

    def _offer(self, tools: Sequence[Tool]) -> None:
        self.n_offers += 1
        self.offered = {tool.descriptor.name: tool for tool in tools}
        self.news.set()

    async def _ask_form(self, form: Form) -> FormAnswer:
        self.forms.append(form)
        self.news.set()
        try:
            return self.form_answer or await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.n_taken_back += 1
            self.news.set()
            raise

    def _warn(self, title: str, text: str) -> None:
        self.warnings.append((title, text))
        self.warned.set()
        self.news.set()

    def _child_started(self, pid: int, what: str) -> Callable[[], None]:
        self.children[pid] = what
        self.started.append(pid)
        self.news.set()

        def gone() -> None:
            del self.children[pid]
            self.news.set()

        return gone


@pytest.fixture(scope="session")
def needs_mcp() -> None:
    """Skip where the package is missing; no module imports it before its tests run: that takes a second."""
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    for servers in rig.made:
        await servers.aclose()
    assert rig.children == {}, "a server was never reported as gone"
