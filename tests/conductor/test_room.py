"""A session as a room: the events of its turns, their sources, and the turns of an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import entry_of, history_of
from properties import cases
from sidecar.conductor.window.engines.room import (
    CLIENTS,
    HOST,
    MODEL,
    USER,
    SessionRoom,
    shorten_turns,
    turns_of,
)
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
)
from sidecar.rooms import (
    CompositeContent,
    EventSource,
    Participant,
    SystemContent,
    TextContent,
    ToolCallContent,
)
from sidecar.rooms.memory.budget import fit_items
from sidecar.rooms.memory.estimate import event_tokens
from turns import assistant, user


def said(text: str, *calls: str) -> AssistantTurn:
    return AssistantTurn((TextBlock(text), *(ToolCallBlock(each, "read", {"path": each}) for each in calls)))


def results(*calls: str, text: str = "body") -> ToolTurn:
    return ToolTurn(tuple(ToolResultBlock(each, text) for each in calls))


def room_of(turns: list[Turn]) -> SessionRoom:
    room = SessionRoom()
    for entry in history_of(turns):
        room.add(entry)
    return room


@pytest.mark.parametrize(
    ("turns", "starts"),
    [
        pytest.param([], [], id="nothing was said"),
        pytest.param([user("a"), said("b")], [0, 1], id="a prompt and an answer"),
        pytest.param(
            [user("a"), said("b", "1"), results("1"), said("c")], [0, 1, 3], id="an answer and its results"
        ),
        pytest.param(
            [user("a"), said("b", "1"), results("1"), results("2")],
            [0, 1],
            id="results in two turns stay with their answer",
        ),
        pytest.param(
            [user("a"), said("b", "1"), said("c", "2"), results("1", "2")],
            [0, 1],
            id="an answer written down in two parts is one",
        ),
        pytest.param(
            [user("a"), said("b", "1"), user("c"), said("d")], [0, 1, 2, 3], id="a prompt ends an answer"
        ),
        pytest.param([results("1"), user("a")], [0, 1], id="results of nobody"),
    ],
)
def test_turns_are_grouped_into_events(turns: list[Turn], starts: list[int]) -> None:
    room = room_of(turns)
    assert room.starts == starts
    assert [turn for event in room.events for turn in turns_of(event)] == turns
    assert [event.id for event in room.events] == [str(start) for start in starts]


def test_each_event_names_its_source() -> None:
    room = SessionRoom()
    by_zed = replace(entry_of(user("a")), author="c1")
    for entry in (by_zed, *history_of([said("b"), user("c")])):
        room.add(entry)
    assert [event.source for event in room.events] == [
        EventSource(CLIENTS, "websocket", participant_id="c1"),
        EventSource(MODEL, "ai", "outbound"),
        EventSource(CLIENTS, "websocket", participant_id=USER),
    ]
    context = room.context(room.events, (Participant("c1", "Zed"),))
    assert (context.room.id, context.participants) == ("session", (Participant("c1", "Zed"),))
    assert [binding.channel_id for binding in context.bindings] == [CLIENTS, MODEL]


@pytest.mark.parametrize(
    ("blocks", "content"),
    [
        pytest.param((TextBlock("hi"),), TextContent("hi"), id="prose"),
        pytest.param((), CompositeContent((TextContent(""),)), id="nothing"),
        pytest.param((ThinkingBlock("hm"),), SystemContent("hm", code="thinking"), id="thinking"),
        pytest.param(
            (TextBlock("see"), ToolCallBlock("1", "ls", ["x"])),
            CompositeContent((TextContent("see"), ToolCallContent("ls", "1", {"input": ["x"]}))),
            id="a call without its result, with arguments that are no object",
        ),
    ],
)
def test_the_content_of_an_answer(blocks: tuple[Block, ...], content: object) -> None:
    assert room_of([AssistantTurn(blocks)]).events[0].content == content


def test_a_result_is_in_the_content_of_its_call() -> None:
    call = assistant(ToolCallBlock("1", "ls", {}), ToolCallBlock("2", "rm", {}))
    answers = ToolTurn((ToolResultBlock("2", "no", is_error=True), ToolResultBlock("1", {"files": 3})))
    assert room_of([call, answers]).events[0].content == CompositeContent(
        (
            ToolCallContent("ls", "1", {}, {"files": 3}, "completed"),
            ToolCallContent("rm", "2", {}, status="failed", error="no"),
        )
    )


def test_the_weight_of_an_image_does_not_depend_on_its_size() -> None:
    large = user(ImageBlock("image/png", "A" * 1_000_000))
    assert 1000 <= room_of([large]).before[-1] <= 1050


@pytest.mark.parametrize(
    ("turns", "prompt"),
    [
        pytest.param([user("a"), said("b"), user("c"), said("d")], 2, id="the newest of two"),
        pytest.param([user("a"), user("[Restored file after compaction]\nx")], 0, id="not a restored file"),
        pytest.param([user("<context-summary>\nx\n</context-summary>")], None, id="not a digest"),
    ],
)
def test_the_newest_prompt(turns: list[Turn], prompt: int | None) -> None:
    assert room_of(turns).prompt == prompt


# Shortened events.


def test_a_whole_event_is_sent_as_its_own_turns() -> None:
    turns: list[Turn] = [said("b", "1"), results("1")]
    room = room_of(turns)
    shown = room.turns_to_send(room.events[0])
    assert all(a is b for a, b in zip(shown, turns, strict=True))


def test_a_shortened_event_keeps_calls_and_results_and_is_made_once() -> None:
    turns: list[Turn] = [said("look", "1"), results("1", text="line\n" * 4000)]
    room = room_of(turns)
    short = fit_items([], room.events, 300)[1][0]
    shown = room.turns_to_send(short)
    assert [turn.role for turn in shown] == ["assistant", "tool"]
    assert shown[0] == turns[0]
    (block,) = shown[1].blocks
    assert isinstance(block, ToolResultBlock)
    assert block.call_id == "1"
    assert "[... truncated from 20000 chars ...]" in block.output
    assert room.turns_to_send(fit_items([], room.events, 300)[1][0]) is shown


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        pytest.param(TextBlock("x" * 9000), "text", id="prose"),
        pytest.param(ThinkingBlock("x" * 9000), "text", id="unsigned thinking"),
        pytest.param(ToolCallBlock("1", "write", {"text": "x" * 9000, "mode": 7}), "input", id="arguments"),
        pytest.param(ToolResultBlock("1", {"rows": ["x" * 9000]}), "output", id="a result that is no text"),
    ],
)
def test_long_texts_are_cut(block: Block, kept: str) -> None:
    turn = assistant(block)
    (short,) = shorten_turns((turn,), lambda turns: len(str(turns)) // 4, 200)
    text = str(getattr(short.blocks[0], kept))
    assert "truncated from" in text
    assert len(text) < 800
    if isinstance(short.blocks[0], ToolCallBlock):
        assert short.blocks[0].input["mode"] == 7


def test_signed_thinking_is_not_touched() -> None:
    signed = assistant(ThinkingBlock("x" * 9000, signature="s"))
    assert shorten_turns((signed,), lambda turns: len(str(turns)) // 4, 10) == (signed,)


# Any conversation.

SIZES = st.integers(0, 3000)


@st.composite
def conversations(draw: Any) -> list[Turn]:
    """Prompts, each with some rounds of tools and an answer."""
    turns: list[Turn] = []
    for number in range(draw(st.integers(0, 5))):
        turns.append(user(f"<p{number}>" + "x" * draw(SIZES)))
        for each in range(draw(st.integers(0, 3))):
            calls = [f"c{number}.{each}.{k}" for k in range(draw(st.integers(1, 3)))]
            turns += [said("y" * draw(SIZES), *calls), results(*calls, text="z\n" * draw(SIZES))]
        turns.append(said("w" * draw(SIZES)))
    return turns


@cases(40)
@given(conversations(), st.integers(60, 2000))
def test_any_conversation_is_sent_whole_or_shortened_to_the_limit(turns: list[Turn], most: int) -> None:
    room = room_of(turns)
    assert [turn for event in room.events for turn in room.turns_to_send(event)] == turns
    for event in room.events:
        short = fit_items([], [event], most)[1][0]
        shown = room.turns_to_send(short)
        assert [turn.role for turn in shown] == [turn.role for turn in turns_of(event)]
        assert room_of(list(shown)).before[-1] <= max(event_tokens(short), 200)


def test_a_note_of_the_host_is_from_no_user() -> None:
    room = SessionRoom()
    room.add(Entry(user("a"), "note"))
    room.add(Entry(user("b"), "user"))
    assert [event.source.participant_id for event in room.events] == [HOST, USER]
