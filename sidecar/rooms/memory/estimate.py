"""The rooms' token meter (fact K1): four characters a token, a flat price for an image.

Pure arithmetic, and this engine's own: the other engines measure differently. A system prompt is not seen
here; whoever sets ``max_context_tokens`` takes it off first.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import assert_never

from sidecar.rooms.ai import (
    AIImagePart,
    AIMessage,
    AIPart,
    AITextPart,
    AIThinkingPart,
    AIToolCallPart,
    AIToolResultPart,
)
from sidecar.rooms.content import EventContent, TextContent
from sidecar.rooms.events import RoomEvent

__all__ = [
    "CHARS_PER_TOKEN",
    "IMAGE_TOKENS",
    "MESSAGE_OVERHEAD_TOKENS",
    "chars_within",
    "event_tokens",
    "message_tokens",
    "text_tokens",
]

CHARS_PER_TOKEN = 4
MESSAGE_OVERHEAD_TOKENS = 4
IMAGE_TOKENS = 1000


def text_tokens(text: str) -> int:
    """Return the tokens of *text*, at least 1.

    >>> [text_tokens(text) for text in ("", "abcd", "x" * 400)]
    [1, 2, 101]
    """
    return len(text) // CHARS_PER_TOKEN + 1


def chars_within(tokens: int) -> int:
    """Return how long a text may be to cost at most *tokens*; 0 when nothing may.

    >>> text_tokens("x" * chars_within(10)), chars_within(0)
    (10, 0)
    """
    return max(0, tokens * CHARS_PER_TOKEN - 1)


def message_tokens(message: AIMessage) -> int:
    """Return the tokens of one message, its overhead included.

    Thinking is charged like text, for it is sent like text (failure B-K11).

    >>> message_tokens(AIMessage("user", "abcd"))
    6
    """
    if isinstance(message.content, str):
        return MESSAGE_OVERHEAD_TOKENS + text_tokens(message.content)
    return MESSAGE_OVERHEAD_TOKENS + sum(_part_tokens(part) for part in message.content)


def event_tokens(event: RoomEvent) -> int:
    """Return the tokens of one event: of a text's body, of anything else written out field by field.

    No overhead for the event itself. A picture inside a ``data:`` URL is charged by its length.
    """
    content = event.content
    return text_tokens(content.body if isinstance(content, TextContent) else written_out(content))


def written_out(content: EventContent) -> str:
    """Return *content* as ``name=value`` pairs, its type first.

    >>> written_out(TextContent("hi"))
    "type='text' body='hi' language=None"
    """
    pairs = [("type", content.type), *((each.name, getattr(content, each.name)) for each in fields(content))]
    return " ".join(f"{name}={value!r}" for name, value in pairs)


def _part_tokens(part: AIPart) -> int:
    match part:
        case AITextPart():
            return text_tokens(part.text)
        case AIThinkingPart():
            return text_tokens(part.thinking)
        case AIImagePart():
            return IMAGE_TOKENS
        case AIToolCallPart():
            arguments = json.dumps(dict(part.arguments), default=str)
            return text_tokens(part.name) + text_tokens(arguments)
        case AIToolResultPart():
            return text_tokens(part.as_text)
        case _:
            assert_never(part)
