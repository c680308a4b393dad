"""The scripted model plays what it is told, in Python and in JSON."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.llmgateway import collect_reply
from sidecar.llmgateway.contract import (
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    Reply,
    StopEmission,
    StreamOptions,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
)
from sidecar.llmgateway.scripted import (
    Call,
    EndWithoutDone,
    Hang,
    Raise,
    Say,
    ScriptedModel,
    Think,
    WaitFor,
    script_from_json,
)
from turns import user

ASKED = Conversation((user("go"),))
OPTIONS = StreamOptions()


async def played(model: ScriptedModel, options: StreamOptions = OPTIONS) -> list[Emission]:
    return [emission async for emission in model(ASKED, options)]


async def test_a_call_ends_with_stop_and_done_by_itself() -> None:
    model = ScriptedModel([[Think("hm"), Say("Hello", n_deltas=2), Call("read", {"path": "a"})]])
    blocks = (ThinkingBlock("hm"), TextBlock("Hello"), ToolCallBlock("call-1", "read", {"path": "a"}))
    assert await played(model) == [
        ThinkingEmission("hm"),
        TextEmission("He"),
        TextEmission("llo"),
        ToolCallStartEmission("call-1", "read"),
        ToolCallDeltaEmission("call-1", '{"path": "a"}'),
        StopEmission("tool_calls"),
        DoneEmission(Reply("scripted-1", blocks, Usage(0, 0), "tool_calls")),
    ]


async def test_emissions_are_steps_too() -> None:
    model = ScriptedModel([[UsageEmission(Usage(8, 5)), TextEmission("x"), StopEmission("max_output")]])
    reply = await collect_reply(model(ASKED, OPTIONS))
    assert reply == Reply("scripted-1", (TextBlock("x"),), Usage(8, 5), "max_output")


async def test_a_done_of_the_script_ends_the_call() -> None:
    done = DoneEmission(Reply("other", (TextBlock("y"),), Usage(1, 1), "complete"))
    assert await played(ScriptedModel([[done, Say("never")]])) == [done]


async def test_calls_are_recorded_and_play_in_order() -> None:
    model = ScriptedModel([[Say("one")], [Say("two")]])
    texts = [(await collect_reply(model(ASKED, OPTIONS))).blocks for _ in range(2)]
    assert texts == [(TextBlock("one"),), (TextBlock("two"),)]
    assert [(each.conversation, each.options) for each in model.calls] == [(ASKED, OPTIONS)] * 2


async def test_a_channel_read_again_plays_the_same_entry_with_the_same_ids() -> None:
    channel = ScriptedModel([[Call("read", {})], [Say("two")]])(ASKED, OPTIONS)
    first = [each async for each in channel]
    assert [each async for each in channel] == first


async def test_an_exhausted_script_fails_clearly() -> None:
    emissions = await played(ScriptedModel([]))
    assert len(emissions) == 1
    assert isinstance(emissions[0], ErrorEmission)
    assert emissions[0].error.message == "the script has 0 calls and this is call 1; add an entry"


async def test_an_exhausted_script_repeats_its_last_entry_on_request() -> None:
    model = ScriptedModel([[Say("one")], [Say("two")]], when_exhausted="repeat")
    texts = [(await collect_reply(model(ASKED, OPTIONS))).blocks for _ in range(3)]
    assert texts == [(TextBlock("one"),), (TextBlock("two"),), (TextBlock("two"),)]


async def test_raise_breaks_the_stream() -> None:
    with pytest.raises(RuntimeError, match="boom"):
        await played(ScriptedModel([[Say("a"), Raise(RuntimeError("boom"))]]))


async def test_end_without_done_ends_silently() -> None:
    assert await played(ScriptedModel([[Say("a"), EndWithoutDone(), Say("b")]])) == [TextEmission("a")]


@pytest.mark.parametrize("step", [Hang(), WaitFor("never")], ids=["hang", "wait"])
async def test_cancel_ends_a_pause(step: Hang | WaitFor) -> None:
    token = CancelToken()
    model = ScriptedModel([[Say("a"), step, Say("b")]])
    kinds = []
    async for emission in model(ASKED, StreamOptions(cancel=token)):
        kinds.append(emission.kind)
        asyncio.get_running_loop().call_soon(token.cancel)
    assert kinds == ["text", "error"]


async def test_cancel_from_another_thread_ends_a_hang() -> None:
    token = CancelToken()
    task = asyncio.ensure_future(played(ScriptedModel([[Hang()]]), StreamOptions(cancel=token)))
    await asyncio.to_thread(token.cancel)
    assert [emission.kind for emission in await task] == ["error"]


async def test_a_gate_holds_the_stream_until_it_is_set() -> None:
    model = ScriptedModel([[Say("a"), WaitFor("go"), Say("b")]])
    seen: list[str] = []
    async for emission in model(ASKED, OPTIONS):
        seen.append(emission.kind)
        model.gate("go").set()
    assert seen == ["text", "text", "stop", "done"]


async def test_every_json_form_has_its_step() -> None:
    script = script_from_json(
        [
            [
                {"text": "Hello", "deltas": 3},
                {"thinking": "hm"},
                {"toolCall": {"name": "read", "input": {"path": "a.py"}, "id": "c1"}},
                {"toolCall": {"name": "ls"}},
                {"usage": {"input": 10, "output": 3, "cacheRead": 2}},
                {"stop": "max_output"},
            ],
            [{"hang": True}, {"endWithoutDone": True}, {"waitFor": "gate"}],
            [],
        ]
    )
    assert script == (
        (
            Say("Hello", 3),
            Think("hm"),
            Call("read", {"path": "a.py"}, "c1"),
            Call("ls", {}),
            UsageEmission(Usage(10, 3, 2)),
            StopEmission("max_output"),
        ),
        (Hang(), EndWithoutDone(), WaitFor("gate")),
        (),
    )


def test_json_errors_and_raises_keep_their_words() -> None:
    ((error, broken),) = script_from_json(
        [[{"error": {"kind": "rate_limit", "message": "slow down", "status": 429}}, {"raise": "boom"}]]
    )
    assert isinstance(error, ErrorEmission)
    assert (error.error.kind, error.error.message, error.error.status) == ("rate_limit", "slow down", 429)
    assert isinstance(broken, Raise)
    assert str(broken.error) == "boom"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({}, "script is dict; expected a list of calls", id="script"),
        pytest.param(["x"], "script[0] is str; expected a list of steps", id="call"),
        pytest.param([[1]], "script[0][0] is int; expected an object", id="step"),
        pytest.param([[{}]], "script[0][0] has []; expected exactly one of text, ", id="empty step"),
        pytest.param([[{"text": "a", "stop": "x"}]], "has ['stop', 'text']; expected exactly", id="two keys"),
        pytest.param([[{"text": "a", "id": "x"}]], "has ['id'] beside 'text'; expected no", id="extra key"),
        pytest.param([[{"text": 1}]], "script[0][0].text is int; expected a string", id="text type"),
        pytest.param([[{"text": "a", "deltas": 0}]], "has 0 deltas; expected a number of 1", id="deltas"),
        pytest.param([[{"toolCall": {}}]], "toolCall lacks ['name']; expected the keys name", id="no name"),
        pytest.param([[{"toolCall": {"name": "a", "x": 1}}]], "toolCall has ['x']; expected", id="extra"),
        pytest.param([[{"usage": {"input": -1, "output": 0}}]], "usage.input is -1; expected", id="usage"),
        pytest.param([[{"stop": "later"}]], "stop is 'later'; expected one of complete", id="stop"),
        pytest.param([[{"error": {"kind": "x", "message": ""}}]], "error.kind is 'x'; expected", id="error"),
        pytest.param([[{"hang": False}]], "hang is False; expected true", id="flag"),
    ],
)
def test_a_wrong_step_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        script_from_json(value)
    assert message in caught.value.message
