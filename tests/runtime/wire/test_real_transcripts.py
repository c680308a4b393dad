"""Recorded conversations of another agent, dangling calls and all, are sent as a provider accepts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.cadence import RunMessages
from sidecar.runtime.contract import AgentConfig
from sidecar.runtime.wire import NO_RESULT, build_conversation, is_blank

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "dev" / "claude-code"
FILES: list[Path | None] = [*sorted(FOLDER.glob("*.jsonl"))] or [None]


def turns_of(path: Path) -> Iterator[Turn]:
    for line in path.read_text("utf-8").split("\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        message = record.get("message")
        if record.get("type") in ("user", "assistant") and isinstance(message, dict):
            yield from _turn(message)


def _turn(message: dict[str, Any]) -> Iterator[Turn]:
    content = message.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = tuple(block for part in parts if (block := _block(part)) is not None)
    if message.get("role") == "assistant":
        yield AssistantTurn(blocks)
    elif any(isinstance(block, ToolResultBlock) for block in blocks):
        yield ToolTurn(blocks)
    else:
        yield UserTurn(blocks)


def _block(part: dict[str, Any]) -> Block | None:
    match part.get("type"):
        case "text":
            return TextBlock(part["text"])
        case "thinking":
            return ThinkingBlock(part["thinking"], part.get("signature"))
        case "tool_use":
            return ToolCallBlock(part["id"], part["name"], part["input"])
        case "tool_result":
            return ToolResultBlock(part["tool_use_id"], part.get("content"), bool(part.get("is_error")))
        case "image":
            return ImageBlock("image/png", "AA")
    return None


def _n_made_up(sent: tuple[Turn, ...]) -> int:
    blocks = (block for turn in sent for block in turn.blocks)
    return sum(isinstance(block, ToolResultBlock) and block.output == NO_RESULT for block in blocks)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name if path else "none")
def test_a_recorded_conversation_is_sent_soundly(path: Path | None) -> None:
    if path is None:
        pytest.skip("the recorded transcripts are not beside this checkout")
    history = tuple(turns_of(path))
    sent = build_conversation(history, AgentConfig(model="m")).turns
    called = [block.id for turn in sent for block in turn.blocks if isinstance(block, ToolCallBlock)]
    answered = [block.call_id for turn in sent for block in turn.blocks if isinstance(block, ToolResultBlock)]
    assert sorted(answered) == sorted(called)
    assert len(called) == sum(isinstance(block, ToolCallBlock) for turn in history for block in turn.blocks)
    given = {b.call_id for turn in history for b in turn.blocks if isinstance(b, ToolResultBlock)}
    assert _n_made_up(sent) == sum(call_id not in given for call_id in called)
    assert isinstance(sent[0], UserTurn)
    assert not any(is_blank(turn) for turn in sent)
    assert RunMessages.of(history).outgoing.turns() == sent
