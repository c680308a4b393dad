"""The rooms' token meter."""

from __future__ import annotations

import pytest

from room_events import make_event
from sidecar.rooms import (
    AIImagePart,
    AIMessage,
    AITextPart,
    AIThinkingPart,
    AIToolCallPart,
    AIToolResultPart,
    EventContent,
    MediaContent,
    RichContent,
    TextContent,
    ToolCallContent,
)
from sidecar.rooms.memory.estimate import chars_within, event_tokens, message_tokens, text_tokens
from turns import nest_lists


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 1), ("abc", 1), ("abcd", 2), ("x" * 400, 101), ("é" * 4, 2)]
)
def test_a_text_costs_a_token_for_four_characters(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


MESSAGES = {
    "text": (AIMessage("user", "abcd"), 6),
    "empty text": (AIMessage("user", ""), 5),
    "no parts": (AIMessage("user", []), 4),
    "image": (AIMessage("user", [AITextPart("abcd"), AIImagePart("https://h/a")]), 1006),
    "tool call": (AIMessage("assistant", [AIToolCallPart("1", "read", {"a": 1})]), 9),
    "tool result": (AIMessage("tool", [AIToolResultPart("1", "read", "x" * 40)]), 15),
    "tool result as JSON": (AIMessage("tool", [AIToolResultPart("1", "read", [1, 2])]), 6),
    "thinking costs what it says": (AIMessage("assistant", [AIThinkingPart("x" * 400)]), 105),
}


@pytest.mark.parametrize(("message", "tokens"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_costs_its_parts(message: AIMessage, tokens: int) -> None:
    assert message_tokens(message) == tokens


CONTENTS = {
    "a text by its body": (TextContent("x" * 400), 101),
    "an embedded picture by its length": (
        MediaContent("data:image/png;base64," + "A" * 40_000, "image/png"),
        10_027,
    ),
    "anything else by all its fields": (RichContent("hi"), 24),
}


@pytest.mark.parametrize(("content", "tokens"), CONTENTS.values(), ids=CONTENTS)
def test_an_event_costs_its_content(content: EventContent, tokens: int) -> None:
    assert event_tokens(make_event("e", content)) == tokens


def test_a_value_that_is_too_deep_to_be_printed_has_a_cost() -> None:
    deep = nest_lists()
    parts = (AIToolCallPart("1", "f", {"a": deep}), AIToolResultPart("1", "f", deep))
    assert message_tokens(AIMessage("user", parts)) > 0
    assert event_tokens(make_event("e", ToolCallContent("f", "1", {"a": deep}, deep))) > 0


@pytest.mark.parametrize("tokens", [1, 2, 10, 1000])
def test_chars_within_is_the_longest_that_fits(tokens: int) -> None:
    longest = chars_within(tokens)
    assert (text_tokens("x" * longest), text_tokens("x" * (longest + 1))) == (tokens, tokens + 1)
