"""A prompt may limit its model calls and allow actions, for its own turn alone."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import pytest

from fake_tools import FakeTool
from long_talks import open_session
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities import toolbox
from sidecar.capabilities.bash import BASH
from sidecar.capabilities.contract import ToolReply
from sidecar.capabilities.listing import LS
from sidecar.capabilities.read import READ
from sidecar.llmgateway.contract import ToolResultBlock
from sidecar.llmgateway.scripted import Call, Say
from turns import text

LOOPING = [(Call("fake", {}),)]
MAKING = (Call("bash", {"command": "mkdir made"}),)


async def test_a_turn_ends_as_a_fault_when_it_needs_one_call_more_than_it_may_make(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, LOOPING, tools=[FakeTool()], repeat=True)
    receipt = await session.submit(text("go on"), max_model_calls=3)
    fault = (await receipt.outcome).fault
    assert fault is not None
    assert (fault.error_kind, fault.message) == (
        "turnBudget",
        "the run may make 3 model calls and needs another",
    )
    assert len(stage.model.calls) == 3


@pytest.mark.skipif(os.name == "nt", reason="the command is one of POSIX")
@pytest.mark.processes
async def test_a_rule_of_a_prompt_allows_actions_in_its_turn_and_not_in_the_next(make_stage: Any) -> None:
    stage = await make_stage([MAKING, [Say("made")], MAKING, [Say("not made")]], tools=[BASH])
    session = await stage.session()
    made = stage.folder / "made"
    receipt = await session.submit(text("make it"), allow=("mkdir *",))
    assert (await receipt.outcome).text == "made"
    assert made.is_dir()
    made.rmdir()
    assert (await stage.ask(session, "again")).text == "not made"
    assert not made.exists(), "nobody was there to allow it"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"allow": ("a | b",)}, "must be one plain command", id="a pipe"),
        pytest.param({"max_model_calls": 0}, "must be 1 or more, not 0", id="no call at all"),
    ],
)
async def test_a_wrong_limit_is_refused_and_no_turn_begins(
    make_stage: Any, options: dict[str, Any], problem: str
) -> None:
    _, session = await open_session(make_stage)
    with pytest.raises(InvalidInput, match=problem):
        await session.submit(text("x"), **options)
    assert not session.is_busy


async def test_two_calls_that_fail_in_turns_end_the_turn_too(make_stage: Any) -> None:
    calls = [[Call("read", {"path": f"none{n % 2}.txt"})] for n in range(30)]
    stage = await make_stage([*calls, [Say("something else")]], tools=[READ])
    ended = await stage.ask(await stage.session(), "read them")
    assert ended.fault.error_kind == "turnBudget"
    assert len(stage.model.calls) == 9


async def test_a_call_that_works_between_makes_a_failure_the_first_again(make_stage: Any) -> None:
    pair = [[Call("read", {"path": "none.txt"})], [Call("ls", {})]]
    stage = await make_stage([*pair * 6, [Say("done")]], tools=[READ, LS])
    ended = await stage.ask(await stage.session(), "read it")
    assert ended.fault is None


async def test_a_call_that_fails_alike_is_told_and_then_ends_the_turn(make_stage: Any) -> None:
    again = [Call("read", {"path": "none.txt"})]
    stage, session = await open_session(make_stage, [*[again] * 9, [Say("something else")]], tools=[READ])
    ended = await stage.ask(session, "read it")
    assert ended.fault.error_kind == "turnBudget"
    assert ended.fault.message == "the same call of a tool has failed 5 times in a row; say how to go on"
    blocks = (block for turn in session.record.history.turns for block in turn.blocks)
    results = [str(block.output) for block in blocks if isinstance(block, ToolResultBlock)]
    assert ["Do not repeat it" in result for result in results] == [False, False, True, True, True]
    assert len(stage.model.calls) == 5
    assert (await stage.ask(session, "go on")).fault.error_kind == "turnBudget", (
        "it is told of each further one"
    )
    assert len(stage.model.calls) == 6


def results_of(session: Any) -> list[str]:
    blocks = (block for turn in session.record.history.turns for block in turn.blocks)
    return [str(block.output) for block in blocks if isinstance(block, ToolResultBlock)]


async def test_a_call_with_the_same_result_is_told_and_then_ends_the_turn(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Call("ls", {})]] * 30, tools=[LS])
    ended = await stage.ask(session, "look")
    assert ended.fault.error_kind == "turnBudget"
    assert ended.fault.message == (
        "the same call of a tool has had the same result 10 times, with nothing new in between; "
        "say how to go on"
    )
    assert ["Do not repeat" in result for result in results_of(session)] == [False] * 2 + [True] * 8
    assert len(stage.model.calls) == 10
    await stage.ask(session, "look again")
    assert len(stage.model.calls) == 20, "a prompt may ask for what it asked for before"


async def test_two_calls_that_take_turns_end_the_turn_too(make_stage: Any) -> None:
    pair = [[Call("ls", {})], [Call("ls", {"path": "."})]]
    stage = await make_stage([*pair * 20, [Say("done")]], tools=[LS])
    ended = await stage.ask(await stage.session(), "look")
    assert ended.fault.error_kind == "turnBudget"
    assert len(stage.model.calls) == 20


async def test_a_call_may_be_repeated_while_something_new_comes_between(make_stage: Any) -> None:
    grown = count(1)

    async def look(arguments: object, context: object, cancel: object) -> ToolReply:
        return ToolReply(f"{next(grown)} lines")

    rounds = [[Call("bash_output", {"id": "bg1"})], [Call("ls", {})]] * 30
    stage = await make_stage([*rounds, [Say("done")]], tools=[FakeTool("bash_output", act=look), LS])
    session = await stage.session()
    assert (await stage.ask(session, "look")).fault is None
    assert not any("Do not repeat" in result for result in results_of(session))


async def test_a_call_that_waits_is_told_of_its_repeats_and_ends_no_turn(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "_WAIT_S", 0.0)
    stage, session = await open_session(make_stage, [*[[Call("ls", {})]] * 30, [Say("done")]], tools=[LS])
    assert (await stage.ask(session, "wait for it")).fault is None
    assert sum("wait within one call" in result for result in results_of(session)) == 28
