"""Recorded sessions of other agents as rooms: every view fits, and nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorded_sessions import Record, read_records, recordings
from sidecar.rooms import EventSource, MockAIProvider, Room, RoomContext, RoomEvent, TextContent
from sidecar.rooms.events import EventContent, ToolCallContent
from sidecar.rooms.memory import MockMemoryProvider, SummarizingMemory
from sidecar.rooms.memory.estimate import event_tokens, message_tokens

AGENTS = ("claude-code", "codex", "opencode", "gemini-cli", "pi", "swe-agent", "cline")
MAX_EVENTS = 240
STEP = 12


def event(number: int, record: Record) -> RoomEvent:
    """A record as an event; calls and results are tool contents, all else is text."""
    kind = "ai" if record["role"] == "assistant" else "websocket"
    content: EventContent = TextContent(record["text"])
    if record["role"] == "tool":
        content = ToolCallContent(record["tool_name"] or "", "id", result=record["text"], status="completed")
    return RoomEvent(
        id=f"e{number}", room_id="r", source=EventSource(channel_id=kind, channel_type=kind), content=content
    )


def read_events(path: Path) -> list[RoomEvent]:
    return [event(number, record) for number, record in enumerate(read_records(path)[:MAX_EVENTS])]


def said(of: RoomEvent) -> str:
    content = of.content
    return content.body if isinstance(content, TextContent) else str(getattr(content, "result", ""))


@pytest.mark.parametrize("path", recordings(AGENTS, each=1))
@pytest.mark.parametrize("max_tokens", [8000, 60_000])
async def test_recorded_sessions_stay_within_their_budget(path: Path, max_tokens: int) -> None:
    """Followed a few events at a time, with everything before in the inner memory."""
    events = read_events(path)
    provider, inner = MockAIProvider(["what was done so far " * 40]), MockMemoryProvider()
    memory = SummarizingMemory(inner, provider, max_tokens, clock=lambda: 0.0)
    now = event(len(events), {"role": "user", "text": "go on"})
    for end in range(STEP, len(events) + STEP, STEP):
        inner.events = events[:end]
        result = await memory.retrieve("r", now, RoomContext(room=Room("r"), recent_events=events[:end]))
        cost = sum(map(message_tokens, result.messages)) + sum(map(event_tokens, result.events))
        assert cost + event_tokens(now) <= max_tokens
    kept = {each.id for each in result.events}
    shown = "".join("".join(str(call.messages[0].content) for call in provider.calls).split())
    dropped = [each for each in events if each.id not in kept]
    assert [each.id for each in dropped if "".join(said(each)[-60:].split()) not in shown] == []
