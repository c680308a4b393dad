"""The bridge between the gateway's turns and this engine's messages, and the gateway as a chat model.

Conversion goes both ways without loss: a message remembers the turn it came from and goes back to it as long
as its content is untouched; one that was shrunk, or made by this engine, is converted by its blocks. Nothing
here keeps state; the model is the caller's channel, which is only awaited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.agentcore.files import split_sections
from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Image,
    Message,
    StopReason,
    ThinkingLevel,
    ToolCall,
    Usage,
    text_block,
    unwrap_summary,
    wrap_summary,
)
from sidecar.llmgateway import contract as gateway
from sidecar.text.replies import ReplyReader

_SOURCE = "gateway_source"

ModelInvoker: TypeAlias = Callable[[gateway.Conversation, gateway.StreamOptions], gateway.Channel]
"""The one seam to a model.

Contract: returns at once; the channel ends with a done or an error emission and honours ``options.cancel``
within one emission. An exception of the channel counts as an error emission.
"""

_THINKING: dict[ThinkingLevel, gateway.ThinkingLevel] = {
    "off": "off",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
}
_STOPS: dict[gateway.StopReason, StopReason] = {
    "complete": "stop",
    "tool_calls": "toolUse",
    "max_output": "length",
    "refusal": "error",
    "aborted": "aborted",
    "error": "error",
}


class _Source(Value):
    """The origin of a message: block *part* of *turn*, or all of it; *content* tells that it is untouched."""

    turn: gateway.Turn
    part: int
    content: tuple[ContentBlock, ...]


def turns_to_messages(
    turns: Sequence[gateway.Turn], names: dict[str, str] | None = None, *, parses_summaries: bool = True
) -> list[AgentMessage]:
    """Return *turns* as messages: one for each tool result, a CompactionSummary for a summary turn.

    Tool results carry the metadata ``tool_call_id``, ``is_error`` (unless it is unknown) and ``tool_name``.
    *names* holds the tools of calls made before, by call id; the calls of *turns* are added to it. Without
    *parses_summaries* a user turn stays one, even when its text begins like a summary.

    >>> turns_to_messages([gateway.UserTurn((gateway.TextBlock(wrap_summary("so far")),))])
    [CompactionSummary(summary='so far', tokens_before=0, read_files=(), modified_files=(), timestamp=None)]
    """
    names = {} if names is None else names
    messages: list[AgentMessage] = []
    for turn in turns:
        if isinstance(turn, gateway.ToolTurn):
            messages.extend(_tool_message(turn, part, names) for part in range(len(turn.blocks)))
            if not turn.blocks:
                messages.append(Message("tool", (), metadata={_SOURCE: _Source(turn, 0, ())}))
            continue
        names.update((b.id, b.name) for b in turn.blocks if isinstance(b, gateway.ToolCallBlock))
        match turn:
            case gateway.UserTurn((gateway.TextBlock(text),)) if (
                summary := unwrap_summary(text)
            ) is not None and parses_summaries:
                files = split_sections(summary)[1]
                messages.append(
                    CompactionSummary(summary, read_files=files.read, modified_files=files.modified)
                )
            case _:
                content = tuple(block for b in turn.blocks for block in content_of(b))
                source = _Source(turn, 0, content)
                messages.append(Message(turn.role, content, metadata={_SOURCE: source}))
    return messages


def _tool_message(turn: gateway.ToolTurn, part: int, names: dict[str, str]) -> Message:
    block = turn.blocks[part]
    content = content_of(block)
    metadata: dict[str, Any] = {_SOURCE: _Source(turn, part, content)}
    if isinstance(block, gateway.ToolResultBlock):
        metadata["tool_call_id"] = block.call_id
        if block.is_error is not None:
            metadata["is_error"] = block.is_error
        if block.call_id in names:
            metadata["tool_name"] = names[block.call_id]
    return Message("tool", content, metadata=metadata)


def messages_to_turns(messages: Sequence[AgentMessage]) -> list[gateway.Turn]:
    """Return *messages* as turns: the results of one tool turn together, a summary as its user turn.

    There is no system turn: a system message becomes a user's. A message of a foreign type has no turn.

    >>> messages_to_turns([CompactionSummary("so far")])
    [UserTurn(blocks=(TextBlock(text='<context-summary>\\nso far\\n</context-summary>'),))]
    """
    turns: list[gateway.Turn] = []
    results: list[Message] = []
    for message in messages:
        if isinstance(message, Message) and message.role == "tool":
            source = message.metadata.get(_SOURCE)
            if results and isinstance(source, _Source) and source.part == 0:
                turns.append(_tool_turn(results))
                results = []
            results.append(message)
            continue
        if results:
            turns.append(_tool_turn(results))
            results = []
        if isinstance(message, Message):
            origin = _source_of(message)
            blocks = tuple(block for b in message.content for block in block_of(b))
            made = gateway.AssistantTurn(blocks) if message.role == "assistant" else gateway.UserTurn(blocks)
            turns.append(made if origin is None else origin.turn)
        elif isinstance(message, CompactionSummary):
            turns.append(gateway.UserTurn((gateway.TextBlock(wrap_summary(message.summary)),)))
    return [*turns, _tool_turn(results)] if results else turns


def _tool_turn(results: Sequence[Message]) -> gateway.ToolTurn:
    blocks: list[gateway.Block] = []
    for message in results:
        source, call_id = _source_of(message), message.tool_call_id
        if source is not None:
            blocks.extend(source.turn.blocks[source.part : source.part + 1])
        elif call_id is not None:
            is_error = message.metadata.get("is_error")
            blocks.append(gateway.ToolResultBlock(call_id, message.text_content(), is_error))
        else:
            blocks.extend(block for b in message.content for block in block_of(b))
    return gateway.ToolTurn(tuple(blocks))


def _source_of(message: Message) -> _Source | None:
    """Return the origin of *message*, if its content is still the same."""
    source = message.metadata.get(_SOURCE)
    return source if isinstance(source, _Source) and source.content is message.content else None


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


def _to_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        # No JSON at all; the turn it came from still holds it.
        return f"<{type(value).__name__}>"


def block_of(block: ContentBlock) -> tuple[gateway.Block, ...]:
    """Return message content as gateway blocks: one, or none for a block that names nothing.

    >>> block_of(text_block("hi"))
    (TextBlock(text='hi'),)
    """
    if block.tool_call is not None:
        call = block.tool_call
        try:
            arguments = json.loads(call.args)
        except (ValueError, RecursionError):
            arguments = call.args
        return (gateway.ToolCallBlock(call.id, call.name, arguments),)
    if block.type == "thinking":
        return (gateway.ThinkingBlock(block.thinking),)
    if block.image is not None:
        image = block.image
        named = gateway.TextBlock(f"[image: {image.url}]")
        return (gateway.ImageBlock(image.mime_type, image.data) if image.data else named,)
    return (gateway.TextBlock(block.text),) if block.type == "text" else ()


class InvokerModel:
    """A :class:`~sidecar.agentcore.messages.ChatModel` over a :data:`ModelInvoker`.

    *cancel* returns the token for each call; without one a call cannot be cancelled by token.
    """

    def __init__(
        self, invoke: ModelInvoker, *, cancel: Callable[[], CancelToken | None] = lambda: None
    ) -> None:
        self._invoke = invoke
        self._cancel = cancel

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        thinking: ThinkingLevel | None = None,
    ) -> Message:
        """Return the model's answer to *messages*.

        Args:
            messages: the request; system messages become the system prompt.
            max_tokens: the longest answer; None leaves it to the model.
            thinking: the level of reasoning; None leaves it to the model.

        Raises:
            CancelledByToken: the token was cancelled.
            GatewayError: the channel ended with an error emission.
        """
        token = self._cancel()
        system = "\n\n".join(m.text_content() for m in messages if m.role == "system")
        turns = messages_to_turns([m for m in messages if m.role != "system"])
        conversation = gateway.Conversation(tuple(turns), system=system or None)
        options = gateway.StreamOptions(
            cancel=token, thinking=_THINKING[thinking] if thinking else None, max_output_tokens=max_tokens
        )
        reply = ReplyReader()
        try:
            async for emission in self._invoke(conversation, options):
                reply.add(emission)
        except gateway.GatewayError as error:
            reply.error = error
        if token is not None:
            token.raise_if_cancelled()
        if reply.error is not None:
            raise reply.error
        return as_message(reply)


def as_message(reply: ReplyReader) -> Message:
    """Return *reply* as a message of this engine."""
    blocks: tuple[gateway.Block, ...] = (gateway.TextBlock(reply.text),)
    if reply.done is not None:
        blocks = reply.done.blocks
    usage = None
    if (reported := reply.usage) is not None:
        cached = (reported.cache_read_tokens or 0, reported.cache_write_tokens or 0)
        total = reported.input_tokens + reported.output_tokens + sum(cached)
        usage = Usage(reported.input_tokens, reported.output_tokens, *cached, total)
    content = tuple(block for b in blocks for block in content_of(b))
    return Message("assistant", content, stop_reason=_STOPS[reply.stop], usage=usage)
