"""The client against the real daemon: prompts, buffers, permissions, a compaction and back, a reload."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import sidecar_client
from sidecar.conductor.contract import (
    EditorFile,
    EditorPosition,
    EditorRange,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar_client import DAEMON, SidecarClient, SidecarRequestError, allow, reject

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CLIENTS = Path(sidecar_client.__file__).parents[2]
QUESTION = "What is in README.md?"


def decide(request: PermissionRequest) -> PermissionAnswer:
    """Allow what has nothing forbidden in its name."""
    return reject(request) if "forbidden" in request.subject.detail else allow(request)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file about a parrot."""
    (tmp_path / "README.md").write_text("# Parrot\n\nThe parrot is blue.\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the daemon keeps its state."""
    return {"INDUSAGI_HOME": str(tmp_path_factory.mktemp("home"))}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(env: dict[str, str]) -> AsyncIterator[SidecarClient]:
    """A client of a daemon of its own, which ends well."""
    async with SidecarClient.spawn(env=env, permission=decide) as client:
        yield client
    assert client.exit_code == 0


async def test_a_prompt_is_answered_from_the_files(client: SidecarClient, folder: Path) -> None:
    session = await client.start_session(folder)
    ran = await session.run(QUESTION)
    assert ran.stop_reason == "end_turn"
    assert "The parrot is blue." in ran.text
    (file,) = await session.files()
    assert (file.uri, file.stale) == ((folder / "README.md").as_uri(), False)
    assert (await session.usage()).by is not None


async def test_a_stream_has_a_whole_turn_in_order(client: SidecarClient, folder: Path) -> None:
    session = await client.start_session(folder)
    events = [event async for event in session.stream(QUESTION)]
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert {"userMessage", "toolStarted", "toolFinished", "message"} <= {event.kind for event in events}
    assert events[-1].kind == "settled"
    deltas = "".join(event.data["delta"] for event in events if event.kind == "textDelta")
    assert "The parrot is blue." in deltas


async def test_a_client_without_events_has_the_answer_as_it_is_written(
    client: SidecarClient, folder: Path
) -> None:
    """Parts of the result come to the token of an editor's command, before the result itself."""
    session = await client.start_session(folder)
    notifications = client.notifications()
    given = {"sid": session.sid, "input": [{"type": "text", "text": QUESTION}]}
    command = {"command": "sidecar.prompt", "arguments": [given], "partialResultToken": "part"}
    ran = await client.request("workspace/executeCommand", command)
    told = ""
    async for notification in notifications:
        value = notification.params["value"] if notification.params.get("token") == "part" else {}
        assert value.get("turnId") in (None, ran["turnId"])
        told += value.get("text", "")
        if ran["text"] in told:
            break


async def test_a_prompt_may_be_sent_and_waited_for_later(client: SidecarClient, folder: Path) -> None:
    session = await client.start_session(folder)
    started = await session.prompt(QUESTION)
    settled = await session.wait_for("settled", lambda event: event.turn_id == started.turn_id, timeout_s=30)
    assert settled.data["stopReason"] == "end_turn"


async def test_an_unsaved_buffer_is_read_before_the_disk(client: SidecarClient, folder: Path) -> None:
    await client.did_open(folder / "README.md", "The parrot is green.\n", "markdown")
    session = await client.start_session(folder)
    assert "green" in (await session.run(QUESTION)).text
    await client.did_change(folder / "README.md", "The parrot is red.\n")
    stale = await session.wait_for("fileStale", timeout_s=30)
    assert stale.data["uri"] == (folder / "README.md").as_uri()
    await client.did_close(folder / "README.md")


async def test_a_compaction_is_previewed_run_and_taken_back(client: SidecarClient, folder: Path) -> None:
    session = await client.start_session(folder)
    for _ in range(3):
        await session.run(QUESTION)
    plan = await session.preview()
    assert plan.dropped is not None
    done = await session.compact()
    assert (done.status, done.dropped_count) == ("completed", plan.dropped.count)
    await session.wait_for("usage", timeout_s=30)  # until the new size is told, the session is at work
    assert (await session.undo()).restored_tokens > 0
    (listed,) = (await client.compact_list(session.sid)).compactions
    assert (listed.compaction_id, listed.status) == (done.compaction_id, "undone")


@pytest.mark.parametrize(("name", "is_written"), [("hello.txt", True), ("forbidden.txt", False)])
async def test_a_tool_that_writes_asks_first(
    client: SidecarClient, folder: Path, name: str, is_written: bool
) -> None:
    session = await client.start_session(folder)
    await session.run(f"write {name}: hello")
    assert set(os.listdir(folder)) == {"README.md", *([name] if is_written else [])}


async def test_a_session_outlives_its_daemon(
    client: SidecarClient, folder: Path, env: dict[str, str]
) -> None:
    session = await client.start_session(folder)
    await session.run(QUESTION)
    await session.close()
    async with SidecarClient.spawn(cwd=folder, env=env) as another:
        listed = await another.session_list(cwd=str(folder))
        assert [found.sid for found in listed.sessions] == [session.sid]
        events = another.events(session.sid)
        loaded = await another.session_load(session.sid, replay="full")
        first = await anext(events)
    prompt = [{"type": "text", "text": QUESTION}]
    assert loaded.integrity.ok
    assert (first.seq, first.kind, first.data["content"]) == (0, "userMessage", prompt)


async def test_a_refusal_is_typed(client: SidecarClient) -> None:
    with pytest.raises(SidecarRequestError) as caught:
        await client.session_load("0" * 32)
    assert caught.value.kind == "sessionNotFound"


async def test_a_run_that_is_given_up_leaves_the_session_well(client: SidecarClient, folder: Path) -> None:
    session = await client.start_session(folder)
    running = asyncio.create_task(session.run(QUESTION))
    await session.wait_for("phase", timeout_s=30)
    running.cancel()
    await asyncio.wait([running])
    assert (await session.run(QUESTION)).stop_reason == "end_turn"


def output_of(command: list[str], folder: Path, env: dict[str, str]) -> str:
    """Run *command* in *folder* and return all it wrote."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("index", [0, 1], ids=["blocking", "asyncio"])
async def test_the_first_examples_of_the_readme_work_as_they_stand(
    folder: Path, env: dict[str, str], index: int
) -> None:
    readme = CLIENTS / "python" / "README.md"
    example = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)[index]
    output = await asyncio.to_thread(output_of, [sys.executable, "-c", example], folder, env)
    assert "The parrot is blue." in output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no POSIX shell on Windows")
async def test_the_shell_script_gets_an_answer(folder: Path, env: dict[str, str]) -> None:
    script, named = str(CLIENTS / "shell" / "ask.sh"), {**env, "SIDECAR": " ".join(DAEMON)}
    output = await asyncio.to_thread(output_of, ["sh", script, QUESTION], folder, named)
    assert "The parrot is blue." in output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no POSIX shell on Windows")
async def test_the_command_of_the_shell_readme_works_as_it_stands(env: dict[str, str]) -> None:
    readme = (CLIENTS / "shell" / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    plain_path = {**env, "PATH": os.defpath}  # the install of the README puts no sidecar there
    if not (CLIENTS.parent / ".venv" / "bin" / "sidecar").exists():
        pytest.skip("this checkout has no environment of its own")
    output = await asyncio.to_thread(output_of, ["sh", "-c", command], CLIENTS.parent, plain_path)
    assert '"stopReason":"end_turn"' in output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no POSIX shell on Windows")
async def test_the_shell_script_takes_quotes_and_says_when_there_is_no_daemon(
    folder: Path, env: dict[str, str]
) -> None:
    script, named = str(CLIENTS / "shell" / "ask.sh"), {**env, "SIDECAR": " ".join(DAEMON)}
    quoted = ["sh", script, f'{QUESTION} "as\\is"']
    assert '"stopReason":"end_turn"' in await asyncio.to_thread(output_of, quoted, folder, named)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        await asyncio.to_thread(output_of, ["sh", script, "x"], folder, {**env, "SIDECAR": "no-such-daemon"})
    assert "there is no no-such-daemon" in failed.value.stdout


async def test_the_editor_is_reported_and_prompts_are_completed(client: SidecarClient, folder: Path) -> None:
    session = await client.start_session(folder)
    uri = (folder / "README.md").as_uri()
    start, end = EditorPosition(0, 0), EditorPosition(0, 5)
    await client.report_editor(active=EditorFile(uri, selections=(EditorRange(start, end),)), diagnostics=[])
    offered = [item.insert_text for item in (await client.complete("@", 1, sid=session.sid)).items]
    assert offered == ["@selection ", "@diagnostics ", "@diff ", "@README.md "]
    await client.report_editor(active="none")
    offered = [item.insert_text for item in (await client.complete("@", 1, sid=session.sid)).items]
    assert "@selection " not in offered
    commands = (await client.complete("/comp", 5)).items
    assert [(item.kind, item.insert_text, item.start, item.end) for item in commands] == [
        ("command", "/compact ", 0, 5)
    ]
