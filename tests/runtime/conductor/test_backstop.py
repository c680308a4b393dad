"""Compaction before a model call, on a running agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fake_tools import FunctionTools
from memory_journal import MemoryJournal
from sidecar._internal.cancel import CancelToken
from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.catalog import MOCK_CARD
from sidecar.llmgateway.contract import (
    Conversation,
    DoneEmission,
    Emission,
    StreamOptions,
    TextBlock,
    TextEmission,
    Turn,
    Usage,
    UsageEmission,
)
from sidecar.runtime.conductor import Agent, AgentDeps, create_agent
from sidecar.runtime.conductor.run_loop import Backstop
from sidecar.runtime.contract import NO_COMPACTION, AgentConfig, ToolCall
from sidecar.runtime.memory import (
    DISTILL_INSTRUCTION,
    SUMMARY_HEADING,
    LiveCompaction,
    live_tokens,
    tokens_of,
)
from sidecar.runtime.wire import build_conversation
from turns import assistant, texts, tool_call, user

CARD = replace(MOCK_CARD, id="m", context_window=2_000)
TRIGGER = 1_600
"""0.8 of the window: what the default policy waits for."""


def chat(n_turns: int, n_chars: int = 400) -> list[Turn]:
    """A conversation of *n_turns* turns of 100 tokens or so each, beginning with the user's."""
    return [(assistant if at % 2 else user)(f"{at:<{n_chars}}") for at in range(n_turns)]


