"""The outgoing history: projection, pairing of calls and results, and that it grows with the history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_tools import FunctionTools
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    Conversation,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolDescriptor,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import AgentConfig
from sidecar.runtime.wire import (
    NO_RESULT,
    OPENING,
    PROJECTORS,
    Outgoing,
    build_conversation,
    is_blank,
    is_sound,
    pair_results,
    with_distinct_ids,
)
from turns import assistant, calls, results, user

CONFIG = AgentConfig(model="m")
USER, SAID = user("hi"), assistant("hello")
CALL, RESULT = calls("a"), results("a")
OTHER_CALL, OTHER_RESULT = calls("b"), results("b")

IDS = st.sampled_from(["", "a", "b"])
TEXTS = st.sampled_from(["", " ", "x"])
BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, TEXTS),
    st.builds(ThinkingBlock, TEXTS, st.sampled_from([None, "sig"])),
    st.builds(ToolCallBlock, IDS, st.just("ls"), st.just({})),
    st.builds(ToolResultBlock, IDS, st.just("out"), st.booleans()),
    st.just(ImageBlock("image/png", "AA")),
    st.just(CommandBlock("model", ("x",))),
)
TURNS: st.SearchStrategy[Turn] = st.builds(
    lambda role, blocks: role(tuple(blocks)),
    st.sampled_from([UserTurn, AssistantTurn, ToolTurn]),
    st.lists(BLOCKS, max_size=4),
)
HISTORIES = st.lists(TURNS, max_size=10)


def sent(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    return build_conversation(turns, CONFIG).turns


SENT = {
    "nothing": ([], []),
    "as it is": ([USER, CALL, RESULT, SAID, USER], [USER, CALL, RESULT, SAID, USER]),
    "no blank assistant turn": ([USER, AssistantTurn(())], [USER]),
    "no empty prose": ([USER, AssistantTurn((TextBlock(""), *CALL.blocks)), RESULT], [USER, CALL, RESULT]),
    "no mere thinking": ([USER, AssistantTurn((ThinkingBlock("hm", "sig"),)), USER], [USER, USER]),
    "thinking before an answer": (
        [USER, AssistantTurn((ThinkingBlock("hm"), *SAID.blocks))],
        [USER, AssistantTurn((ThinkingBlock("hm"), *SAID.blocks))],
    ),
    "no host commands": ([UserTurn((CommandBlock("model"),)), USER], [USER]),
    "nor beside a prompt": ([UserTurn((CommandBlock("model"), *USER.blocks))], [USER]),
    "the user opens": ([SAID, USER], [OPENING, SAID, USER]),
    "no orphan result": ([RESULT, USER], [USER]),
    "parallel calls in turns of their own keep their results": (
        [USER, CALL, OTHER_CALL, RESULT, OTHER_RESULT],
        [USER, AssistantTurn((*CALL.blocks, *OTHER_CALL.blocks)), RESULT, OTHER_RESULT],
    ),
    "prose in turns of its own stays so": ([USER, SAID, SAID], [USER, SAID, SAID]),
    "only a model calls tools": ([UserTurn((*USER.blocks, *CALL.blocks))], [USER]),
}


@pytest.mark.parametrize(("turns", "expected"), SENT.values(), ids=SENT)
def test_what_is_sent(turns: list[Turn], expected: list[Turn]) -> None:
    assert list(sent(turns)) == expected


def test_the_conversation_carries_system_and_tools() -> None:
    tools = FunctionTools(ls=None)
    config = AgentConfig(model="m", system="Be brief.", tools=tools)
    descriptor = ToolDescriptor("ls", "ls", {"type": "object"})
    assert build_conversation([USER], config) == Conversation(
        (USER,), system="Be brief.", tools=(descriptor,)
    )


def test_there_is_one_projector_for_each_role() -> None:
    assert set(PROJECTORS) == {"user", "assistant", "tool"}
    assert [PROJECTORS[turn.role](turn) is turn for turn in (USER, SAID, CALL, RESULT)] == [True] * 4


def shown(history: Sequence[Turn]) -> list[Block]:
    """Return the words and images of *history*."""
    return [
        block
        for turn in history
        if not isinstance(turn, ToolTurn)
        for block in turn.blocks
        if isinstance(block, ImageBlock) or (isinstance(block, TextBlock) and block.text.strip())
    ]


@given(HISTORIES)
def test_any_history_is_sent_sound_and_whole(turns: list[Turn]) -> None:
    wire = sent(turns)
    assert shown(wire[1:] if wire[:1] == (OPENING,) else wire) == shown(turns)
    assert all(new is old for new, old in zip(sent(wire), wire, strict=True)), "sound turns stay as they are"
    assert not wire or isinstance(wire[0], UserTurn)
    assert not any(is_blank(turn) or not turn.blocks for turn in wire)
    for at, turn in enumerate(wire):
        ids = [block.id for block in turn.blocks if isinstance(block, ToolCallBlock)]
        assert not ids or isinstance(turn, AssistantTurn)
        assert len(set(ids)) == len(ids)
        assert sorted(_results_right_after(wire, at)) == sorted(ids)
    assert _n_results(wire) == sum(isinstance(b, ToolCallBlock) for turn in wire for b in turn.blocks)


def _results_right_after(wire: Sequence[Turn], at: int) -> list[str]:
    found: list[str] = []
    if isinstance(wire[at], AssistantTurn):
        for turn in wire[at + 1 :]:
            if not isinstance(turn, ToolTurn):
                break
            found += [block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)]
    return found


def _n_results(wire: Sequence[Turn]) -> int:
    return sum(isinstance(block, ToolResultBlock) for turn in wire for block in turn.blocks)


@given(HISTORIES, st.lists(st.integers(0, 10), max_size=4))
def test_extending_bit_by_bit_is_extending_at_once(turns: list[Turn], cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(turns)) for cut in cuts), len(turns)]
    outgoing = Outgoing()
    for start, stop in pairwise(bounds):
        outgoing = outgoing.extend(turns[start:stop])
    assert outgoing.turns() == sent(turns)


IMAGE = ImageBlock("image/png", "AAAA")


def missing(call_id: str) -> ToolResultBlock:
    return ToolResultBlock(call_id, NO_RESULT, is_error=True)


@pytest.mark.parametrize(
    ("turn", "blank"),
    [
        pytest.param(AssistantTurn(()), True, id="no blocks"),
        pytest.param(AssistantTurn((TextBlock(" \n"),)), True, id="white space only"),
        pytest.param(AssistantTurn((ThinkingBlock(""), TextBlock(""))), True, id="empty blocks only"),
        pytest.param(AssistantTurn((ThinkingBlock("", "sig"),)), False, id="a signature says something"),
        pytest.param(calls("c1"), False, id="a call says something"),
        pytest.param(AssistantTurn((IMAGE,)), False, id="an image says something"),
        pytest.param(UserTurn(()), False, id="a user turn is the user's affair"),
    ],
)
def test_is_blank(turn: Turn, blank: bool) -> None:
    assert is_blank(turn) is blank


@pytest.mark.parametrize(
    ("ids", "distinct"),
    [
        pytest.param(["a", "b"], ["a", "b"], id="distinct ids stay"),
        pytest.param(["a", "a", "a"], ["a", "a_2", "a_3"], id="later ones are numbered"),
        pytest.param(["a", "a", "a_2"], ["a", "a_3", "a_2"], id="a number that is taken is skipped"),
        pytest.param(["a_2", "a", "a"], ["a_2", "a", "a_3"], id="whoever came first keeps the name"),
        pytest.param(["", ""], ["call", "call_2"], id="an empty id gets a name"),
        pytest.param(["", "call"], ["call_2", "call"], id="but not one that is taken"),
    ],
)
def test_ids_are_made_distinct(ids: list[str], distinct: list[str]) -> None:
    renamed = with_distinct_ids(calls(*ids))
    assert renamed == calls(*distinct)
    assert with_distinct_ids(renamed) is renamed


HEALED = {
    "results without any call go": ([results("x"), USER], [USER]),
    "results after prose go": ([SAID, results("x"), USER], [SAID, USER]),
    "a tool turn without results goes": ([SAID, ToolTurn((IMAGE,))], [SAID]),
    "a call gets a result": ([calls("a")], [calls("a"), ToolTurn((missing("a"),))]),
    "each call gets a result": (
        [calls("a", "b"), results("b"), USER],
        [calls("a", "b"), ToolTurn((missing("a"), *results("b").blocks)), USER],
    ),
    "a late result moves to its call": ([calls("a"), USER, results("a")], [calls("a"), results("a"), USER]),
    "surplus results go": ([calls("a"), results("a", "a", "x")], [calls("a"), results("a")]),
    "twins get one result each": (
        [calls("a", "a"), results("a", "a")],
        [
            calls("a", "a_2"),
            ToolTurn((ToolResultBlock("a", "of a", False), ToolResultBlock("a_2", "of a", False))),
        ],
    ),
    "a result inside a user turn is a result": (
        [calls("a"), UserTurn((ToolResultBlock("a", "of a", False), TextBlock("hm")))],
        [calls("a"), results("a"), UserTurn((TextBlock("hm"),))],
    ),
    "what is shown beside results stays": (
        [calls("a", "b"), ToolTurn((IMAGE, *results("a").blocks))],
        [calls("a", "b"), ToolTurn((*results("a").blocks, missing("b"), IMAGE))],
    ),
}


@pytest.mark.parametrize(("segment", "healed"), HEALED.values(), ids=HEALED)
def test_an_unsound_segment_is_healed(segment: list[Turn], healed: list[Turn]) -> None:
    assert list(pair_results(segment)) == healed
    assert pair_results(pair_results(segment)) == tuple(healed)


@pytest.mark.parametrize(
    ("segment", "sound"),
    [
        pytest.param([], True, id="nothing"),
        pytest.param([USER], True, id="no calls"),
        pytest.param([calls("a", "b"), results("b"), results("a"), USER], True, id="in any order"),
        pytest.param([calls("a"), USER, results("a")], False, id="a turn before the result"),
        pytest.param([calls("a"), results("a"), results("a")], False, id="answered twice"),
        pytest.param([calls("a", "a"), results("a", "a")], False, id="one id twice"),
        pytest.param([calls("a")], False, id="no result"),
    ],
)
def test_a_segment_is_sound_when_its_results_follow_its_calls(segment: list[Turn], sound: bool) -> None:
    assert is_sound(segment) is sound
