"""What holds for every transcript, clean or broken, after the runner has condensed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from model_cards import card
from sidecar.conductor.session_ops import compact_messages
from sidecar.llmgateway.contract import Block, TextBlock, ToolCallBlock
from sidecar.window_budget import (
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    BashExecutionMessage,
    BudgetPolicy,
    BudgetRequest,
    BudgetResult,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    estimate_tokens,
    last_user_turn_start,
    read_meter,
)
from sidecar.window_budget.cut import has_open_calls
from sidecar.window_budget.message import calls_of, text_of

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


def run(messages: Sequence[Message], window: int | None, *, force: bool) -> BudgetResult:
    request = BudgetRequest(force=force, card=card(window, window // 4) if window else None, policy=POLICY)
    return asyncio.run(compact_messages(messages, request))


def paired(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Return (call, result) positions: each result belongs to the nearest call of its id before it."""
    last: dict[str, int] = {}
    found = []
    for index, message in enumerate(messages):
        last.update((block.id, index) for block in calls_of(message))
        if isinstance(message, ToolResultMessage) and message.tool_call_id in last:
            found.append((last[message.tool_call_id], index))
    return found


def check(messages: list[Message], window: int | None, *, force: bool) -> None:
    record = run(messages, window, force=force)
    if record.noop:
        assert record.messages is messages
        return
    after = list(record.messages)
    assert record.tokens_before == estimate_tokens(messages)
    assert record.tokens_after == estimate_tokens(after) < record.tokens_before
    assert_pairs_are_whole(messages, after)
    assert_newest_prompt_is_kept(messages, after)
    if record.summary is not None:
        assert isinstance(after[0], UserMessage)
        assert text_of(after[0].content).startswith(DIGEST_HEADER)
        assert record.dropped_count == len(messages) - record.kept_count
        assert len(after) == 1 + len(record.restored) + record.kept_count
    if window is not None:
        assert_it_fits(messages, record, window)


def assert_pairs_are_whole(before: Sequence[Message], after: Sequence[Message]) -> None:
    results = [index for index, message in enumerate(after) if isinstance(message, ToolResultMessage)]
    assert [index for _, index in paired(after)] == results, "a result without its call"
    answered = {id(before[call_index]) for call_index, _ in paired(before)}
    kept = {id(after[call_index]) for call_index, _ in paired(after)}
    for message in after:
        if id(message) in answered:
            assert id(message) in kept, "a call that lost its result"


def assert_newest_prompt_is_kept(before: Sequence[Message], after: Sequence[Message]) -> None:
    index = last_user_turn_start(before)
    if index is None:
        return
    prompt = before[index]
    if prompt in after:
        return
    asked = [
        text_of(m.content)
        for m in after
        if isinstance(m, UserMessage) and "whole prompt is kept" in m.content
    ]
    assert isinstance(prompt, UserMessage)
    assert len(asked) == 1
    assert text_of(prompt.content).startswith(asked[0].split("\n[... ")[0])


def assert_it_fits(messages: Sequence[Message], record: BudgetResult, window: int) -> None:
    gate = read_meter(messages, BudgetRequest(policy=POLICY, card=card(window, window // 4)))
    assert gate.room is not None
    if not has_open_calls(messages):
        assert record.tokens_after <= gate.room
        again = run(record.messages, window, force=False)
        assert again.messages is record.messages


@given(transcripts, st.sampled_from(WINDOWS))
def test_auto(messages: list[Message], window: int) -> None:
    """Smaller, inside the limit, pairs whole, prompt kept; a second pass finds nothing to do."""
    check(messages, window, force=False)


@given(transcripts, st.sampled_from((None, *WINDOWS)))
def test_force(messages: list[Message], window: int | None) -> None:
    """The same when forced, with and without a known window."""
    check(messages, window, force=True)


@given(transcripts)
def test_force_twice_loses_nothing(messages: list[Message]) -> None:
    """Forcing again right away leaves the digest as it is, or carries all of it on."""
    once = run(messages, None, force=True)
    twice = run(once.messages, None, force=True)
    assert twice.tokens_after <= once.tokens_after
    assert twice.noop or twice.cut == 0 or twice.dropped_count > 1
