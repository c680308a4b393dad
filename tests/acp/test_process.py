"""The real process: its start, the protocol it chooses, the modules it loads, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from acp_schema import check_messages

pytestmark = pytest.mark.e2e

INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
ENDS_ITSELF = """
import os, signal
from sidecar.cli import main
from sidecar.transport.streams import ByteStream

wait = ByteStream.peek

async def peek(stream):
    os.kill(os.getpid(), signal.SIGTERM)
    return await wait(stream)

ByteStream.peek = peek
main(["serve"])
"""
WHERE_LOADED = """
import sys
sys.argv = ["sidecar"]
import os, sidecar.transport.lifetime as lifetime
lifetime.leave = lambda code: (os.write(2, " ".join(sorted(sys.modules)).encode()), os._exit(code))
from sidecar.cli import main
main()
"""


class Agent:
    """A process of the test's own, and the hands of its client."""

    def __init__(self, home: Path, *command: str, **options: Any) -> None:
        env = {**os.environ, "INDUSAGI_HOME": str(home)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=pipe, stdout=pipe, env=env, bufsize=0, **options
        )
        self.sent: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self._n_asked = 0

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, params: Any) -> dict[str, Any]:
        """Return the answer to a request."""
        self._n_asked += 1
        self.send({"id": self._n_asked, "method": method, "params": params})
        return self.read_until(lambda message: message.get("id") == self._n_asked and "method" not in message)

    def read_until(self, wanted: Any) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.messages.append(json.loads(line))
            if wanted(self.messages[-1]):
                return self.messages[-1]
        raise AssertionError("the agent has ended")

    def ended(self) -> int:
        """Close the client's end and return the exit code."""
        self.stdin.close()
        return self.process.wait(30)

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    """An agent whose every message is held against the protocol's schema when the test is over."""
    agent = Agent(home, "-m", "sidecar", "acp")
    yield agent
    agent.close()
    check_messages(agent.sent, agent.messages)


def open_session(agent: Agent, folder: Path, *script: list[dict[str, Any]]) -> str:
    models = {"scripted-1": {"scripted": list(script)}}
    agent.request("initialize", {**INITIALIZE, "_meta": {"sidecar": {"models": models}}})
    meta = {"sidecar": {"model": "scripted-1"}}
    answer = agent.request("session/new", {"cwd": str(folder), "mcpServers": [], "_meta": meta})
    return str(answer["result"]["sessionId"])


def prompt(agent: Agent, sid: str) -> None:
    blocks = [{"type": "text", "text": "go"}]
    agent.send({"id": "p", "method": "session/prompt", "params": {"sessionId": sid, "prompt": blocks}})


def is_chunk(message: dict[str, Any]) -> bool:
    update = message.get("params", {}).get("update", {})
    return bool(update.get("sessionUpdate") == "agent_message_chunk")


def test_the_end_of_input_before_anything_is_a_clean_end(agent: Agent) -> None:
    assert agent.ended() == 0


def test_a_script_that_closes_its_end_gets_its_answers_first(agent: Agent, tmp_path: Path) -> None:
    """What it asked for last is answered; the daemon itself is loaded before, for as long as that takes."""
    agent.request("initialize", INITIALIZE)
    agent.request("session/list", {})
    new = {"cwd": str(tmp_path), "mcpServers": []}
    agent.send({"id": "last", "method": "session/new", "params": new})
    agent.stdin.close()
    assert "result" in agent.read_until(lambda message: message.get("id") == "last")
    assert agent.ended() == 0


def test_the_end_of_input_in_the_middle_of_a_turn_ends_it(agent: Agent, tmp_path: Path) -> None:
    sid = open_session(agent, tmp_path, [{"text": "x"}, {"hang": True}])
    prompt(agent, sid)
    agent.read_until(is_chunk)
    assert agent.ended() == 0


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_sigterm_settles_the_turn_stores_it_and_exits_0(agent: Agent, tmp_path: Path, home: Path) -> None:
    sid = open_session(agent, tmp_path, [{"text": "x"}, {"hang": True}])
    prompt(agent, sid)
    agent.read_until(is_chunk)
    agent.process.send_signal(signal.SIGTERM)
    answer = agent.read_until(lambda message: message.get("id") == "p")
    assert answer["result"]["stopReason"] == "cancelled"
    assert agent.process.wait(30) == 0
    second = Agent(home, "-m", "sidecar", "acp")
    second.request("initialize", INITIALIZE)
    loaded = second.request("session/load", {"sessionId": sid, "cwd": str(tmp_path), "mcpServers": []})
    assert loaded["result"]["_meta"]["sidecar"]["snapshot"]["messages"] == 2
    assert second.ended() == 0
    second.close()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_sigterm_before_the_first_byte_ends_it(home: Path) -> None:
    agent = Agent(home, "-c", ENDS_ITSELF)
    assert agent.process.wait(30) == 0
    agent.close()


def framed(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


LSP = framed({"method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}})
ACP = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode() + b"\n"


@pytest.mark.parametrize(
    ("first", "loaded", "unloaded"),
    [
        pytest.param(ACP, "sidecar.acp", ("pygls", "lsprotocol", "sidecar.server"), id="a brace is ACP"),
        pytest.param(LSP, "sidecar.server", ("sidecar.acp",), id="a header is LSP"),
    ],
)
def test_the_first_byte_decides_the_protocol_and_the_other_is_not_loaded(
    home: Path, first: bytes, loaded: str, unloaded: tuple[str, ...]
) -> None:
    env = {**os.environ, "INDUSAGI_HOME": str(home)}
    command = [sys.executable, "-c", WHERE_LOADED]
    ran = subprocess.run(command, input=first, capture_output=True, env=env, timeout=30, check=False)
    modules = ran.stderr.decode().split()
    assert b'"result"' in ran.stdout
    assert (loaded in modules, [name for name in unloaded if name in modules]) == (True, [])


def test_nothing_but_the_protocol_is_on_standard_output(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "noise.sh").write_text("echo out; echo err >&2\n")
    call = {"toolCall": {"name": "bash", "input": {"command": "sh noise.sh"}}}
    sid = open_session(agent, tmp_path, [call], [{"text": "done"}])
    agent.request("session/set_mode", {"sessionId": sid, "modeId": "allowAll"})
    prompt(agent, sid)
    agent.read_until(lambda message: message.get("id") == "p")
    assert all(message["jsonrpc"] == "2.0" for message in agent.messages)
    assert agent.ended() == 0
