"""Ways to a daemon: in the process itself, and through each face, for one scenario that is played on all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from fake_panel import fake_agent
from memory_stream import MemoryClient
from sidecar.acp import AcpConnection, AcpOptions
from sidecar.boot import Daemon
from sidecar.commands.launch import server_info
from sidecar.conductor.contract import (
    Author,
    Elicitation,
    PermissionAnswer,
    PermissionRequest,
    SessionSummary,
)
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import Event
from sidecar.conductor.hub import ForkOf, NewSession
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import TurnOutcome
from sidecar.conductor.session import Session
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend
from sidecar.workspace.buffers import Editor
from sidecar.workspace.contract import FileView, TextChange
from turns import text

MODEL: Final = "scripted-1"
POLICY: Final = {"keepRecent": 40}
Asked = Callable[[], Awaitable[None]]
"""What the user does while a question waits for the answer."""


async def nothing() -> None:
    """Think, and do nothing else."""


@dataclass
class Player:
    """One way to a daemon; *sid* is the session it talks to."""

    daemon: Daemon
    folder: Path
    sid: str = ""
    answer: str = "allow_once"
    asked: Asked = nothing
    behind: list[Any] = field(default_factory=list)

    @property
    def session(self) -> Session:
        """The session, looked at from inside."""
        return self.daemon.service.hub.session(self.sid)

    @property
    def log(self) -> EventLog:
        """The events of the session."""
        return self.session.record.log

    async def until(self, kind: str, after_seq: int) -> None:
        """Return once the session has an event of *kind* that is not a beginning."""
        async with asyncio.timeout(20):
            while not any(is_of(kind, event) for event in self.log.after(after_seq)):
                await self.attend()

    async def attend(self) -> None:
        """Let the daemon proceed, and answer its questions."""
        await asyncio.sleep(0)

    async def open(self) -> None:
        """Start a session."""
        raise NotImplementedError

    async def type(self, path: Path, typed: str) -> None:
        """Open *path* and type, without saving."""
        raise NotImplementedError

    async def prompt(self, words: str) -> None:
        """Send a prompt and return once it has ended."""
        raise NotImplementedError

    async def cancelled(self, words: str) -> None:
        """Send a prompt, and cancel it once the model has begun to answer."""
        raise NotImplementedError

    async def steer(self, words: str) -> None:
        """Say *words* to the running turn."""
        raise NotImplementedError

    async def queue(self, words: str) -> None:
        """Send a prompt that has to wait; *behind* gets the prompts that end with it."""
        raise NotImplementedError

    async def settle_behind(self) -> None:
        """Return once the prompts that had to wait have ended."""
        raise NotImplementedError

    async def call(self, method: str, **params: Any) -> None:
        """Call *method* for the session; a fork becomes the session."""
        raise NotImplementedError


NOBODY = Author("0" * 32, "")
"""Who prompts without a face, and without a name as the faces of this scenario have none."""


@dataclass
class HubPlayer(Player):
    """No face at all: a client of the hub in its own process."""

    client_id = "me"
    name = "in process"
    editor: Editor | None = None

    async def join(self) -> None:
        """Be an editor, and nothing else."""
        self.editor = self.daemon.workspace.editor(self._apply)

    async def open(self) -> None:
        await self.join()
        hub = self.daemon.service.hub
        self._follow(await hub.new(NewSession(str(self.folder), model=MODEL, policy=POLICY)))

    async def type(self, path: Path, typed: str) -> None:
        assert self.editor is not None
        self.editor.open_buffer(path.as_uri(), version=1, text=typed)

    async def prompt(self, words: str) -> None:
        await (await self.session.submit(text(words), author=NOBODY)).outcome

    async def cancelled(self, words: str) -> None:
        started = await self.session.submit(text(words), author=NOBODY)
        await self.until("textDelta", self.log.seq)
        self.session.turns.prompts.interrupt(None, "drop")
        await started.outcome

    async def steer(self, words: str) -> None:
        running = self.session.record.queue.running
        assert running is not None
        self.session.turns.prompts.steer(text(words), running.turn_id, NOBODY)

    async def queue(self, words: str) -> None:
        self.behind.append((await self.session.submit(text(words), author=NOBODY)).outcome)

    async def settle_behind(self) -> None:
        outcomes: list[TurnOutcome] = [await outcome for outcome in self.behind]
        assert [each.stop_reason for each in outcomes] == ["end_turn"] * len(outcomes)
        self.behind.clear()

    async def call(self, method: str, **params: Any) -> None:
        session = self.session
        match method:
            case "compact/start":
                session.compact(CompactionRequest(force=True, **params))
            case "compact/undo":
                await session.undo(None, force=False, expect_head=None)
            case "session/rewind":
                await session.rewind(params["toNode"], expect_head=None)
            case "session/setConfigOption":
                await session.choose(params["configId"], params["value"])
            case "session/fork":
                self._follow(await self.daemon.service.hub.fork(ForkOf(self.sid)))

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        await self.asked()
        return PermissionAnswer("selected", self.answer)

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """The answer was its own."""

    async def elicit(self, question: Elicitation) -> None:
        """It shows no forms."""

    def elicit_resolved(self, sid: str, elicitation_id: str, action: str, by: str) -> None:
        """It shows no forms."""

    def sessions_changed(self, changed: Sequence[SessionSummary], removed: Sequence[str]) -> None:
        """It looks at one."""

    def follow_child(self, sid: str) -> None:
        """It looks at one."""

    def unfollow(self, sid: str) -> None:
        """It looks at one."""

    def _follow(self, session: Session) -> None:
        self.sid = session.sid
        self.daemon.service.hub.audience.attach(self, session.sid, controls=True)
        session.introduce()

    async def _apply(self, before: FileView, new_text: str) -> bool:
        assert self.editor is not None
        version = (before.version or 0) + 1
        self.editor.change_buffer(
            before.uri, version=version, changes=[TextChange(new_text)], encoding="utf-8"
        )
        return True


@dataclass
class WirePlayer(Player):
    """What the faces have in common: requests, and a client that answers the daemon's."""

    lines = False
    client: MemoryClient = field(init=False)
    n_requests: int = 0
    n_answered: int = 0
    buffers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client = MemoryClient(lines=self.lines)

    async def request(self, method: str, params: Any) -> dict[str, Any]:
        """Return the answer to a request; the questions of the daemon before it are answered."""
        return await self.answered(self.ask(method, params))

    def ask(self, method: str, params: Any) -> str:
        self.n_requests += 1
        request_id = f"r{self.n_requests}"
        self.client.ask(request_id, method, params)
        return request_id

    async def answered(self, request_id: str) -> dict[str, Any]:
        while not self.client.answers(request_id):
            await self.client.stream.wait_until(
                lambda: bool(self.client.answers(request_id)) or bool(self._questions())
            )
            await self._answer_all()
        return self.client.answers(request_id)[0]

    async def attend(self) -> None:
        await asyncio.sleep(0)
        await self._answer_all()

    def _questions(self) -> Sequence[Mapping[str, Any]]:
        return [m for m in self.client.messages if "method" in m and "id" in m][self.n_answered :]

    async def _answer_all(self) -> None:
        while questions := self._questions():
            self.n_answered += 1
            question = questions[0]
            if question["method"].endswith(("permission/request", "request_permission")):
                await self.asked()
            reply = self.reply(question["method"], question["params"])
            said = {"error": {"code": -32002, "message": "no such file"}} if reply is None else reply
            self.client.send({"jsonrpc": "2.0", "id": question["id"], **said})

    async def settle_behind(self) -> None:
        for request_id in self.behind:
            assert "result" in await self.answered(request_id)
        self.behind.clear()

    def reply(self, method: str, params: Any) -> dict[str, Any] | None:
        """Return the reply of the client to a question of the daemon."""
        raise NotImplementedError


