"""What holds for every transcript, clean or broken, after the runner has condensed it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from condensed import check_condensed, condense
from model_cards import card
from properties import cases
from sidecar.llmgateway.contract import Block, TextBlock, ToolCallBlock
from sidecar.window_budget import (
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    BashExecutionMessage,
    BudgetPolicy,
    BudgetRequest,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)

POLICY = BudgetPolicy(trigger_ratio=0.75, keep_recent=500, reserve_tokens=100)
WINDOWS = (900, 2500, 8000)

sizes = st.sampled_from([0, 12, 80, 80, 400, 2000, 20_000])
ids = st.sampled_from("abcdefgh")
tools = st.sampled_from(["read", "bash", "todo", "edit"])


def text(size: int, mark: str = "x") -> str:
    return (f"{mark} never stop 17. " * (size // 14 + 1))[:size]


users = sizes.map(lambda size: [UserMessage(text(size, "please"), 1)])
replies = sizes.map(lambda size: [AssistantMessage((TextBlock(text(size, "done")),))])
notes = st.one_of(
    sizes.map(lambda size: [BashExecutionMessage("ls", text(size), 0)]),
    sizes.map(lambda size: [CustomMessage("note", text(size))]),
    sizes.map(lambda size: [CompactionSummaryMessage("# Objective\n" + text(size), 9)]),
    sizes.map(lambda size: [UserMessage(f"{DIGEST_HEADER}\n\n{text(size)}")]),
    sizes.map(lambda size: [UserMessage(f"{RESTORED_FILE_PREFIX} a.py\n{text(size)}")]),
)
strays = st.tuples(ids, sizes).map(lambda drawn: [result(drawn[0], text(drawn[1]))])


def call(call_id: str, tool: str = "read") -> ToolCallBlock:
    return ToolCallBlock(call_id, tool, {"path": f"{call_id}.py", "command": f"run {call_id}"})


def result(call_id: str, body: str, tool: str = "read") -> ToolResultMessage:
    return ToolResultMessage(call_id, tool, (TextBlock(body),), is_error=len(body) == 80)


@st.composite
def groups(draw: st.DrawFn) -> list[Message]:
    """A reply with calls, and their results: in any order, some missing, a prompt perhaps between them."""
    ids_called = draw(st.permutations("abcdefgh"))[: draw(st.sampled_from([1, 2, 3, 8]))]
    called = [(call_id, draw(tools)) for call_id in ids_called]
    blocks: tuple[Block, ...] = tuple(call(call_id, tool) for call_id, tool in called)
    results: list[Message] = [result(call_id, text(draw(sizes)), tool) for call_id, tool in called]
    results = draw(st.permutations(results))
    results = results[: draw(st.integers(0, len(results)))] if draw(st.integers(0, 4)) == 0 else list(results)
    if draw(st.integers(0, 5)) == 0:
        results.insert(draw(st.integers(0, len(results))), UserMessage("wait, steer", 2))
    return [AssistantMessage(blocks), *results]


steps = st.one_of(users, replies, groups(), groups(), notes, strays)
transcripts = st.lists(steps, min_size=3, max_size=12).map(
    lambda drawn: [message for step in drawn for message in step]
)


def request_of(window: int | None, *, force: bool) -> BudgetRequest:
    return BudgetRequest(force=force, card=card(window, window // 4) if window else None, policy=POLICY)


@cases(120)
@given(transcripts, st.sampled_from((None, *WINDOWS)), st.booleans())
def test_any_transcript_is_condensed_whole(messages: list[Message], window: int | None, force: bool) -> None:
    check_condensed(messages, request_of(window, force=force))


@cases(60)
@given(transcripts)
def test_force_twice_loses_nothing(messages: list[Message]) -> None:
    """Forcing again right away leaves the digest as it is, or carries all of it on."""
    once = condense(messages, request_of(None, force=True))
    twice = condense(once.messages, request_of(None, force=True))
    assert twice.tokens_after <= once.tokens_after
    assert twice.noop or twice.cut == 0 or twice.dropped_count > 1
