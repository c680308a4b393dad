"""Three journeys through a daemon in memory, with the functions of the package that each calls, in order.

A prompt that reads a file, a compaction, and a change of the file that the model has read. The README
describes these journeys; its tests and a benchmark play them.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import sidecar
from memory_stream import MemoryClient
from sidecar.boot import build
from sidecar.protocol.handshake import ServerInfo
from sidecar.server.connection import LspConnection, LspOptions
from sidecar.service.contract import Backend

Call: TypeAlias = tuple[str, str]
"""A module, as a path below the package, and a qualified function of it."""

PACKAGE = f"{Path(*sidecar.__path__).resolve()}/"
INFO = ServerInfo("sidecar", "0", "test", ("windowBudget",), ("lsp",), event_buffer=20_000)
LINES = "".join(f"line {n} of a file that the model reads whole\n" for n in range(200))
SCRIPT = [
    [{"toolCall": {"name": "read", "input": {"path": "a.txt"}}}],
    [{"text": "It has 200 lines."}],
    *([{"text": f"Answer {n}. " + "words " * 400}] for n in range(8)),
]


@contextmanager
def traced() -> Iterator[list[Call]]:
    """Yield a list that gets each call into the package, in order, from this thread and from new ones.

    The loop gets new threads, since those that wait for work are not traced. Nothing is collected meanwhile:
    what the collector calls is on nobody's way.
    """
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            calls.append((code.co_filename.removeprefix(PACKAGE), code.co_qualname))

    gc.disable()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()


async def play(folder: Path) -> dict[str, list[Call]]:
    """Return the calls of each journey, under ``prompt``, ``compaction`` and ``change``."""
    project = folder / "project"
    project.mkdir()
    file = project / "a.txt"
    file.write_text(LINES)
    daemon = build(folder / "home")
    daemon.warm_up().join()
    daemon.models.add_scripted({"script": {"scripted": SCRIPT, "contextWindow": 60_000}})
    editor = Editor(daemon.service, daemon.workspace)
    is_watched = asyncio.Event()
    daemon.workspace.on_change(lambda path: is_watched.set())
    sid = await editor.open(project)
    await is_watched.wait()
    with traced() as prompt:
        await editor.prompt(sid, "Read a.txt")
    for n in range(8):
        await editor.prompt(sid, f"question {n} " + "words " * 400)
    with traced() as compaction:
        await editor.ask("sidecar/compact/start", sid=sid, mode="force")
        await editor.event("compaction", status="completed")
    with traced() as change:
        document = {"uri": file.as_uri(), "languageId": "text", "version": 1, "text": "other words\n"}
        editor.client.notify("textDocument/didOpen", {"textDocument": document})
        await editor.event("fileStale")
    await daemon.service.aclose()
    return {"prompt": prompt, "compaction": compaction, "change": change}


class Editor:
    """A client that knows the protocol, over a connection in memory."""

    def __init__(self, service: Any, workspace: Any) -> None:
        self.client = MemoryClient()
        self._n_requests = 0
        options = LspOptions(info=INFO, open_backend=lambda _: Backend(service, workspace))
        LspConnection(self.client.stream, options).start()

    async def open(self, folder: Path) -> str:
        """Shake hands, start a session in *folder*, and return its id."""
        declared = {"experimental": {"sidecar": {"protocol": [1]}}}
        await self._request("initialize", {"processId": None, "rootUri": None, "capabilities": declared})
        self.client.notify("initialized", {})
        created = await self.ask("sidecar/session/new", cwd=str(folder), model="script")
        return str(created["sid"])

    async def prompt(self, sid: str, text: str) -> None:
        """Send a prompt and wait for the end of its turn."""
        await self.ask("sidecar/turn/run", sid=sid, input=[{"type": "text", "text": text}])

    async def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        return await self._request(method, params)

    async def event(self, kind: str, **data: Any) -> None:
        """Return once an event of *kind* with these *data* has come."""

        def has_come() -> bool:
            found = [each["params"] for each in self.client.calls("sidecar/event")]
            return any(each["kind"] == kind and data.items() <= each["data"].items() for each in found)

        await self.client.stream.wait_until(has_come)

    async def _request(self, method: str, params: Any) -> Any:
        self._n_requests += 1
        answer = await self.client.request(self._n_requests, method, params)
        assert "result" in answer, answer
        return answer["result"]
