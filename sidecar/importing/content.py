"""The parts of recorded messages that many agents share: times, texts, arguments, images, typed prompts.

Every function takes a JSON value of any shape and returns a value of ours; none of them raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from sidecar.importing.contract import NoteReason
from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

Json: TypeAlias = Any
"""A value of a foreign file: any JSON value."""

Note: TypeAlias = Callable[[NoteReason], object]
"""Counts one repair or omission."""

_UNPARSED: Final = "__unparsed"
_DATA_URL: Final = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)
_COMMAND: Final = re.compile(r"/([\w:.-]+)\s*\Z")
_MAX_SECONDS: Final = 100_000_000_000
"""Numbers below it are seconds, others milliseconds: it is the year 5138 or 1973."""

_HOSTED: Final = ("server_tool_use", "web_search_tool_result")

IMAGE_TEXT: Final = "[image]"


def as_mapping(value: Json) -> Mapping[str, Json]:
    """Return *value* if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Json) -> Sequence[Json]:
    """Return *value* if it is an array, else an empty one."""
    return value if isinstance(value, list) else ()


def as_parts(content: Json) -> Sequence[Json]:
    """Return the parts of a message's content; bare text is one part."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)


def as_text(value: Json) -> str:
    """Return *value* if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def parse_time(value: Json) -> int | None:
    """Return a time in epoch milliseconds, None where *value* is no time.

    >>> parse_time("1970-01-01T00:00:01.500Z"), parse_time(1_700_000_000), parse_time("soon")
    (1500, 1700000000000, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
        return int(value * 1000 if value < _MAX_SECONDS else value)
    try:
        found = datetime.fromisoformat(as_text(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return max(0, int(found.timestamp() * 1000))


def parse_arguments(value: Json) -> Json:
    """Return the arguments of a call: an object, from JSON text where they are text.

    >>> parse_arguments('{"a": 1}'), parse_arguments("ls"), parse_arguments(None)
    ({'a': 1}, {'__unparsed': 'ls'}, {})
    """
    if isinstance(value, str):
        parsed = parse_json_text(value) if value.strip() else {}
        return parsed if isinstance(parsed, dict) else {_UNPARSED: value}
    if value is None:
        return {}
    return value if isinstance(value, dict) else {_UNPARSED: value}


def parse_json_text(text: str) -> Json:
    """Return the JSON value in *text*, None where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def flatten(value: Json) -> str:
    """Return the text of a message's content of any shape; an image becomes ``[image]``.

    >>> flatten([{"type": "text", "text": "a"}, "b", {"type": "image"}, {"rows": 3}])
    'a\\nb\\n[image]\\n{"rows": 3}'
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(flatten, value)))
    if isinstance(value, Mapping):
        if is_image(value):
            return IMAGE_TEXT
        inner = (value.get(name) for name in ("text", "content", "output"))
        found = next((each for each in inner if isinstance(each, str | list)), None)
        if found is not None:
            return flatten(found)
    return json.dumps(value, ensure_ascii=False)


def is_image(part: Json) -> bool:
    """Whether a part of a message's content is an image."""
    part = as_mapping(part)
    kind = as_text(part.get("type"))
    return kind in ("image", "input_image", "image_url") or "inlineData" in part


def image_block(part: Json) -> ImageBlock | None:
    """Return the image in a part of a message's content, None where the part holds no image data."""
    part = as_mapping(part)
    source = as_mapping(part.get("source")) or as_mapping(part.get("inlineData")) or part
    data = source.get("data")
    media = source.get("media_type") or source.get("mimeType") or source.get("mediaType")
    if isinstance(data, str) and isinstance(media, str) and media.startswith("image/"):
        return ImageBlock(media, data)
    url = part.get("image_url") or part.get("url")
    found = _DATA_URL.match(as_text(as_mapping(url).get("url") if isinstance(url, Mapping) else url))
    if found and found[1].startswith("image/"):
        return ImageBlock(found[1], found[2])
    return None


def typed_block(text: str) -> Block:
    """Return a typed text as a block: a host command without words of its own is not for a model.

    >>> typed_block("/clear"), typed_block("/review the parser")
    (CommandBlock(command='clear', args=None), TextBlock(text='/review the parser'))
    """
    found = _COMMAND.match(text)
    return CommandBlock(found[1]) if found else TextBlock(text)


def prompt_blocks(content: Json) -> list[Block]:
    """Return the texts and images of a prompt."""
    if isinstance(content, str):
        return [typed_block(content)] if content else []
    blocks: list[Block] = []
    for part in as_list(content):
        image = image_block(part) if is_image(part) else None
        if image is not None:
            blocks.append(image)
        elif text := flatten(part):
            blocks.append(typed_block(text))
    return blocks


def answer_blocks(content: Json, note: Note) -> Iterator[Block]:
    """Yield the blocks of an answer; its parts have the types of Anthropic's messages, or of pi's.

    Args:
        content: text, or a list of parts.
        note: called for each part that is left out.
    """
    for part in map(as_mapping, as_parts(content)):
        kind, thinking = part.get("type", "text"), as_text(part.get("thinking")) or as_text(part.get("text"))
        if kind in ("text", "output_text"):
            yield TextBlock(as_text(part.get("text")))
        elif kind in ("thinking", "reasoning") and thinking.strip():
            yield ThinkingBlock(thinking)
        elif kind in ("thinking", "reasoning", "redacted_thinking"):
            note("hiddenThinking")
        elif kind in ("tool_use", "toolCall"):
            arguments = parse_arguments(part.get("input", part.get("arguments")))
            yield ToolCallBlock(as_text(part.get("id")), as_text(part.get("name")) or "tool", arguments)
        else:
            note("hostedCall" if kind in _HOSTED else "unknownItem")
