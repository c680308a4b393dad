"""The protocol through which a session condenses, its options, and its two bindings.

Their names come from the window budget's document; ``session_ops`` holds the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sidecar.conductor.session_ops import condense_transcript, messages_to_turns, turns_to_messages
from sidecar.llmgateway.contract import Turn
from sidecar.window_budget import CondenserDeps

__all__ = ["CondenseFn", "CondenseOpts", "IdentityCondense", "WindowBudgetCondense"]


@dataclass(frozen=True, slots=True)
class CondenseOpts:
    """How to condense.

    *force* is a manual compact, which needs no gate. *model* is the id of the model in use, for bindings that
    look its card up. *context_tokens* is the live occupancy at the gate, 0 for unknown.
    """

    force: bool = False
    model: str | None = None
    context_tokens: int = 0


class CondenseFn(Protocol):
    """Condenses a conversation.

    Contract: never raises; returns the very object it was given when there is nothing to do.
    """

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages*, or something with fewer tokens."""
        ...


class IdentityCondense:
    """The default binding: a session that is given no engine never condenses.

    >>> import asyncio
    >>> turns = ()
    >>> asyncio.run(IdentityCondense().condense(turns, CondenseOpts(force=True))) is turns
    True
    """

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages*."""
        return messages


class WindowBudgetCondense:
    """The window budget as a session's :class:`CondenseFn`: turns in, turns out."""

    def __init__(self, deps: CondenserDeps | None = None) -> None:
        self._deps = deps or CondenserDeps()

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages* condensed, or the very object given when there is nothing to do."""
        bridged = turns_to_messages(messages)
        condensed = await condense_transcript(self._deps, bridged, opts)
        return messages if condensed is bridged else messages_to_turns(condensed)
