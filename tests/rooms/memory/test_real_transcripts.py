"""Recorded sessions of other agents as rooms: every view fits, and nothing is lost on the way."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.rooms import EventSource, MockAIProvider, Room, RoomContext, RoomEvent, TextContent
from sidecar.rooms.content import EventContent, ToolCallContent
from sidecar.rooms.memory import MockMemoryProvider, SummarizingMemory
from sidecar.rooms.memory.estimate import event_tokens, message_tokens

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FORMATS = ["claude-code", "codex", "opencode", "gemini-cli", "pi", "swe-agent", "cline"]
FILES_PER_FORMAT = 2
MAX_EVENTS = 240
STEP = 12

Record = dict[str, Any]
Convert = Callable[[str, str], tuple[str, list[Record]]]


def transcripts() -> list[Any]:
    """The recordings beside this checkout."""
    found = [path for name in FORMATS for path in sorted((DATA / "dev" / name).glob("*"))[:FILES_PER_FORMAT]]
    absent = pytest.mark.skip(reason="the recorded transcripts are not beside this checkout")
    named = [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found]
    return named or [pytest.param(DATA, id="absent", marks=absent)]


@pytest.fixture(scope="module")
def convert() -> Convert:
    """The tool that reads them all."""
    spec = importlib.util.spec_from_file_location("rooms_transcript_convert", DATA / "tools" / "convert.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    converted: Convert = module.convert
    return converted


def event(number: int, record: Record) -> RoomEvent:
    """A record as an event; calls and results are tool contents, all else is text."""
    kind = "ai" if record["role"] == "assistant" else "websocket"
    content: EventContent = TextContent(record["text"])
    if record["role"] == "tool":
        content = ToolCallContent(record["tool_name"] or "", "id", result=record["text"], status="completed")
    return RoomEvent(
        id=f"e{number}", room_id="r", source=EventSource(channel_id=kind, channel_type=kind), content=content
    )


def read_events(path: Path, convert: Convert) -> list[RoomEvent]:
    """The beginning of a recording."""
    records = convert(path.read_text("utf-8", "surrogateescape"), str(path))[1][:MAX_EVENTS]
    return [event(number, record) for number, record in enumerate(records)]


def said(of: RoomEvent) -> str:
    """The words of an event."""
    content = of.content
    return content.body if isinstance(content, TextContent) else str(getattr(content, "result", ""))


@pytest.mark.parametrize("path", transcripts())
@pytest.mark.parametrize("max_tokens", [8000, 60_000])
async def test_a_recorded_session(path: Path, max_tokens: int, convert: Convert) -> None:
    """Followed a few events at a time, with everything before in the inner memory."""
    events = read_events(path, convert)
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