class LspPlayer(WirePlayer):
    """An editor's extension, over the Language Server Protocol."""

    async def open(self) -> None:
        backend = Backend(self.daemon.service, self.daemon.workspace)
        LspConnection(
            self.client.stream, LspOptions(info=server_info(), open_backend=lambda _: backend)
        ).start()
        capabilities = {
            "experimental": {"sidecar": {"protocol": [1], "permission": {}}},
            "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
        }
        await self.request("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        given = {"cwd": str(self.folder), "model": MODEL, "policy": POLICY}
        self.sid = (await self.request("sidecar/session/new", given))["result"]["sid"]

    async def type(self, path: Path, typed: str) -> None:
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": typed}
        self.client.notify("textDocument/didOpen", {"textDocument": document})

    async def prompt(self, words: str) -> None:
        await self.request("sidecar/turn/run", {"sid": self.sid, "input": text(words)})

    async def cancelled(self, words: str) -> None:
        request_id = self.ask("sidecar/turn/run", {"sid": self.sid, "input": text(words)})
        await self.until("textDelta", self.log.seq)
        await self.request("sidecar/turn/interrupt", {"sid": self.sid, "queue": "drop"})
        await self.answered(request_id)

    async def steer(self, words: str) -> None:
        turn_id = self.session.snapshot().turn_id
        given = {"sid": self.sid, "expectTurnId": turn_id, "input": text(words)}
        await self.request("sidecar/turn/steer", given)

    async def queue(self, words: str) -> None:
        self.behind.append(self.ask("sidecar/turn/run", {"sid": self.sid, "input": text(words)}))

    async def call(self, method: str, **params: Any) -> None:
        answer = await self.request(f"sidecar/{method}", {"sid": self.sid, **params})
        self.sid = answer["result"].get("sid", self.sid)

    def reply(self, method: str, params: Any) -> dict[str, Any] | None:
        if method == "sidecar/permission/request":
            return {"result": {"outcome": "selected", "optionId": self.answer}}
        assert method == "workspace/applyEdit"
        (change,) = params["edit"]["documentChanges"]
        (edit,), document = change["edits"], change["textDocument"]
        moved = {**document, "version": document["version"] + 1}
        changes = [{"range": edit["range"], "text": edit["newText"]}]
        self.client.notify("textDocument/didChange", {"textDocument": moved, "contentChanges": changes})
        return {"result": {"applied": True}}


class AcpPlayer(WirePlayer):
    """An agent panel, over the Agent Client Protocol."""

    lines = True
    hello: ClassVar[dict[str, Any]] = {
        "protocolVersion": 1,
        "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}},
    }

    async def open(self) -> None:
        backend = Backend(self.daemon.service, self.daemon.workspace)
        options = AcpOptions(fake_agent("acp1", "acp2"), lambda _: backend)
        AcpConnection(self.client.stream, options).start()
        await self.request("initialize", self.hello)
        meta = {"sidecar": {"model": MODEL, "policy": POLICY}}
        given = {"cwd": str(self.folder), "mcpServers": [], "_meta": meta}
        self.sid = (await self.request("session/new", given))["result"]["sessionId"]

    async def type(self, path: Path, typed: str) -> None:
        self.buffers[str(path)] = typed

    async def prompt(self, words: str) -> None:
        await self.request("session/prompt", self._prompt(words))

    async def cancelled(self, words: str) -> None:
        request_id = self.ask("session/prompt", self._prompt(words))
        await self.until("textDelta", self.log.seq)
        self.client.notify("session/cancel", {"sessionId": self.sid})
        await self.answered(request_id)

    async def steer(self, words: str) -> None:
        await self.request("_session/steering", self._prompt(words))

    async def queue(self, words: str) -> None:
        self.behind.append(self.ask("session/prompt", self._prompt(words)))

    async def call(self, method: str, **params: Any) -> None:
        match method:
            case "session/fork":
                given = {"sessionId": self.sid, "cwd": str(self.folder), "mcpServers": []}
                self.sid = (await self.request("session/fork", given))["result"]["sessionId"]
            case "session/setConfigOption":
                await self.request("session/set_config_option", {"sessionId": self.sid, **params})
            case _:
                await self.request(f"_sidecar/{method}", {"sid": self.sid, **params})

    def reply(self, method: str, params: Any) -> dict[str, Any] | None:
        match method:
            case "session/request_permission":
                return {"result": {"outcome": {"outcome": "selected", "optionId": self.answer}}}
            case "fs/read_text_file":
                return self._content(params["path"])
            case "fs/write_text_file" if params["path"] in self.buffers:
                self.buffers[params["path"]] = params["content"]
            case "fs/write_text_file":
                Path(params["path"]).write_text(params["content"])
        return {"result": {}}

    def _content(self, path: str) -> dict[str, Any] | None:
        saved = Path(path).read_text() if Path(path).exists() else None
        found = self.buffers.get(path, saved)
        return None if found is None else {"result": {"content": found}}

    def _prompt(self, words: str) -> dict[str, Any]:
        return {"sessionId": self.sid, "prompt": text(words)}


class DraftPlayer(AcpPlayer):
    """A panel that speaks the draft, which has prompts that end in updates, and leaves files to an editor."""

    hello: ClassVar[dict[str, Any]] = {"protocolVersion": 2}

    async def type(self, path: Path, typed: str) -> None:
        beside_it = HubPlayer(self.daemon, self.folder)
        await beside_it.join()
        await beside_it.type(path, typed)

    async def prompt(self, words: str) -> None:
        seq = self.log.seq
        await super().prompt(words)
        await self.idle(seq)

    async def cancelled(self, words: str) -> None:
        seq = self.log.seq
        await super().cancelled(words)
        await self.idle(seq)

    async def settle_behind(self) -> None:
        seq = self.log.seq
        await super().settle_behind()
        await self.idle(seq)

    async def steer(self, words: str) -> None:
        meta = {"_meta": {"sidecar": {"whenBusy": "steer"}}}
        # The answer comes with the place of the prompt, once the running turn has let it in.
        self.ask("session/prompt", self._prompt(words) | meta)

    async def idle(self, after_seq: int) -> None:
        """Return once the panel has received the end of the turn."""

        def is_idle(message: Mapping[str, Any]) -> bool:
            said = message.get("params", {})
            update = said.get("update", {})
            if said.get("sessionId") != self.sid or update.get("state") != "idle":
                return False
            return bool(update["_meta"]["sidecar"]["seq"] > after_seq)

        async with asyncio.timeout(20):
            while not any(map(is_idle, self.client.messages)):
                await self.attend()


def is_of(kind: str, event: Event) -> bool:
    return event.kind == kind and getattr(event.data, "status", None) != "in_progress"


@pytest.fixture(scope="module")
def players() -> Mapping[str, type[Player]]:
    """Return the ways there are, by the name of the face."""
    return {"hub": HubPlayer, "lsp": LspPlayer, "acp1": AcpPlayer, "acp2": DraftPlayer}
