"""One scenario, played through each face and in the process itself, leaves the same log of events."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from sidecar.acp import AcpConnection, AcpOptions, AgentInfo, Backend
from sidecar.boot import Daemon, build, server_info
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.hub import NewSession
from sidecar.conductor.log import EventLog
from sidecar.conductor.session import Session
from sidecar.protocol.codec import event_to_wire
from sidecar.server import LspConnection, LspOptions
from sidecar.transport.memory import MemoryClient

SCENARIO: dict[str, Any] = json.loads(Path(__file__).with_name("scenario.json").read_text())
MODEL = "scripted-1"
ALLOW = "allow_once"
TIMES = {"at", "updatedAt", "durationMs", "createdAt", "seq"}


class Player(Protocol):
    """One way to a daemon."""

    async def open(self, folder: Path) -> str:
        """Start a session and return its id."""
        ...

    async def prompt(self, text: str, *, cancel: bool = False) -> None:
        """Send a prompt and return once it has ended; *cancel* it once the model has begun to answer."""
        ...

    async def choose(self, option: str, value: str) -> None:
        """Set one of the session's options."""
        ...


class HubPlayer:
    """No face at all: a client of the hub in its own process."""

    client_id = "me"
    name = "in process"

    def __init__(self, daemon: Daemon) -> None:
        self._hub = daemon.service.hub
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    async def open(self, folder: Path) -> str:
        self._session = session = await self._hub.new(NewSession(str(folder), model=MODEL))
        self._hub.audience.attach(self, session.sid, controls=True)
        session.introduce()
        return session.sid

    async def prompt(self, text: str, *, cancel: bool = False) -> None:
        started = await self.session.submit(({"type": "text", "text": text},))
        if cancel:
            await begun(self.session.log)
            self.session.interrupt(None, "drop")
        await started.outcome

    async def choose(self, option: str, value: str) -> None:
        await self.session.choose(option, value)

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer("selected", ALLOW)

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """The answer was its own."""

    def sessions_changed(self) -> None:
        """It looks at one."""


class WirePlayer:
    """What both faces have in common: a client that answers every question with a yes."""

    def __init__(self, daemon: Daemon, client: MemoryClient) -> None:
        self.daemon = daemon
        self.client = client
        self.sid = ""
        self._n_asked = 0
        self._n_answered = 0

    async def request(self, method: str, params: Any) -> dict[str, Any]:
        """Return the answer to a request; questions that come before it are answered."""
        request_id = self.ask(method, params)
        return await self.answered(request_id)

    def ask(self, method: str, params: Any) -> str:
        self._n_asked += 1
        self.client.ask(f"r{self._n_asked}", method, params)
        return f"r{self._n_asked}"

    async def answered(self, request_id: str) -> dict[str, Any]:
        while not self.client.answers(request_id):
            questions = [m for m in self.client.messages if "method" in m and "id" in m]
            for question in questions[self._n_answered :]:
                self._n_answered += 1
                self.client.reply(question["id"], self.reply(question["method"]))
            await self.client.stream.wait_until(
                lambda: (
                    bool(self.client.answers(request_id))
                    or len([m for m in self.client.messages if "method" in m and "id" in m])
                    > self._n_answered
                )
            )
        return self.client.answers(request_id)[0]

    def reply(self, method: str) -> Any:
        raise NotImplementedError

    @property
    def log(self) -> EventLog:
        return self.daemon.service.hub.session(self.sid).log


class LspPlayer(WirePlayer):
    """A client of ours over the Language Server Protocol."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon, MemoryClient())
        options = LspOptions(server_info(daemon))
        LspConnection(self.client.stream, daemon.service, daemon.workspace, options).start()

    async def open(self, folder: Path) -> str:
        experimental = {"sidecar": {"protocol": [1], "permission": {}}}
        said = {"processId": None, "rootUri": None, "capabilities": {"experimental": experimental}}
        await self.request("initialize", said)
        answer = await self.request("sidecar/session/new", {"cwd": str(folder), "model": MODEL})
        self.sid = answer["result"]["sid"]
        return self.sid

    async def prompt(self, text: str, *, cancel: bool = False) -> None:
        given = {"sid": self.sid, "input": [{"type": "text", "text": text}]}
        request_id = self.ask("sidecar/turn/run", given)
        if cancel:
            await begun(self.log)
            await self.request("sidecar/turn/interrupt", {"sid": self.sid})
        await self.answered(request_id)

    async def choose(self, option: str, value: str) -> None:
        given = {"sid": self.sid, "configId": option, "value": value}
        await self.request("sidecar/session/setConfigOption", given)

    def reply(self, method: str) -> Any:
        return {"outcome": "selected", "optionId": ALLOW}


class AcpPlayer(WirePlayer):
    """An agent panel."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon, MemoryClient(lines=True))
        info = AgentInfo("sidecar", "Sidecar", "0", "test", ("acp1",))
        options = AcpOptions(info, lambda _: Backend(daemon.service, daemon.workspace))
        AcpConnection(self.client.stream, options).start()

    async def open(self, folder: Path) -> str:
        await self.request("initialize", {"protocolVersion": 1})
        meta = {"sidecar": {"model": MODEL}}
        given = {"cwd": str(folder), "mcpServers": [], "_meta": meta}
        self.sid = (await self.request("session/new", given))["result"]["sessionId"]
        return self.sid

    async def prompt(self, text: str, *, cancel: bool = False) -> None:
        given = {"sessionId": self.sid, "prompt": [{"type": "text", "text": text}]}
        request_id = self.ask("session/prompt", given)
        if cancel:
            await begun(self.log)
            self.client.notify("session/cancel", {"sessionId": self.sid})
        await self.answered(request_id)

    async def choose(self, option: str, value: str) -> None:
        given = {"sessionId": self.sid, "modeId": value}
        await self.request("session/set_mode", given)

    def reply(self, method: str) -> Any:
        return {"outcome": {"outcome": "selected", "optionId": ALLOW}}


