"""Pairing: blank turns, distinct ids, every call answered once."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.wire import NO_RESULT, is_blank, is_sound, pair_results, with_distinct_ids
from turns import calls, results

IMAGE = ImageBlock("image/png", "AAAA")


def missing(call_id: str) -> ToolResultBlock:
    return ToolResultBlock(call_id, NO_RESULT, is_error=True)


USER = UserTurn((TextBlock("and now?"),))
SAID = AssistantTurn((TextBlock("done"),))


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


@pytest.mark.parametrize(
    ("segment", "healed"),
    [
        pytest.param([results("x"), USER], [USER], id="results without any call go"),
        pytest.param([SAID, results("x"), USER], [SAID, USER], id="results after prose go"),
        pytest.param([SAID, ToolTurn((IMAGE,))], [SAID], id="a tool turn without results goes"),
        pytest.param([calls("a")], [calls("a"), ToolTurn((missing("a"),))], id="a call gets a result"),
        pytest.param(
            [calls("a", "b"), results("b"), USER],
            [calls("a", "b"), ToolTurn((missing("a"), *results("b").blocks)), USER],
            id="each call gets a result",
        ),
        pytest.param(
            [calls("a"), USER, results("a")],
            [calls("a"), results("a"), USER],
            id="a late result moves to its call",
        ),
        pytest.param(
            [calls("a"), results("a", "a", "x")],
            [calls("a"), results("a")],
            id="surplus results go",
        ),
        pytest.param(
            [calls("a", "a"), results("a", "a")],
            [
                calls("a", "a_2"),
                ToolTurn((ToolResultBlock("a", "of a", False), ToolResultBlock("a_2", "of a", False))),
            ],
            id="twins get one result each",
        ),
        pytest.param(
            [calls("a"), UserTurn((ToolResultBlock("a", "of a", False), TextBlock("hm")))],
            [calls("a"), results("a"), UserTurn((TextBlock("hm"),))],
            id="a result inside a user turn is a result",
        ),
        pytest.param(
            [calls("a", "b"), ToolTurn((IMAGE, *results("a").blocks))],
            [calls("a", "b"), ToolTurn((*results("a").blocks, missing("b"), IMAGE))],
            id="what is shown beside results stays",
        ),
    ],
)
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
