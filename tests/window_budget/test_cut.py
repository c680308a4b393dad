"""Where a transcript is cut: the documented rule, safe cuts, and the meter behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.llmgateway.contract import ToolResultBlock as Result
from sidecar.window_budget import (
    BRANCH_HEADER,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    BudgetPolicy,
    CompactionSummaryMessage,
    CondensePlan,
    Message,
    PrefixMeter,
    ToolResultMessage,
    UserMessage,
    last_user_turn_start,
    plan_slice,
    prefix_tokens,
    safe_cut,
)
from sidecar.window_budget.cut import has_open_calls
from sidecar.window_budget.message import branch_text

HUGE = "x" * 36_000


def small_transcript(kinds: str) -> list[Message]:
    """u user, U huge user, a assistant, c call, t result, T huge result."""
    made: dict[str, Message] = {
        "u": UserMessage("small", 1),
        "U": UserMessage(HUGE, 1),
        "a": AssistantMessage((TextBlock("ok"),)),
        "c": AssistantMessage((ToolCallBlock("1", "read", {"path": "a.py"}),)),
        "t": ToolResultMessage("1", "read", (TextBlock("body"),)),
        "T": ToolResultMessage("1", "read", (TextBlock(HUGE),)),
    }
    return [made[kind] for kind in kinds]


@pytest.mark.parametrize(
    ("kinds", "keep", "cut"),
    [
        pytest.param("", 6000, 0, id="nothing to cut"),
        pytest.param("ua", 6000, 0, id="everything fits the tail"),
        pytest.param("U", 6000, 0, id="one huge message"),
        pytest.param("Uu", 6000, 1, id="the huge one goes"),
        pytest.param("uU", 6000, 0, id="the documented rule declines a huge newest message"),
        pytest.param("uaua", 0, 0, id="no tail at all, no cut"),
        pytest.param("ucT", 6000, 0, id="a huge newest result stays with its call, so nothing goes"),
        pytest.param("ucTu", 6000, 3, id="the tail never begins with a tool result"),
        pytest.param("uctu", 24, 3, id="snaps forward past the result"),
    ],
)
def test_a_slice_keeps_the_recent_tail_and_snaps_past_results(kinds: str, keep: int, cut: int) -> None:
    """The lower bound of total - keep, then forward past results; nothing left means no cut."""
    messages = small_transcript(kinds)
    plan = plan_slice(messages, BudgetPolicy(0.75, keep))
    assert plan == CondensePlan(cut, kept=tuple(messages[cut:]), dropped=tuple(messages[:cut]))


def transcript(words: str) -> list[Message]:
    """u prompt, a reply, b command, cXY calls X and Y, rX the result of X, nX a user message nesting that."""
    return [message(word) for word in words.split()]


def message(word: str) -> Message:
    match word[0]:
        case "u":
            return UserMessage("go")
        case "a":
            return AssistantMessage((TextBlock("ok"),))
        case "b":
            return BashExecutionMessage("ls", "", 0)
        case "c":
            return AssistantMessage(tuple(ToolCallBlock(key, "read", {}) for key in word[1:]))
        case "n":
            return UserMessage((Result(word[1:], "out"),))
        case _:
            return ToolResultMessage(word[1:], "read", (TextBlock("out"),))


@pytest.mark.parametrize(
    ("words", "start", "cut"),
    [
        pytest.param("u a u a", 2, 2, id="a prompt may begin a tail"),
        pytest.param("u a u a", 4, 3, id="past the end: the newest message"),
        pytest.param("u c1 r1 a", 2, 3, id="forward past a result"),
        pytest.param("u c1 r1", 3, 1, id="back to the call when nothing follows"),
        pytest.param("u c12 r1 r2 a", 2, 4, id="a parallel batch is one piece"),
        pytest.param("u c12 r2 r1 a", 3, 4, id="whatever the order of its results"),
        pytest.param("u c12 r1 u r2 a", 3, 5, id="a steering prompt inside a batch begins no tail"),
        pytest.param("u c12 r1 u r2", 3, 1, id="nor when the batch is the newest"),
        pytest.param("u c1 r1 u c1 r1 a", 3, 3, id="an id used again belongs to the nearest call"),
        pytest.param("u a r9 a", 3, 3, id="an orphan result holds nothing together"),
        pytest.param("u a n9 a u", 2, 2, id="nor does a nested one"),
        pytest.param("u c1 n1 a", 2, 3, id="a nested result stays with its call"),
        pytest.param("u a c12 r1 b b", 5, 2, id="calls still open keep what follows"),
        pytest.param("u a c12 r1 u", 4, 4, id="a prompt ends the wait for them"),
        pytest.param("u a c1", 2, 2, id="an open call may begin the tail"),
        pytest.param("u", 0, 0, id="one message cannot be divided"),
        pytest.param("", 0, 0, id="nothing cannot be divided"),
        pytest.param("c1 r1", 1, 0, id="nor can one pair"),
    ],
)
def test_a_safe_cut_keeps_calls_and_results_together(words: str, start: int, cut: int) -> None:
    """The least safe index at or behind the start, else the greatest before it, else none."""
    messages = transcript(words)
    assert safe_cut(messages, PrefixMeter().extend(messages), start) == cut


@pytest.mark.parametrize(
    ("words", "is_open"),
    [
        ("u c1", True),
        ("u c12 r1", True),
        ("u c1 r1", False),
        ("u c1 u", False),
        ("u c1 a", False),
        ("", False),
    ],
)
def test_only_the_newest_reply_waits_for_results(words: str, is_open: bool) -> None:
    assert has_open_calls(transcript(words)) is is_open


sizes = st.integers(0, 60)
any_messages = st.lists(
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


def check_meter(meter: PrefixMeter, transcript: list[Message], keep: int) -> None:
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


@given(any_messages, st.integers(0, 30), st.integers(0, 400))
def test_agrees_with_the_pure_functions(transcript: list[Message], at: int, keep: int) -> None:
    check_meter(PrefixMeter().extend(transcript[:at]).extend(transcript[at:]), transcript, keep)


@cases(40)
@given(any_messages, any_messages, any_messages, st.integers(0, 400))
def test_versions_do_not_disturb_each_other(
    start: list[Message], left: list[Message], right: list[Message], keep: int
) -> None:
    """An older version stays as it was, and may grow in another direction."""
    base = PrefixMeter().extend(start)
    one = base.extend(left)
    other = base.extend(right)
    check_meter(base, start, keep)
    check_meter(one, start + left, keep)
    check_meter(other, start + right, keep)


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


def test_digests_are_known_by_their_places() -> None:
    branch, tried = UserMessage(f"{BRANCH_HEADER}\n\ntried a lock"), BranchSummaryMessage("tried b", "")
    messages: list[Message] = [CompactionSummaryMessage("# Plan", 0), UserMessage("go on"), branch, tried]
    base = PrefixMeter().extend(messages)
    assert (base.digests(0), base.digests(4)) == ((), (0,))
    base.extend([UserMessage("later")])
    again = base.extend([branch])
    assert again.digests(5) == (0,)
    assert [branch_text(message) for message in messages] == [None, None, "tried a lock", "tried b"]
