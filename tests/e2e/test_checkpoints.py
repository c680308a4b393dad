"""Files that a session has changed are taken back, by clients of a real daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sidecar_client import Session, SidecarClient, allow

pytestmark = pytest.mark.e2e

DONE = [{"text": "done"}]


def call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the answer of a model that calls one tool."""
    return [{"toolCall": {"name": name, "input": arguments}}]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def open_session(project: Path) -> AsyncIterator[Any]:
    clients: list[SidecarClient] = []

    async def start(*calls: Any, sid: str | None = None) -> Session:
        options = {"models": {"fake-1": {"scripted": list(calls)}}}
        client = await SidecarClient.spawn(cwd=project, permission=allow, options=options).start()
        clients.append(client)
        if sid is None:
            return await client.start_session(project, model="fake-1")
        return await client.load_session(sid)

    yield start
    for client in clients:
        await client.close()


async def outcomes(session: Session, checkpoint_id: str) -> dict[str, str]:
    """Restore a checkpoint and return the outcome for each file, by its name."""
    restored = await session.client.checkpoint_restore(session.sid, checkpoint_id)
    return {Path(file.uri).name: file.outcome for file in restored.files}


async def test_files_go_back_to_a_checkpoint_and_forward_again(project: Path, open_session: Any) -> None:
    raw = "\ufeffcafé\r\n".encode()
    (project / ".gitignore").write_text("a.txt\n")
    (project / "a.txt").write_bytes(raw)
    (project / "a.txt").chmod(0o640)
    edit = call("edit", path="a.txt", old_text="café", new_text="tea")
    write = call("write", path="new/b.txt", content="two\n")
    session = await open_session(call("read", path="a.txt"), [*edit, *write], DONE)
    await session.run("change them")
    (kept,) = (await session.client.checkpoint_list(session.sid)).checkpoints
    assert [(Path(file.uri).name, file.created) for file in kept.files] == [("a.txt", False), ("b.txt", True)]
    first, second = (await session.client.checkpoint_diff(session.sid)).files
    assert first.diff.splitlines()[-2:] == ["-café", "+tea"]
    assert second.diff.splitlines()[-1:] == ["+two"]

    assert await outcomes(session, "c1") == {"a.txt": "restored", "b.txt": "removed"}
    assert (project / "a.txt").read_bytes() == raw
    assert (project / "a.txt").stat().st_mode & 0o777 == 0o640
    assert not (project / "new/b.txt").exists()

    assert await outcomes(session, "c2") == {"a.txt": "restored", "b.txt": "restored"}
    assert (project / "a.txt").read_bytes() == raw.replace("café".encode(), b"tea")
    assert (project / "new/b.txt").read_text() == "two\n"


async def test_a_rewind_restores_files_but_never_over_the_work_of_others(
    project: Path, open_session: Any
) -> None:
    for name in ("a.txt", "b.txt"):
        (project / name).write_text("one\n")
    reads = [*call("read", path="a.txt"), *call("read", path="b.txt")]
    edits = [
        part
        for name in ("a.txt", "b.txt")
        for part in call("edit", path=name, old_text="one", new_text="two")
    ]
    session = await open_session(reads, DONE, edits, DONE)
    before = await session.run("read them")
    after = await session.run("change them")
    (project / "b.txt").write_text("the user's\n")
    moved = await session.client.session_rewind(session.sid, before.head, after.head, files="restore")
    assert {Path(file.uri).name: file.outcome for file in moved.restored_files} == {
        "a.txt": "restored",
        "b.txt": "changedSince",
    }
    assert (project / "a.txt").read_text() == "one\n"
    assert (project / "b.txt").read_text() == "the user's\n"


async def test_commands_show_the_diff_before_they_restore(project: Path, open_session: Any) -> None:
    (project / "a.txt").write_text("one\n")
    edit = call("edit", path="a.txt", old_text="one", new_text="two")
    session = await open_session(call("read", path="a.txt"), edit, DONE)
    await session.run("change it")
    assert "-one\n+two" in (await session.run("/diff")).text
    assert "- c1, " in (await session.run("/checkpoint")).text
    rewound = (await session.run("/rewind")).text
    assert "/checkpoint restore c1 takes these changes back:" in rewound
    assert "-one\n+two" in rewound
    assert (project / "a.txt").read_text() == "two\n"
    assert "a.txt: restored" in (await session.run("/checkpoint restore c1")).text
    assert (project / "a.txt").read_text() == "one\n"
    assert "There is no checkpoint 'c9'" in (await session.run("/checkpoint restore c9")).text
    assert "Use /checkpoint" in (await session.run("/checkpoint something")).text
