"""Questions of the agent over real processes: two clients at once, ``kill -9``, and the next daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from shared_daemon import Stage, User, stage
from sidecar.protocol.messages import ElicitationAnswer
from sidecar_client import ConnectionLost

__all__ = ["stage"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]

WHICH = {"question": "Which database?", "choices": ["Postgres", "SQLite"]}
ASKS = [[{"toolCall": {"name": "ask", "input": {"questions": [WHICH]}}}], [{"text": "done"}]]
MODELS: dict[str, Any] = {"models": {"fake-1": {"scripted": ASKS}}}
AFTER: dict[str, Any] = {"models": {"fake-1": {"scripted": ASKS[1:]}}}


def choose_sqlite(_form: Any) -> ElicitationAnswer:
    return ElicitationAnswer("accept", {"q1": "SQLite"})


async def test_a_question_outlives_its_daemon_and_is_answered_once(stage: Stage, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    users = [User(choose_sqlite) for _ in range(4)]
    one = await stage.shim(options=MODELS, elicit=users[0]).start()
    two = await stage.shim(elicit=users[1]).start()
    session = await one.start_session(project, model="fake-1")
    await two.attach(session.sid)
    running = asyncio.create_task(session.run("do it"))
    for user in users[:2]:
        await user.asked.get()
    os.kill((await one.status()).pid, signal.SIGKILL)
    with pytest.raises(ConnectionLost):
        await running
    for client in (one, two):
        await client.close()

    three = await stage.shim(options=AFTER, elicit=users[2]).start()
    four = await stage.shim(elicit=users[3]).start()
    loaded = await three.session_load(session.sid)
    assert [form.message for form in loaded.snapshot.open_questions] == ["Which database?"]
    events = three.events(session.sid)
    await four.attach(session.sid)
    for user in users[2:]:
        await user.asked.get()
    users[3].may_answer.set()
    async for event in events:
        if event.kind == "settled":
            break
    await users[2].was_taken_back.wait()
    assert [user.n_asked for user in users] == [1, 1, 1, 1]
    text = str((await three.session_read(session.sid)).nodes)
    assert text.count("Which database? SQLite") == 1
    assert (await three.session_load(session.sid)).snapshot.open_questions == ()
    for client in (three, four):
        await client.close()
