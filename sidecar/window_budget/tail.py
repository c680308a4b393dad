"""The tail that a compaction keeps, made to fit: stale results blanked, giants cut, the prompt cut last.

Nothing is dropped here, and nothing is summarised: the caller decides where the tail begins. A cut leaves a
marker that states how much went and how to read the rest. Only bodies that a tool or a command produced are
cut, and, when nothing else helps, the end of the newest prompt; calls and replies never are.

One limit holds for all bodies: the largest for which the tail fits, found by binary search, so that small
bodies stay whole. Two results of 90,000 and 300 characters in a room of 1500 tokens become about 4,900 and
300.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ImageBlock, TextBlock
from sidecar.text.calls import ToolEffects, effects_of_call, path_of_call
from sidecar.text.clip import cut_end, cut_middle
from sidecar.window_budget.contract import NO_TOOLS
from sidecar.window_budget.estimate import chars_in, estimate_message_tokens, estimate_tokens
from sidecar.window_budget.message import (
    CLEARED_TOOL_RESULT,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    calls_of,
    text_of,
)
from sidecar.window_budget.microcompact import DEFAULT_KEEP_RECENT, blank_results

TAIL_SHARE = 0.45
"""How much of the room the tail takes at most, the newest prompt not counted."""

MIN_BODY_CHARS = 400
"""A body is never cut shorter than this."""

MARKER_CHARS = 200
"""A body that would lose no more than its marker takes stays whole."""

PROMPT_MARKER = "[... {} characters cut; the whole prompt is kept in the session's history ...]"


class Tail(Value, kw_only=True):
    """The kept messages as they will be sent, with the number of bodies blanked and cut.

    *blanked_tokens* are the tokens that blanking saved.
    """

    messages: tuple[Message, ...] = ()
    tokens: int = 0
    blanked_count: int = 0
    blanked_tokens: int = 0
    clipped_count: int = 0


def fit_tail(
    messages: Sequence[Message],
    prompt: int | None,
    *,
    room: int | None,
    reserve: int,
    tools: Mapping[str, ToolEffects] = NO_TOOLS,
) -> Tail:
    """Return *messages* made to fit *room*, in the same order and number.

    Args:
        messages: the tail.
        prompt: the position of its newest prompt, None when there is none.
        room: the tokens that messages may take; None for any, then nothing is cut.
        reserve: the tokens of the room that are wanted for the digest.
        tools: the effects of the tools.

    Returns:
        The tail. Its ``tokens`` exceed ``room - reserve`` where replies and calls alone do.
    """

    def may_blank(result: ToolResultMessage) -> bool:
        # An error is kept, it is short and it is evidence; a body shorter than the placeholder frees nothing.
        is_large = len(text_of(result.content)) > len(CLEARED_TOOL_RESULT)
        return not result.is_error and (
            is_large or any(isinstance(each, ImageBlock) for each in result.content)
        )

    lighter = blank_results(messages, DEFAULT_KEEP_RECENT, may_blank=may_blank, tools=tools)
    lighter = lighter or tuple(messages)
    tokens = estimate_tokens(lighter)
    blanked = _count_changes(messages, lighter)
    saved = estimate_tokens(messages) - tokens if blanked else 0
    if room is None or tokens <= min(int(room * TAIL_SHARE), room - reserve):
        return Tail(messages=lighter, tokens=tokens, blanked_count=blanked, blanked_tokens=saved)
    fitted = _cut_bodies_and_prompt(lighter, prompt, room, reserve, tools)
    return Tail(
        messages=fitted,
        tokens=estimate_tokens(fitted),
        blanked_count=blanked,
        blanked_tokens=saved,
        clipped_count=_count_changes(lighter, fitted),
    )


def clip_bodies(
    messages: Sequence[Message], max_tokens: int, tools: Mapping[str, ToolEffects] = NO_TOOLS
) -> tuple[Message, ...]:
    """Return *messages* with their largest bodies cut until all together cost at most *max_tokens*.

    Args:
        messages: any messages.
        max_tokens: the tokens wanted; when even the shortest bodies do not fit, they are at their shortest.
        tools: the effects of the tools; a body that shows a file says how to read on.

    >>> big = BashExecutionMessage("cat log", "x" * 9000, 0)
    >>> estimate_tokens(clip_bodies([big], 500)) <= 500
    True
    """
    if estimate_tokens(messages) <= max_tokens:
        return tuple(messages)
    paths = {
        call.id: path_of_call(effects, call.input)
        for message in messages
        for call in calls_of(message)
        if (effects := effects_of_call(call.name, call.input, tools.get(call.name))).kind == "reads"
    }
    low, high = MIN_BODY_CHARS, max(map(_body_length, messages), default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens([_clip(message, middle, paths) for message in messages]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return tuple(_clip(message, low, paths) for message in messages)


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


def file_cut_marker(path: str) -> str:
    """Return the marker that stands where the text of a file was cut; ``{}`` is the number of characters.

    >>> file_cut_marker("a.py")
    '[... {} characters cut; read a.py with offset/limit for the rest ...]'
    """
    return f"[... {{}} characters cut; read {path} with offset/limit for the rest ...]"


def _cut_bodies_and_prompt(
    messages: tuple[Message, ...],
    prompt: int | None,
    room: int,
    reserve: int,
    tools: Mapping[str, ToolEffects],
) -> tuple[Message, ...]:
    """Return *messages* with giant bodies cut, and the prompt only if that is not enough."""
    limit = room - reserve
    prompt_tokens = 0 if prompt is None else estimate_message_tokens(messages[prompt])
    others = messages if prompt is None else (*messages[:prompt], *messages[prompt + 1 :])
    bodies = clip_bodies(others, min(int(room * TAIL_SHARE), limit - prompt_tokens), tools)
    if prompt is None:
        return bodies
    question = clip_prompt(messages[prompt], limit - estimate_tokens(bodies))
    return (*bodies[:prompt], question, *bodies[prompt:])


def _clip(message: Message, keep: int, paths: Mapping[str, str | None]) -> Message:
    """Return *message* with a body of about *keep* characters; *paths* are the files read, by call id."""
    if _body_length(message) <= keep + MARKER_CHARS:
        return message
    retry = "[... {{}} characters cut; call {} again with a narrower request for the rest ...]"
    match message:
        case ToolResultMessage(tool_call_id=call_id, tool_name=name, content=content):
            path = paths.get(call_id)
            marker = file_cut_marker(path) if path is not None else retry.format(name or "the tool")
            return replace(message, content=(TextBlock(cut_middle(text_of(content), keep, marker)),))
        case BashExecutionMessage(output=output):
            return replace(message, output=cut_middle(output, keep, retry.format("the command")))
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


def _count_changes(before: Sequence[Message], after: Sequence[Message]) -> int:
    return sum(old is not new for old, new in zip(before, after, strict=True))
