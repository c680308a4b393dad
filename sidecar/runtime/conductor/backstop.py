"""The last guard before each model call: a history near the window is condensed first.

Each call weighs only the turns since the last one. ``runtime.memory`` decides where to cut and writes the
summary; this module changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.conversation.history import AppendOnlySeq
from sidecar.llmgateway.channel import contain_cancellation
from sidecar.llmgateway.contract import Conversation, ModelCard, Turn
from sidecar.runtime.contract import AgentConfig, ModelInvoker
from sidecar.runtime.memory import (
    IMAGE_CHARS,
    LiveCompaction,
    TurnKinds,
    compact_live,
    is_due,
    plan_live_cut,
    serialize,
    tokens_of,
    turn_chars,
)

CardLookup: TypeAlias = Callable[[str], ModelCard | None]
"""Returns the card of a model. An exception ends the run in a fault; None means: never compact."""

KindLookup: TypeAlias = Callable[[Sequence[Turn]], TurnKinds]
"""Returns the kind of each turn of a history, None for a turn of which nothing is known; empty for none."""

CompactionHandler: TypeAlias = Callable[[LiveCompaction], None]
"""Called with a compaction that has just been made. Contract: an exception of it is swallowed."""


class Backstop:
    """The guard of one agent. It keeps the weight of the history, so that a call weighs new turns only."""

    def __init__(
        self, config: AgentConfig, invoke: ModelInvoker, get_card: CardLookup, get_kinds: KindLookup
    ) -> None:
        self._config = config
        self._invoke = invoke
        self._get_card = get_card
        self._get_kinds = get_kinds
        self._weighed: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._n_chars = 0

    async def relieve(
        self, history: AppendOnlySeq[Turn], conversation: Conversation, cancel: CancelToken
    ) -> LiveCompaction | None:
        """Return how to shorten *history* before *conversation* is sent, or None to leave it.

        None when the model has no card, when no compaction is due, and when it would not help.

        Raises:
            CancelledByToken: *cancel* fired while the distiller was at work.
        """
        card = self._get_card(self._config.model)
        if card is None:
            return None
        tokens, overhead = self._weigh(history), overhead_tokens(conversation)
        policy = self._config.compaction
        if not is_due(tokens + overhead, card, policy):
            return None
        turns = tuple(history)
        kinds = self._get_kinds(turns)
        plan = plan_live_cut(turns, card, policy, tokens=tokens, overhead_tokens=overhead, kinds=kinds)
        if plan is None:
            return None
        invoke = contain_cancellation(self._invoke)
        return await compact_live(turns, plan, invoke, model=card, cancel=cancel, kinds=kinds)

    def _weigh(self, history: AppendOnlySeq[Turn]) -> int:
        added = history.since(self._weighed)
        if added is None:
            added, self._n_chars = tuple(history), 0
        self._n_chars += sum(turn_chars(turn, IMAGE_CHARS) for turn in added)
        self._weighed = history
        return tokens_of(self._n_chars, len(history))


def overhead_tokens(conversation: Conversation) -> int:
    """Return the tokens of the window that the system prompt and the tools take."""
    n_chars = len(conversation.system or "")
    for tool in conversation.tools or ():
        n_chars += len(tool.name) + len(tool.description) + len(serialize(tool.parameters))
    return tokens_of(n_chars, 0)
