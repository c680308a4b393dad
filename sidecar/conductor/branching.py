"""The branches of a conversation: what a rewind leaves behind, what a drop takes with it. Pure.

Nothing here moves a head; nodes are never removed, only left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar.agentcore import SUMMARY_MARK
from sidecar.conductor.session_ops import turns_to_messages
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.window_budget import BranchSummaryMessage, CompactionSummaryMessage
from sidecar.window_budget.marks import is_restored

__all__ = ["NodeKind", "before_prompts", "node_kind", "with_partners"]


NodeKind: TypeAlias = Literal["user", "assistant", "tool", "summary", "file"]
"""What a node is: a prompt, an answer, tool results, or what a compaction made: a digest, a restored file."""


def node_kind(turn: Turn) -> NodeKind:
    """Return what *turn* is.

    >>> node_kind(UserTurn((TextBlock("hi"),)))
    'user'
    """
    match turn:
        case AssistantTurn():
            return "assistant"
        case ToolTurn():
            return "tool"
        case UserTurn(blocks=(TextBlock(text=text), *_)) if text.startswith(SUMMARY_MARK):
            return "summary"
    (message,) = turns_to_messages((turn,))
    if is_restored(message):
        return "file"
    return "summary" if isinstance(message, CompactionSummaryMessage | BranchSummaryMessage) else "user"


def before_prompts(turns: Sequence[Turn], node_ids: Sequence[str], n_prompts: int) -> str | None:
    """Return the node before the last *n_prompts* prompts, None where that is before everything.

    Raises InvalidInput when the conversation has fewer prompts.
    """
    prompts = [index for index, turn in enumerate(turns) if node_kind(turn) == "user"]
    if not 1 <= n_prompts <= len(prompts):
        found = f"there are {len(prompts)} prompts in the conversation, and {n_prompts} were to be taken back"
        raise InvalidInput(found, hint="older ones are on the branches that sidecar/session/tree shows")
    index = prompts[-n_prompts]
    return node_ids[index - 1] if index else None


def with_partners(turns: Sequence[Turn], chosen: Iterable[int]) -> Collection[int]:
    """Return *chosen* with every turn whose tool calls or results it would tear from their other half.

    >>> call, result = ToolCallBlock("1", "ls", {}), ToolResultBlock("1", "")
    >>> sorted(with_partners([UserTurn(()), AssistantTurn((call,)), ToolTurn((result,))], [2]))
    [1, 2]
    """
    partners = _partners(turns)
    found = set(chosen)
    frontier = list(found)
    while frontier:
        new = partners[frontier.pop()] - found
        found |= new
        frontier.extend(new)
    return found


def _partners(turns: Sequence[Turn]) -> defaultdict[int, set[int]]:
    """Return for each turn those that hold the other half of a pair; a result goes with the newest call."""
    partners: defaultdict[int, set[int]] = defaultdict(set)
    callers: dict[str, int] = {}
    for index, turn in enumerate(turns):
        for block in turn.blocks:
            if isinstance(block, ToolCallBlock):
                callers[block.id] = index
            elif isinstance(block, ToolResultBlock) and block.call_id in callers:
                partners[index].add(callers[block.call_id])
                partners[callers[block.call_id]].add(index)
    return partners
