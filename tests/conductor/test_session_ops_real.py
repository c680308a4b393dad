"""Recorded conversations of many agents, condensed at small, middling and large windows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from model_cards import card
from recorded_sessions import Record, read_records, recordings
from sidecar.conductor.session_ops import compact_messages
from sidecar.llmgateway.contract import Block, TextBlock, ToolCallBlock
from sidecar.window_budget import (
    AssistantMessage,
    BashExecutionMessage,
    BudgetRequest,
    CompactionSummaryMessage,
    Message,
    RehydrateOpts,
    ToolResultMessage,
    Transcript,
    UserMessage,
    estimate_tokens,
    last_user_turn_start,
    local_fallback_digest,
    read_meter,
)
from sidecar.window_budget.cut import has_open_calls
from sidecar.window_budget.message import calls_of, text_of

pytestmark = pytest.mark.slow

LARGEST_BYTES = 2_000_000
"""The largest recordings are left out: they are more of the same, and these tests are to be quick."""

WINDOWS = (8000, 32_000, 200_000)


def message(record: Record) -> Message:
    match record["role"]:
        case "user" if (record.get("meta") or {}).get("kind") == "compaction_summary":
            return CompactionSummaryMessage(record["text"], 0)
        case "user":
            return UserMessage(record["text"])
        case "assistant":
            blocks: list[Block] = [TextBlock(record["text"])] if record["text"] else []
            calls = record["tool_calls"]
            blocks += [ToolCallBlock(call["id"] or "", call["name"] or "", call["input"]) for call in calls]
            return AssistantMessage(tuple(blocks))
        case "bash":
            command, _, output = record["text"].partition("\n")
            return BashExecutionMessage(command, output)
        case _:
            body = (TextBlock(record["text"]),)
            return ToolResultMessage(
                record["tool_call_id"] or "", record["tool_name"] or "", body, record["is_error"]
            )


def load(file: Path) -> list[Message]:
    return [message(record) for record in read_records(file)]


def paired(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Return (call, result) positions: each result belongs to the nearest call of its id before it."""
    last: dict[str, int] = {}
    found = []
    for index, item in enumerate(messages):
        last.update((block.id, index) for block in calls_of(item))
        if isinstance(item, ToolResultMessage) and item.tool_call_id in last:
            found.append((last[item.tool_call_id], index))
    return found


def check(messages: Sequence[Message], window: int, *, force: bool) -> None:
    request = BudgetRequest(force=force, card=card(window), rehydrate=RehydrateOpts(read_tool_name="Read"))
    record = asyncio.run(compact_messages(messages, request))
    if record.noop:
        assert record.messages is messages
        return
    after = record.messages
    assert record.tokens_after == estimate_tokens(after) < record.tokens_before
    pairs = paired(after)
    assert len(pairs) == sum(isinstance(item, ToolResultMessage) for item in after)
    answered = {id(messages[call]) for call, _ in paired(messages)}
    assert {id(item) for item in after} & answered <= {id(after[call]) for call, _ in pairs}
    prompt = last_user_turn_start(messages)
    if prompt is not None:
        asked = messages[prompt]
        assert isinstance(asked, UserMessage)
        opening = text_of(asked.content)[:300]
        assert any(isinstance(item, UserMessage) and text_of(item.content)[:300] == opening for item in after)
    gate = read_meter(messages, BudgetRequest(card=card(window)))
    if gate.room is not None and not has_open_calls(messages):
        assert record.tokens_after <= gate.room
        again = asyncio.run(compact_messages(after, BudgetRequest(card=card(window))))
        assert again.messages is after


@pytest.mark.parametrize("file", recordings(max_bytes=LARGEST_BYTES))
def test_recorded_conversation(file: Path) -> None:
    """Smaller, inside the limit, pairs whole, newest prompt kept, nothing left to do; whole and cut short."""
    messages = load(file)
    for end in (len(messages), len(messages) * 2 // 3):
        transcript = Transcript.of(messages[:end])
        for window in WINDOWS:
            check(transcript, window, force=False)
            check(transcript, window, force=True)
    digest = local_fallback_digest(messages, max_tokens=1500)
    assert estimate_tokens([UserMessage(digest)]) <= 1500
