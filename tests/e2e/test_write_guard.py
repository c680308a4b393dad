"""A write never lands over text that the model has not seen, wherever the conversation was moved to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripted_sessions import DONE, call
from sidecar_client import Session

FIRST = "first version\n"
SECOND = "second version, the user's work\n"
READ = call("read", path="a.txt")
WRITE = call("write", path="a.txt", content="the model's\n")
LONG = [{"text": "a long answer " * 1500}]


@pytest.fixture
def project(project: Path) -> Path:
    (project / "a.txt").write_text(FIRST)
    return project


async def write_result(session: Session, prompt: str) -> str:
    """Send *prompt*, which the model answers with a write, and return what the tool reported."""
    events = [event async for event in session.stream(prompt)]
    (finished,) = [event for event in events if event.kind == "toolFinished"]
    return str(finished.data["content"])


async def test_after_an_undone_compaction_a_restored_version_counts_as_unseen(
    project: Path, open_session: Any
) -> None:
    session = await open_session(
        READ, DONE, LONG, DONE, [{"text": "# Objective\nnothing\n# Plan\nnone"}], WRITE, DONE
    )
    for prompt in ("read a.txt", "go on", "and on"):
        await session.run(prompt)
    (project / "a.txt").write_text(SECOND)
    compacted = await session.compact()
    assert compacted.rehydrated == ((project / "a.txt").as_uri(),)
    await session.undo()
    files = await session.client.request("sidecar/context/files", {"sid": session.sid})
    assert [file["stale"] for file in files["files"]] == [True]
    assert "read it" in await write_result(session, "write a.txt")
    assert (project / "a.txt").read_text() == SECOND


@pytest.mark.parametrize("how", ["rewind", "drop"])
async def test_a_file_restored_by_hand_counts_as_unseen_once_that_is_taken_back(
    project: Path, open_session: Any, how: str
) -> None:
    session = await open_session(READ, DONE, WRITE, DONE)
    await session.run("read a.txt")
    before = await session.client.session_read(session.sid)
    (project / "a.txt").write_text(SECOND)
    restored = await session.client.request("sidecar/rehydrate/run", {"sid": session.sid})
    assert [file["uri"] for file in restored["files"]] == [(project / "a.txt").as_uri()]
    after = await session.client.session_read(session.sid)
    if how == "rewind":
        params: dict[str, Any] = {"toNode": before.nodes[-1].id}
    else:
        params = {"nodeIds": [after.nodes[-1].id]}
    method = "sidecar/session/rewind" if how == "rewind" else "sidecar/context/drop"
    params |= {"sid": session.sid, "expectHead": after.nodes[-1].id}
    await session.client.request(method, params)
    assert "read it" in await write_result(session, "write a.txt")
    assert (project / "a.txt").read_text() == SECOND


async def test_after_a_load_the_guard_knows_the_files_in_view(project: Path, open_session: Any) -> None:
    session = await open_session(READ, DONE, LONG, DONE, [{"text": "# Goal\nnothing"}])
    for prompt in ("read a.txt", "go on", "and on"):
        await session.run(prompt)
    (project / "a.txt").write_text(SECOND)
    await session.compact()
    await session.undo()
    await session.client.close()
    again = await open_session(WRITE, DONE)
    loaded = await again.client.load_session(session.sid)
    assert "read it" in await write_result(loaded, "write a.txt")
    assert (project / "a.txt").read_text() == SECOND