class Distiller:
    """A model that answers every prompt, and condenses when it is told to."""

    def __init__(self, gist: Emission | None = None) -> None:
        self.calls: list[Conversation] = []
        self.options: list[StreamOptions] = []
        self.gist = DoneEmission(assistant("the gist"), Usage(99, 9)) if gist is None else gist

    def __call__(self, conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
        self.calls.append(conversation)
        self.options.append(options)
        return self._speak(
            self.gist if conversation.system == DISTILL_INSTRUCTION else TextEmission("answer")
        )

    async def _speak(self, emission: Emission) -> AsyncIterator[Emission]:
        yield emission

    @property
    def asked(self) -> list[tuple[Turn, ...]]:
        """What was asked beside distillations."""
        return [call.turns for call in self.calls if call.system != DISTILL_INSTRUCTION]

    @property
    def n_distillations(self) -> int:
        return len(self.calls) - len(self.asked)


def agent_with(history: Sequence[Turn], model: Distiller, **deps: Any) -> Agent:
    config = AgentConfig(model="m", compaction=deps.pop("compaction", None), tools=deps.pop("tools", None))
    journal = MemoryJournal()
    journal.turns = AppendOnlySeq(history)
    return create_agent(
        config, AgentDeps(model, **{"get_card": lambda model_id: CARD, "journal": journal, **deps})
    )


async def test_the_default_policy_keeps_the_newest_turns_and_the_question() -> None:
    model, told = Distiller(), list[LiveCompaction]()
    history = chat(20)
    final = await agent_with(history, model, on_compaction=told.append).submit("new")
    (asked,) = model.asked
    assert asked[-1] == user("new")
    assert texts(asked)[0] == f"{SUMMARY_HEADING}\nthe gist"
    kept = asked[1:]
    assert kept == (*history, user("new"))[-len(kept) :]
    assert 1 < len(kept) <= 8
    assert final.messages == (*asked, assistant("answer"))
    (compaction,) = told
    assert (compaction.cut, compaction.source) == (21 - len(kept), "model")
    assert compaction.tokens_after < TRIGGER <= compaction.tokens_before


async def test_the_newest_prompt_survives_a_long_round_of_tools() -> None:
    async def read(call: ToolCall, cancel: CancelToken) -> object:
        return "x" * 1_000

    class Busy(Distiller):
        def __call__(self, conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
            self.calls.append(conversation)
            if conversation.system == DISTILL_INSTRUCTION:
                return self._speak(self.gist)
            number = len(self.asked)
            if number > 20:
                return self._speak(TextEmission("done"))
            return self._speak(DoneEmission(tool_call(f"c{number}")))

    model, told = Busy(), list[LiveCompaction]()
    agent = agent_with([], model, tools=FunctionTools(read=read), on_compaction=told.append)
    final = await agent.submit("the task")
    assert final.phase == "settled"
    assert all(TextBlock("the task") in turns[0].blocks for turns in model.asked)
    assert 0 < len(told) < 8
    assert all(live_tokens(turns) < CARD.context_window for turns in model.asked)


async def test_a_compaction_costs_no_turn_and_no_usage() -> None:
    model = Distiller()
    agent = agent_with(chat(20), model)
    agent.configure(AgentConfig(model="m", max_turns=1))
    final = await agent.submit("new")
    assert (final.phase, final.usage_total) == ("settled", Usage(0, 0))
    assert model.n_distillations > 0


@pytest.mark.parametrize(
    "options",
    [{"compaction": NO_COMPACTION}, {"get_card": lambda model_id: None}],
    ids=["by name", "no card"],
)
async def test_compaction_is_off(options: dict[str, Any]) -> None:
    model = Distiller()
    await agent_with(chat(40), model, **options).submit("new")
    assert (model.n_distillations, len(model.asked[0])) == (0, 41)


class Cancelling(Distiller):
    """A distiller that ends as cancelled."""

    async def _speak(self, emission: Emission) -> AsyncIterator[Emission]:
        if emission is self.gist:
            raise asyncio.CancelledError
        yield emission


@pytest.mark.parametrize("model", [Distiller(UsageEmission(Usage(1, 1))), Cancelling()])
async def test_a_distiller_that_says_nothing_costs_only_its_gist(model: Distiller) -> None:
    told, history = list[LiveCompaction](), [user("Never touch main. " + "x" * 400), *chat(20)]
    final = await agent_with(history, model, on_compaction=told.append).submit("new")
    assert (final.phase, final.error, [each.source for each in told]) == ("settled", None, ["local"])
    assert "Never touch main." in texts(final.messages)[0]


async def test_an_abort_ends_the_distiller() -> None:
    class Slow(Distiller):
        async def _speak(self, emission: Emission) -> AsyncIterator[Emission]:
            begun.set()
            await asyncio.Event().wait()
            yield emission

    begun, model = asyncio.Event(), Slow()
    agent = agent_with(chat(20), model, abort_grace_s=0)
    run = asyncio.ensure_future(agent.submit("new"))
    await begun.wait()
    agent.abort()
    final = await run
    assert final.error is not None
    assert final.error.kind == "aborted"
    assert (len(final.messages), len(model.calls)) == (21, 1)
    assert model.options[0].cancel is not None
    assert model.options[0].cancel.cancelled


async def test_a_compaction_mid_run_is_stored_as_a_branch() -> None:
    model, journal = Distiller(), MemoryJournal()
    await journal.record(chat(20))
    agent = agent_with([], model, journal=journal)
    await agent.resume("s")
    final = await agent.submit("new")
    assert journal.branches == [(*chat(20), user("new")), final.messages]


async def relief(history: Sequence[Turn], **knobs: Any) -> LiveCompaction | None:
    config = AgentConfig(model="m", **knobs)
    backstop = Backstop(config, Distiller(), lambda model_id: CARD, lambda turns: ())
    turns, conversation = AppendOnlySeq(history), build_conversation(history, config)
    if not backstop.is_due(turns, conversation):
        return None
    return await backstop.relieve(turns, conversation, CancelToken())


async def test_system_prompt_and_tools_count() -> None:
    history = chat(14)
    assert await relief(history) is None
    assert await relief(history, system="s" * 2_000) is not None
    tools = FunctionTools(**{f"tool{n:03}": None for n in range(80)})
    assert await relief(history, tools=tools) is not None


async def test_the_weight_follows_a_history_that_grows_or_is_replaced() -> None:
    backstop = make()
    history: AppendOnlySeq[Turn] = AppendOnlySeq(chat(3))
    for step in (history, history.extended(chat(5)), AppendOnlySeq[Turn](chat(2)), history):
        backstop.is_due(step, build_conversation((), AgentConfig(model="m")))
        assert tokens_of(backstop.n_chars, len(step)) == live_tokens(tuple(step))


def make() -> Backstop:
    return Backstop(AgentConfig(model="m"), Distiller(), lambda model_id: CARD, lambda turns: ())


async def test_the_overhead_follows_tools_that_change() -> None:
    backstop, weights = make(), list[int]()
    for n_tools in (0, 3, 80, 3):
        tools = FunctionTools(**{f"tool{n:03}": None for n in range(n_tools)})
        conversation = build_conversation((), AgentConfig(model="m", tools=tools))
        weights.append(backstop.overhead_tokens(conversation))
        assert make().overhead_tokens(conversation) == weights[-1]
    assert weights[0] < weights[1] == weights[3] < weights[2]
