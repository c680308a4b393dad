"""What the values of the rooms refuse, default to and read as."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.rooms import (
    AIContext,
    AIMessage,
    AIResponse,
    AITextPart,
    AIToolResultPart,
    AudioContent,
    CompositeContent,
    DeleteContent,
    EditContent,
    EventContent,
    EventSource,
    LocationContent,
    MediaContent,
    MockAIProvider,
    MockKnowledgeSource,
    RichContent,
    Room,
    RoomContext,
    RoomEvent,
    SystemContent,
    TemplateContent,
    TextContent,
    ToolCallContent,
    VideoContent,
)
from sidecar.rooms.events import plain_text, query_text
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource

SOURCE = EventSource(channel_id="ws1", channel_type="websocket")


def nested(depth: int) -> EventContent:
    content: EventContent = TextContent("core")
    for _ in range(depth):
        content = CompositeContent(parts=[content])
    return content


REFUSED = {
    "media from another scheme": (
        lambda: MediaContent(url="ftp://host/a.png", mime_type="image/png"),
        "url begins with 'ftp://host/a.png'; it must begin with http://, https:// or data:",
    ),
    "audio without a scheme": (
        lambda: AudioContent(url="a.mp3"),
        "url begins with 'a.mp3'; it must begin with http://, https:// or data:",
    ),
    "video from a script": (
        lambda: VideoContent(url="javascript:alert(1)"),
        "url begins with 'javascript:alert'; it must begin with http://, https:// or data:",
    ),
    "empty composite": (
        lambda: CompositeContent(parts=[]),
        "a composite has no parts; give at least one, or use TextContent",
    ),
    "composites six deep": (lambda: nested(6), "composites are nested 6 deep; flatten them to 5 or less"),
    "unknown tool status": (
        lambda: ToolCallContent(tool_name="ls", tool_id="1", status="running"),
        "tool status is 'running'; use one of pending, completed, failed",
    ),
    "time without a zone": (
        lambda: RoomEvent(
            room_id="r", source=SOURCE, content=TextContent("x"), created_at=datetime(2025, 1, 1)
        ),
        "created_at has no time zone; give an aware datetime, for example in UTC",
    ),
}


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses_what_cannot_be_meant(build: Callable[[], object], message: str) -> None:
    """The error belongs to the project's tree, is a ValueError too, and says what to do."""
    with pytest.raises(InvalidInput) as refused:
        build()
    assert isinstance(refused.value, ValueError)
    assert (refused.value.kind, str(refused.value)) == ("invalidParams", message)


def test_accepts_what_is_just_allowed() -> None:
    assert isinstance(nested(5), CompositeContent)
    for url in ("http://h/a", "https://h/a", "data:image/png;base64,AA"):
        assert MediaContent(url=url, mime_type="image/png").url == url


PLAIN_TEXTS = {
    "text": (TextContent("hello"), "hello"),
    "rich without fallback": (RichContent("*hi*"), "*hi*"),
    "rich with fallback": (RichContent("*hi*", plain_text="hi"), "hi"),
    "media by its address": (
        MediaContent("https://h/a.png", "image/png", filename="a.png", caption="the plan"),
        "[media image/png: the plan, a.png, https://h/a.png]",
    ),
    "an embedded picture without its bytes": (
        MediaContent("data:image/png;base64," + "A" * 40_000, "image/png"),
        "[media image/png: data:image/png;base64 (40022 characters)]",
    ),
    "location": (LocationContent(48.1, 11.5, label="office"), "[location: 48.1, 11.5, office]"),
    "audio with its words": (
        AudioContent("https://h/a.mp3", transcript="good morning"),
        "[audio: good morning, https://h/a.mp3]",
    ),
    "video": (VideoContent("https://h/v.mp4", caption="demo"), "[video: demo, https://h/v.mp4]"),
    "composite": (CompositeContent([TextContent("see"), LocationContent(1, 2)]), "see\n[location: 1, 2]"),
    "system": (SystemContent("alice joined", code="join"), "alice joined"),
    "rendered template": (TemplateContent("welcome", body="Hi Bob"), "Hi Bob"),
    "template": (
        TemplateContent("welcome", parameters={"name": "Bob"}),
        '[template welcome: {"name": "Bob"}]',
    ),
    "edit": (EditContent("e1", TextContent("better")), "[edit of e1] better"),
    "delete": (DeleteContent("e1"), "[deleted e1]"),
    "delete with a reason": (DeleteContent("e1", reason="typo"), "[deleted e1: typo]"),
    "call": (ToolCallContent("ls", "1", {"path": "."}), '[tool ls({"path": "."}) pending]'),
    "call with a result": (
        ToolCallContent("ls", "1", {}, result=["a", "é"], status="completed"),
        '[tool ls({}) completed] ["a", "é"]',
    ),
    "call that failed": (
        ToolCallContent("ls", "1", {}, result="half", status="failed", error="denied"),
        "[tool ls({}) failed] denied",
    ),
}


