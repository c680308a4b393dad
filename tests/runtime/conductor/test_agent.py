"""The agent as a host uses it: budgets, aborts, storing and resuming."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from fake_tools import FunctionTools
from memory_journal import MemoryJournal
from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    ErrorEmission,
    GatewayError,
    TextBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    Usage,
    UsageEmission,
)
from sidecar.llmgateway.scripted import Call, Hang, Raise, Say, ScriptedModel, Step, WaitFor
from sidecar.runtime.conductor import (
    Agent,
    AgentBusyError,
    AgentDeps,
    AgentIdleError,
    Journal,
    NothingStoredError,
    create_agent,
)
from sidecar.runtime.contract import (
    AgentConfig,
    PendingTool,
    RunError,
    RunEvent,
    RunSnapshot,
    SettledEvent,
    SnapshotEvent,
    ToolCall,
)
from sidecar.runtime.ledger import RunLedger
from turns import assistant, calls, results, user

USAGE = Usage(10, 3)


class Stage:
    """An agent on a scripted model, with its journal and all that it told."""

    def __init__(self, *script: Sequence[Step], tools: FunctionTools | None = None, **knobs: Any) -> None:
        config = {name: knobs.pop(name) for name in ("max_turns", "system") if name in knobs}
        numbers = count(1)
        self.model = ScriptedModel(script)
        self.journal = MemoryJournal()
        deps = AgentDeps(
            self.model, journal=self.journal, new_id=lambda: f"id{next(numbers)}", abort_grace_s=0
        )
        self.agent = create_agent(AgentConfig(model="m", tools=tools, **config), replace(deps, **knobs))
        self.events: list[RunEvent] = []
        self.agent.subscribe(self.events.append)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    @property
    def sent(self) -> list[tuple[Turn, ...]]:
        return [call.conversation.turns for call in self.model.calls]

    async def reach(self, reached: Callable[[RunSnapshot], object]) -> RunSnapshot:
        """Wait for a state; every state is told by some event."""
        told = asyncio.Event()
        stop = self.agent.subscribe(lambda event: told.set())
        while not reached(self.agent.snapshot()):
            told.clear()
            await told.wait()
        stop()
        return self.agent.snapshot()

    def submit(self, prompt: str) -> asyncio.Task[RunSnapshot]:
        return asyncio.ensure_future(self.agent.submit(prompt))


def ls(call_id: str) -> Call:
    return Call("ls", {}, call_id)


async def list_files(call: ToolCall, cancel: CancelToken) -> object:
    return f"of {call.id}"


def tools() -> FunctionTools:
    return FunctionTools(ls=list_files)


async def test_a_prompt_is_driven_to_settlement() -> None:
    stage = Stage([Say("Hello, world!", 2), UsageEmission(USAGE)])
    final = await stage.agent.submit("hi")
    assert final == RunSnapshot(
        run_id="id2",
        session_id="id1",
        phase="settled",
        messages=(user("hi"), assistant("Hello, world!")),
        pending=(),
        usage_total=USAGE,
        model="m",
        stop="complete",
        call_usage=USAGE,
    )
    assert stage.kinds == ["snapshot", "text_delta", "text_delta", "settled"]
    assert stage.agent.snapshot() is final
    assert not stage.agent.is_running


async def test_prompts_may_be_turns() -> None:
    stage = Stage([Say("b")])
    final = await stage.agent.submit([user("a"), user("b")])
    assert final.messages == (user("a"), user("b"), assistant("b"))


async def test_tools_are_run_and_their_results_sent() -> None:
    box = tools()
    stage = Stage([Say("let me see"), ls("a"), ls("b")], [Say("two files")], tools=box)
    final = await stage.agent.submit("hi")
    asked = AssistantTurn((TextBlock("let me see"), *calls("a", "b").blocks))
    assert final.messages == (user("hi"), asked, results("a", "b"), assistant("two files"))
    assert stage.sent == [(user("hi"),), final.messages[:3]]
    assert [call.id for call in box.calls] == ["a", "b"]
    assert stage.model.calls[0].conversation.tools == box.descriptors()


async def test_the_events_of_a_tool_round() -> None:
    stage = Stage([ls("a")], [Say("done")], tools=tools())
    await stage.agent.submit("hi")
    assert stage.kinds == [
        "snapshot",
        "tool_started",
        "snapshot",
        "snapshot",
        "tool_finished",
        "snapshot",
        "text_delta",
        "settled",
    ]
    stages = [event.snapshot.pending for event in stage.events if isinstance(event, SnapshotEvent)]
    assert stages == [
        (),
        (PendingTool("a", "ls", "queued"),),
        (PendingTool("a", "ls", "running"),),
        (PendingTool("a", "ls", "done"),),
    ]


async def test_a_missing_runner_is_a_tool_failed_fault() -> None:
    stage = Stage([Call("ls", {}, "a"), Call("rm", {}, "b")])
    final = await stage.agent.submit("hi")
    assert final.error == RunError("tool_failed", "the model asked for ls, rm, and this agent has no tools")
    assert [block.kind for block in final.messages[-1].blocks] == ["tool_result", "tool_result"]


async def test_a_tool_box_without_a_runner_is_a_tool_failed_fault() -> None:
    class WithoutRunner(FunctionTools):
        runner = None  # type: ignore[assignment]  # a host that offers tools and runs none

    final = await Stage([Call("ls", {}, "a")], tools=WithoutRunner(ls=None)).agent.submit("hi")
    text = "the model asked for ls, and this agent has no runner for its tools"
    assert final.error == RunError("tool_failed", text)


async def test_a_ledger_of_the_host_s_hears_the_run() -> None:
    ledger, heard = RunLedger(), list[RunEvent]()
    ledger.subscribe(heard.append)
    stage = Stage([Say("x")], ledger=ledger)
    await stage.agent.submit("hi")
    assert heard == stage.events


@pytest.mark.parametrize(
    ("step", "error"),
    [
        pytest.param(
            ErrorEmission(GatewayError("http", "busy")), ("model_failed", "busy"), id="an error emission"
        ),
        pytest.param(Raise(ValueError("torn")), ("model_failed", "torn"), id="a stream that breaks"),
    ],
)
async def test_a_model_failure_faults_and_the_next_prompt_goes_on(step: Step, error: tuple[str, str]) -> None:
    stage = Stage([Say("par"), step], [Say("fine")])
    faulted = await stage.agent.submit("one")
    assert faulted.error is not None
    assert (faulted.phase, (faulted.error.kind, faulted.error.message)) == ("faulted", error)
    final = await stage.agent.submit("two")
    assert final.messages == (user("one"), assistant("par"), user("two"), assistant("fine"))
    assert (final.phase, final.error) == ("settled", None)


class TestTurnBudget:
    """A run may make ``max_turns`` model calls, 64 unless said otherwise."""

    @pytest.mark.parametrize("max_turns", [0, 1, 3])
    async def test_the_call_that_would_exceed_the_budget_faults(self, max_turns: int) -> None:
        stage = Stage(*([ls(f"c{n}")] for n in range(9)), tools=tools(), max_turns=max_turns)
        final = await stage.agent.submit("loop")
        message = f"the run may make {max_turns} model calls and needs another"
        assert final.error == RunError("turn_budget", message)
        assert len(stage.model.calls) == max_turns

    async def test_each_prompt_has_the_whole_budget(self) -> None:
        stage = Stage([ls("a")], [Say("one")], [ls("b")], [Say("two")], tools=tools(), max_turns=2)
        assert (await stage.agent.submit("one")).phase == "settled"
        assert (await stage.agent.submit("two")).phase == "settled"

    async def test_the_default_budget_is_64_calls(self) -> None:
        stage = Stage(*([ls(f"c{n}")] for n in range(70)), tools=tools())
        assert (await stage.agent.submit("loop")).phase == "faulted"
        assert len(stage.model.calls) == 64


class TestSteering:
    """A submit during a run is let in at the next safe step; all callers get the same snapshot."""

    async def test_a_host_sees_what_waits_and_may_take_it_back(self) -> None:
        stage = Stage([Say("on"), WaitFor("go"), Say("e")], [Say("two")])
        first = stage.submit("1")
        await stage.reach(lambda now: now.phase == "streaming")
        second = stage.submit("2")
        await stage.reach(lambda now: now.queued)
        assert stage.agent.take_back_queued() == ((user("2"),),)
        assert stage.agent.take_back_queued() == ()
        assert stage.kinds[-2:] == ["snapshot", "snapshot"]
        stage.model.gate("go").set()
        assert (await second).messages == (user("1"), assistant("one"))
        assert await first is await second

    async def test_a_running_agent_may_be_steered_without_waiting(self) -> None:
        stage = Stage([WaitFor("go"), Say("one")], [Say("two")])
        with pytest.raises(AgentIdleError):
            stage.agent.steer((user("too early"),))
        run = stage.submit("1")
        await stage.reach(lambda now: now.phase == "invoking")
        stage.agent.steer((user("2"),))
        assert stage.agent.snapshot().queued == ((user("2"),),)
        stage.model.gate("go").set()
        assert (await run).messages == (user("1"), assistant("one"), user("2"), assistant("two"))

    async def test_a_prompt_that_comes_while_the_end_is_stored_reopens_the_run(self) -> None:
        class Slow(MemoryJournal):
            async def record(self, turns: Sequence[Turn]) -> None:
                await super().record(turns)
                if turns[-1] == assistant("one"):
                    stored.set()
                    await go_on.wait()

        stored, go_on = asyncio.Event(), asyncio.Event()
        stage = Stage([Say("one")], [Say("two")], journal=Slow())
        first = stage.submit("1")
        await stored.wait()
        assert stage.agent.snapshot().phase == "settled"
        assert "settled" not in stage.kinds
        second = stage.submit("2")
        go_on.set()
        assert await first is await second
        assert [event.snapshot.messages[-1] for event in stage.events if isinstance(event, SettledEvent)] == [
            assistant("one"),
            assistant("two"),
        ]


class TestAbort:
    """An abort ends the prompt at work: streams at once, tools within the grace."""

    async def test_abort_ends_a_stream_that_sends_nothing(self) -> None:
        stage = Stage([Say("par"), Hang()])
        run = stage.submit("hi")
        await stage.reach(lambda now: now.phase == "streaming")
        stage.agent.abort()
        final = await run
        assert final.error == RunError("aborted", "the run was aborted")
        assert (final.messages, final.stop) == ((user("hi"), assistant("par")), "aborted")
        assert stage.kinds[-1] == "faulted"

    async def test_abort_ends_a_stream_that_ignores_its_token(self) -> None:
        async def deaf() -> Any:
            begun.set()
            await asyncio.Event().wait()
            yield

        begun = asyncio.Event()
        stage = Stage(invoke_model=lambda conversation, options: deaf())
        run = stage.submit("hi")
        await begun.wait()
        stage.agent.abort()
        assert (await run).messages == (user("hi"),)

    async def test_abort_before_the_run_has_taken_a_step(self) -> None:
        stage = Stage([Say("never")])
        run = stage.submit("hi")
        await asyncio.sleep(0)
        stage.agent.abort()
        assert (await run).phase == "faulted"
        assert stage.model.calls == []

    async def test_a_tool_may_still_answer_after_an_abort(self) -> None:
        async def polite(call: ToolCall, cancel: CancelToken) -> object:
            stopped = asyncio.Event()
            cancel.add_callback(stopped.set)
            begun.set()
            await stopped.wait()
            return "half of it"

        begun = asyncio.Event()
        stage = Stage([ls("a")], tools=FunctionTools(ls=polite), abort_grace_s=5)
        run = stage.submit("hi")
        await begun.wait()
        stage.agent.abort()
        final = await run
        assert final.messages[-1] == ToolTurn((ToolResultBlock("a", "half of it", False),))
        assert final.error == RunError("aborted", "the run was aborted")
        assert len(stage.model.calls) == 1

    async def test_abort_answers_the_calls_that_never_began(self) -> None:
        async def wait(call: ToolCall, cancel: CancelToken) -> object:
            begun.set()
            return await asyncio.Event().wait()

        begun = asyncio.Event()
        ids = [f"c{n}" for n in range(10)]
        stage = Stage([ls(each) for each in ids], tools=FunctionTools(ls=wait))
        run = stage.submit("hi")
        await begun.wait()
        stage.agent.abort()
        results = [block for block in (await run).messages[-1].blocks if isinstance(block, ToolResultBlock)]
        assert [(block.call_id, block.is_error) for block in results] == [(each, True) for each in ids]

    async def test_a_handler_may_abort(self) -> None:
        stage = Stage([Say("one two", 7), Say("three")], [Say("fine")])
        stop = stage.agent.subscribe(
            lambda event: stage.agent.abort() if event.kind == "text_delta" else None
        )
        assert (await stage.agent.submit("hi")).messages == (user("hi"), assistant("o"))
        stop()
        assert (await stage.agent.submit("again")).phase == "settled"


class TestHistory:
    """Storing, resuming, and replacing the history of an agent at rest."""

    @pytest.mark.parametrize(
        ("steps", "end"), [([Say("x")], "settled"), ([Say("x"), Raise(ValueError("torn"))], "faulted")]
    )
    async def test_a_run_is_stored_before_its_end_is_published(self, steps: Sequence[Step], end: str) -> None:
        stage = Stage(steps)
        stored: list[object] = []
        stage.agent.subscribe(lambda event: stored.append((event.kind, stage.journal.branches[-1])))
        await stage.agent.submit("hi")
        assert stored[-1] == (end, (user("hi"), assistant("x")))

    async def test_a_finished_tool_round_is_stored_before_the_next_call(self) -> None:
        stage = Stage([ls("a")], [Say("do"), WaitFor("go"), Say("ne")], tools=tools())
        run = stage.submit("hi")
        await stage.reach(lambda now: now.phase == "streaming" and len(now.messages) == 4)
        assert stage.journal.branches == [(user("hi"), calls("a"), results("a"))]
        stage.model.gate("go").set()
        final = await run
        assert stage.journal.branches == [final.messages]

    async def test_resume_takes_up_the_stored_history(self) -> None:
        stage = Stage([Say("x"), UsageEmission(USAGE)], [Say("y")])
        await stage.journal.record((user("old"), assistant("answer")))
        run_id = stage.agent.snapshot().run_id
        resumed = await stage.agent.resume("s1")
        assert resumed == RunSnapshot(
            run_id, "s1", "idle", (user("old"), assistant("answer")), (), Usage(0, 0), "m"
        )
        final = await stage.agent.submit("new")
        assert final.messages == (user("old"), assistant("answer"), user("new"), assistant("x"))
        assert stage.journal.branches == [final.messages]
        assert (await stage.agent.resume("s1")).usage_total == Usage(0, 0)

    async def test_a_session_that_is_not_stored_is_empty(self) -> None:
        assert (await Stage().agent.resume("nobody")).messages == ()

    async def test_resume_needs_a_store(self) -> None:
        agent = create_agent(AgentConfig(model="m"))
        with pytest.raises(NothingStoredError, match=r"'s1'.*no store"):
            await agent.resume("s1")

    async def test_a_store_hands_out_the_journal_of_the_session(self) -> None:
        class Store:
            def __init__(self) -> None:
                self.journals: dict[str, MemoryJournal] = {}

            def journal(self, session_id: str) -> Journal:
                return self.journals.setdefault(session_id, MemoryJournal())

        store = Store()
        stage = Stage([Say("x")], [Say("y")], journal=None, store=store, session_id="mine")
        await stage.agent.submit("hi")
        await stage.agent.resume("other")
        await stage.agent.submit("ho")
        assert {sid: journal.branches for sid, journal in store.journals.items()} == {
            "mine": [(user("hi"), assistant("x"))],
            "other": [(user("ho"), assistant("y"))],
        }

    async def test_the_agent_follows_a_journal_that_its_host_has_moved(self) -> None:
        stage = Stage([Say("x")])
        await stage.journal.branch((user("summary"),))
        final = await stage.agent.submit("more")
        assert final.messages == (user("summary"), user("more"), assistant("x"))
        assert stage.journal.branches == [(), final.messages]

    async def test_a_prompt_that_the_host_put_into_the_journal_is_answered_and_stored_once(self) -> None:
        stage = Stage([Say("x")], [Say("y")])
        await stage.agent.submit("hi")
        await stage.journal.record((user("more"),))
        final = await stage.agent.submit(())
        assert final.messages == (user("hi"), assistant("x"), user("more"), assistant("y"))
        assert stage.journal.branches == [final.messages]

    async def test_a_configuration_holds_from_the_next_prompt_on(self) -> None:
        stage = Stage([Say("x")], [Say("y")], system="old")
        await stage.agent.submit("hi")
        stage.agent.configure(AgentConfig(model="other", system="new"))
        final = await stage.agent.submit("ho")
        assert [call.conversation.system for call in stage.model.calls] == ["old", "new"]
        assert final.model == "other"

    async def test_history_and_setup_are_not_touched_during_a_run(self) -> None:
        stage = Stage([Hang()])
        run = stage.submit("hi")
        await stage.reach(lambda now: now.phase == "invoking")
        assert stage.agent.is_running
        with pytest.raises(AgentBusyError):
            stage.agent.forget()
        with pytest.raises(AgentBusyError):
            stage.agent.configure(AgentConfig(model="m"))
        with pytest.raises(AgentBusyError):
            await stage.agent.resume("s1")
        stage.agent.abort()
        await run

    async def test_a_run_that_begins_while_a_session_is_loaded_wins(self) -> None:
        class Slow(MemoryJournal):
            async def load(self) -> Sequence[Turn]:
                loading.set()
                await go_on.wait()
                return (user("stored"),)

        loading, go_on = asyncio.Event(), asyncio.Event()
        stage = Stage([Hang()], journal=Slow())
        resuming = asyncio.ensure_future(stage.agent.resume("s1"))
        await loading.wait()
        run = stage.submit("hi")
        await stage.reach(lambda now: now.phase == "invoking")
        go_on.set()
        with pytest.raises(AgentBusyError):
            await resuming
        stage.agent.abort()
        assert (await run).messages == (user("hi"),)


class TestHooks:
    """What a host may watch beside the events."""

    async def test_usage_is_told_once_a_call(self) -> None:
        told: list[Usage] = []
        stage = Stage(
            [UsageEmission(Usage(8, 1)), ls("a"), UsageEmission(Usage(8, 5))],
            [UsageEmission(Usage(20, 2)), Raise(ValueError("torn"))],
            [Say("no usage")],
            tools=tools(),
            on_usage=told.append,
        )
        await stage.agent.submit("hi")
        await stage.agent.submit("again")
        assert told == [Usage(8, 5), Usage(20, 2)]
        assert stage.agent.snapshot().usage_total == Usage(28, 7)

    async def test_a_hook_that_raises_harms_nobody(self) -> None:
        def boom(usage: Usage) -> None:
            raise ValueError(usage)

        stage = Stage([UsageEmission(USAGE), Say("x")], on_usage=boom)
        assert (await stage.agent.submit("hi")).phase == "settled"


async def test_an_agent_outlives_an_event_loop() -> None:
    """Nothing of an agent at rest is bound to the loop it ran on."""

    def run_apart(agent: Agent, prompt: str) -> RunSnapshot:
        return asyncio.run(agent.submit(prompt))

    stage = Stage([ls("a")], [Say("x")], [Say("y")], tools=tools())
    await asyncio.to_thread(run_apart, stage.agent, "hi")
    final = await asyncio.to_thread(run_apart, stage.agent, "ho")
    assert final.messages[-2:] == (user("ho"), assistant("y"))
