"""The last guard before each model call: a history near the window is condensed first (R9 to R11).

What is weighed is what is new since the last call. Where to cut, and into what, is ``runtime.memory``'s to
say; nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.conversation.sequence import AppendOnlySeq
from sidecar.llmgateway.contract import Conversation, ModelCard, ToolDescriptor, Turn
from sidecar.runtime.contract import AgentConfig, ModelInvoker
from sidecar.runtime.memory import (
    IMAGE_CHARS,
    HostMarks,
    LiveCompaction,
    compact_live,
    is_due,
    plan_live_cut,
    serialize,
    tokens_of,
    turn_chars,
)

__all__ = ["Backstop", "CardLookup", "CompactionHandler"]

CardLookup: TypeAlias = Callable[[str], ModelCard | None]
"""Looks up what is known of a model. An exception ends the run in a fault; None means: never compact."""

CompactionHandler: TypeAlias = Callable[[LiveCompaction], None]
"""Hears of a compaction that has just been made. Contract: what it raises is swallowed."""


class Backstop:
    """The guard of one agent: keeps the weight of its history, so that a call adds only what is new."""

    def __init__(
        self, config: AgentConfig, invoke: ModelInvoker, get_card: CardLookup, marks: HostMarks
    ) -> None:
        self._config = config
        self._invoke = invoke
        self._get_card = get_card
        self._marks = marks
        self._weighed: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._n_chars = 0

    async def relieve(
        self, history: AppendOnlySeq[Turn], conversation: Conversation, cancel: CancelToken
    ) -> LiveCompaction | None:
        """Return how to shorten *history* before *conversation* is sent, or None when it is to stay.

        It is to stay when the model has no card, when that is not due, and when it would not help.

        Raises:
            CancelledByToken: *cancel* fired while the distiller was at work.
        """
        card = self._get_card(self._config.model)
        if card is None:
            return None
        tokens, overhead = self._tokens(history), _overhead_tokens(conversation)
        policy = self._config.compaction
        if not is_due(tokens + overhead, card, policy):
            return None
        turns = tuple(history)
        plan = plan_live_cut(turns, card, policy, tokens=tokens, overhead_tokens=overhead, marks=self._marks)
        if plan is None:
            return None
        return await compact_live(turns, plan, self._invoke, model=card, cancel=cancel, marks=self._marks)

    def _tokens(self, history: AppendOnlySeq[Turn]) -> int:
        added = history.since(self._weighed)
        if added is None:
            added, self._n_chars = tuple(history), 0
        self._n_chars += sum(turn_chars(turn, IMAGE_CHARS) for turn in added)
        self._weighed = history
        return tokens_of(self._n_chars, len(history))


def _overhead_tokens(conversation: Conversation) -> int:
    """Return what the system prompt and the tools take of the window (failure B-R17)."""
    tools = sum(map(_tool_chars, conversation.tools or ()))
    return tokens_of(len(conversation.system or "") + tools, 0)


def _tool_chars(tool: ToolDescriptor) -> int:
    return len(tool.name) + len(tool.description) + len(serialize(tool.parameters))
