"""Between the gateway's content blocks and agentcore's, block by block. Pure values; no turns, no state."""

from __future__ import annotations

import json

from sidecar.agentcore.messages import ContentBlock, Image, ToolCall, text_block
from sidecar.llmgateway import contract as gateway

__all__ = ["block_of", "content_of"]


def content_of(block: gateway.Block) -> tuple[ContentBlock, ...]:
    """Return a gateway block as message content; outputs and arguments that are no text become JSON.

    >>> content_of(gateway.ToolResultBlock("1", {"ok": True}))[0].text
    '{"ok":true}'
    """
    match block:
        case gateway.TextBlock(text):
            return (text_block(text),)
        case gateway.ThinkingBlock(text):
            return (ContentBlock("thinking", thinking=text),)
        case gateway.ToolCallBlock(call_id, name, value):
            return (ContentBlock("toolCall", tool_call=ToolCall(call_id, name, _to_json(value))),)
        case gateway.ToolResultBlock(_, output):
            return (text_block(output if isinstance(output, str) else _to_json(output)),)
        case gateway.ImageBlock(media_type, data):
            return (ContentBlock("image", image=Image(data=data, mime_type=media_type)),)
        case gateway.CommandBlock():
            return ()  # Models never see a command; the turn it came from still holds it.


def block_of(block: ContentBlock) -> tuple[gateway.Block, ...]:
    """Return message content as gateway blocks: one, or none for a block that names nothing.

    >>> block_of(text_block("hi"))
    (TextBlock(text='hi'),)
    """
    if block.tool_call is not None:
        call = block.tool_call
        return (gateway.ToolCallBlock(call.id, call.name, _from_json(call.args)),)
    if block.type == "thinking":
        return (gateway.ThinkingBlock(block.thinking),)
    if block.image is not None:
        image = block.image
        named = gateway.TextBlock(f"[image: {image.url}]")
        return (gateway.ImageBlock(image.mime_type, image.data) if image.data else named,)
    return (gateway.TextBlock(block.text),) if block.type == "text" else ()


def _to_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        # No JSON at all; the turn it came from still holds it.
        return f"<{type(value).__name__}>"


def _from_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
