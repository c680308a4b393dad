"""Files that the user renames in the editor stay those that the model knows, by clients of a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from scripted_sessions import DONE, call
from sidecar_client import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again until *holds* does; TimeoutError when it never does."""
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - the state is another process's
            await asyncio.sleep(0.01)


async def rename(session: Session, old: Path, new: Path) -> None:
    """Rename a file or a folder as an editor does, and wait until the session has stored that."""

    def is_stored() -> bool:
        (file,) = Path(os.environ["INDUSAGI_HOME"]).rglob(f"*{session.sid}*.jsonl")
        return json.dumps(str(new))[1:-1] in file.read_text("utf-8")

    await asyncio.to_thread(old.rename, new)
    files = [{"oldUri": old.as_uri(), "newUri": new.as_uri()}]
    await session.client.notify("workspace/didRenameFiles", {"files": files})
    await until(lambda: asyncio.to_thread(is_stored))


async def known(session: Session) -> dict[str, bool]:
    """Return the names of the files that the model has seen, each with whether it is stale."""
    found = (await session.client.context_files(session.sid)).files
    return {Path(file.uri).name: file.stale for file in found}


async def results(session: Session) -> list[str]:
    """Return the tool results of the session, oldest first."""
    nodes = (await session.client.session_read(session.sid, "full")).nodes
    return [str(node) for node in nodes if node.role == "tool"]


async def kill(session: Session) -> None:
    """End the daemon of *session* with kill -9."""
    pid = (await session.client.status()).pid
    os.kill(pid, signal.SIGKILL)
    await session.client.close()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("dies", [False, True], ids=["in the same daemon", "after kill -9"])
async def test_a_renamed_file_stays_the_file_that_the_model_knows(
    dies: bool, project: Path, open_session: Any
) -> None:
    (project / "src").mkdir()
    (project / "src/a.py").write_text("one\n")
    first = call("edit", path="src/a.py", old_text="one", new_text="two")
    second = call("edit", path="lib/b.py", old_text="two", new_text="three")
    calls = (call("read", path="src/a.py"), first, DONE, second, DONE)
    session = await open_session(*calls, in_process=dies)
    await session.run("change it")
    await rename(session, project / "src/a.py", project / "src/b.py")
    await rename(session, project / "src", project / "lib")
    if dies:
        await kill(session)
        session = await open_session(second, DONE, sid=session.sid)
    assert await known(session) == {"b.py": False}

    (shown,) = (await session.client.checkpoint_diff(session.sid)).files
    assert shown.uri == (project / "lib/b.py").as_uri()
    assert shown.diff.splitlines()[:2] == ["--- a/src/a.py", "+++ b/lib/b.py"]
    (kept,) = (await session.client.checkpoint_list(session.sid)).checkpoints
    assert [(file.uri, file.renamed_from) for file in kept.files] == [
        ((project / "lib/b.py").as_uri(), (project / "src/a.py").as_uri())
    ]

    await session.run("change it again")
    assert (project / "lib/b.py").read_text() == "three\n", (await results(session))[-1]
    restored = (await session.client.checkpoint_restore(session.sid, "c1")).files
    assert [(Path(file.uri).name, file.outcome) for file in restored] == [("b.py", "restored")]
    assert (project / "lib/b.py").read_text() == "one\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("dies", [False, True], ids=["in the same daemon", "after kill -9"])
async def test_a_renamed_file_that_was_changed_is_stale_and_a_new_one_in_its_place_is_unknown(
    dies: bool, project: Path, open_session: Any
) -> None:
    (project / "a.py").write_text("one\n")
    edits = [
        call("edit", path="a.py", old_text="new", new_text="x"),
        call("edit", path="b.py", old_text="one", new_text="x"),
        DONE,
    ]
    session = await open_session(call("read", path="a.py"), DONE, *edits, in_process=dies)
    await session.run("read it")
    await rename(session, project / "a.py", project / "b.py")
    (project / "b.py").write_text("one and more\n")
    (project / "a.py").write_text("new\n")
    if dies:
        await kill(session)
        session = await open_session(*edits, sid=session.sid)

    async def is_stale() -> bool:
        return await known(session) == {"b.py": True}

    await until(is_stale)
    await session.run("change them")
    told = await results(session)
    assert "a.py was not read yet" in told[-2]
    assert "b.py has changed" in told[-1]


@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
async def test_a_file_read_in_the_running_turn_is_followed_and_the_model_hears_its_new_name(
    project: Path, open_session: Any
) -> None:
    (project / "a.py").write_text("one\n")
    wait = call("bash", command="touch read; until [ -e go ]; do sleep 0.01; done")
    by_old_name = call("edit", path="a.py", old_text="one", new_text="two")
    by_new_name = call("edit", path="b.py", old_text="one", new_text="two")
    session = await open_session([*call("read", path="a.py"), *wait], by_old_name, by_new_name, DONE)
    running = asyncio.ensure_future(session.run("change it"))
    await until(lambda: asyncio.to_thread((project / "read").exists))
    await rename(session, project / "a.py", project / "b.py")
    (project / "go").touch()
    await running
    told = await results(session)
    assert "the user has renamed it to b.py" in told[-2]
    assert (project / "b.py").read_text() == "two\n", told[-1]


async def test_rules_of_a_renamed_folder_stay_in_force(project: Path, open_session: Any) -> None:
    (project / "src").mkdir()
    (project / "src/AGENTS.md").write_text("Use tabs.\n")
    (project / "src/a.py").write_text("one\n")
    session = await open_session(call("read", path="src/a.py"), DONE, DONE)
    await session.run("read it")
    await rename(session, project / "src", project / "lib")
    await session.run("go on")
    usage = await session.client.context_usage(session.sid, detail=True)
    assert [(Path(each.uri).parent.name, each.in_system) for each in usage.rules or ()] == [("lib", False)]


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
async def test_a_compaction_a_fork_and_a_new_file_in_its_place_leave_the_renamed_file_known(
    project: Path, open_session: Any
) -> None:
    (project / "a.py").write_text("one\n")
    long = [{"text": "a long answer " * 1500}]
    read = call("read", path="a.py")
    calls = (long, long, read, DONE, [{"text": "# Goal\nnone"}], read, DONE)
    session = await open_session(*calls, in_process=True)
    for prompt in ("go on", "and on", "read it"):
        await session.run(prompt)
    await rename(session, project / "a.py", project / "b.py")
    done = await session.compact()
    assert done.status == "completed"
    assert await known(session) == {"b.py": False}
    (project / "a.py").write_text("new\n")
    await session.run("read the new one")
    assert await known(session) == {"b.py": False, "a.py": False}
    await kill(session)
    session = await open_session(sid=session.sid)
    assert await known(session) == {"b.py": False, "a.py": False}
    fork = await session.client.session_fork(session.sid)
    found = (await session.client.context_files(fork.sid)).files
    assert {Path(file.uri).name for file in found} == {"a.py", "b.py"}
