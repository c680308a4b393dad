"""Turns become messages and come back unchanged; the gateway answers as a chat model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar.agentcore.files import file_lists
from sidecar.agentcore.gateway import InvokerModel, messages_to_turns, turns_to_messages
from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Image,
    Message,
    StopReason,
    ThinkingLevel,
    Usage,
    call_block,
    text_block,
    text_message,
    tool_message,
)
from sidecar.agentcore.view import shrink_message
from sidecar.llmgateway import contract as gateway
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.scripted import EndWithoutDone, Hang, Raise, Say, ScriptedModel, Step
from turns import user as user_turn

TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
IDS = st.sampled_from(["1", "2", "3"])
BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, TEXT),
    st.builds(ThinkingBlock, TEXT, st.none() | TEXT),
    st.builds(ToolCallBlock, IDS, st.just("read"), JSON),
    st.builds(ToolResultBlock, IDS, JSON, st.none() | st.booleans()),
    st.builds(ImageBlock, st.just("image/png"), st.just("abc")),
    st.builds(CommandBlock, TEXT, st.none() | st.tuples(TEXT)),
)
BLOCK_TUPLES = st.lists(BLOCKS, max_size=4).map(tuple)
DIGEST = UserTurn(
    (TextBlock("<context-summary>\nso far\n\n<read-files>\na\n</read-files>\n</context-summary>"),)
)
TURNS: st.SearchStrategy[Turn] = st.one_of(
    st.builds(UserTurn, BLOCK_TUPLES),
    st.builds(AssistantTurn, BLOCK_TUPLES),
    st.builds(ToolTurn, BLOCK_TUPLES),
    st.just(DIGEST),
)


@given(st.lists(TURNS, max_size=8))
def test_turns_come_back_as_they_went(turns: list[Turn]) -> None:
    assert messages_to_turns(turns_to_messages(turns)) == turns


def test_each_result_is_a_message_of_its_own() -> None:
    turns: list[Turn] = [
        AssistantTurn((ToolCallBlock("1", "read", {"path": "a"}), ToolCallBlock("2", "ls", {}))),
        ToolTurn(
            (
                ToolResultBlock("1", "text", False),
                ToolResultBlock("2", {"n": [1]}),
                ToolResultBlock("9", "", True),
            )
        ),
    ]
    asked, *results = turns_to_messages(turns)
    assert isinstance(asked, Message)
    assert [(c.id, c.name, c.args) for c in asked.tool_calls()] == [
        ("1", "read", '{"path":"a"}'),
        ("2", "ls", "{}"),
    ]
    told = []
    for result in results:
        assert isinstance(result, Message)
        metadata = {key: result.metadata[key] for key in result.metadata if key != "gateway_source"}
        told.append((result.role, result.text_content(), metadata))
    assert told == [
        ("tool", "text", {"tool_call_id": "1", "is_error": False, "tool_name": "read"}),
        ("tool", '{"n":[1]}', {"tool_call_id": "2", "tool_name": "ls"}),
        ("tool", "", {"tool_call_id": "9", "is_error": True}),
    ]


def test_a_digest_turn_is_a_summary_with_its_files() -> None:
    summary = CompactionSummary("so far\n\n<read-files>\na\n</read-files>", read_files=("a",))
    assert turns_to_messages([DIGEST]) == [summary]
    assert messages_to_turns([summary]) == [DIGEST]
    assert file_lists([summary]).read == ("a",)


NO_DIGESTS = {
    "not closed": UserTurn((TextBlock("<context-summary>\nopen"),)),
    "too short": UserTurn((TextBlock("<context-summary>\n</context-summary>"),)),
    "more": UserTurn((TextBlock("<context-summary>\nx\n</context-summary>"), TextBlock("y"))),
    "an assistant's": AssistantTurn((TextBlock("<context-summary>\nx\n</context-summary>"),)),
}


@pytest.mark.parametrize("turn", NO_DIGESTS.values(), ids=NO_DIGESTS)
def test_what_only_looks_like_a_digest_is_none(turn: Turn) -> None:
    (message,) = turns_to_messages([turn])
    assert isinstance(message, Message)
    assert messages_to_turns([message]) == [turn]


MADE_HERE = {
    "images are kept": (
        [
            Message(
                "user", (text_block("hi"), ContentBlock("image", image=Image("abc", mime_type="image/png")))
            )
        ],
        [UserTurn((TextBlock("hi"), ImageBlock("image/png", "abc")))],
    ),
    "an image by address is named": (
        [Message("user", (ContentBlock("image", image=Image(url="http://x/y.png")),))],
        [UserTurn((TextBlock("[image: http://x/y.png]"),))],
    ),
    "arguments are parsed": (
        [Message("assistant", (ContentBlock("thinking", thinking="hm"), call_block("1", "f", '{"a":1}')))],
        [AssistantTurn((ThinkingBlock("hm"), ToolCallBlock("1", "f", {"a": 1})))],
    ),
    "broken arguments stay text": (
        [Message("assistant", (call_block("1", "f", "{broken"),))],
        [AssistantTurn((ToolCallBlock("1", "f", "{broken"),))],
    ),
    "results made here share a turn": (
        [tool_message("1", "a"), tool_message("2", "b", is_error=True)],
        [ToolTurn((ToolResultBlock("1", "a", False), ToolResultBlock("2", "b", True)))],
    ),
    "no system turn": ([text_message("system", "note")], [UserTurn((TextBlock("note"),))]),
    "no call id": ([Message("tool", (text_block("x"),))], [ToolTurn((TextBlock("x"),))]),
    "reference": ([Message("user", (ContentBlock("tool_reference", tool_name="x"),))], [UserTurn(())]),
}


@pytest.mark.parametrize(("messages", "turns"), MADE_HERE.values(), ids=MADE_HERE)
def test_messages_made_here_become_turns(messages: list[AgentMessage], turns: list[Turn]) -> None:
    assert messages_to_turns(messages) == turns


def test_a_shrunk_message_comes_back_shrunk() -> None:
    turns: Sequence[Turn] = [
        UserTurn((TextBlock("x" * 900), CommandBlock("note"))),
        ToolTurn((ToolResultBlock("1", "y" * 900, True), ToolResultBlock("2", ["kept"]))),
    ]
    user, first, second = turns_to_messages(turns)
    short_user, short_tool = messages_to_turns([shrink_message(user, 50), shrink_message(first, 50), second])
    assert "left out" in str(short_user)
    assert isinstance(short_tool, ToolTurn)
    cut, kept = short_tool.blocks
    assert isinstance(cut, ToolResultBlock)
    assert (cut.call_id, cut.is_error, "left out" in cut.output) == ("1", True, True)
    assert kept == ToolResultBlock("2", ["kept"])


def test_what_is_no_json_is_named_and_comes_back() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    turns: list[Turn] = [ToolTurn((ToolResultBlock("1", deep), ToolResultBlock("2", {(1, 2): 3})))]
    messages = turns_to_messages(turns)
    assert [m.text_content() for m in messages] == ["<list>", "<dict>"]
    (back,) = messages_to_turns(messages)
    assert back.blocks[0] is turns[0].blocks[0]


ASKED = (text_message("system", "be brief"), text_message("user", "sum up"))
NO_MORE = EndWithoutDone()


def reply(text: str, stop: gateway.StopReason = "complete") -> gateway.Reply:
    return gateway.Reply("m", (gateway.TextBlock(text),), gateway.Usage(10, 5, 3, None), stop)


USAGE = Usage(10, 5, 3, 0, 18)


@pytest.mark.parametrize(
    ("emissions", "expected"),
    [
        pytest.param(
            [gateway.TextEmission("a"), gateway.DoneEmission(reply("whole"))],
            Message("assistant", (text_block("whole"),), "stop", USAGE),
            id="the done reply stands for what was streamed",
        ),
        pytest.param(
            [
                gateway.ThinkingEmission("hm"),
                gateway.TextEmission("a"),
                gateway.TextEmission("b"),
                gateway.UsageEmission(gateway.Usage(10, 5, 3)),
                gateway.StopEmission("max_output"),
            ],
            Message("assistant", (text_block("ab"),), "length", USAGE),
            id="without one, the deltas",
        ),
        pytest.param(
            [gateway.DoneEmission(gateway.AssistantTurn((gateway.TextBlock("t"),)), gateway.Usage(10, 5, 3))],
            Message("assistant", (text_block("t"),), "stop", USAGE),
            id="C1: a turn with its usage",
        ),
        pytest.param([], Message("assistant", (text_block(""),), "stop"), id="a channel that says nothing"),
    ],
)
async def test_what_a_channel_says(emissions: Sequence[gateway.Emission], expected: Message) -> None:
    assert await InvokerModel(ScriptedModel([[*emissions, NO_MORE]])).generate(ASKED) == expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("complete", "stop"),
        ("tool_calls", "toolUse"),
        ("max_output", "length"),
        ("refusal", "error"),
        ("aborted", "aborted"),
        ("error", "error"),
    ],
)
async def test_stop_reasons_are_translated(stop: gateway.StopReason, expected: StopReason) -> None:
    model = ScriptedModel([[gateway.DoneEmission(reply("x", stop))]])
    answer = await InvokerModel(model).generate(ASKED)
    assert answer.stop_reason == expected


@pytest.mark.parametrize(
    ("thinking", "expected"), [(None, None), ("minimal", "low"), ("high", "high"), ("xhigh", "max")]
)
async def test_what_a_model_is_asked(
    thinking: ThinkingLevel | None, expected: gateway.ThinkingLevel | None
) -> None:
    token = CancelToken()
    invoker = ScriptedModel([[gateway.DoneEmission(reply("x"))]])
    await InvokerModel(invoker, cancel=lambda: token).generate(ASKED, max_tokens=7, thinking=thinking)
    (call,) = invoker.calls
    assert call.conversation == gateway.Conversation((user_turn("sum up"),), system="be brief")
    assert call.options == gateway.StreamOptions(cancel=token, thinking=expected, max_output_tokens=7)


SLOW_DOWN = gateway.GatewayError("rate_limit", "slow down")


@pytest.mark.parametrize("step", [gateway.ErrorEmission(SLOW_DOWN), Raise(SLOW_DOWN)])
async def test_an_error_is_raised(step: Step) -> None:
    with pytest.raises(gateway.GatewayError, match="slow down"):
        await InvokerModel(ScriptedModel([[step]])).generate(ASKED)


async def test_a_cancelled_call_raises_the_tokens_own_error() -> None:
    token = CancelToken()
    asyncio.get_running_loop().call_soon(token.cancel, "esc")
    model = InvokerModel(ScriptedModel([[Say("half"), Hang()], [NO_MORE]]), cancel=lambda: token)
    for _ in range(2):
        with pytest.raises(CancelledByToken, match="esc"):
            await model.generate(ASKED)
