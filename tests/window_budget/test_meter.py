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
    assert meter.cut(keep) == plan_slice(transcript, BudgetPolicy(0.75, keep)).cut
    assert meter.last_prompt == last_user_turn_start(transcript)
    starts = [index for index in range(len(transcript)) if meter.may_start(index)]
    assert starts == [i for i, message in enumerate(transcript) if not isinstance(message, ToolResultMessage)]


@given(messages, st.integers(0, 30), st.integers(0, 400))
def test_agrees_with_the_pure_functions(transcript: list[Message], at: int, keep: int) -> None:
    """However the transcript is cut into pieces on the way in."""
    check(PrefixMeter().extended(transcript[:at]).extended(transcript[at:]), transcript, keep)


@given(messages, messages, messages, st.integers(0, 400))
def test_versions_do_not_disturb_each_other(
    start: list[Message], left: list[Message], right: list[Message], keep: int
) -> None:
    """An older version stays as it was, and may grow in another direction."""
    base = PrefixMeter().extended(start)
    one = base.extended(left)
    other = base.extended(right)
    check(base, start, keep)
    check(one, start + left, keep)
    check(other, start + right, keep)


def test_orphans_are_results_of_calls_never_made() -> None:
    """A result before its call is one of them, and so is it in a branch that never made the call."""
    result = ToolResultMessage("1", "read", ())
    call = AssistantMessage((ToolCallBlock("1", "read", {}),))
    base = PrefixMeter().extended([UserMessage("go"), result])
    assert base.extended([call, result]).orphans_from(0) == (1,)
    assert base.extended([result]).orphans_from(0) == (1, 2)
    assert base.extended([result]).orphans_from(2) == (2,)


def test_asking_outside_names_what_was_found() -> None:
    """An index beyond the transcript is refused with the range that is not."""
    with pytest.raises(IndexError, match="use 0 to 0"):
        PrefixMeter().before(1)
