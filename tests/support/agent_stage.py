"""An agent on a scripted model, as a host drives it: with its journal and all that it published."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from fake_tools import FunctionTools
from memory_journal import MemoryJournal
from sidecar.llmgateway.contract import Turn
from sidecar.llmgateway.scripted import Call, ScriptedModel, Step
from sidecar.runtime.conductor import AgentDeps, create_agent
from sidecar.runtime.contract import AgentConfig, RunEvent, RunSnapshot, ToolBox

__all__ = ["AgentStage", "WaitingTool", "ls"]


class AgentStage:
    """An agent whose model plays *script*; *options* are of its configuration and its dependencies."""

    def __init__(self, *script: Sequence[Step], tools: ToolBox | None = None, **options: Any) -> None:
        config = {name: options.pop(name) for name in ("max_turns", "system") if name in options}
        numbers = count(1)
        self.model = ScriptedModel(script)
        self.journal = MemoryJournal()
        deps = AgentDeps(
            self.model, journal=self.journal, new_id=lambda: f"id{next(numbers)}", abort_grace_s=0
        )
        self.agent = create_agent(AgentConfig(model="m", tools=tools, **config), replace(deps, **options))
        self.events: list[RunEvent] = []
        self.agent.subscribe(self.events.append)

    @property
    def kinds(self) -> list[str]:
        """The kinds of the published events."""
        return [event.kind for event in self.events]

    @property
    def sent(self) -> list[tuple[Turn, ...]]:
        """The turns of each model call."""
        return [call.conversation.turns for call in self.model.calls]

    async def reach(self, reached: Callable[[RunSnapshot], object]) -> RunSnapshot:
        """Wait for a state; every state is published by some event."""
        told = asyncio.Event()
        stop = self.agent.subscribe(lambda event: told.set())
        while not reached(self.agent.snapshot()):
            told.clear()
            await told.wait()
        stop()
        return self.agent.snapshot()

    def submit(self, prompt: str) -> asyncio.Task[RunSnapshot]:
        """Begin a run, or add to the one at work."""
        return asyncio.ensure_future(self.agent.submit(prompt))


def ls(call_id: str) -> Call:
    """Return a call of the tool ``ls``."""
    return Call("ls", {}, call_id)


class WaitingTool(FunctionTools):
    """A tool ``ls`` whose calls wait: until their token is cancelled if *is_polite*, else for ever."""

    def __init__(self, *, is_polite: bool = False) -> None:
        super().__init__(ls=self._wait)
        self.has_begun = asyncio.Event()
        self._is_polite = is_polite

    async def _wait(self, call: Any, cancel: Any) -> object:
        stopped = asyncio.Event()
        if self._is_polite:
            cancel.add_callback(stopped.set)
        self.has_begun.set()
        await stopped.wait()
        return "half of it"
