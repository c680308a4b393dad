"""Files that a session has changed are taken back, by clients of a real daemon."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from scripted_sessions import DONE, call, wait_for_servers
from sidecar_client import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


async def outcomes(session: Session, checkpoint_id: str) -> dict[str, str]:
    """Restore a checkpoint and return the outcome for each file, by its name."""
    restored = await session.client.checkpoint_restore(session.sid, checkpoint_id)
    return {Path(file.uri).name: file.outcome for file in restored.files}


async def test_the_model_is_told_of_files_that_went_back(project: Path, open_session: Any) -> None:
    (project / "a.txt").write_text("one\n")
    edit = call("edit", path="a.txt", old_text="one", new_text="two")
    session = await open_session(call("read", path="a.txt"), edit, DONE, DONE)
    await session.run("change it")
    await session.run("/checkpoint restore c1")
    await session.run("go on")
    told = str((await session.client.session_read(session.sid, "full")).nodes[-2])
    assert "[the user has taken back changes of a.txt; read again before an edit]" in told


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
    shown = await session.client.checkpoint_diff(session.sid, to_node=before.head)
    assert [(Path(file.uri).name, file.diff.splitlines()[-2:]) for file in shown.files] == [
        ("a.txt", ["-one", "+two"]),
        ("b.txt", ["-one", "+the user's"]),
    ]
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


@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
async def test_a_file_that_was_read_or_named_and_a_command_changed_goes_back(
    project: Path, open_session: Any
) -> None:
    for name in ("a.txt", "b.txt", "c.txt", "unread.txt"):
        (project / name).write_text("one\n")
    reads = [*call("read", path="a.txt"), *call("read", path="b.txt")]
    hidden = "f=unread.txt; [ 1 ] || f=; echo two > $f"
    command = call("bash", command=f"echo two > a.txt; rm b.txt; echo two > c.txt; echo > new.txt; {hidden}")
    session = await open_session(reads, command, DONE)
    await session.run("change them")
    assert await outcomes(session, "c1") == {
        "a.txt": "restored",
        "b.txt": "restored",
        "c.txt": "restored",
        "new.txt": "removed",
    }
    assert {(project / f"{name}.txt").read_text() for name in "abc"} == {"one\n"}
    assert (project / "unread.txt").read_text() == "two\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
async def test_a_command_of_the_user_is_never_taken_back(project: Path, open_session: Any) -> None:
    (project / "a.txt").write_text("one\n")
    edit = call("edit", path="a.txt", old_text="one", new_text="two")
    session = await open_session(call("read", path="a.txt"), edit, DONE)
    await session.run("change it")
    await session.run("!echo three > a.txt")
    assert (project / "a.txt").read_text() == "three\n"
    assert await outcomes(session, "c1") == {"a.txt": "changedSince"}


async def test_a_sub_agent_changes_files_for_its_parent(project: Path, open_session: Any) -> None:
    task = call("task", title="write", prompt="write a.txt")
    write = call("write", path="a.txt", content="two\n")
    session = await open_session(task, write, DONE, DONE)
    await session.run("let it be written")
    assert await outcomes(session, "c1") == {"a.txt": "removed"}


async def test_a_fork_and_the_next_daemon_know_the_checkpoints(project: Path, open_session: Any) -> None:
    (project / "a.txt").write_text("one\n")
    edit = call("edit", path="a.txt", old_text="one", new_text="two")
    session = await open_session(call("read", path="a.txt"), edit, DONE)
    await session.run("change it")
    fork = await session.client.session_fork(session.sid)
    await session.client.session_delete(session.sid)
    (project / "a.txt").write_text("two\n")
    await session.client.close()
    loaded = await open_session(sid=fork.sid)
    assert await outcomes(loaded, "c1") == {"a.txt": "restored"}
    assert (project / "a.txt").read_text() == "one\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
async def test_after_kill_9_the_changes_that_were_made_can_be_taken_back(
    project: Path, open_session: Any
) -> None:
    (project / "a.txt").write_text("one\n")
    edit = call("edit", path="a.txt", old_text="one", new_text="two")
    session = await open_session(call("read", path="a.txt"), edit, [{"hang": True}], in_process=True)
    pid = (await session.client.status()).pid
    async for event in session.stream("change it"):
        if event.kind == "toolFinished" and "edited" in str(event.data["content"]):
            os.kill(pid, signal.SIGKILL)
            break
    await session.client.close()
    loaded = await open_session(sid=session.sid)
    assert await outcomes(loaded, "c1") == {"a.txt": "restored"}
    assert (project / "a.txt").read_text() == "one\n"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
async def test_a_restore_stays_in_the_folders_of_the_session(project: Path, open_session: Any) -> None:
    (project / "sub").mkdir()
    write = [
        *call("write", path="sub/a.txt", content="two\n"),
        *call("write", path="../b.txt", content="two\n"),
    ]
    session = await open_session(write, DONE)
    await session.run("write them")
    outside = project.parent / "outside"
    (project / "sub").rename(outside)
    (project / "sub").symlink_to(outside)
    assert await outcomes(session, "c1") == {"a.txt": "changedSince", "b.txt": "outside"}
    assert (outside / "a.txt").read_text() == (project.parent / "b.txt").read_text() == "two\n"


async def test_an_undone_compaction_takes_the_later_changes_back_when_asked(
    project: Path, open_session: Any
) -> None:
    (project / "a.txt").write_text("one\n")
    first = call("edit", path="a.txt", old_text="one", new_text="two")
    second = call("edit", path="a.txt", old_text="two", new_text="three")
    long = [{"text": "a long answer " * 1500}]
    read = call("read", path="a.txt")
    session = await open_session(
        read, first, DONE, long, long, [{"text": "# Goal\nnone"}], read, second, DONE
    )
    for prompt in ("change it", "go on", "and on"):
        await session.run(prompt)
    assert (await session.compact()).status == "completed"
    await session.run("change it again")
    assert (project / "a.txt").read_text() == "three\n"
    undone = await session.client.compact_undo(session.sid, files="restore")
    assert [file.outcome for file in undone.restored_files] == ["restored"]
    assert (project / "a.txt").read_text() == "two\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
async def test_changes_in_the_background_are_told_and_left(project: Path, open_session: Any) -> None:
    (project / "a.txt").write_text("one\n")
    start = call("bash", command="true", background=True)
    session = await open_session(call("read", path="a.txt"), start, DONE)
    await session.run("start it")
    shown = (await session.run("/diff")).text
    assert shown.endswith("- not covered: changes of files by the background command bg1")
    assert (await session.client.checkpoint_diff(session.sid)).uncovered == ("the background command bg1",)


async def test_a_file_that_a_tool_of_a_server_changed_goes_back(project: Path, open_session: Any) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    server = project / "server.py"
    server.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('files')\n"
        "@server.tool()\n"
        "def change() -> str:\n"
        "    open('a.txt', 'w').write('two\\n')\n"
        "    return 'changed'\n"
        "server.run()\n"
    )
    (project / "a.txt").write_text("one\n")
    session = await open_session(call("read", path="a.txt"), call("mcp__files__change"), DONE)
    servers = [{"name": "files", "command": sys.executable, "args": [str(server)], "env": []}]
    params = {"sid": session.sid, "mcpServers": servers}
    await session.client.request("sidecar/session/load", params)
    await wait_for_servers(session.client, session.sid)
    await session.run("change it")
    assert (project / "a.txt").read_text() == "two\n"
    assert await outcomes(session, "c1") == {"a.txt": "restored"}
    assert (project / "a.txt").read_text() == "one\n"
