"""Sessions of whole daemons with a scripted model, in a folder of their own; they end with their test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon_in_memory import client_in_memory
from sidecar_client import Session, SidecarClient, allow

DONE = [{"text": "done"}]


def call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the answer of a model that calls one tool."""
    return [{"toolCall": {"name": name, "input": arguments}}]


async def wait_for_servers(client: SidecarClient, sid: str) -> None:
    """Return once no tool server of a session is starting; a prompt waits for them a limited time only."""
    async with asyncio.timeout(60):
        while any(each.state == "starting" for each in (await client.extension_list(sid)).servers):
            pass


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder; the daemons that are started now have a state directory beside it."""
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def open_session(project: Path) -> AsyncIterator[Any]:
    """Give a function that opens a session in *project*, of a daemon whose model answers with some *calls*.

    The daemon is in this process, unless a test wants a process that it can kill.
    """
    clients: list[SidecarClient] = []

    async def start(
        *calls: Any, model: str = "fake-1", sid: str | None = None, in_process: bool = False
    ) -> Session:
        begin = SidecarClient.spawn if in_process else client_in_memory
        options = {"models": {model: {"scripted": list(calls), "images": True}}}
        client = await begin(cwd=project, permission=allow, options=options).start()
        clients.append(client)
        if sid is None:
            return await client.start_session(project, model=model)
        return await client.load_session(sid)

    yield start
    for client in clients:
        await client.close()
