"""A host that shortens the history in its own way before a model call, beside a run that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fake_tools import FunctionTools
from memory_journal import MemoryJournal
from sidecar.llmgateway.contract import Turn
from sidecar.llmgateway.scripted import Call, Say, Script, ScriptedModel
from sidecar.runtime.conductor import Agent, AgentDeps, create_agent
from sidecar.runtime.contract import AgentConfig, ToolCall
from turns import assistant, user

DIGEST = user("what was read so far")
SCRIPT: Script = [[Call("read", {"n": 1})], [Call("read", {"n": 2})], [Say("done")]]


async def read(call: ToolCall, _: object) -> str:
    return f"result {call.input['n']}"


class Host:
    """Keeps the journal, and puts a digest in the place of everything at the calls it is told to."""

    def __init__(self, *at_calls: int) -> None:
        self.journal = MemoryJournal()
        self.model = ScriptedModel(SCRIPT)
        self.seen: list[tuple[Turn, ...]] = []
        self._at_calls = at_calls

    async def make_room(self) -> None:
        self.seen.append(tuple(self.journal.turns))
        if len(self.seen) in self._at_calls:
            await self.journal.branch((DIGEST, self.seen[-1][0]))

    def agent(self, make_room: Callable[[], Coroutine[Any, Any, Any]] | None = None) -> Agent:
        deps = AgentDeps(self.model, journal=self.journal, make_room=make_room or self.make_room)
        return create_agent(AgentConfig("m", tools=FunctionTools(read=read)), deps)


async def test_the_host_is_asked_before_each_call_with_all_that_was_said_stored() -> None:
    host = Host()
    await host.agent().submit("read both")
    assert [len(turns) for turns in host.seen] == [1, 3, 5]
    sent = [" ".join(turn.role for turn in call.conversation.turns) for call in host.model.calls]
    assert sent == ["user", "user assistant tool", "user assistant tool assistant tool"]


async def test_the_run_goes_on_from_what_the_host_has_made_of_the_history() -> None:
    host = Host(3)
    final = await host.agent().submit("read both")
    prompt = user("read both")
    assert host.model.calls[-1].conversation.turns == (DIGEST, prompt)
    assert final.phase == "settled"
    assert tuple(final.messages) == (DIGEST, prompt, assistant("done"))


async def test_a_host_that_fails_ends_the_run_in_a_fault() -> None:
    async def fail() -> None:
        raise RuntimeError("no room to be had")

    final = await Host().agent(fail).submit("read both")
    assert final.phase == "faulted"
    assert final.error is not None
    assert (final.error.kind, final.error.message) == ("compaction_failed", "no room to be had")


async def test_an_abort_does_not_wait_for_the_host() -> None:
    asked = asyncio.Event()

    async def think_for_ever() -> None:
        asked.set()
        await asyncio.Event().wait()

    host = Host()
    agent = host.agent(think_for_ever)
    run = asyncio.ensure_future(agent.submit("read both"))
    await asked.wait()
    agent.abort()
    final = await run
    assert final.error is not None
    assert final.error.kind == "aborted"
    assert host.model.calls == []
