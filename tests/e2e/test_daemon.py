"""The daemon as strangers meet it: README's example, the commands, this repository, bad input, hard ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon_in_memory import client_in_memory
from sidecar_client import SidecarClient, SidecarRequestError, allow

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("answer = 42\n")
    return folder


@pytest.fixture
async def client(home: Path, project: Path) -> AsyncIterator[SidecarClient]:
    async with client_in_memory(project, permission=allow) as started:
        yield started


def sidecar(*arguments: str, cwd: Path = ROOT, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "sidecar", *arguments]
    return subprocess.run(command, cwd=cwd, input=typed, capture_output=True, text=True, timeout=60)


def test_the_example_in_the_readme_runs_as_printed(home: Path, tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert found is not None
    script = tmp_path / "example.py"
    script.write_text(found.group(1), encoding="utf-8")
    ran = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "`README.md:1` # sidecar" in ran.stdout, ran.stderr
    assert len(found.group(1).splitlines()) <= 16


def test_the_demonstration_keeps_its_promises_on_this_repository(home: Path) -> None:
    ran = sidecar("demo", str(ROOT))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("✓ ") >= 17
    assert "it compacted at the next prompt" in ran.stdout


def test_a_conversation_by_pipe(home: Path, project: Path) -> None:
    typed = "what is in a.py?\nrun `touch made`\ny\n/context\n/files\n/what\n/quit\n"
    ran = sidecar("chat", typed=typed, cwd=project)
    assert ran.returncode == 0
    assert (project / "made").exists()
    assert "\x07" not in ran.stdout + ran.stderr, "a question rings in a terminal alone"
    assert "`a.py:1` answer = 42" in ran.stdout
    assert "tool results" in ran.stdout
    assert "fresh" in ran.stdout
    assert "There is no command /what" in ran.stdout


def test_doctor_reports_its_findings(home: Path) -> None:
    ran = sidecar("doctor")
    assert ran.returncode == 0
    assert "answers" in ran.stdout


async def test_a_project_cannot_put_its_modules_into_the_daemon(home: Path, project: Path) -> None:
    for name in ("sidecar", "rich", "json"):
        (project / f"{name}.py").write_text("raise SystemExit('imported from the project')\n")
    async with SidecarClient.spawn(cwd=project) as client:
        assert (await client.status()).pid


async def test_after_kill_9_every_settled_turn_loads_again(home: Path, project: Path) -> None:
    hanging = [[{"text": "one"}], [{"text": "two"}], [{"text": "half"}, {"hang": True}]]
    options = {"models": {"fake-1": {"scripted": hanging}}}
    async with SidecarClient.spawn(cwd=project, options=options) as client:
        session = await client.start_session(project, model="fake-1")
        for prompt in ("1", "2"):
            await session.run(prompt)
        before = await client.session_read(session.sid)
        await session.prompt("3")
        await session.wait_for("textDelta", timeout_s=20)
        os.kill((await client.status()).pid, signal.SIGKILL)
    async with SidecarClient.spawn(cwd=project) as client:
        loaded = await client.session_load(session.sid)
        after = await client.session_read(session.sid)
        assert after.nodes[:4] == before.nodes
        assert [node.role for node in after.nodes] == ["user", "assistant", "user", "assistant", "user"]
        assert loaded.snapshot.title == "1"


async def test_after_kill_9_in_the_first_answer_the_session_is_in_the_list_where_it_was(
    home: Path, project: Path
) -> None:
    options = {"models": {"fake-1": {"scripted": [[{"text": "half"}, {"hang": True}]]}}}
    async with SidecarClient.spawn(cwd=project, options=options) as client:
        session = await client.start_session(project, model="fake-1")
        await session.prompt("a long job")
        await session.wait_for("textDelta", timeout_s=20)
        os.kill((await client.status()).pid, signal.SIGKILL)
    async with SidecarClient.spawn(cwd=project) as client:
        (found,) = (await client.session_list()).sessions
        assert (found.sid, found.title, found.cwd) == (session.sid, "a long job", str(project))
        assert (await client.session_load(session.sid)).snapshot.messages == 1


async def test_two_daemons_never_write_one_session(home: Path, project: Path) -> None:
    async with SidecarClient.spawn(cwd=project) as first, SidecarClient.spawn(cwd=project) as second:
        session = await first.start_session(project)
        await session.run("what is in a.py?")
        with pytest.raises(SidecarRequestError) as caught:
            await second.load_session(session.sid)
        assert caught.value.kind == "busy"
        assert len((await second.session_read(session.sid)).nodes) == 4
        await session.close()
        assert (await second.load_session(session.sid)).sid == session.sid


BAD_REQUESTS: list[Any] = [
    pytest.param("sidecar/nothing", {}, "methodNotFound", id="unknown method"),
    pytest.param("sidecar/session/new", {}, "invalidParams", id="missing folder"),
    pytest.param("sidecar/session/new", {"cwd": "/no/such/folder"}, "invalidParams", id="no such folder"),
    pytest.param("sidecar/session/new", {"cwd": "here"}, "invalidParams", id="relative folder"),
    pytest.param("sidecar/session/new", {"cwd": "{cwd}", "engine": "steam"}, "invalidParams", id="no engine"),
    pytest.param("sidecar/session/new", {"cwd": "{cwd}", "model": "gpt-0"}, "modelNotFound", id="no model"),
    pytest.param("sidecar/session/load", {"sid": "nobody"}, "sessionNotFound", id="no session to load"),
    pytest.param(
        "sidecar/session/load", {"sid": "../../etc/passwd"}, "sessionNotFound", id="a path as session"
    ),
    pytest.param("sidecar/session/read", {"sid": "nobody"}, "sessionNotFound", id="no session to read"),
    pytest.param(
        "sidecar/turn/run", {"sid": "nobody", "input": []}, "sessionNotFound", id="no session to ask"
    ),
    pytest.param("sidecar/turn/run", {"sid": "{sid}", "input": []}, "invalidParams", id="empty prompt"),
    pytest.param(
        "sidecar/turn/run", {"sid": "{sid}", "input": "hi"}, "invalidParams", id="prompt is no array"
    ),
    pytest.param(
        "sidecar/turn/start",
        {"sid": "{sid}", "input": [{"type": "text", "text": "hi"}], "expectHead": "elsewhere"},
        "headMoved",
        id="another head",
    ),
    pytest.param("sidecar/compact/undo", {"sid": "{sid}"}, "compactionNotFound", id="nothing to undo"),
    pytest.param(
        "sidecar/compact/read",
        {"sid": "{sid}", "compactionId": "x"},
        "compactionNotFound",
        id="no compaction",
    ),
    pytest.param(
        "sidecar/compact/start", {"sid": "{sid}", "planId": "old"}, "headMoved", id="a plan of another time"
    ),
]


async def test_bad_input_is_answered_with_its_kind_and_loses_nothing(
    client: SidecarClient, project: Path
) -> None:
    session = await client.start_session(project)
    await session.run("what is in a.py?")
    before = await client.session_read(session.sid)
    for case in BAD_REQUESTS:
        method, params, kind = case.values
        given = json.loads(json.dumps(params).replace("{cwd}", str(project)).replace("{sid}", session.sid))
        with pytest.raises(SidecarRequestError) as caught:
            await client.request(method, given)
        assert caught.value.kind == kind, case.id
        assert "Traceback" not in json.dumps(caught.value.data) + caught.value.message
    assert await client.session_read(session.sid) == before
    assert (await session.run("what is in a.py?")).stop_reason == "end_turn"


async def test_a_command_dies_with_its_turn(client: SidecarClient, project: Path) -> None:
    session = await client.start_session(project)
    started = await session.prompt("run `echo begun; sleep 600`")
    await session.wait_for("toolProgress", timeout_s=20)
    children = (await client.status()).children
    await session.interrupt(started.turn_id)
    settled = await session.wait_for("settled", timeout_s=20)
    assert settled.data["stopReason"] == "cancelled"
    assert (await client.status()).children == ()
    with pytest.raises(ProcessLookupError):
        os.kill(children[0].pid, 0)


async def test_no_prompt_and_no_file_content_is_in_a_log_above_debug(home: Path, project: Path) -> None:
    """Also when a tool fails, and the log has everything above DEBUG."""
    (project / "b.py").write_text("quince = 'persimmon'\n")
    command = (sys.executable, "-P", "-m", "sidecar", "serve", "--log", "info")
    async with SidecarClient.spawn(command, cwd=project, permission=allow) as client:
        session = await client.start_session(project)
        assert "persimmon" in (await session.run("what is in b.py? tamarind")).text
        await session.run("run `cat b.py; exit 3`")
        with pytest.raises(SidecarRequestError):
            await client.session_set_config_option(session.sid, "model", "tamarind")
        lines = str((await client.log_tail()).lines)
    log = client.stderr_tail + lines
    assert log
    assert [word for word in ("tamarind", "quince", "persimmon") if word in log] == []


async def test_the_first_answer_says_why_a_settings_file_is_ignored(
    client: SidecarClient, project: Path
) -> None:
    (project / ".sidecar.toml").write_text("thinking = 5\n")
    session = await client.start_session(project)
    notices = [event.data async for event in session.stream("hello") if event.kind == "notice"]
    assert [".sidecar.toml" in str(notice) and "thinking" in str(notice) for notice in notices] == [True]
