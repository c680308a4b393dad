"""Whatever a host does at whatever moment: an agent comes to rest, loses no prompt, stores what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Literal, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from fake_tools import FunctionTools
from memory_journal import MemoryJournal
from properties import cases
from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    Emission,
    ErrorEmission,
    GatewayError,
    StopEmission,
    StreamOptions,
    TextBlock,
    TextEmission,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Turn,
    UserTurn,
)
from sidecar.runtime.conductor import Agent, AgentDeps, create_agent
from sidecar.runtime.contract import AgentConfig, FaultedEvent, RunEvent, RunSnapshot, SettledEvent, ToolCall
from sidecar.runtime.wire import is_blank, pair_results

Beat: TypeAlias = Emission | Literal["pause", "raise", "hang"]
Deed: TypeAlias = Literal["submit", "abort", "withdraw", "give up", "wait"]

CALLS = st.builds(
    ToolCallStartEmission, st.sampled_from(["a", "b"]), st.sampled_from(["fast", "slow", "deaf"])
)
BEATS: st.SearchStrategy[Beat] = st.one_of(
    st.just(TextEmission("word")),
    CALLS,
    st.builds(ToolCallDeltaEmission, st.sampled_from(["a", "b"]), st.sampled_from(["{}", '{"x'])),
    st.sampled_from([StopEmission("max_output"), ErrorEmission(GatewayError("http", "busy"))]),
    st.sampled_from(["pause", "pause", "raise", "hang"]),
)
SCRIPTS = st.lists(st.lists(BEATS, max_size=5), max_size=6)
DEEDS: st.SearchStrategy[list[Deed]] = st.lists(
    st.sampled_from(["submit", "submit", "abort", "withdraw", "give up", "wait", "wait", "wait"]), max_size=14
)
LIMIT_S = 10
PATIENCE_TICKS = 80
"""Ticks of the loop after which whatever still runs must be hanging."""


class Stage:
    """An agent whose model and tools play *script* and count how many of them are live at once."""

    def __init__(self, script: Sequence[Sequence[Beat]]) -> None:
        self._script = iter(script)
        self.live = self.most = 0
        self.journal = MemoryJournal()
        self.events: list[RunEvent] = []
        self.sent: list[tuple[Turn, ...]] = []
        tools = FunctionTools(fast=self._fast, slow=self._slow, deaf=self._deaf)
        deps = AgentDeps(self._invoke, journal=self.journal, abort_grace_s=0)
        self.agent: Agent = create_agent(AgentConfig(model="m", tools=tools, max_turns=4), deps)
        self.agent.subscribe(self.events.append)

    def _invoke(self, conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
        self.sent.append(conversation.turns)
        return self._speak(next(self._script, [TextEmission("fine")]))

    async def _speak(self, beats: Sequence[Beat]) -> AsyncIterator[Emission]:
        self.live += 1
        self.most = max(self.most, self.live)
        try:
            for beat in beats:
                match beat:
                    case "pause":
                        await asyncio.sleep(0)
                    case "raise":
                        raise ValueError("torn")
                    case "hang":
                        await asyncio.Event().wait()
                    case emission:
                        yield emission
        finally:
            self.live -= 1

    async def _fast(self, call: ToolCall, cancel: CancelToken) -> object:
        return "fast"

    async def _slow(self, call: ToolCall, cancel: CancelToken) -> object:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "slow"

    async def _deaf(self, call: ToolCall, cancel: CancelToken) -> object:
        return await asyncio.Event().wait()


async def play(stage: Stage, deeds: Sequence[Deed]) -> tuple[list[Turn], list[Turn]]:
    """Submit, do *deeds*, one a tick of the loop, then abort what hangs.

    Returns:
        The prompts that were submitted, and those that were withdrawn.
    """
    numbers, runs = count(), list[asyncio.Task[RunSnapshot]]()
    submitted, withdrawn = list[Turn](), list[Turn]()
    for deed in ("submit", *deeds):
        if deed == "submit":
            prompt = UserTurn((TextBlock(f"p{next(numbers)}"),))
            submitted.append(prompt)
            runs.append(asyncio.ensure_future(stage.agent.submit((prompt,))))
        elif deed == "abort":
            stage.agent.abort()
        elif deed == "withdraw":
            withdrawn += [turn for waiting in stage.agent.take_back_queued() for turn in waiting]
        elif deed == "give up" and runs:
            runs[-1].cancel()
        await asyncio.sleep(0)
    for tick in count():
        if not stage.agent.is_running:
            break
        if tick > PATIENCE_TICKS:
            stage.agent.abort()
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*runs, return_exceptions=True), LIMIT_S)
    return submitted, withdrawn


@cases(100)
@given(SCRIPTS, DEEDS)
def test_whatever_a_host_does(script: list[list[Beat]], deeds: list[Deed]) -> None:
    asyncio.run(check(Stage(script), deeds))


async def check(stage: Stage, deeds: Sequence[Deed]) -> None:
    submitted, withdrawn = await asyncio.wait_for(play(stage, deeds), LIMIT_S)
    final = stage.agent.snapshot()
    assert final.phase in ("idle", "settled", "faulted")
    assert (final.queued, stage.live) == ((), 0)
    assert stage.most <= 1
    in_history = [turn for turn in final.messages if isinstance(turn, UserTurn)]
    assert in_history == [prompt for prompt in submitted if prompt not in withdrawn]
    ends = [event for event in stage.events if isinstance(event, SettledEvent | FaultedEvent)]
    assert bool(in_history) <= len(ends) <= len(in_history)
    assert stage.journal.branches == [tuple(turn for turn in final.messages if not is_blank(turn))]
    for turns in (*stage.sent, tuple(final.messages)):
        assert_sound(turns)
    assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()


def assert_sound(turns: Sequence[Turn]) -> None:
    segment: list[Turn] = []
    for turn in (*turns, AssistantTurn(())):
        if isinstance(turn, AssistantTurn):
            assert pair_results(segment) == tuple(segment)
            segment = []
        segment.append(turn)
