"""Between the gateway's turns and agentcore's messages, both ways and without loss.

A message remembers the turn it came from and goes back to it as long as its content is untouched; one that
was shrunk, or made by this engine, is converted by its blocks. Nothing here keeps state or calls a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sidecar.agentcore.convert import CONTEXT_SUMMARY_CLOSE, CONTEXT_SUMMARY_OPEN
from sidecar.agentcore.files import split_sections
from sidecar.agentcore.gateway_blocks import block_of, content_of
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, ContentBlock, Message
from sidecar.llmgateway import contract as gateway

__all__ = ["messages_to_turns", "turns_to_messages"]

_SOURCE = "gateway_source"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a message came from: block *part* of *turn*, or all of it; *content* tells it is untouched."""

    turn: gateway.Turn
    part: int
    content: tuple[ContentBlock, ...]


def turns_to_messages(
    turns: Sequence[gateway.Turn], names: dict[str, str] | None = None
) -> list[AgentMessage]:
    """Return *turns* as messages: one for each tool result, a CompactionSummary for a digest turn.

    Tool results carry the metadata ``tool_call_id``, ``is_error`` (unless it is unknown) and ``tool_name``.
    *names* holds the tools of calls made before, by call id; those of *turns* are added to it.

    >>> digest = gateway.TextBlock("<context-summary>\\nso far\\n</context-summary>")
    >>> turns_to_messages([gateway.UserTurn((digest,))])
    [CompactionSummary(summary='so far', tokens_before=0, read_files=(), modified_files=(), timestamp=None)]
    """
    names = {} if names is None else names
    messages: list[AgentMessage] = []
    for turn in turns:
        if isinstance(turn, gateway.ToolTurn):
            messages.extend(_tool_messages(turn, names))
            continue
        names.update((b.id, b.name) for b in turn.blocks if isinstance(b, gateway.ToolCallBlock))
        content = tuple(block for b in turn.blocks for block in content_of(b))
        summary = _digest_of(turn)
        messages.append(summary or Message(turn.role, content, metadata={_SOURCE: _Source(turn, 0, content)}))
    return messages


def messages_to_turns(messages: Sequence[AgentMessage]) -> list[gateway.Turn]:
    """Return *messages* as turns: the results of one tool turn together, a summary as its digest turn.

    There is no system turn: a system message becomes a user's. A message of a foreign type has no turn.

    >>> messages_to_turns([CompactionSummary("so far")])
    [UserTurn(blocks=(TextBlock(text='<context-summary>\\nso far\\n</context-summary>'),))]
    """
    turns: list[gateway.Turn] = []
    results: list[Message] = []
    for message in messages:
        is_result = isinstance(message, Message) and message.role == "tool"
        if results and not (is_result and _continues_turn(message)):
            turns.append(_tool_turn(results))
            results = []
        if isinstance(message, Message):
            results.append(message) if is_result else turns.append(_turn_of(message))
        elif isinstance(message, CompactionSummary):
            text = CONTEXT_SUMMARY_OPEN + message.summary + CONTEXT_SUMMARY_CLOSE
            turns.append(gateway.UserTurn((gateway.TextBlock(text),)))
    return [*turns, _tool_turn(results)] if results else turns


def _tool_messages(turn: gateway.ToolTurn, names: dict[str, str]) -> list[Message]:
    messages = [_tool_message(turn, part, block, names) for part, block in enumerate(turn.blocks)]
    return messages or [Message("tool", (), metadata={_SOURCE: _Source(turn, 0, ())})]


def _tool_message(turn: gateway.ToolTurn, part: int, block: gateway.Block, names: dict[str, str]) -> Message:
    content = content_of(block)
    metadata: dict[str, Any] = {_SOURCE: _Source(turn, part, content)}
    if isinstance(block, gateway.ToolResultBlock):
        metadata["tool_call_id"] = block.call_id
        if block.is_error is not None:
            metadata["is_error"] = block.is_error
        if block.call_id in names:
            metadata["tool_name"] = names[block.call_id]
    return Message("tool", content, metadata=metadata)


def _digest_of(turn: gateway.Turn) -> CompactionSummary | None:
    """Return the summary that *turn* tells, if it is a digest turn and nothing else."""
    match turn:
        case gateway.UserTurn((gateway.TextBlock(text),)) if text.startswith(CONTEXT_SUMMARY_OPEN):
            summary = text[len(CONTEXT_SUMMARY_OPEN) :].removesuffix(CONTEXT_SUMMARY_CLOSE)
            if text != CONTEXT_SUMMARY_OPEN + summary + CONTEXT_SUMMARY_CLOSE:
                return None
            files = split_sections(summary)[1]
            return CompactionSummary(summary, read_files=files.read, modified_files=files.modified)
    return None


def _source_of(message: Message) -> _Source | None:
    """Return where *message* came from, if its content is still what came."""
    source = message.metadata.get(_SOURCE)
    return source if isinstance(source, _Source) and source.content is message.content else None


def _continues_turn(message: AgentMessage) -> bool:
    source = message.metadata.get(_SOURCE) if isinstance(message, Message) else None
    return not (isinstance(source, _Source) and source.part == 0)


def _turn_of(message: Message) -> gateway.Turn:
    source = _source_of(message)
    if source is not None:
        return source.turn
    blocks = tuple(block for b in message.content for block in block_of(b))
    return gateway.AssistantTurn(blocks) if message.role == "assistant" else gateway.UserTurn(blocks)


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
