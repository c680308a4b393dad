"""A custom command with a model of its own: the session keeps its model, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from sidecar.boot import build


async def test_a_daemon_that_dies_during_the_command_leaves_the_session_its_model(
    make_desk: Any, tmp_path: Path
) -> None:
    desk = make_desk()
    steps = [[{"text": "on"}, {"hang": True}]]
    desk.daemon.models.add_scripted({"other-1": {"scripted": steps}})
    commands = desk.home / "commands"
    commands.mkdir(parents=True)
    (commands / "ask.md").write_text("---\nmodel: other-1\n---\nWhat?")
    client = desk.client()
    sid = await desk.talk(client)
    await client.call("turn/start", sid=sid, input=[{"type": "text", "text": "/ask"}])
    await client.until("textDelta")
    assert desk.daemon.service.hub.session(sid).info.model == "other-1"
    left = tmp_path / "left"
    await asyncio.to_thread(shutil.copytree, desk.home, left)
    after = build(left)
    stored = await after.service.hub.info(sid)
    await after.service.aclose()
    assert stored.model == "scripted-1"
