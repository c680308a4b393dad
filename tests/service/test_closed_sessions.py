"""A session that was closed is gone from memory, whatever its clients saw of it."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import weakref
from pathlib import Path
from typing import Any

import pytest

from faces import FACES, FaceClient
from sidecar._internal import allocator
from sidecar.boot import build
from sidecar.llmgateway.contract import TextBlock
from sidecar.llmgateway.scripted import Say

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("face", FACES)
async def test_nothing_keeps_the_history_of_a_closed_session(
    face: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(allocator, "_DELAY_S", 0)

    def find_left() -> list[TextBlock]:
        return [each for each in gc.get_objects() if isinstance(each, TextBlock) and each.text in said]

    before: list[TextBlock] = []

    def collect(most_excluded: int) -> None:
        before.extend(find_left())
        gc.collect()
        loop.call_soon_threadsafe(returned.set)

    monkeypatch.setattr(allocator, "return_freed_memory", collect)
    (tmp_path / "README.md").write_text("The parser is in src.\n")
    daemon = build(tmp_path / "home")
    client = FaceClient(face, daemon)
    sid = await client.open(tmp_path, "offline-1")
    said = [f"What is in README.md? {face}", f"Say hello. {face}", f"Never push to main. {face}"]
    for prompt in said:
        await client.prompt(sid, prompt)
    for method in ("context/usage", "context/files", "session/read", "compact/preview", "rule/list"):
        await client.call(f"sidecar/{method}", {"sid": sid})
    (session,) = daemon.service.hub.sessions
    kept = [weakref.ref(each) for each in (session, session.record.history.graph, session.record.log)]
    del session
    gc.disable()
    await client.call("sidecar/session/close", {"sid": sid})
    async with asyncio.timeout(30):
        await returned.wait()
    gc.enable()
    assert before == [], "it need not be searched for among all other objects"
    assert [each() for each in kept] == [None, None, None]
    assert find_left() == []
    await daemon.service.aclose()


async def test_a_list_names_the_process_that_has_a_session_open(make_desk: Any) -> None:
    """The process that started this one is alive, and no other has the largest id."""
    desk = make_desk([[Say("one")]], repeat=True)
    client = desk.client()
    held, left = [await desk.talk(client, "1") for _ in range(2)]
    for sid in (held, left):
        await client.call("session/close", sid=sid)
    for sid, pid in ((held, os.getppid()), (left, 2**31 - 2)):
        (desk.home / "sessions" / f"{sid}.lock").write_text(str(pid))
    listed = {each["sid"]: each for each in (await client.call("session/list"))["sessions"]}
    assert (listed[held]["host"], listed[held]["pid"]) == (platform.node(), os.getppid())
    assert "pid" not in listed[left]
