"""A whole daemon in memory, its clients fakes: requests go in as JSON, answers come out as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from fake_sink import FakeSink
from sidecar.boot import Daemon, build
from sidecar.llmgateway.scripted import Script, ScriptedModel
from sidecar.service.service import Connection


@dataclass
class Client:
    """One client: :meth:`call` asks and waits, :meth:`begin` asks and does not wait."""

    connection: Connection
    sink: FakeSink

    def begin(self, method: str, **params: Any) -> Awaitable[Any]:
        """Ask now, as a face does when the bytes are there; the result is awaited later."""
        outcome = self.connection.call(f"sidecar/{method}", params)
        waiting = asyncio.ensure_future(outcome) if isawaitable(outcome) else outcome

        async def answer() -> Any:
            found = await waiting if isawaitable(waiting) else waiting
            if found.then is not None:
                found.then()
            return found.data

        return asyncio.ensure_future(answer())

    async def call(self, method: str, **params: Any) -> Any:
        return await self.begin(method, **params)

    def events(self, kind: str) -> list[Any]:
        """Return the data of the events of *kind* so far."""
        return [event.data for event in self.sink.events if event.kind == kind]

    async def until(self, kind: str, n: int = 1) -> Any:
        """Wait for the *n*-th event of *kind*."""
        async with asyncio.timeout(10):
            return (await self.sink.until(kind, n)).data


@dataclass
class Desk:
    """A daemon whose default model plays *script*; *folder* is where its sessions work."""

    daemon: Daemon
    model: ScriptedModel
    folder: Path
    home: Path

    def client(self, name: str = "editor") -> Client:
        sink = FakeSink(name)
        return Client(self.daemon.service.connect(sink), sink)

    async def talk(self, client: Client, *prompts: str, **wanted: Any) -> str:
        """Start a session, ask *prompts*, and return its id."""
        new = await client.call("session/new", cwd=str(self.folder), model="scripted-1", **wanted)
        for prompt in prompts:
            await self.ask(client, new["sid"], prompt)
        return str(new["sid"])

    async def ask(self, client: Client, sid: str, prompt: str) -> Any:
        return await client.call("turn/run", sid=sid, input=[{"type": "text", "text": prompt}])


DeskMaker = Callable[..., Desk]


@pytest.fixture
async def make_desk(tmp_path: Path) -> AsyncIterator[DeskMaker]:
    desks: list[Desk] = []

    def make(script: Script = (), *, repeat: bool = False) -> Desk:
        folder, home = tmp_path / "project", tmp_path / "home"
        folder.mkdir(exist_ok=True)
        daemon = build(home)
        model = ScriptedModel(script, when_exhausted="repeat" if repeat else "fail")
        daemon.models.add_scripted({"scripted-1": {"scripted": [[{"text": "unused"}]]}})
        daemon.models.providers = {**daemon.models.providers, "scripted:scripted-1": model}
        desks.append(Desk(daemon, model, folder.resolve(), home))
        return desks[-1]

    yield make
    for desk in desks:
        await desk.daemon.service.aclose()


@pytest.fixture
def start_talk(make_desk: DeskMaker) -> Callable[..., Awaitable[tuple[Desk, Client, str]]]:
    """A function of a script and prompts; it returns a daemon, a client, and a session with the answers."""

    async def start(script: Script = (), *prompts: str, **wanted: Any) -> tuple[Desk, Client, str]:
        desk = make_desk(script)
        client = desk.client()
        return desk, client, await desk.talk(client, *prompts, **wanted)

    return start


@pytest.fixture
def face() -> str:
    """The front end of a test that names none: what it proves does not depend on it."""
    return "lsp"
