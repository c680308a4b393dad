"""The past of a session as events, for a client that comes late. Pure.

A replayed event has ``seq`` 0: it is history, from before the log the client follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sidecar.conductor.content import turn_content
from sidecar.conductor.events import Event, Message, Payload, ToolFinished, ToolStarted, UserMessage
from sidecar.llmgateway.contract import AssistantTurn, ToolCallBlock, ToolResultBlock, Turn, UserTurn

__all__ = ["last_turns", "replay_events"]


def last_turns(
    turns: Sequence[Turn], ids: Sequence[str], n_prompts: int
) -> tuple[Sequence[Turn], Sequence[str]]:
    """Return the end of a conversation from its last *n_prompts* prompts on."""
    prompts = [index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)]
    if n_prompts < 1 or not prompts:
        return (), ()
    start = prompts[max(0, len(prompts) - n_prompts)]
    return turns[start:], ids[start:]


def replay_events(sid: str, turns: Sequence[Turn], ids: Sequence[str]) -> Iterator[Event]:
    """Yield the events that tell *turns* again."""
    names: dict[str, str] = {}
    for index, turn in enumerate(turns):
        node = ids[index] if index < len(ids) else None
        for payload in _tell(turn, node, names):
            yield Event(sid, 0, 0, payload)


def _tell(turn: Turn, node: str | None, names: dict[str, str]) -> Iterator[Payload]:
    content = turn_content(turn)
    if isinstance(turn, UserTurn):
        yield UserMessage(node, content)
    elif isinstance(turn, AssistantTurn) and content:
        yield Message(node or "unstored", content)
    for block in turn.blocks:
        if isinstance(block, ToolCallBlock):
            names[block.id] = block.name
            yield ToolStarted(block.id, block.name, block.name, "other", block.input)
        elif isinstance(block, ToolResultBlock):
            name = names.get(block.call_id, "tool")
            failed = bool(block.is_error)
            yield ToolFinished(block.call_id, name, name, "other", block.output, failed)
