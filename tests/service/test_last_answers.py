"""The end of a client's input: its open requests are answered first, unless they wait for a model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from faces import FACES, FaceClient
from memory_stream import MemoryClient
from sidecar.llmgateway.scripted import Hang, Say
from sidecar.transport.peer import Peer

pytestmark = pytest.mark.parametrize("face", FACES)


class Waits:
    """Counts how often a connection waits for its last answers, and opens *gate* at the third time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n = 0
        self.gate = asyncio.Event()
        wait = Peer.wait_answered

        async def wait_answered(peer: Peer, seconds: float) -> None:
            self.n += 1
            if self.n == 3:
                self.gate.set()
            await wait(peer, 0.01 if self.n < 3 else 30.0)

        monkeypatch.setattr(Peer, "wait_answered", wait_answered)


async def test_a_slow_request_is_answered_before_the_connection_ends(
    face: str, make_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk([[Say("done")]])
    face_client = FaceClient(face, desk.daemon)
    await face_client.open(desk.folder, "scripted-1")
    waits, hub = Waits(monkeypatch), desk.daemon.service.hub

    async def list_slowly(*query: Any) -> tuple[Any, ...]:
        await waits.gate.wait()
        return ()

    monkeypatch.setattr(hub, "list", list_slowly)
    client: MemoryClient = face_client.client
    client.ask("last", "session/list" if face == "acp" else "sidecar/session/list", {})
    client.stream.hang_up()
    await face_client.connection.wait_ended()
    assert "result" in client.answers("last")[0]


async def test_a_turn_is_not_waited_for(face: str, make_desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make_desk([[Say("on"), Hang()]])
    face_client = FaceClient(face, desk.daemon)
    sid = await face_client.open(desk.folder, "scripted-1")
    prompt = asyncio.create_task(face_client.prompt(sid, "go"))
    await face_client.client.stream.wait_until(lambda: bool(desk.model.calls))
    waits = Waits(monkeypatch)
    face_client.client.stream.hang_up()
    await face_client.connection.wait_ended()
    assert waits.n == 1
    prompt.cancel()
