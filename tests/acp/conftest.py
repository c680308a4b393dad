"""Panels whose every message is held against the protocol's schema, and a whole daemon behind them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from fake_panel import FakePanel
from sidecar.boot import Daemon, build
from sidecar.conductor.record.log import EventLog
from sidecar.llmgateway.scripted import ScriptedModel

MATERIAL: Final = Path(__file__).parents[3] / "shared" / "data" / "dev"
SCHEMA: Final = MATERIAL / "acp-schema" / "schema-v1.json"
MODEL: Final = "scripted-1"

_TEXT: Final = {"type": "object", "required": ["type", "text"]}
_STATUSES: Final = ["in_progress", "completed", "failed", "cancelled"]
LATER: Final[dict[str, dict[str, Any]]] = {
    "notice": {
        "required": ["severity", "title"],
        "properties": {
            "severity": {"enum": ["info", "warning", "error"]},
            "title": {"type": "string"},
            "description": {"type": "string"},
        },
    },
    "compaction_update": {
        "required": ["compactionId", "status"],
        "properties": {
            "compactionId": {"type": "string"},
            "status": {"enum": _STATUSES},
            "summary": {"type": "array", "items": _TEXT},
            "error": {"type": "string"},
        },
    },
    "compaction_summary_chunk": {
        "required": ["compactionId", "content"],
        "properties": {"compactionId": {"type": "string"}, "content": _TEXT},
    },
    "subagent_update": {
        "required": ["sessionId"],
        "properties": {
            "sessionId": {"type": "string"},
            "title": {"type": "string"},
            "capabilities": {"properties": {"cancel": {"type": "object"}}},
            "state": {
                "required": ["state"],
                "properties": {
                    "state": {"enum": ["running", "requires_action", "idle"]},
                    "stopReason": {"enum": ["end_turn", "max_tokens", "refusal", "cancelled"]},
                },
            },
        },
    },
}
"""Updates of the protocol that are younger than the schema; a client asks for each by a capability."""


@cache
def definitions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    return found


@cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of one definition."""
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions()})


@cache
def definition(method: str, ending: str) -> str | None:
    """Return the name of the params or result of a method, None for methods of our own."""
    found = (name for name, body in definitions().items() if body.get("x-method") == method)
    return next((name for name in found if name.endswith(ending)), None)


def check_value(name: str | None, value: Any) -> None:
    if name is not None:
        problem = next(validator(name).iter_errors(value), None)
        assert problem is None, f"{name}: {problem.message} in {json.dumps(value)[:500]}"


def check_update(params: Mapping[str, Any]) -> None:
    """Hold the params of one ``session/update`` against the schema."""
    later = LATER.get(params["update"]["sessionUpdate"])
    if later is None:
        check_value("SessionNotification", params)
        return
    problem = next(Draft202012Validator(later).iter_errors(params["update"]), None)
    assert problem is None, f"{params['update']}: {problem.message}"


def check_messages(sent: list[dict[str, Any]], received: list[dict[str, Any]]) -> None:
    """Check every message of the daemon in one conversation against the schema."""
    asked = {repr(each["id"]): each["method"] for each in sent if "method" in each and "id" in each}
    for message in received:
        assert message["jsonrpc"] == "2.0"
        if message.get("method") == "session/update":
            check_update(message["params"])
        elif "method" in message:
            ending = "Request" if "id" in message else "Notification"
            check_value(definition(message["method"], ending), message["params"])
        elif "error" in message:
            check_value("Error", message["error"])
            assert isinstance(message["error"]["data"]["kind"], str)
        elif isinstance(method := asked.get(repr(message["id"])), str):
            check_value(definition(method, "Response"), message["result"])


@pytest.fixture(scope="session")
def material() -> Path:
    """Return the folder with the protocol's own material, or skip."""
    if not SCHEMA.exists():
        pytest.skip("the protocol's schema is not beside the checkout")
    return MATERIAL


@pytest.fixture
def check_one_update() -> Callable[[Mapping[str, Any]], None]:
    """Return a function that checks one update; it does nothing without the schema."""
    return check_update if SCHEMA.exists() else lambda params: None


@pytest.fixture
def check_conversation() -> Callable[[list[dict[str, Any]], list[dict[str, Any]]], None]:
    """Return a function that checks the messages *sent* and *received*, if there is a schema."""
    return check_messages if SCHEMA.exists() else lambda sent, received: None


@pytest.fixture
def panels() -> Iterator[Callable[..., FakePanel]]:
    """Return a function that makes panels; the messages to each are checked at the end."""
    made: list[FakePanel] = []

    def make(**given: Any) -> FakePanel:
        made.append(FakePanel(**given))
        return made[-1]

    yield make
    if SCHEMA.exists():
        for panel in made:
            check_messages(panel.sent, panel.messages)


@pytest.fixture
async def panel(panels: Callable[..., FakePanel]) -> FakePanel:
    """Return a panel over a fake service."""
    return panels()


@dataclass
class Stage:
    """A whole daemon, a folder to work in, and a panel that has it open."""

    daemon: Daemon
    folder: Path
    make_panel: Callable[..., FakePanel]
    panel: FakePanel
    _numbers: Iterator[int] = field(default_factory=count)

    async def open(self, capabilities: Mapping[str, Any] | None = None) -> FakePanel:
        """Return another panel, with *capabilities*, and make it the one at hand."""
        service, workspace = self.daemon.service, self.daemon.workspace
        self.panel = self.make_panel(service=service, workspace=workspace)
        await self.panel.initialize(capabilities)
        return self.panel

    def script(self, *calls: list[dict[str, Any]], window: int = 200_000) -> ScriptedModel:
        """Let the model answer its next calls with these steps."""
        spec = {"scripted": list(calls), "contextWindow": window}
        self.daemon.models.add_scripted({MODEL: spec})
        card = self.daemon.models.card(MODEL)
        assert card is not None
        model = self.daemon.models.providers[card.provider]
        assert isinstance(model, ScriptedModel)
        return model

    async def call(self, method: str, params: Any = None) -> dict[str, Any]:
        """Return the answer to a request of its own id."""
        return await self.panel.request(f"call-{next(self._numbers)}", method, params)

    async def session(self, *calls: list[dict[str, Any]], **extras: Any) -> str:
        """Return a new session whose model plays *calls*."""
        self.script(*calls)
        meta = {"sidecar": {"model": MODEL, **extras}}
        params = {"cwd": str(self.folder), "mcpServers": [], "_meta": meta}
        return str((await self.call("session/new", params))["result"]["sessionId"])

    def prompt(self, request_id: Any, sid: str, text: str = "go") -> None:
        """Send a prompt."""
        blocks = [{"type": "text", "text": text}]
        self.panel.ask(request_id, "session/prompt", {"sessionId": sid, "prompt": blocks})

    async def run(self, request_id: Any, sid: str, text: str = "go") -> dict[str, Any]:
        """Send a prompt and return its answer."""
        self.prompt(request_id, sid, text)
        return await self.panel.answer(request_id)

    def log(self, sid: str) -> EventLog:
        """Return the log of a session."""
        return self.daemon.service.hub.session(sid).record.log


@pytest.fixture
async def stage(tmp_path: Path, panels: Callable[..., FakePanel]) -> AsyncIterator[Stage]:
    """Return a daemon with a panel of no capabilities."""
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    daemon = build(tmp_path / "home")
    daemon.workspace.leave_to_client([folder])  # starting and stopping a real watcher takes its time
    stage = Stage(daemon, folder, panels, None)  # type: ignore[arg-type]  # set below
    await stage.open()
    yield stage
    await daemon.service.aclose()