async def begun(log: EventLog) -> None:
    """Return once the turn that has just been sent says something."""
    said, start = asyncio.Event(), log.seq

    def look(log: EventLog) -> None:
        if any(event.kind == "textDelta" for event in log.after(start)):
            said.set()

    stop = log.follow(look)
    look(log)
    async with asyncio.timeout(20):
        await said.wait()
    stop()


async def played(make: Callable[[Daemon], Player], home: Path, folder: Path) -> list[dict[str, Any]]:
    """Return the log that the scenario leaves behind, without what differs from run to run."""
    lay_out(folder)
    daemon = build(home)
    daemon.models.add_scripted({MODEL: {"scripted": SCENARIO["script"], "contextWindow": 50_000}})
    daemon.workspace.watched_by_client([folder])
    player = make(daemon)
    sid = await player.open(folder)
    log = daemon.service.hub.session(sid).log
    for step in SCENARIO["steps"]:
        await play(player, step)
    events = [event_to_wire(event) for event in log.after(0, 10_000)]
    await daemon.service.aclose()
    return merged(nameless(events))


def lay_out(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in SCENARIO["files"].items():
        (folder / name).write_text(text)


def play(player: Player, step: Mapping[str, str]) -> Awaitable[None]:
    match step:
        case {"prompt": text} | {"failed": text}:
            return player.prompt(text)
        case {"cancelled": text}:
            return player.prompt(text, cancel=True)
        case {"option": option, "value": value}:
            return player.choose(option, value)
    raise AssertionError(f"no such step: {step}")


def nameless(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *events* with ids numbered in the order they appear, and without times."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"<{len(numbers)}>")

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\b[0-9a-f]{32}\b", number, value)
        if isinstance(value, dict):
            return {key: None if key in TIMES else clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list | tuple) else value

    return [clean(event) for event in events]


def merged(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *events* with neighbouring deltas in one: how they are cut depends on the clock."""
    out: list[dict[str, Any]] = []
    for event in events:
        last: dict[str, Any] = out[-1] if out else {"kind": None}
        if event["kind"] in ("textDelta", "thinkingDelta") and last["kind"] == event["kind"]:
            last["data"]["delta"] += event["data"]["delta"]
        else:
            out.append(event)
    return out


@pytest.mark.parametrize("make", [LspPlayer, AcpPlayer], ids=["lsp", "acp1"])
async def test_a_face_leaves_the_log_that_the_hub_leaves(
    tmp_path: Path, make: Callable[[Daemon], Player]
) -> None:
    plain = await played(HubPlayer, tmp_path / "home-1", tmp_path / "project")
    faced = await played(make, tmp_path / "home-2", tmp_path / "project")
    assert faced == plain


async def test_the_scenario_has_something_of_everything(tmp_path: Path) -> None:
    events = await played(HubPlayer, tmp_path / "home", tmp_path / "project")
    kinds = {event["kind"] for event in events}
    assert kinds >= {
        "commandsChanged",
        "compaction",
        "configChanged",
        "faulted",
        "infoChanged",
        "message",
        "phase",
        "plan",
        "settled",
        "textDelta",
        "thinkingDelta",
        "toolFinished",
        "toolStarted",
        "usage",
        "userMessage",
    }
    reasons = [event["data"].get("stopReason") for event in events if event["kind"] in ("settled", "faulted")]
    assert reasons == ["end_turn"] * 4 + ["cancelled", None, "max_tokens"]
