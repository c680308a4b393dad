"""Facts A4 and A5 with their vectors; failures B-A2 and B-A9 where they change them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.cut import cut_index, find_turn_start, newest_prompt_index, tail_starts
from sidecar.agentcore.estimate import estimate_tokens
from sidecar.agentcore.messages import AgentMessage, Message, call_block, text_message, tool_message

NO_LIMIT = 10**9
Draw = Callable[..., list[AgentMessage]]


def cut(messages: list[AgentMessage], keep: int) -> tuple[int, int]:
    """Return (cut, start of the split turn or -1)."""
    before = list(accumulate(map(estimate_tokens, messages), initial=0))
    index = cut_index(before, tail_starts(messages), keep, NO_LIMIT)
    return index, find_turn_start(messages, index) if index else -1


@pytest.mark.parametrize(
    ("letters", "keep", "expected"),
    [
        pytest.param("uaua", 1, (3, 2), id="A5 vector: split, the turn starts at 2"),
        pytest.param("ucta", 1, (3, 0), id="a plain assistant may begin the tail"),
        pytest.param("uctu", 2, (1, 0), id="B-A9: the tail has at least keep tokens, so the pair stays"),
        pytest.param("uau", 1, (2, -1), id="a user's message splits nothing"),
        pytest.param("aaaa", 2, (2, -1), id="A5: no user in front, not split"),
        pytest.param("ua", 3, (0, -1), id="A4: never reached, no cut"),
        pytest.param("ua", 2, (0, -1), id="A4: index 0 is no cut"),
        pytest.param("sua", 2, (1, -1), id="a system message may be dropped"),
    ],
)
def test_a4_a5_where_the_tail_begins(draw: Draw, letters: str, keep: int, expected: tuple[int, int]) -> None:
    assert cut(draw(letters, 10), keep * 10) == expected


def loop(n: int) -> list[AgentMessage]:
    """A user's message and n calls of 400 bytes with results of 4000."""
    messages: list[AgentMessage] = [text_message("user", "go")]
    for i in range(n):
        messages.append(Message("assistant", (call_block(str(i), "tool", "x" * 396),)))
        messages.append(tool_message(str(i), "y" * 4000))
    return messages


def test_b_a2_a_tail_of_calls_and_results_is_cut() -> None:
    """The documented rule finds no cut here; ours keeps the last 19 pairs of 1100 tokens."""
    assert cut(loop(200), 20_000) == (401 - 2 * 19, 0)


def test_b_a9_a_final_answer_does_not_shrink_the_tail_to_itself() -> None:
    """The documented rule keeps the answer alone (401, 0); keep is a minimum."""
    messages = [*loop(200), text_message("assistant", "done")]
    assert cut(messages, 20_000) == (401 - 2 * 19, 0)


def test_a5_a_huge_last_prompt_is_the_tail() -> None:
    messages: list[AgentMessage] = [
        text_message("user", "a"),
        text_message("assistant", "b"),
        text_message("user", "c" * 400_000),
    ]
    assert cut(messages, 20_000) == (2, -1)


def calls(*ids: str) -> Message:
    return Message("assistant", tuple(call_block(call_id, "ls") for call_id in ids))


USER = text_message("user", "u")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [calls("1", "2"), tool_message("2", ""), tool_message("1", ""), USER], "T..T", id="a batch"
        ),
        pytest.param([calls("1"), USER, tool_message("1", ""), USER], "T..T", id="a result that came late"),
        pytest.param([calls("1"), USER, USER], "TTT", id="a call without result holds nothing"),
        pytest.param([tool_message("9", ""), USER], ".T", id="no tail begins with a stray result"),
        pytest.param(
            [calls("1"), calls("1"), tool_message("1", "")], "TT.", id="an id again: the newest call"
        ),
        pytest.param(
            [calls("1"), tool_message("1", ""), tool_message("1", ""), USER], "T..T", id="answered twice"
        ),
    ],
)
def test_pairs_stay_whole(messages: list[AgentMessage], expected: str) -> None:
    assert "".join("T" if start else "." for start in tail_starts(messages)) == expected


@pytest.mark.parametrize(
    ("costs", "room", "pinned", "expected"),
    [
        pytest.param([10, 10, 90, 10, 10], 100, -1, 3, id="what does not fit the room is skipped"),
        pytest.param([10, 10, 90, 10, 10], 110, -1, 2, id="what fits is kept"),
        pytest.param([10, 10, 10, 10, 10], 5, -1, 4, id="nothing fits: the last place"),
        pytest.param([50, 10, 10, 10, 10], 80, 0, 2, id="a pinned prompt takes its part of the room"),
        pytest.param([50, 10, 10, 10, 10], 200, 0, 2, id="and costs nothing where there is room"),
    ],
)
def test_the_tail_fits_its_room(costs: list[int], room: int, pinned: int, expected: int) -> None:
    before = list(accumulate(costs, initial=0))
    assert cut_index(before, [True] * len(costs), 25, room, pinned) == expected


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=30), st.integers(1, 100))
def test_the_cut_is_the_latest_that_keeps_enough(items: list[tuple[int, bool]], keep: int) -> None:
    before = list(accumulate((cost for cost, _ in items), initial=0))
    may_start = [start for _, start in items]
    index = cut_index(before, may_start, keep, NO_LIMIT)
    allowed = [i for i in range(len(items)) if may_start[i] and before[-1] - before[i] >= keep]
    assert index == max(allowed, default=0)


def test_the_newest_prompt(draw: Draw) -> None:
    assert [newest_prompt_index(draw(letters)) for letters in ("uauct", "Sact", "")] == [2, -1, -1]