@pytest.mark.parametrize(("content", "text"), PLAIN_TEXTS.values(), ids=PLAIN_TEXTS)
def test_every_content_has_a_plain_text(content: EventContent, text: str) -> None:
    assert plain_text(content) == text


SEARCHED = {
    "a text's body": (TextContent("why"), "why"),
    "only texts directly in a composite": (
        CompositeContent([TextContent("a"), RichContent("b"), CompositeContent([TextContent("c")])]),
        "a",
    ),
    "nothing else": (RichContent("b"), ""),
}


@pytest.mark.parametrize(("content", "query"), SEARCHED.values(), ids=SEARCHED)
def test_only_texts_are_searched_for(content: EventContent, query: str) -> None:
    assert query_text(content) == query


def test_an_event_has_an_id_and_a_time_by_default() -> None:
    first, second = (RoomEvent(room_id="r", source=SOURCE, content=TextContent("x")) for _ in range(2))
    assert len(first.id) == 32
    assert int(first.id, 16) != int(second.id, 16)
    assert first.created_at.tzinfo is UTC
    assert (first.type, first.visibility, first.addressed_to, first.index) == ("message", "all", None, 0)


def test_sequences_become_tuples() -> None:
    event = RoomEvent(room_id="r", source=SOURCE, content=TextContent("x"))
    recent = [event]
    context = RoomContext(room=Room(id="r"), recent_events=recent)
    parts = [AITextPart("a")]
    message = AIMessage(role="user", content=parts)
    recent.clear()
    parts.clear()
    assert context.recent_events == (event,)
    assert message.content == (AITextPart("a"),)


def test_a_tool_result_is_read_as_text() -> None:
    assert AIToolResultPart("1", "ls", "plain").as_text == "plain"
    assert AIToolResultPart("1", "ls", {"ä": 1}).as_text == '{"ä": 1}'


async def test_mock_provider_answers_in_turn() -> None:
    """Strings, whole responses and exceptions, from the first again after the last."""
    failure = RuntimeError("down")
    provider = MockAIProvider(["one", AIResponse("two"), failure], context_window=10)
    context = AIContext(messages=[AIMessage("user", "hi")])
    assert [(await provider.generate(context)).content for _ in range(2)] == ["one", "two"]
    with pytest.raises(RuntimeError, match="down"):
        await provider.generate(context)
    assert (await provider.generate(context)).content == "one"
    await provider.close()
    assert (provider.calls, provider.closed) == ([context] * 4, True)
    assert (provider.model_name, provider.context_window) == ("mock", 10)


async def test_mock_source_writes_down_its_calls() -> None:
    source = MockKnowledgeSource([KnowledgeResult("a"), KnowledgeResult("b")])
    assert await source.search("q", room_id="r", limit=1) == [KnowledgeResult("a")]
    await source.index("text", {"event_id": "e"})
    await source.delete(["e"])
    await source.clear("r")
    await source.close()
    assert source.search_calls == [("q", "r", 1)]
    assert source.index_calls == [("text", {"event_id": "e"})]
    assert (source.delete_calls, source.clear_calls, source.closed) == ([("e",)], ["r"], True)
    assert source.name == "mock"


async def test_a_source_needs_only_search() -> None:
    class Searching(KnowledgeSource):
        async def search(
            self, query: str, *, room_id: str | None = None, limit: int = 5
        ) -> list[KnowledgeResult]:
            return []

    source = Searching()
    await source.index("text")
    await source.delete(["e"])
    await source.clear("r")
    await source.close()
    assert (await source.search("q"), source.name) == ([], "Searching")
