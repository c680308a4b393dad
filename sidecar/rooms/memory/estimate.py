"""The token meter of the rooms: four characters to a token and one on top, a flat price for an image.

Pure arithmetic, and this engine's own: the other engines measure differently. A system prompt is not seen
here; the owner of ``max_context_tokens`` takes it off first.
"""

from __future__ import annotations

from typing import Final, assert_never, get_args

from sidecar.rooms.ai import (
    AIImagePart,
    AIMessage,
    AIPart,
    AITextPart,
    AIThinkingPart,
    AIToolCallPart,
    AIToolResultPart,
)
from sidecar.rooms.events import EventContent, RoomEvent, TextContent, to_json

CHARS_PER_TOKEN = 4
MESSAGE_OVERHEAD_TOKENS = 4
IMAGE_TOKENS = 1000

_FIELDS: Final = {kind.type: ("type", *kind.__struct_fields__) for kind in get_args(EventContent)}
"""The fields of each kind of content, in their order."""


def text_tokens(text: str) -> int:
    """Return the tokens of *text*, at least 1.

    >>> [text_tokens(text) for text in ("", "abcd", "x" * 400)]
    [1, 2, 101]
    """
    return len(text) // CHARS_PER_TOKEN + 1


def chars_within(tokens: int) -> int:
    """Return the length of the longest text that costs at most *tokens*; 0 when there is no room.

    >>> text_tokens("x" * chars_within(10)), chars_within(0)
    (10, 0)
    """
    return max(0, tokens * CHARS_PER_TOKEN - 1)


def message_tokens(message: AIMessage) -> int:
    """Return the tokens of one message, its overhead included.

    Thinking is charged like text, for it is sent like text.

    >>> message_tokens(AIMessage("user", "abcd"))
    6
    """
    if isinstance(message.content, str):
        return MESSAGE_OVERHEAD_TOKENS + text_tokens(message.content)
    return MESSAGE_OVERHEAD_TOKENS + sum(part_tokens(part) for part in message.content)


def part_tokens(part: AIPart) -> int:
    """Return the tokens of one part of a message; a call is charged for its name and its arguments as JSON.

    >>> part_tokens(AIImagePart("https://example.com/plan.png"))
    1000
    """
    match part:
        case AITextPart():
            return text_tokens(part.text)
        case AIThinkingPart():
            return text_tokens(part.thinking)
        case AIImagePart():
            return IMAGE_TOKENS
        case AIToolCallPart():
            return text_tokens(part.name) + text_tokens(to_json(dict(part.arguments), is_ascii=True))
        case AIToolResultPart():
            return text_tokens(part.as_text)
        case _:
            assert_never(part)


def event_tokens(event: RoomEvent) -> int:
    """Return the tokens of one event: of a text's body, of any other content written out field by field.

    The event itself has no overhead. A picture inside a ``data:`` URL is charged by its length.
    """
    content = event.content
    return text_tokens(content.body if isinstance(content, TextContent) else write_out(content))


def write_out(content: EventContent) -> str:
    """Return *content* as ``name=value`` pairs, its type first.

    >>> write_out(TextContent("hi"))
    "type='text' body='hi' language=None"
    """
    names = _FIELDS[content.type]
    try:
        return " ".join([f"{name}={getattr(content, name)!r}" for name in names])
    except RecursionError:
        return f"type={content.type!r} nested too deeply to print"
