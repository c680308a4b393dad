"""The incremental meter: the same answers as the pure functions, at the cost of what is new."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget import (
    AssistantMessage,
    BudgetPolicy,
    Message,
    PrefixMeter,
    ToolResultMessage,
    UserMessage,
    last_user_turn_start,
    plan_slice,
    prefix_tokens,
)

sizes = st.integers(0, 60)
messages = st.lists(
    st.one_of(
        sizes.map(lambda size: UserMessage("u" * size)),
        sizes.map(lambda size: AssistantMessage((TextBlock("a" * size),))),
        st.sampled_from("123").map(lambda key: AssistantMessage((ToolCallBlock(key, "read", {}),))),
        st.tuples(st.sampled_from("1234"), sizes).map(
            lambda drawn: ToolResultMessage(drawn[0], "read", (TextBlock("r" * drawn[1]),))
        ),
    ),
    max_size=30,
)


def check(meter: PrefixMeter, transcript: list[Message], keep: int) -> None:
    before = prefix_tokens(transcript)
    assert [meter.before(index) for index in range(len(meter) + 1)] == list(before)
    assert meter.total == before[-1]
    start = meter.tail_start(keep)
    assert before[-1] - before[start] <= keep or start == len(meter)
    assert start == 0 or before[-1] - before[start - 1] > keep
    cut = next((at for at in range(start, len(meter)) if meter.may_start(at)), 0) if start else 0
    assert cut == plan_slice(transcript, BudgetPolicy(0.75, keep)).cut
    assert meter.last_prompt == last_user_turn_start(transcript)
    starts = [index for index in range(len(transcript)) if meter.may_start(index)]
    assert starts == [i for i, message in enumerate(transcript) if not isinstance(message, ToolResultMessage)]


@given(messages, st.integers(0, 30), st.integers(0, 400))
def test_agrees_with_the_pure_functions(transcript: list[Message], at: int, keep: int) -> None:
    """However the transcript is cut into pieces on the way in."""
    check(PrefixMeter().extend(transcript[:at]).extend(transcript[at:]), transcript, keep)


@given(messages, messages, messages, st.integers(0, 400))
def test_versions_do_not_disturb_each_other(
    start: list[Message], left: list[Message], right: list[Message], keep: int
) -> None:
    """An older version stays as it was, and may grow in another direction."""
    base = PrefixMeter().extend(start)
    one = base.extend(left)
    other = base.extend(right)
    check(base, start, keep)
    check(one, start + left, keep)
    check(other, start + right, keep)


def test_orphans_are_results_of_calls_never_made() -> None:
    """A result before its call is one of them, and so is it in a branch that never made the call."""
    result = ToolResultMessage("1", "read", ())
    call = AssistantMessage((ToolCallBlock("1", "read", {}),))
    base = PrefixMeter().extend([UserMessage("go"), result])
    assert base.extend([call, result]).orphans_from(0) == (1,)
    assert base.extend([result]).orphans_from(0) == (1, 2)
    assert base.extend([result]).orphans_from(2) == (2,)


def test_asking_outside_names_what_was_found() -> None:
    """An index beyond the transcript is refused with the range that is not."""
    with pytest.raises(IndexError, match="use 0 to 0"):
        PrefixMeter().before(1)
