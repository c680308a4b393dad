"""Cutting down what is too large to keep: giant results in the tail, and a prompt larger than the window.

What is cut leaves a marker that says how much went and how to read the rest. Only bodies that a tool or a
command produced are cut, and, when nothing else helps, the end of the newest prompt; calls and replies never
are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sidecar.llmgateway.contract import TextBlock
from sidecar.window_budget.budget.estimate import chars_in, estimate_message_tokens, estimate_tokens
from sidecar.window_budget.message import (
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    calls_of,
    text_of,
)
from sidecar.window_budget.paths import path_argument
from sidecar.window_budget.rehydrate import cut_marker
from sidecar.window_budget.text import cut_end, cut_middle

__all__ = ["MIN_BODY_CHARS", "clip_bodies", "clip_prompt"]

MIN_BODY_CHARS = 400
"""A body is never cut shorter than this."""

MARKER_CHARS = 200
"""A body that would lose no more than its marker takes stays whole."""

PROMPT_MARKER = "[... {} characters cut; the whole prompt is kept in the session's history ...]"


def clip_bodies(messages: Sequence[Message], max_tokens: int) -> tuple[Message, ...]:
    """Return *messages* with their largest bodies cut until all together cost at most *max_tokens*.

    One limit holds for all bodies, the largest that fits, so small ones stay whole. When even the shortest
    bodies do not fit, they are returned at their shortest.

    >>> big = BashExecutionMessage("cat log", "x" * 9000, 0)
    >>> estimate_tokens(clip_bodies([big], 500)) <= 500
    True
    """
    if estimate_tokens(messages) <= max_tokens:
        return tuple(messages)
    paths = _paths(messages)
    low, high = MIN_BODY_CHARS, max(map(_body_length, messages), default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(_clipped(messages, middle, paths)) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return _clipped(messages, low, paths)


def clip_prompt(prompt: Message, max_tokens: int) -> Message:
    """Return the beginning of *prompt* and a marker, at most *max_tokens* together where that can be.

    >>> clip_prompt(UserMessage("short"), 100)
    UserMessage(content='short', timestamp=0)
    """
    if not isinstance(prompt, UserMessage) or estimate_message_tokens(prompt) <= max_tokens:
        return prompt
    frame = estimate_message_tokens(UserMessage(PROMPT_MARKER)) + 4
    text = cut_end(text_of(prompt.content), max(MIN_BODY_CHARS, chars_in(max_tokens - frame)), PROMPT_MARKER)
    return replace(prompt, content=text)


def _clipped(messages: Sequence[Message], keep: int, paths: Mapping[str, str | None]) -> tuple[Message, ...]:
    return tuple(_clip(message, keep, paths) for message in messages)


def _clip(message: Message, keep: int, paths: Mapping[str, str | None]) -> Message:
    if _body_length(message) <= keep + MARKER_CHARS:
        return message
    match message:
        case ToolResultMessage(tool_call_id=call_id, tool_name=name, content=content):
            marker = cut_marker(paths.get(call_id), name)
            return replace(message, content=(TextBlock(cut_middle(text_of(content), keep, marker)),))
        case BashExecutionMessage(output=output):
            return replace(message, output=cut_middle(output, keep, cut_marker(None, "the command")))
        case CustomMessage(content=content):
            return replace(message, content=cut_middle(text_of(content), keep, "[... {} characters cut ...]"))
        case _:
            return message


def _body_length(message: Message) -> int:
    match message:
        case ToolResultMessage(content=content) | CustomMessage(content=content):
            return len(text_of(content))
        case BashExecutionMessage(output=output):
            return len(output)
        case _:
            return 0


def _paths(messages: Sequence[Message]) -> dict[str, str | None]:
    """Return, by call id, the path that a reading call named; None for any other call."""
    calls = (call for message in messages for call in calls_of(message))
    return {call.id: path_argument(call.input) if call.name.casefold() == "read" else None for call in calls}
