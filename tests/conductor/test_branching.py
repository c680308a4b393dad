"""Where a rewind ends, what a drop takes with it, and what each node is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.errors import InvalidInput
from sidecar.boot import recognise_kind
from sidecar.conductor.record.branching import before_prompts, with_partners
from sidecar.conversation import Entry, EntryKind, History
from sidecar.llmgateway.contract import ToolResultBlock, ToolTurn, Turn
from sidecar.window_budget import DIGEST_HEADER, RESTORED_FILE_PREFIX
from turns import assistant, calls, user


def results(*ids: str) -> ToolTurn:
    return ToolTurn(tuple(ToolResultBlock(call_id, "") for call_id in ids))


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        pytest.param(user("hi"), "user", id="a prompt"),
        pytest.param(assistant("hi"), "assistant", id="an answer"),
        pytest.param(results("1"), "tool", id="tool results"),
        pytest.param(user(f"{DIGEST_HEADER}\n\n# Objective"), "summary", id="windowBudget's digest"),
        pytest.param(user("[condensed earlier context]\nx"), "summary", id="the runtime's digest"),
        pytest.param(user("<context-summary>\nx\n</context-summary>"), "summary", id="agentcore's digest"),
        pytest.param(user(f"{RESTORED_FILE_PREFIX} a.py\nx = 1"), "file", id="a restored file"),
    ],
)
def test_a_turn_stored_without_a_kind_is_recognised_by_its_words(turn: Turn, kind: EntryKind) -> None:
    assert recognise_kind(turn) == kind


def history(turns: Sequence[Turn]) -> History:
    return History(Entry(turn, recognise_kind(turn), node_id=f"n{index}") for index, turn in enumerate(turns))


TALK = (
    user(f"{DIGEST_HEADER}\n\n# Objective"),
    user("one"),
    calls("1"),
    results("1"),
    assistant("done"),
    user("two"),
)


@pytest.mark.parametrize(
    ("turns", "n_prompts", "node"),
    [
        pytest.param(TALK, 1, "n4", id="the last prompt is taken back"),
        pytest.param(TALK, 2, "n0", id="a digest is no prompt"),
        pytest.param([user("one")], 1, None, id="before the first prompt is before everything"),
    ],
)
def test_before_prompts(turns: Sequence[Turn], n_prompts: int, node: str | None) -> None:
    assert before_prompts(history(turns), n_prompts) == node


@pytest.mark.parametrize("n_prompts", [0, 3])
def test_one_cannot_go_back_further_than_the_conversation(n_prompts: int) -> None:
    with pytest.raises(InvalidInput, match="there are 2 prompts"):
        before_prompts(history(TALK), n_prompts)


@pytest.mark.parametrize(
    ("turns", "chosen", "expected"),
    [
        pytest.param(TALK, [1], [1], id="prose goes alone"),
        pytest.param(TALK, [2], [2, 3], id="a call takes its result"),
        pytest.param(TALK, [3], [2, 3], id="a result takes its call"),
        pytest.param([calls("1", "2"), results("1"), results("2")], [1], [0, 1, 2], id="a batch goes whole"),
        pytest.param(
            [calls("1"), results("1"), calls("1"), results("1")],
            [1],
            [0, 1],
            id="an id used twice means the newest call",
        ),
        pytest.param([results("1")], [0], [0], id="a result without a call goes alone"),
    ],
)
def test_with_partners(turns: Sequence[Turn], chosen: list[int], expected: list[int]) -> None:
    assert sorted(with_partners(turns, chosen)) == expected


@given(st.lists(st.sampled_from("abc"), max_size=8), st.data())
def test_what_is_left_is_never_torn(ids: list[str], data: st.DataObject) -> None:
    """Whatever is dropped, every call that stays has its result and the other way round."""
    turns = [turn for call_id in ids for turn in (calls(call_id), results(call_id))]
    chosen = data.draw(st.sets(st.integers(0, max(0, len(turns) - 1)), max_size=3)) if turns else set()
    gone = with_partners(turns, chosen)
    kept = [turn for index, turn in enumerate(turns) if index not in gone]
    assert set(chosen) <= set(gone)
    assert [turn.role for turn in kept] == ["assistant", "tool"] * (len(kept) // 2)
