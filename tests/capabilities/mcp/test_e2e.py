"""Tool servers as a client meets them: named with a session, used by its model, gone with the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from scripted_sessions import wait_for_servers
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.protocol.messages import McpServerConfig, NamedValue
from sidecar.transport.processes import wait_for_process
from sidecar_client import SidecarClient, allow, reject
from sidecar_client.session import Session

if TYPE_CHECKING:
    from tests.capabilities.conftest import Life

pytestmark = [
    pytest.mark.usefixtures("needs_mcp"),
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(os.name == "nt", reason="POSIX process groups"),
]

CALL = {"toolCall": {"name": "mcp__plain__echo", "input": {"text": "from afar"}}}


def plain(behaviour: str = "sound") -> McpServerConfig:
    program = Path(__file__).with_name("plain_server.py")
    env = (NamedValue("GIVEN_TOKEN", "theirs"),)
    return McpServerConfig("plain", command=sys.executable, args=(str(program), behaviour), env=env)


class User:
    """Answers every question the same way, and remembers it."""

    def __init__(self) -> None:
        self.answer = allow
        self.asked: list[PermissionRequest] = []

    def __call__(self, request: PermissionRequest) -> PermissionAnswer:
        self.asked.append(request)
        return self.answer(request)


def spawn(folder: Path, user: User) -> SidecarClient:
    """Return a client of a daemon whose model answers every other call with a call of the server's tool."""
    options = {"models": {"fake-1": {"scripted": [[CALL], [{"text": "done"}]] * 9}}}
    env = {"INDUSAGI_HOME": str(folder / "home")}
    return SidecarClient.spawn(cwd=folder, env=env, options=options, permission=user)


@pytest.fixture(scope="module")
def only_user() -> User:
    return User()


@pytest.fixture
def user(only_user: User) -> User:
    """Return the user, who allows everything again."""
    only_user.answer = allow
    only_user.asked.clear()
    return only_user


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("daemon")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(home: Path, only_user: User) -> AsyncIterator[SidecarClient]:
    async with spawn(home, only_user) as client:
        yield client


@asynccontextmanager
async def started(client: SidecarClient, folder: Path, *servers: McpServerConfig) -> AsyncIterator[Session]:
    """Start a session, and close it in the end."""
    new = await client.session_new(cwd=str(folder), model="fake-1", mcp_servers=servers)
    yield Session(client, new.sid, new.seq)
    await client.session_close(new.sid)


async def tool_calls(session: Session, prompt: str) -> list[dict[str, Any]]:
    """Send *prompt* and return what the tools it called came to."""
    await wait_for_servers(session.client, session.sid)
    return [dict(event.data) async for event in session.stream(prompt) if event.kind == "toolFinished"]


def _text(call: dict[str, Any]) -> str:
    return str(call["content"])


async def test_a_model_calls_a_tool_of_a_server_that_ends_with_the_session(
    client: SidecarClient, tmp_path: Path, user: User, life: Life
) -> None:
    async with started(client, tmp_path, plain()) as session:
        (call,) = await tool_calls(session, "go")
        assert (call["title"], call["content"], call["isError"]) == ("plain: echo", "from afar", False)
        (asked,) = user.asked
        assert (asked.title, asked.subject.detail) == ("plain: echo", '{"text": "from afar"}')
        (child,) = (await client.status()).children
        assert child.what == "mcp: plain"
        user.answer = reject
        (call,) = await tool_calls(session, "again")
        assert call["isError"]
        assert "not allowed by the user: plain: echo" in call["content"]
    await life.ends()
    assert (await client.status()).children == ()


async def test_a_session_is_there_before_a_server_that_never_is(
    client: SidecarClient, tmp_path: Path
) -> None:
    async with asyncio.timeout(30), started(client, tmp_path, plain("dead"), plain("mute")) as session:
        notice = await session.wait_for("notice", timeout_s=30)
        assert notice.data["title"] == "The tool server 'plain' did not start: it adds no tools"
        assert notice.data["description"] == "exit code 3: out of luck, token=[secret]"


async def test_a_session_that_is_loaded_again_has_its_servers_named_again(
    client: SidecarClient, tmp_path: Path, home: Path, user: User
) -> None:
    async with started(client, tmp_path, plain()) as session:
        await tool_calls(session, "go")
    (stored,) = (home / "home" / "sessions").rglob(f"*{session.sid}*.jsonl")
    assert "theirs" not in stored.read_text(encoding="utf-8")
    loaded = await client.session_load(session.sid, mcp_servers=(plain(),))
    (call,) = await tool_calls(Session(client, session.sid, loaded.seq), "again")
    assert call["content"] == "from afar"
    await client.session_close(session.sid)


async def test_servers_end_with_a_daemon_that_is_killed(tmp_path: Path, user: User, life: Life) -> None:
    async with spawn(tmp_path, user) as client:
        new = await client.session_new(
            cwd=str(tmp_path), model="fake-1", mcp_servers=(plain("stubborn"), plain())
        )
        await tool_calls(Session(client, new.sid, new.seq), "go")
        status = await client.status()
        os.kill(status.pid, signal.SIGKILL)
        await life.ends()
    assert len(status.children) == 2
    async with asyncio.timeout(10):
        for child in status.children:  # it lets go of what it holds a moment before it is gone
            await asyncio.to_thread(wait_for_process, child.pid)


async def test_servers_end_with_a_client_that_leaves(tmp_path: Path, user: User, life: Life) -> None:
    async with spawn(tmp_path, user) as client:
        new = await client.session_new(cwd=str(tmp_path), model="fake-1", mcp_servers=(plain(),))
        await tool_calls(Session(client, new.sid, new.seq), "go")
    await life.ends()
    assert client.exit_code == 0
