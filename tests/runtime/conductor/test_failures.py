"""An agent under prompts, aborts and failures that come at the wrong moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fake_tools import FunctionTools
from memory_journal import MemoryJournal
from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    Emission,
    ModelCard,
    StreamOptions,
    TextBlock,
    TextEmission,
    ToolCallBlock,
    ToolDescriptor,
    ToolResultBlock,
    ToolTurn,
    Turn,
    Usage,
)
from sidecar.llmgateway.scripted import Call, Hang, Raise, Say, ScriptedModel, WaitFor
from sidecar.runtime.conductor import Agent, AgentDeps, create_agent
from sidecar.runtime.contract import (
    AgentConfig,
    FaultedEvent,
    RunEvent,
    RunSnapshot,
    ToolCall,
)
from sidecar.runtime.store import SessionStore
from turns import assistant, user

LIMIT_S = 5
"""Nothing here may hang; a test that does fails instead."""


def agent_on(
    model: Callable[[Conversation, StreamOptions], Any], tools: FunctionTools | None = None, **deps: Any
) -> Agent:
    config = AgentConfig(model=deps.pop("model", "m"), tools=tools)
    return create_agent(config, AgentDeps(model, abort_grace_s=0, **deps))


async def ended(run: Awaitable[RunSnapshot]) -> RunSnapshot:
    return await asyncio.wait_for(run, LIMIT_S)


async def reach(agent: Agent, reached: Callable[[RunSnapshot], object]) -> None:
    told = asyncio.Event()
    stop = agent.subscribe(lambda event: told.set())
    while not reached(agent.snapshot()):
        told.clear()
        await asyncio.wait_for(told.wait(), LIMIT_S)
    stop()


def submit(agent: Agent, prompt: str) -> asyncio.Task[RunSnapshot]:
    return asyncio.ensure_future(agent.submit(prompt))


async def test_twenty_prompts_are_forty_turns_on_disk(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    model = ScriptedModel([[Say("answer")]], when_exhausted="repeat")
    agent = agent_on(model, store=store, session_id="s1")
    for number in range(20):
        final = await agent.submit(f"question {number}")
    assert final.messages == await store.journal("s1").load()
    assert n_nodes(tmp_path) == 40
    resumed = agent_on(model, store=store)
    assert (await resumed.resume("s1")).messages == final.messages


def n_nodes(folder: Path) -> int:
    """How many nodes are on disk."""
    lines = (line for path in folder.glob("*.jsonl") for line in path.read_text("utf-8").splitlines())
    return sum(json.loads(line)["type"] == "node" for line in lines)


class TestSteering:
    """A prompt that comes during a run loses nothing and disturbs nothing."""

    async def test_a_prompt_during_tools_keeps_their_results(self) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(call: ToolCall, cancel: CancelToken) -> object:
            begun.set()
            await go_on.wait()
            return "listing"

        model = ScriptedModel([[Call("ls", {}, "a")], [Say("both answered")]])
        agent = agent_on(model, FunctionTools(ls=slow))
        first = submit(agent, "list")
        await begun.wait()
        second = submit(agent, "and be brief")
        await reach(agent, lambda now: now.queued)
        go_on.set()
        final = await ended(second)
        called = AssistantTurn((ToolCallBlock("a", "ls", {}),))
        listed = ToolTurn((ToolResultBlock("a", "listing", False),))
        assert final.messages == (
            user("list"),
            called,
            listed,
            user("and be brief"),
            assistant("both answered"),
        )
        assert model.calls[1].conversation.turns == final.messages[:4]
        assert await first is final

    async def test_one_stream_at_a_time_and_each_question_keeps_its_answer(self) -> None:
        live, most = 0, 0

        async def speak(text: str) -> AsyncIterator[Emission]:
            nonlocal live, most
            live += 1
            most = max(most, live)
            yield TextEmission(f"re: {text}")
            await asyncio.sleep(0)
            live -= 1

        def model(conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
            block = conversation.turns[-1].blocks[0]
            assert isinstance(block, TextBlock)
            return speak(block.text)

        agent = agent_on(model)
        finals = await ended_all([agent.submit(text) for text in "abcde"])
        assert most == 1
        assert finals[0].messages == tuple(
            turn for text in "abcde" for turn in (user(text), assistant(f"re: {text}"))
        )

    async def test_an_abort_during_tools_aborts_no_queued_prompt(self) -> None:
        begun = asyncio.Event()

        async def wait(call: ToolCall, cancel: CancelToken) -> object:
            begun.set()
            stopped = asyncio.Event()
            cancel.add_callback(stopped.set)
            await stopped.wait()
            return "stopped"

        model = ScriptedModel([[Call("ls", {}, "a")], [Say("fine")]])
        agent = create_agent(
            AgentConfig(model="m", tools=FunctionTools(ls=wait)), AgentDeps(model, abort_grace_s=LIMIT_S)
        )
        submit(agent, "first")
        await begun.wait()
        second = submit(agent, "second")
        await reach(agent, lambda now: now.queued)
        agent.abort()
        final = await ended(second)
        assert (final.phase, final.messages[-2:]) == ("settled", (user("second"), assistant("fine")))
        assert final.messages[2] == ToolTurn((ToolResultBlock("a", "stopped", False),))


async def ended_all(runs: Sequence[Awaitable[RunSnapshot]]) -> list[RunSnapshot]:
    return await asyncio.wait_for(asyncio.gather(*runs), LIMIT_S)


@pytest.mark.parametrize("which", [0, 1], ids=["who began the run", "who steered it"])
async def test_who_gives_up_waiting_cancels_nobody_else(which: int) -> None:
    model = ScriptedModel([[WaitFor("go"), Say("one")], [Say("two")]])
    agent = agent_on(model)
    runs = [submit(agent, "1"), submit(agent, "2")]
    await reach(agent, lambda now: now.queued)
    runs[which].cancel()
    await asyncio.wait([runs[which]])
    model.gate("go").set()
    final = await ended(runs[1 - which])
    assert final.messages == (user("1"), assistant("one"), user("2"), assistant("two"))


class Interrupt(BaseException):
    """Neither an Exception nor a cancellation."""


def broken_card(model: str) -> ModelCard | None:
    raise ValueError("no connector")


class BrokenTools(FunctionTools):
    def descriptors(self) -> Sequence[ToolDescriptor]:
        raise ValueError("no tools today")


def refusing_invoker(conversation: Conversation, options: StreamOptions) -> Any:
    raise ValueError("no such model")


async def cancelled_stream() -> AsyncIterator[Emission]:
    yield TextEmission("x")
    raise asyncio.CancelledError


async def interrupted_stream() -> AsyncIterator[Emission]:
    yield TextEmission("x")
    raise Interrupt("stop")


@pytest.mark.parametrize(
    ("agent", "kind", "message"),
    [
        pytest.param(
            lambda: agent_on(ScriptedModel([[Say("x")]]), get_card=broken_card),
            "compaction_failed",
            "no connector",
            id="get_card raises",
        ),
        pytest.param(
            lambda: agent_on(ScriptedModel([[Say("x")]]), BrokenTools()),
            "invalid_state",
            "a step of the run failed: no tools today",
            id="a step of the reducer raises",
        ),
        pytest.param(
            lambda: agent_on(lambda conversation, options: cancelled_stream()),
            "model_failed",
            "the model call was cancelled from within",
            id="a stream that raises CancelledError",
        ),
        pytest.param(
            lambda: agent_on(lambda conversation, options: interrupted_stream()),
            "model_failed",
            "stop",
            id="a stream that raises a BaseException",
        ),
        pytest.param(
            lambda: agent_on(refusing_invoker),
            "model_failed",
            "no such model",
            id="an invoker that raises",
        ),
        pytest.param(
            lambda: agent_on(lambda conversation, options: None),
            "model_failed",
            "NoneType",
            id="an invoker that returns no channel",
        ),
    ],
)
async def test_whatever_raises_ends_in_a_fault(agent: Callable[[], Agent], kind: str, message: str) -> None:
    subject, events = agent(), list[RunEvent]()
    subject.subscribe(events.append)
    final = await ended(subject.submit("hi"))
    assert final.error is not None
    assert (final.phase, final.error.kind) == ("faulted", kind)
    assert message in final.error.message
    assert isinstance(events[-1], FaultedEvent)
    assert not subject.is_running


class TestStrayAborts:
    """An abort that finds nothing to abort does nothing, and never touches the next prompt."""

    async def test_abort_of_an_agent_at_rest_does_nothing(self) -> None:
        agent = agent_on(ScriptedModel([[Say("x")], [Say("y")]]))
        events: list[RunEvent] = []
        agent.abort()
        assert agent.snapshot().phase == "idle"
        await ended(agent.submit("hi"))
        agent.subscribe(events.append)
        agent.abort()
        assert (await ended(agent.submit("ho"))).messages[-1] == assistant("y")
        assert [event.kind for event in events] == ["snapshot", "text_delta", "settled"]

    async def test_abort_while_the_end_is_stored_does_nothing(self) -> None:
        class Slow(MemoryJournal):
            async def record(self, turns: Sequence[Turn]) -> None:
                if turns[-1] == assistant("x"):
                    agent.abort()
                    submit(agent, "ho")
                    await asyncio.sleep(0)

        agent = agent_on(ScriptedModel([[Say("x")], [Say("y")]]), journal=Slow())
        assert (await ended(agent.submit("hi"))).messages == (
            user("hi"),
            assistant("x"),
            user("ho"),
            assistant("y"),
        )

    async def test_two_aborts_are_one(self) -> None:
        agent = agent_on(ScriptedModel([[Say("x"), Hang()], [Say("y")]]))
        run = submit(agent, "hi")
        await reach(agent, lambda now: now.phase == "streaming")
        agent.abort()
        agent.abort()
        assert (await ended(run)).phase == "faulted"
        agent.abort()
        assert (await ended(agent.submit("ho"))).phase == "settled"


async def test_writes_never_overlap() -> None:
    class Watched(MemoryJournal):
        live = most = 0

        async def record(self, turns: Sequence[Turn]) -> None:
            self.live += 1
            self.most = max(self.most, self.live)
            await asyncio.sleep(0)
            await super().record(turns)
            self.live -= 1

    journal = Watched()
    model = ScriptedModel([[Say("x"), Raise(ValueError("torn"))], [Say("y")], [Say("z")]])
    agent = agent_on(model, journal=journal)
    finals = await ended_all([agent.submit(text) for text in "abc"])
    assert (journal.most, journal.branches) == (1, [finals[0].messages])


async def test_the_mock_model_is_counted_once() -> None:
    final = await ended(create_agent(AgentConfig(model="mock-1")).submit("hi"))
    assert (final.usage_total, final.messages[-1]) == (Usage(8, 5), assistant("Hello from the mock model."))
