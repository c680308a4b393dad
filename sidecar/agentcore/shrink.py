"""Cutting a message that does not fit, with a visible marker; the original is left as it is.

Pure. A shrunk message keeps its role, its calls and its ids, so that pairs stay pairs.
"""

from __future__ import annotations

import json
from dataclasses import replace

from sidecar.agentcore.estimate import BYTES_PER_TOKEN, block_bytes
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, ContentBlock, Message, text_block
from sidecar.agentcore.text import byte_length, clip_middle, fair_cap

__all__ = ["LEFT_OUT_IMAGE", "shrink_message"]

LEFT_OUT_IMAGE = "[image left out]"


def shrink_message(message: AgentMessage, limit_tokens: int) -> AgentMessage:
    """Return *message* cut to about *limit_tokens*; its largest blocks pay first.

    Text and thinking lose their middle, an image becomes a note, and of a call's arguments the long strings
    are cut, so that they stay JSON. What cannot be cut further stays.

    >>> shrink_message(Message("user", (text_block("x" * 400),)), 15).text_content()
    'xxxxxxxxxxxxxxxxxxx\\n[... 375 characters left out ...]\\nxxxxxx'
    """
    limit = limit_tokens * BYTES_PER_TOKEN
    if isinstance(message, CompactionSummary):
        return replace(message, summary=clip_middle(message.summary, limit))
    if not isinstance(message, Message):
        return message
    sizes = [block_bytes(block) for block in message.content]
    cap = fair_cap(sizes, limit)
    content = [b if size <= cap else _cut(b, cap) for b, size in zip(message.content, sizes, strict=True)]
    return replace(message, content=tuple(content))


def _cut(block: ContentBlock, cap: int) -> ContentBlock:
    if block.type == "image":
        return text_block(LEFT_OUT_IMAGE)
    if block.tool_call is not None:
        room = cap - byte_length(block.tool_call.name)
        return replace(block, tool_call=replace(block.tool_call, args=_cut_args(block.tool_call.args, room)))
    return replace(block, text=clip_middle(block.text, cap), thinking=clip_middle(block.thinking, cap))


def _cut_args(args: str, limit: int) -> str:
    """Return *args* as a JSON object of about *limit* bytes, its longest strings cut."""
    try:
        value = json.loads(args)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return _left_out(args, limit)
    strings = {key: text for key, text in value.items() if isinstance(text, str)}
    rest = byte_length(_dump(value)) - sum(map(_json_bytes, strings.values()))
    cap = fair_cap(list(map(_json_bytes, strings.values())), limit - rest)
    cut = _dump({**value, **{key: _clip_json(text, cap) for key, text in strings.items()}})
    return cut if byte_length(cut) <= limit else _left_out(args, limit)


def _left_out(args: str, limit: int) -> str:
    return _dump({"left_out": _clip_json(args, max(limit - 20, 0))})


def _clip_json(text: str, cap: int) -> str:
    """Return *text* so that its JSON form takes about *cap* bytes: its escapes, and the marker's, count."""
    size = _json_bytes(text)
    return text if size <= cap else clip_middle(text, max(byte_length(text) * cap // size - 4, 0))


def _json_bytes(text: str) -> int:
    return byte_length(_dump(text))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
