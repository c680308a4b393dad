"""Recorded conversations of many agents, condensed at small, middling and large windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from condensed import check_condensed
from model_cards import card
from recorded_sessions import Record, read_records, recordings
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
    local_fallback_digest,
)

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


@pytest.mark.parametrize("file", recordings(max_bytes=LARGEST_BYTES))
def test_recorded_conversation(file: Path) -> None:
    """Whole and cut short."""
    messages = load(file)
    for end in (len(messages), len(messages) * 2 // 3):
        transcript = Transcript.of(messages[:end])
        for window in WINDOWS:
            for force in (False, True):
                options = RehydrateOpts(read_tool_name="Read")
                check_condensed(transcript, BudgetRequest(force=force, card=card(window), rehydrate=options))
    digest = local_fallback_digest(messages, max_tokens=1500)
    assert estimate_tokens([UserMessage(digest)]) <= 1500
