"""The agent as a host uses it: budgets, aborts, storing and resuming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_stage import AgentStage, WaitingTool, ls
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
from sidecar.llmgateway.scripted import Call, Hang, Raise, Say, Step, WaitFor
from sidecar.runtime.conductor import (
    Agent,
    AgentBusyError,
    AgentIdleError,
    Journal,
    NothingStoredError,
    create_agent,
)
from sidecar.runtime.contract import (
    AgentConfig,
    RunError,
    RunEvent,
    RunSnapshot,
    SettledEvent,
    SnapshotEvent,
    ToolCall,
)
from sidecar.runtime.ledger import RunLedger
from sidecar.runtime.store import SessionStore
from turns import assistant, calls, results, user

USAGE = Usage(10, 3)


async def list_files(call: ToolCall, cancel: CancelToken) -> object:
    return f"of {call.id}"


def tools() -> FunctionTools:
    return FunctionTools(ls=list_files)


async def test_a_prompt_is_driven_to_settlement() -> None:
    stage = AgentStage([Say("Hello, world!", 2), UsageEmission(USAGE)])
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


async def test_tools_are_run_and_their_results_sent() -> None:
    box = tools()
    stage = AgentStage([Say("let me see"), ls("a"), ls("b")], [Say("two files")], tools=box)
    final = await stage.agent.submit("hi")
    asked = AssistantTurn((TextBlock("let me see"), *calls("a", "b").blocks))
    assert final.messages == (user("hi"), asked, results("a", "b"), assistant("two files"))
    assert stage.sent == [(user("hi"),), final.messages[:3]]
    assert [call.id for call in box.calls] == ["a", "b"]
    assert stage.model.calls[0].conversation.tools == box.descriptors()
    assert stage.kinds == [
        *("snapshot", "text_delta", "tool_started", "tool_started", "snapshot", "snapshot"),
        *("tool_finished", "snapshot", "tool_finished", "snapshot", "text_delta", "settled"),
    ]
    pending = [event.snapshot.pending for event in stage.events if isinstance(event, SnapshotEvent)]
    assert [[tool.stage for tool in tools] for tools in pending] == [
        *([], ["queued"] * 2, ["running"] * 2, ["done", "running"], ["done"] * 2)
    ]


class WithoutRunner(FunctionTools):
    """Tools that a host offers and does not run."""

    runner = None  # type: ignore[assignment]  # as such a host has it


@pytest.mark.parametrize(
    ("box", "reason"),
    [(None, "this agent has no tools"), (WithoutRunner(), "this agent has no runner for its tools")],
)
async def test_a_missing_runner_is_a_tool_failed_fault(box: FunctionTools | None, reason: str) -> None:
    final = await AgentStage([ls("a"), Call("rm", {}, "b")], tools=box).agent.submit("hi")
    assert final.error == RunError("tool_failed", f"the model asked for ls, rm, and {reason}")
    assert [block.kind for block in final.messages[-1].blocks] == ["tool_result", "tool_result"]


async def test_a_ledger_of_the_host_s_hears_the_run() -> None:
    ledger, heard = RunLedger(), list[RunEvent]()
    ledger.subscribe(heard.append)
    stage = AgentStage([Say("x")], ledger=ledger)
    await stage.agent.submit("hi")
    assert heard == stage.events


class Interrupt(BaseException):
    """Neither an Exception nor a cancellation."""


def raise_value_error(*_: object) -> Any:
    raise ValueError("torn")


class BrokenTools(FunctionTools):
    """Tools that cannot be described."""

    descriptors = raise_value_error


FAILURES = {
    "an error emission": ([ErrorEmission(GatewayError("http", "busy"))], {}, "model_failed", "busy"),
    "a stream that breaks": ([Raise(ValueError("torn"))], {}, "model_failed", "torn"),
    "a stream that cancels itself": (
        [Raise(asyncio.CancelledError())],
        {},
        "model_failed",
        "the model call was cancelled from within",
    ),
    "a BaseException": ([Raise(Interrupt("stop"))], {}, "model_failed", "stop"),
    "get_card raises": ([], {"get_card": raise_value_error}, "compaction_failed", "torn"),
    "a step raises": ([], {"tools": BrokenTools()}, "invalid_state", "a step of the run failed: torn"),
    "an invoker that raises": ([], {"invoke_model": raise_value_error}, "model_failed", "torn"),
    "one without a channel": ([], {"invoke_model": lambda *_: None}, "model_failed", "NoneType"),
}


@pytest.mark.parametrize(("steps", "options", "kind", "message"), FAILURES.values(), ids=FAILURES)
async def test_whatever_raises_ends_in_a_fault_and_the_next_prompt_goes_on(
    steps: Sequence[Step], options: dict[str, Any], kind: str, message: str
) -> None:
    stage = AgentStage([Say("par"), *steps], [Say("fine")], **options)
    faulted = await stage.agent.submit("one")
    assert faulted.error is not None
    assert (faulted.phase, faulted.error.kind, stage.kinds[-1]) == ("faulted", kind, "faulted")
    assert message in faulted.error.message
    assert not stage.agent.is_running
    if not options:
        final = await stage.agent.submit("two")
        assert final.messages == (user("one"), assistant("par"), user("two"), assistant("fine"))
        assert (final.phase, final.error) == ("settled", None)


class TestTurnBudget:
    """A run may make ``max_turns`` model calls, 64 unless said otherwise."""

    @pytest.mark.parametrize("max_turns", [0, 1, 3])
    async def test_the_call_that_would_exceed_the_budget_faults(self, max_turns: int) -> None:
        stage = AgentStage(*([ls(f"c{n}")] for n in range(9)), tools=tools(), max_turns=max_turns)
        final = await stage.agent.submit("loop")
        message = f"the run may make {max_turns} model calls and needs another"
        assert final.error == RunError("turn_budget", message)
        assert len(stage.model.calls) == max_turns

    async def test_each_prompt_has_the_whole_budget(self) -> None:
        stage = AgentStage([ls("a")], [Say("one")], [ls("b")], [Say("two")], tools=tools(), max_turns=2)
        assert (await stage.agent.submit("one")).phase == "settled"
        assert (await stage.agent.submit("two")).phase == "settled"

    async def test_the_default_budget_is_64_calls(self) -> None:
        stage = AgentStage(*([ls(f"c{n}")] for n in range(70)), tools=tools())
        assert (await stage.agent.submit("loop")).phase == "faulted"
        assert len(stage.model.calls) == 64


class TestSteering:
    """A submit during a run is let in at the next safe step; all callers get the same snapshot."""

    async def test_a_host_sees_what_waits_and_may_take_it_back(self) -> None:
        stage = AgentStage([Say("on"), WaitFor("go"), Say("e")], [Say("two")])
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
        stage = AgentStage([WaitFor("go"), Say("one")], [Say("two")])
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
        stage = AgentStage([Say("one")], [Say("two")], journal=Slow())
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


@pytest.mark.parametrize("which", [0, 1], ids=["who began the run", "who steered it"])
async def test_who_gives_up_waiting_cancels_nobody_else(which: int) -> None:
    stage = AgentStage([WaitFor("go"), Say("one")], [Say("two")])
    runs = [stage.submit("1"), stage.submit("2")]
    await stage.reach(lambda now: now.queued)
    runs[which].cancel()
    await asyncio.wait([runs[which]])
    stage.model.gate("go").set()
    final = await runs[1 - which]
    assert final.messages == (user("1"), assistant("one"), user("2"), assistant("two"))


class TestAbort:
    """An abort ends the prompt at work, streams at once and tools within the grace, and no other one."""

    async def test_a_tool_may_still_answer_after_an_abort_and_a_queued_prompt_goes_on(self) -> None:
        tool = WaitingTool(is_polite=True)
        stage = AgentStage([ls("a")], [Say("fine")], tools=tool, abort_grace_s=5)
        first = stage.submit("first")
        await tool.has_begun.wait()
        second = stage.submit("second")
        await stage.reach(lambda now: now.queued)
        stage.agent.abort()
        final = await second
        assert await first is final
        assert final.messages[2] == ToolTurn((ToolResultBlock("a", "half of it", False),))
        assert (final.phase, final.messages[-2:]) == ("settled", (user("second"), assistant("fine")))

    async def test_abort_answers_the_calls_that_never_began(self) -> None:
        ids, tool = [f"c{n}" for n in range(10)], WaitingTool()
        stage = AgentStage([ls(each) for each in ids], tools=tool)
        run = stage.submit("hi")
        await tool.has_begun.wait()
        stage.agent.abort()
        results = [block for block in (await run).messages[-1].blocks if isinstance(block, ToolResultBlock)]
        assert [(block.call_id, block.is_error) for block in results] == [(each, True) for each in ids]

    async def test_abort_ends_a_stream_that_sends_nothing_and_does_nothing_at_rest(self) -> None:
        stage = AgentStage([Say("x"), Hang()], [Say("y")])
        stage.agent.abort()
        assert stage.agent.snapshot().phase == "idle"
        run = stage.submit("hi")
        await stage.reach(lambda now: now.phase == "streaming")
        stage.agent.abort()
        stage.agent.abort()
        final = await run
        assert final.error == RunError("aborted", "the run was aborted")
        assert (final.messages, final.stop) == ((user("hi"), assistant("x")), "aborted")
        assert stage.kinds[-1] == "faulted"
        stage.agent.abort()
        assert (await stage.agent.submit("ho")).messages[-1] == assistant("y")

    async def test_abort_while_the_end_is_stored_does_nothing(self) -> None:
        class Slow(MemoryJournal):
            async def record(self, turns: Sequence[Turn]) -> None:
                if turns[-1] == assistant("x"):
                    stage.agent.abort()
                    stage.submit("ho")
                    await asyncio.sleep(0)

        stage = AgentStage([Say("x")], [Say("y")], journal=Slow())
        final = await stage.agent.submit("hi")
        assert final.messages == (user("hi"), assistant("x"), user("ho"), assistant("y"))

    async def test_abort_before_the_run_has_taken_a_step(self) -> None:
        stage = AgentStage([Say("never")])
        run = stage.submit("hi")
        await asyncio.sleep(0)
        stage.agent.abort()
        assert (await run).phase == "faulted"
        assert stage.model.calls == []

    async def test_a_handler_may_abort(self) -> None:
        stage = AgentStage([Say("one two", 7), Say("three")], [Say("fine")])
        stop = stage.agent.subscribe(
            lambda event: stage.agent.abort() if event.kind == "text_delta" else None
        )
        assert (await stage.agent.submit("hi")).messages == (user("hi"), assistant("o"))
        stop()
        assert (await stage.agent.submit("again")).phase == "settled"


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
    stage = AgentStage([Say("x"), Raise(ValueError("torn"))], [Say("y")], [Say("z")], journal=journal)
    finals = await asyncio.gather(*(stage.agent.submit(text) for text in "abc"))
    assert (journal.most, journal.branches) == (1, [finals[0].messages])


class TestHistory:
    """Storing, resuming, and replacing the history of an agent at rest."""

    async def test_twenty_prompts_are_forty_turns_on_disk(self, tmp_path: Path) -> None:
        store = SessionStore(tmp_path)
        stage = AgentStage(*[[Say("answer")]] * 20, journal=None, store=store, session_id="s1")
        for number in range(20):
            final = await stage.agent.submit(f"question {number}")
        lines = (tmp_path / "s1.jsonl").read_text("utf-8").splitlines()
        assert sum(json.loads(line)["type"] == "node" for line in lines) == 40
        resumed = AgentStage(journal=None, store=store).agent
        assert (await resumed.resume("s1")).messages == final.messages

    @pytest.mark.parametrize(
        ("steps", "end"), [([Say("x")], "settled"), ([Say("x"), Raise(ValueError("torn"))], "faulted")]
    )
    async def test_a_run_is_stored_before_its_end_is_published(self, steps: Sequence[Step], end: str) -> None:
        stage = AgentStage(steps)
        stored: list[object] = []
        stage.agent.subscribe(lambda event: stored.append((event.kind, stage.journal.branches[-1])))
        await stage.agent.submit("hi")
        assert stored[-1] == (end, (user("hi"), assistant("x")))

    async def test_a_finished_tool_round_is_stored_before_the_next_call(self) -> None:
        stage = AgentStage([ls("a")], [Say("do"), WaitFor("go"), Say("ne")], tools=tools())
        run = stage.submit("hi")
        await stage.reach(lambda now: now.phase == "streaming" and len(now.messages) == 4)
        assert stage.journal.branches == [(user("hi"), calls("a"), results("a"))]
        stage.model.gate("go").set()
        final = await run
        assert stage.journal.branches == [final.messages]

    async def test_resume_takes_up_the_stored_history(self) -> None:
        stage = AgentStage([Say("x"), UsageEmission(USAGE)], [Say("y")])
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
        stage = AgentStage([Say("x")], [Say("y")], journal=None, store=store, session_id="mine")
        await stage.agent.submit("hi")
        await stage.agent.resume("other")
        await stage.agent.submit("ho")
        assert {sid: journal.branches for sid, journal in store.journals.items()} == {
            "mine": [(user("hi"), assistant("x"))],
            "other": [(user("ho"), assistant("y"))],
        }

    async def test_the_agent_follows_a_journal_that_its_host_has_moved_and_added_to(self) -> None:
        stage = AgentStage([Say("x")])
        await stage.journal.branch((user("summary"),))
        await stage.journal.record((user("more"),))
        final = await stage.agent.submit(())
        assert final.messages == (user("summary"), user("more"), assistant("x"))
        assert stage.journal.branches == [(), final.messages], "stored once"

    async def test_a_configuration_holds_from_the_next_prompt_on(self) -> None:
        stage = AgentStage([Say("x")], [Say("y")], system="old")
        await stage.agent.submit("hi")
        stage.agent.configure(AgentConfig(model="other", system="new"))
        final = await stage.agent.submit("ho")
        assert [call.conversation.system for call in stage.model.calls] == ["old", "new"]
        assert final.model == "other"

    async def test_history_and_setup_are_not_touched_during_a_run(self) -> None:
        stage = AgentStage([Hang()])
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
        stage = AgentStage([Hang()], journal=Slow())
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

        def tell(usage: Usage) -> None:
            told.append(usage)
            raise ValueError("nobody is harmed")

        stage = AgentStage(
            [UsageEmission(Usage(8, 1)), ls("a"), UsageEmission(Usage(8, 5))],
            [UsageEmission(Usage(20, 2)), Raise(ValueError("torn"))],
            [Say("no usage")],
            tools=tools(),
            on_usage=tell,
        )
        await stage.agent.submit("hi")
        await stage.agent.submit("again")
        assert told == [Usage(8, 5), Usage(20, 2)]
        assert stage.agent.snapshot().usage_total == Usage(28, 7)


async def test_an_agent_outlives_an_event_loop() -> None:
    """Nothing of an agent at rest is bound to the loop it ran on."""

    def run_apart(agent: Agent, prompt: str) -> RunSnapshot:
        return asyncio.run(agent.submit(prompt))

    stage = AgentStage([ls("a")], [Say("x")], [Say("y")], tools=tools())
    await asyncio.to_thread(run_apart, stage.agent, "hi")
    final = await asyncio.to_thread(run_apart, stage.agent, "ho")
    assert final.messages[-2:] == (user("ho"), assistant("y"))
