"""What a session makes of a model call: tools cut off, waits that end, what is counted and cached."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import pairwise
from typing import Any

import pytest

from provider_fakes import Called, Cut, Ended, Hang, Refused, Said, Spent, Thought
from sidecar.llmgateway.contract import StopReason

pytestmark = pytest.mark.processes

STREAMED = ("openai-chat", "openai-responses", "anthropic-messages")
"""Those whose arguments come in pieces, and so can be cut."""


@pytest.mark.parametrize("api", STREAMED)
@pytest.mark.parametrize("stop", ["max_output", "tool_calls"])
async def test_a_call_that_was_cut_is_never_made(
    on_stage: Any, told: Any, api: str, stop: StopReason
) -> None:
    """Whether the provider says so, or takes it for a whole one."""
    cut = Called("call_1", "write", ('{"path": "a.txt", "content": "ha',))
    async with on_stage(
        {api: [(Said(("I write.",)), cut, Ended(stop)), (Said(("sorry",)), Ended())]}
    ) as stage:
        session = await stage.session()
        await session.choose("permissions", "allowAll")
        outcome = await stage.ask(session, "write a.txt")
        assert list(stage.folder.iterdir()) == []
        assert (await stage.ask(session, "and now?")).fault is None
    assert outcome.fault is None
    finished = [event["data"]["isError"] for event in told(session, "toolFinished")]
    assert finished == [True]


@pytest.mark.parametrize(
    "shown", [(), (Said(("half",)),), (Thought(("hm",)),)], ids=["waiting", "text", "thought"]
)
async def test_interrupting_ends_the_turn_and_the_connection(
    on_stage: Any, told: Any, shown: tuple[Any, ...]
) -> None:
    async with on_stage({"openai-chat": [(*shown, Hang())]}) as stage:
        http, session = stage.fake.http, await stage.session()
        http.was_asked.clear()
        http.hung_up.clear()
        started = await session.submit(({"type": "text", "text": "go"},))
        await http.was_asked.wait()
        session.turns.prompts.interrupt(started.turn_id, "keep")
        async with asyncio.timeout(30):
            await http.hung_up.wait()
            outcome = await started.outcome
        assert (outcome.stop_reason, outcome.fault) == ("cancelled", None)
    assert told(session, "retry", "faulted") == []


async def test_a_requested_pause_is_reported_and_made(on_stage: Any, told: Any) -> None:
    slow_down = [Refused(429, "slow down", headers=(("retry-after", "7"),))]
    async with on_stage({"anthropic-messages": [slow_down, (Said(("ok",)), Ended())]}) as stage:
        session = await stage.session()
        outcome = await stage.ask(session, "hello")
        assert stage.pauses == [7.0]
    (retry,) = told(session, "retry")
    assert outcome.text == "ok"
    assert retry["data"] == {
        "attempt": 1,
        "max": 3,
        "delayMs": 7000,
        "error": "anthropic answered 429: slow down",
    }


async def test_a_broken_answer_is_withdrawn_by_its_id_and_leaves_no_trace(on_stage: Any, told: Any) -> None:
    scenes = [
        (Thought(("hm",)), Said(("half",)), Cut()),
        *((Said((each,)), Ended()) for each in ("whole", "more")),
    ]
    async with on_stage({"anthropic-messages": scenes}) as stage:
        session = await stage.session()
        outcome = await stage.ask(session, "hello")
        await stage.ask(session, "and now?")
        sent = stage.fake.sent
    (retry,) = told(session, "retry")
    first, *_ = told(session, "thinkingDelta", "textDelta")
    message, _ = told(session, "message")
    assert (outcome.text, outcome.fault) == ("whole", None)
    assert retry["data"]["withdrawn"] == first["data"]["messageId"] != message["data"]["messageId"]
    assert message["data"]["content"] == [{"type": "text", "text": "whole"}]
    assert "half" not in str(sent[-1])


async def test_a_prompt_may_make_any_number_of_calls_and_each_fifty_are_told(
    on_stage: Any, told: Any
) -> None:
    given = [f'{{"pattern":"*.{n}"}}' for n in range(70)]
    calls = [(Called(f"c{n}", "glob", (each,)), Ended("tool_calls")) for n, each in enumerate(given)]
    async with on_stage({"openai-chat": [*calls, (Said(("done",)), Ended())]}) as stage:
        session = await stage.session()
        outcome = await stage.ask(session, "go on")
    assert (outcome.text, outcome.fault) == ("done", None)
    titles = [event["data"]["title"] for event in told(session, "notice")]
    assert titles == ["50 model calls for this prompt"]


async def test_a_limit_of_the_settings_ends_the_turn_with_its_number(on_stage: Any) -> None:
    calls = [(Called(f"c{n}", "ls", ("{}",)), Ended("tool_calls")) for n in range(5)]
    async with on_stage({"openai-chat": calls}, config="max_model_calls = 3\n") as stage:
        outcome = await stage.ask(await stage.session("openai-chat:fake-1"), "go on")
        assert len(stage.fake.calls) == 3
    assert outcome.fault is not None
    assert "may make 3 model calls" in outcome.fault.message


async def test_input_is_counted_without_what_the_cache_held_and_the_window_with_it(on_stage: Any) -> None:
    scene = (Said(("ok",)), Spent(10, 5, cache_read=90), Ended())
    async with on_stage({"openai-responses": [scene]}) as stage:
        session = await stage.session()
        await stage.ask(session, "hello")
        usage = session.window.request.usage()
    assert usage.source == "provider"
    assert usage.last_turn is not None
    assert (usage.last_turn.input, usage.last_turn.output, usage.last_turn.cache_read) == (10, 5, 90)
    assert 100 < usage.used < 120


async def test_the_prefix_that_stays_is_marked_for_the_cache(on_stage: Any) -> None:
    """What one call has marked, the next one sends again to the letter: that is what a cache goes by."""
    reads = (Called("call_1", "read", ('{"path": "a.txt"}',)), Ended("tool_calls"))
    done = (Said(("done",)), Ended())
    async with on_stage({"anthropic-messages": [reads, done, done]}) as stage:
        (stage.folder / "a.txt").write_text("hi\n")
        session = await stage.session()
        for prompt in ("one", "two"):
            await stage.ask(session, prompt)
        sent = stage.fake.sent
    for earlier, later in pairwise(sent):
        assert later["system"] == earlier["system"]
        assert later["tools"] == earlier["tools"]
        prefix = without_mark(earlier["messages"])
        assert without_mark(later["messages"])[: len(prefix)] == prefix
        marked = [index for index, each in enumerate(later["messages"]) if "cache_control" in str(each)]
        assert len(prefix) - 1 in marked


async def test_a_closed_session_leaves_no_conversation_with_its_model(on_stage: Any) -> None:
    """What a model keeps for the next call is the session's, and goes with it."""
    done = (Said(("done",)), Ended())
    async with on_stage({"openai-chat": [done, done]}) as stage:
        session = await stage.session()
        memory = session.turns.agent._memory

        def conversations() -> list[int]:
            return [len(each) for each in memory.by_model.values() if isinstance(each, deque)]

        await stage.ask(session, "a prompt")
        assert conversations() == [1]
        await stage.ask(session, "another one")
        assert conversations() == [1]
        await stage.daemon.service.hub.close(session.info.sid)
        assert memory.by_model == {}


def without_mark(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_mark(item) for name, item in value.items() if name != "cache_control"}
    return [without_mark(item) for item in value] if isinstance(value, list) else value
