"""Show a stored conversation to clients: its nodes, and its past as events for a late client.

A conversation is a tree of nodes, and a compaction starts a new branch: a summary, then the turns it kept.
The model goes on with that branch, but a user wants to see the whole story. So the *timeline* of a
conversation is the path to its head, in which each compaction's branch is replaced by the path to the head
before it, followed by the compaction itself; the summary and the restored files that only the model needs are
left out.

Example: the path is ``summary, c, d``, where ``summary`` is the head that a compaction K moved to, from a
branch that ends ``a, b``. Then the timeline is ``a, b, K, c, d``. The cost is one path for each compaction.

A replayed event has ``seq`` 0, because it is older than the log that the client follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import ToolActivity
from sidecar.conductor.content import turn_content
from sidecar.conductor.contract import Compaction, ContextUsage, TurnEnd
from sidecar.conductor.errors import CompactionNotFound
from sidecar.conductor.events import Event, Message, Payload, UserMessage
from sidecar.conductor.hub import Hub
from sidecar.conductor.record.session_events import tool_finished, tool_started
from sidecar.conductor.record.work import last_event
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import AssistantTurn, ToolCallBlock, ToolResultBlock, Turn, UserTurn
from sidecar.protocol.messages import NodeView, TreeNode
from sidecar.runtime.contract import ToolCall
from sidecar.runtime.store import SessionGraph, turn_to_record

Describe: TypeAlias = Callable[[ToolCall], ToolActivity]
"""Returns the activity that clients are shown for a tool call."""

StoryPart: TypeAlias = Entry | Compaction
"""A part of a conversation as its user saw it."""

_FOR_THE_MODEL: Final = ("file", "branch", "note")
"""The kinds of entries under the user's role that no user wrote."""

_PROMPTS: Final = ("user", "shell")
"""The kinds of entries that begin something new."""


def node_view(entry: Entry) -> NodeView:
    """Return the node of *entry* with its content, as clients see it."""
    record = turn_to_record(entry.turn)
    return NodeView(
        id=entry.node_id,
        parent=entry.parent,
        role=record["role"],
        blocks=tuple(record["blocks"]),
        created_at=entry.created_at,
    )


def tree_node(entry: Entry) -> TreeNode:
    """Return the node of *entry* without its content, as a tree shows it."""
    return TreeNode(
        id=entry.node_id,
        parent=entry.parent,
        kind=entry.kind,
        tokens=entry_tokens(entry),
        at=entry.created_at,
    )


async def entries_of_view(hub: Hub, sid: str, view: str | Mapping[str, str]) -> Sequence[Entry]:
    """Return the entries of a session that a view selects.

    Args:
        hub: the sessions.
        sid: the session; it is neither loaded nor locked.
        view: ``full`` for all branches, ``{compactionId, at}`` for the path ``before`` or ``after`` that
            compaction, anything else for the path to the head.

    Raises:
        SessionNotFound: no such session is stored.
        CompactionNotFound: the session has no such compaction.
        InvalidInput: *at* is another word.
    """
    graph = await hub.graph(sid)
    if view == "full":
        return tuple(graph.entries.values())
    if not isinstance(view, Mapping):
        return await asyncio.to_thread(graph.kept_path, graph.leaf)
    wanted, at = view.get("compactionId", ""), view.get("at", "before")
    if at not in ("before", "after"):
        raise InvalidInput(f"a view is before or after a compaction, not {at!r:.100}")
    for done in await hub.compactions(sid):
        if done.compaction_id == wanted:
            changed = at == "after" and done.after_head is not None
            head = done.after_head if changed else done.before_head
            return await asyncio.to_thread(graph.kept_path, head)
    raise CompactionNotFound(sid, wanted)


def timeline(graph: SessionGraph, compactions: Sequence[Compaction], head: str | None) -> list[StoryPart]:
    """Return the conversation that ends at *head* as its user saw it; the head of the module says how.

    Args:
        graph: the stored entries.
        compactions: the compactions of the session, in any order.
        head: the last node, or None for a conversation without nodes.
    """
    made = {done.after_head: done for done in compactions if done.status == "completed" and done.before_head}
    chapters: list[Sequence[StoryPart]] = []
    while head is not None:
        path = graph.kept_path(head)
        start = next((n for n in reversed(range(len(path))) if path[n].node_id in made), None)
        if start is None:
            chapters.append(path)
            break
        done = made.pop(path[start].node_id)
        chapters.append((done, *path[start + 1 :]))
        head = done.before_head
    return [each for chapter in reversed(chapters) for each in chapter]


def last_turns(history: History, n_prompts: int) -> Sequence[Entry]:
    """Return the entries from the *n_prompts*-th last prompt, or command of the user, on; no summaries."""
    prompts = (at for at in reversed(range(len(history))) if history[at].kind in _PROMPTS)
    first = min(islice(prompts, n_prompts), default=None)
    return [entry for entry in history[first:] if entry.kind != "summary"] if first is not None else ()


def replay_timeline(
    sid: str, parts: Sequence[StoryPart], describe: Describe, ends: Mapping[str, Event]
) -> Iterator[Event]:
    """Yield the events of the *parts* of a conversation; entries that only the model needs have none.

    Behind a turn comes its last event, where *ends* has one for its last node.
    """
    calls: dict[str, ToolActivity] = {}
    end: Event | None = None
    for part in parts:
        if end is not None and (isinstance(part, Compaction) or part.kind in _PROMPTS):
            yield end
            end = None
        if isinstance(part, Compaction):
            yield Event(sid, 0, 0, part)
            continue
        if part.kind not in _FOR_THE_MODEL:
            for payload in _payloads(part.turn, part.node_id, calls, describe):
                yield Event(sid, 0, 0, payload)
        end = ends.get(part.node_id, end)
    if end is not None:
        yield end


def replay_end(sid: str, end: TurnEnd, head: str | None, usage: ContextUsage) -> Event:
    """Return the last event of a turn with this *end*; *head* and *usage* are of now.

    Clients show by it that an answer was stopped or broke off, as they did when it happened.
    """
    return Event(sid, 0, 0, last_event(end, head, usage), end.turn_id)


def _payloads(turn: Turn, node: str, calls: dict[str, ToolActivity], describe: Describe) -> Iterator[Payload]:
    """Yield the events of one turn; *calls* collects the tool calls for the results in later turns."""
    content = turn_content(turn)
    if isinstance(turn, UserTurn):
        yield UserMessage(node, content)
    elif isinstance(turn, AssistantTurn) and content:
        yield Message(node, content)
    for block in turn.blocks:
        if isinstance(block, ToolCallBlock):
            call = calls[block.id] = describe(ToolCall(block.id, block.name, block.input))
            yield tool_started(call)
        elif isinstance(block, ToolResultBlock):
            # Without its beginning in the replay, a call has no name.
            unnamed = ToolActivity(
                phase="started", call_id=block.call_id, name="tool", title="tool", kind="other"
            )
            call = calls.get(block.call_id, unnamed)
            yield tool_finished(replace(call, output=block.output, is_error=bool(block.is_error)))
