"""The past of a session as events, for a client that comes late. Pure.

A replayed event has ``seq`` 0: it is history, from before the log the client follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from sidecar.capabilities.contract import ToolActivity
from sidecar.conductor.branching import node_kind
from sidecar.conductor.content import turn_content
from sidecar.conductor.contract import Compaction
from sidecar.conductor.events import Event, Message, Payload, ToolFinished, UserMessage
from sidecar.conductor.history import GraphPort
from sidecar.conductor.session_events import tool_finished, tool_started
from sidecar.llmgateway.contract import AssistantTurn, ToolCallBlock, ToolResultBlock, Turn, UserTurn
from sidecar.runtime.contract import SessionNode, ToolCall

__all__ = ["Describe", "last_turns", "replay_events", "replay_timeline", "timeline"]

Describe: TypeAlias = Callable[[ToolCall], ToolActivity]
"""Returns what a client is shown of a tool call."""


def timeline(
    graph: GraphPort, compactions: Sequence[Compaction], head: str | None
) -> list[SessionNode | Compaction]:
    """Return the conversation that ends at *head* as its user saw it.

    Where it was condensed, what was there before stands before the compaction, and the digest that the model
    goes on with is left out.
    """
    made = {done.after_head: done for done in compactions if done.status == "completed" and done.before_head}
    chapters: list[Sequence[SessionNode | Compaction]] = []
    while head is not None:
        path = graph.node_path(head)
        start = next((n for n in reversed(range(len(path))) if path[n].id in made), None)
        if start is None:
            chapters.append(path)
            break
        done = made.pop(path[start].id)
        chapters.append((done, *path[start + 1 :]))
        head = done.before_head
    return [each for chapter in reversed(chapters) for each in chapter]


def last_turns(
    turns: Sequence[Turn], ids: Sequence[str], n_prompts: int
) -> tuple[Sequence[Turn], Sequence[str]]:
    """Return the end of a conversation from its last *n_prompts* prompts on."""
    prompts = [index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)]
    if n_prompts < 1 or not prompts:
        return (), ()
    start = prompts[max(0, len(prompts) - n_prompts)]
    return turns[start:], ids[start:]


def replay_timeline(
    sid: str, parts: Sequence[SessionNode | Compaction], describe: Describe
) -> Iterator[Event]:
    """Yield the events that tell *parts* again; files that were put back for the model alone are none."""
    calls: dict[str, ToolActivity] = {}
    for part in parts:
        if isinstance(part, Compaction):
            yield Event(sid, 0, 0, part)
        elif node_kind(part.turn) != "file":
            for payload in _tell(part.turn, part.id, calls, describe):
                yield Event(sid, 0, 0, payload)


def replay_events(sid: str, turns: Sequence[Turn], ids: Sequence[str], describe: Describe) -> Iterator[Event]:
    """Yield the events that tell *turns* again; *ids* are their nodes, as far as they are stored."""
    calls: dict[str, ToolActivity] = {}
    for index, turn in enumerate(turns):
        node = ids[index] if index < len(ids) else None
        for payload in _tell(turn, node, calls, describe):
            yield Event(sid, 0, 0, payload)


def _tell(
    turn: Turn, node: str | None, calls: dict[str, ToolActivity], describe: Describe
) -> Iterator[Payload]:
    content = turn_content(turn)
    if isinstance(turn, UserTurn):
        yield UserMessage(node, content)
    elif isinstance(turn, AssistantTurn) and content:
        yield Message(node or "unstored", content)
    for block in turn.blocks:
        if isinstance(block, ToolCallBlock):
            call = calls[block.id] = describe(ToolCall(block.id, block.name, block.input))
            yield tool_started(call)
        elif isinstance(block, ToolResultBlock):
            yield _finished(block, calls.get(block.call_id))


def _finished(block: ToolResultBlock, call: ToolActivity | None) -> ToolFinished:
    """Return how a call ended; one whose beginning is not told has no name."""
    begun = call or ToolActivity("started", block.call_id, "tool", "tool", "other")
    return tool_finished(replace(begun, output=block.output, is_error=bool(block.is_error)))
