"""The blocking client: the same, from a plain thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar_client import ConnectionLost, allow
from sidecar_client.scripted import ScriptedDaemon
from sidecar_client.sync import SidecarClient, with_handlers_in_threads
from wire_shapes import SNAPSHOT, USAGE

COMMAND = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_daemon.py")), "plain"]
LOADED = {"snapshot": SNAPSHOT, "configOptions": [], "usage": USAGE, "integrity": {"ok": True}, "seq": 2}
QUESTION: dict[str, Any] = {
    "sid": "s",
    "turnId": None,
    "permissionId": "p",
    "title": "run ls",
    "subject": {"type": "command", "toolCallId": "c", "tool": "bash", "detail": "ls"},
    "options": [],
    "expiresAt": 1,
}


@pytest.fixture
def script() -> ScriptedDaemon:
    """A daemon whose turns say one word and settle."""
    script = ScriptedDaemon()

    def start_turn(_params: Any) -> Any:
        script.event("s", 3, "textDelta", "t", delta="hi")
        script.event("s", 4, "settled", "t", turnId="t")
        return {"turnId": "t", "userNodeId": None, "disposition": "started", "seq": 2}

    script.answers["sidecar/turn/start"] = start_turn
    script.answers["sidecar/session/load"] = lambda _: LOADED
    return script


@pytest.fixture
def client(script: ScriptedDaemon) -> Iterator[SidecarClient]:
    with SidecarClient(script.client()) as client:
        yield client


@pytest.mark.processes
def test_a_process_runs_and_ends() -> None:
    with SidecarClient.spawn(COMMAND) as client:
        assert client.request("echo", {"a": [1]}) == {"a": [1]}
        assert client.server == {"protocol": 1}
        assert (client.exit_code, client.stderr_tail) == (None, "")
    assert client.exit_code == 0


@pytest.mark.processes
def test_a_process_that_does_not_start_leaves_no_thread() -> None:
    with pytest.raises(ConnectionLost, match="cannot start"):
        SidecarClient.spawn(["no-such-program"]).__enter__()
    assert "sidecar_client" not in {thread.name for thread in threading.enumerate()}


def test_outside_its_block_a_client_raises() -> None:
    client = SidecarClient.spawn(COMMAND)
    with pytest.raises(ConnectionLost, match="inside its with block"):
        client.status()


def test_a_client_may_be_closed_early_and_again(script: ScriptedDaemon) -> None:
    with SidecarClient(script.client()) as closed:
        closed.close()
        with pytest.raises(ConnectionLost):
            closed.status()
    closed.close()


def test_a_session_streams_and_waits(client: SidecarClient) -> None:
    session = client.load_session("s")
    assert [event.kind for event in session.stream("hello")] == ["textDelta", "settled"]
    assert next(session.events(0)).data == {"delta": "hi"}
    with pytest.raises(TimeoutError):
        session.wait_for("settled", timeout_s=0)
    assert session.sid == "s"


def test_a_stream_may_be_left_early(client: SidecarClient) -> None:
    for event in client.load_session("s").stream("hello"):
        assert event.kind == "textDelta"
        break


def test_notifications_and_progress_are_iterators(client: SidecarClient, script: ScriptedDaemon) -> None:
    notifications, progress = client.notifications(), client.progress("x")

    async def speak() -> None:
        script.notify("$/progress", {"token": "x", "value": {"kind": "begin"}})
        script.notify("$/progress", {"token": "x", "value": {"kind": "end"}})

    client._loop.wait(speak())
    assert [params["value"]["kind"] for params in progress] == ["begin", "end"]
    assert next(notifications).method == "$/progress"


def test_handlers_run_with_handlers_in_threads_and_may_use_the_client(script: ScriptedDaemon) -> None:
    def decide(request: PermissionRequest) -> PermissionAnswer:
        assert threading.current_thread().name == "sidecar_client handler"
        return PermissionAnswer("selected", str(asking.request("echo", request.title)))

    script.answers["echo"] = lambda params: params
    setup = with_handlers_in_threads({"permission": decide, "handlers": {"boom": lambda _: 1 / 0}})
    with SidecarClient(script.client(**setup)) as asking:
        answer = asking._loop.wait(script.request("sidecar/permission/request", QUESTION))
        assert answer.result == {"outcome": "selected", "optionId": "run ls"}
        assert asking._loop.wait(script.request("boom", {})).error is not None


def test_a_handler_that_never_answers_holds_up_nothing(script: ScriptedDaemon) -> None:
    release = threading.Event()

    def decide(request: PermissionRequest) -> PermissionAnswer:
        release.wait()
        return allow(request)

    with SidecarClient(script.client(**with_handlers_in_threads({"permission": decide}))) as client:
        asking = client._loop.wait(_start(script))
        assert client.load_session("s").sid == "s"
    release.set()
    assert asking.done()


async def _start(script: ScriptedDaemon) -> asyncio.Task[Any]:
    return asyncio.create_task(script.request("sidecar/permission/request", QUESTION))
