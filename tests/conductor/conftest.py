"""A hub over a real store, a workspace in memory, a scripted model and tools that are given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bare_sessions import NoExtensions, NoLibrary, compaction_settings, list_folders
from fake_tool_servers import FakeToolServers
from fake_workspace import FakeWorkspace
from sidecar.boot import ENGINES, recognise_kind
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.mcp import ServerHost
from sidecar.capabilities.toolbox import SessionToolBox
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.hub import Hub, NewSession
from sidecar.conductor.record.queue import TurnOutcome
from sidecar.conductor.record.shelf import SessionShelf
from sidecar.conductor.session import Session
from sidecar.llmgateway.catalog import BUILT_IN
from sidecar.llmgateway.contract import CostSheet, ModelCard
from sidecar.llmgateway.registry import ModelRegistry
from sidecar.llmgateway.scripted import Script, ScriptedModel
from sidecar.runtime.store import SessionStore
from turns import text


@dataclass
class Stage:
    """A hub and what stands around it; :meth:`session` opens one with the scripted model."""

    hub: Hub
    shelf: SessionShelf
    model: ScriptedModel
    models: ModelRegistry
    workspace: FakeWorkspace
    folder: Path
    servers: list[FakeToolServers]
    opened: list[Session] = field(default_factory=list)

    async def session(self, **wanted: Any) -> Session:
        session = await self.hub.new(NewSession(str(self.folder), model="scripted-1", **wanted))
        self.opened.append(session)
        return session

    async def settle(self) -> None:
        """Let everybody else have a turn of the event loop."""
        await asyncio.sleep(0)

    def smaller_window(self, window: int) -> None:
        """Let the scripted model's window be *window* from now on."""
        card = self.models.card("scripted-1")
        assert card is not None
        self.models.catalog = {**self.models.catalog, card.id: replace(card, context_window=window)}
        for session in self.hub.sessions:
            session.record.look_up_card()

    async def ask(self, session: Session, prompt: str) -> TurnOutcome:
        """Submit *prompt* and wait for the end of its turn."""
        return await (await session.submit(text(prompt))).outcome


StageMaker = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def make_stage(tmp_path: Path) -> AsyncIterator[StageMaker]:
    stages: list[Stage] = []
    ids = count(1)

    async def make(
        script: Script = (),
        *,
        tools: Sequence[Tool] = (),
        window: int = 32_000,
        repeat: bool = False,
        store: Path | None = None,
        **options: Any,
    ) -> Stage:
        model = ScriptedModel(script, when_exhausted="repeat" if repeat else "fail")
        card = ModelCard(
            "scripted-1",
            "scripted",
            "mock",
            "Scripted",
            context_window=window,
            max_output_tokens=1000,
            modalities=("text",),
            reasoning=False,
            cost=options.pop("cost", CostSheet(0, 0)),
        )
        workspace = FakeWorkspace()
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        models = ModelRegistry({**BUILT_IN, card.id: card}, {"scripted": model}, "scripted-1")
        running: list[FakeToolServers] = []

        def run_servers(host: ServerHost) -> FakeToolServers:
            running.append(FakeToolServers(host))
            return running[-1]

        parts = SessionDeps(
            models=models,
            workspace=workspace,
            engines=ENGINES,
            toolbox=lambda context, observe: SessionToolBox(tools, context, observe),
            tool_servers=run_servers,
            resolve=lambda path, cwd: cwd / path,
            child_started=lambda pid, what: lambda: None,
            clock_ms=options.pop("clock_ms", count(1_000).__next__),
            new_id=lambda: f"id{next(ids)}",
            library=options.pop("library", NoLibrary()),
            extensions=options.pop("extensions", NoExtensions()),
            surroundings=options.pop("surroundings", list_folders),
            compaction=options.pop("compaction", compaction_settings()),
            **options,
        )
        shelf = SessionShelf(SessionStore(store or tmp_path / "store", recognise=recognise_kind), tmp_path)
        stage = Stage(Hub(shelf, parts, "windowBudget"), shelf, model, models, workspace, folder, running)
        stages.append(stage)
        return stage

    yield make
    for stage in stages:
        await stage.hub.aclose()
