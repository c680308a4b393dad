"""Folding and draining of channels (facts 1.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from sidecar.llmgateway import channel_of, collect_reply, fold_reply
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    Channel,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    StopReason,
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

NONE = Usage(0, 0)


def channel(*emissions: Emission) -> Channel:
    async def play() -> AsyncIterator[Emission]:
        for emission in emissions:
            yield emission

    return channel_of(play)


def call(raw: str) -> list[Emission]:
    return [ToolCallStartEmission("c1", "read"), *(ToolCallDeltaEmission("c1", part) for part in raw)]


def check(emissions: Sequence[Emission], *blocks: Block, usage: Usage = NONE, stop: StopReason) -> None:
    assert fold_reply("m", emissions) == Reply("m", blocks, usage, stop)


def test_thinking_goes_before_text_before_calls_whatever_the_order() -> None:
    check(
        (*call("{}"), TextEmission("a"), ThinkingEmission("t"), TextEmission("b")),
        ThinkingBlock("t"),
        TextBlock("ab"),
        ToolCallBlock("c1", "read", {}),
        stop="tool_calls",
    )


def test_calls_keep_the_order_they_opened_in() -> None:
    emissions: list[Emission] = [
        ToolCallStartEmission("b", "two"),
        ToolCallStartEmission("a", "one"),
        ToolCallDeltaEmission("a", "1"),
        ToolCallDeltaEmission("b", "2"),
    ]
    check(emissions, ToolCallBlock("b", "two", 2), ToolCallBlock("a", "one", 1), stop="tool_calls")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param("", {}, id="empty arguments are an empty object"),
        pytest.param(" ", {}, id="blank arguments are an empty object"),
        pytest.param('{"path":"a"}', {"path": "a"}, id="arguments arrive in pieces"),
        pytest.param('{"path":', '{"path":', id="malformed arguments stay raw text"),
        pytest.param("[" * 100_000, "[" * 100_000, id="absurd nesting stays raw text"),
    ],
)
def test_arguments(raw: str, value: object) -> None:
    check(call(raw), ToolCallBlock("c1", "read", value), stop="tool_calls")


def test_a_delta_for_an_unknown_call_opens_one_without_a_name() -> None:
    check([ToolCallDeltaEmission("c9", "{}")], ToolCallBlock("c9", "", {}), stop="tool_calls")


def test_the_last_usage_wins() -> None:
    emissions: list[Emission] = [UsageEmission(Usage(1, 1)), TextEmission("x"), UsageEmission(Usage(8, 5))]
    check(emissions, TextBlock("x"), usage=Usage(8, 5), stop="complete")


def test_a_stop_other_than_complete_is_kept_beside_calls() -> None:
    check((*call("{}"), StopEmission("max_output")), ToolCallBlock("c1", "read", {}), stop="max_output")


@pytest.mark.parametrize(("kind", "stop"), [("aborted", "aborted"), ("http", "error")])
def test_an_error_ends_the_fold_and_shows_in_the_stop_reason(kind: str, stop: StopReason) -> None:
    error = GatewayError("aborted" if kind == "aborted" else "http", "no")
    check([TextEmission("a"), ErrorEmission(error), TextEmission("b")], TextBlock("a"), stop=stop)


def test_thinking_signatures_survive_the_fold() -> None:
    blocks = (ThinkingBlock("t", signature="sig"), TextBlock("x"))
    done = DoneEmission(AssistantTurn(blocks), usage=Usage(3, 4))
    check((ThinkingEmission("t"), TextEmission("x"), done), *blocks, usage=Usage(3, 4), stop="complete")


def test_a_done_turn_takes_usage_and_stop_from_the_stream() -> None:
    turn = AssistantTurn((ToolCallBlock("c1", "read", {}),))
    emissions: list[Emission] = [UsageEmission(Usage(3, 4)), DoneEmission(turn)]
    check(emissions, *turn.blocks, usage=Usage(3, 4), stop="tool_calls")


async def test_collect_returns_the_done_reply_and_stops_reading() -> None:
    reply = Reply("named", (TextBlock("whole"),), Usage(1, 2), "complete")
    read: list[str] = []

    async def play() -> AsyncIterator[Emission]:
        try:
            yield TextEmission("part")
            yield DoneEmission(reply)
            read.append("too far")
        finally:
            read.append("closed")

    assert await collect_reply(channel_of(play)) == reply
    assert read == ["closed"]


async def test_collect_folds_a_stream_without_done() -> None:
    reply = await collect_reply(channel(TextEmission("a"), TextEmission("b")), model="m")
    assert reply == Reply("m", (TextBlock("ab"),), NONE, "complete")


async def test_collect_raises_the_error_of_the_stream() -> None:
    with pytest.raises(GatewayError, match="busy") as caught:
        await collect_reply(channel(TextEmission("a"), ErrorEmission(GatewayError("http", "busy"))))
    assert caught.value.kind == "http"


async def test_collect_raises_transport_on_an_empty_stream() -> None:
    with pytest.raises(GatewayError, match="before its first word") as caught:
        await collect_reply(channel())
    assert caught.value.kind == "transport"


async def test_a_channel_of_a_factory_starts_again_for_each_reader() -> None:
    twice = channel(TextEmission("a"))
    assert [[each async for each in twice] for _ in range(2)] == [[TextEmission("a")]] * 2
