"""Panels whose every message is held against the protocol's schema, and a whole daemon behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from acp_schema import MATERIAL, SCHEMA, check_messages
from fake_panel import FakePanel
from sidecar.boot import Daemon, build
from sidecar.conductor.record.log import EventLog
from sidecar.llmgateway.scripted import ScriptedModel

MODEL: Final = "scripted-1"


@pytest.fixture(scope="session")
def material() -> Path:
    """Return the folder with the protocol's own material, or skip."""
    if not SCHEMA.exists():
        pytest.skip("the protocol's schema is not beside the checkout")
    return MATERIAL


@pytest.fixture
def panels() -> Iterator[Callable[..., FakePanel]]:
    """Return a function that makes panels; the messages to each are checked at the end."""
    made: list[FakePanel] = []

    def make(**given: Any) -> FakePanel:
        made.append(FakePanel(**given))
        return made[-1]

    yield make
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
