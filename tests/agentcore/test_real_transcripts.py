"""Recorded sessions of other agents, at small and large windows: every view fits and is whole.

Their usage was reported by models with windows of 200k and more, and is taken only there.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chat_model import ScriptedChatModel
from recorded_sessions import WITH_CALLS, Record, read_records, recordings
from sidecar.agentcore.memory import (
    CompactionConfig,
    CompactionInfo,
    CompactionSummary,
    estimate_total,
    fit_budget,
    new_compaction,
)
from sidecar.agentcore.messages import (
    AgentMessage,
    Message,
    Usage,
    call_block,
    compaction_convert_to_llm,
    repair_message_sequence,
    text_block,
    text_message,
    tool_message,
)

pytestmark = pytest.mark.slow

STEP = 8


def message_of(record: Record, *, with_usage: bool) -> Message:
    text, usage = record["text"], record["usage"] if with_usage else None
    if record["role"] == "tool":
        name = record["tool_name"] or ""
        return tool_message(record["tool_call_id"] or "", text, is_error=record["is_error"], tool_name=name)
    if record["role"] != "assistant":
        return text_message("user", text)
    calls = [call_block(c["id"] or "", c["name"] or "", json.dumps(c["input"])) for c in record["tool_calls"]]
    reported = usage and Usage(usage["input"], usage["output"], usage["cache_read"], usage["cache_write"])
    return Message("assistant", (text_block(text), *calls), usage=reported or None)


def check(view: list[AgentMessage], history: list[AgentMessage], threshold: int) -> None:
    assert estimate_total(view) <= threshold + 100
    prompts = [m for m in history if isinstance(m, Message) and m.role == "user"]
    if prompts and estimate_total(prompts[-1:]) <= threshold // 2:
        assert prompts[-1] in view
    sent = repair_message_sequence(compaction_convert_to_llm(view))
    waiting: list[str] = []
    for message in sent:
        if message.role == "tool":
            waiting.remove(message.tool_call_id or "")
        else:
            assert waiting == []
            waiting = sorted({call.id for call in message.tool_calls()})
    assert waiting == []


@pytest.mark.parametrize("path", recordings(WITH_CALLS))
async def test_recorded_sessions_stay_within_their_budget(path: Path) -> None:
    records = read_records(path)
    for window in (8192, 32_000, 200_000):
        messages: list[AgentMessage] = [message_of(r, with_usage=window > 100_000) for r in records]
        infos: list[CompactionInfo] = []
        model = ScriptedChatModel(["what was done so far " * 40] * 10_000)
        config = CompactionConfig(model, window, on_compaction=infos.append)
        transform = new_compaction(config, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        budget = fit_budget(window)
        for end in range(STEP, len(messages) + STEP, STEP):
            view = list(await transform(messages[:end]))
            check(view, messages[:end], budget.threshold)
        assert all(info.tokens_after < info.tokens_before for info in infos)
        assert [info.is_incremental for info in infos[1:]] == [True] * len(infos[1:])
        assert sum(isinstance(m, CompactionSummary) for m in view) == min(len(infos), 1)
        for call in model.calls:
            assert len(call.prompt.encode()) // 4 + (call.max_tokens or 0) <= window
