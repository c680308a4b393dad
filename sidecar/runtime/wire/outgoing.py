"""The conversation a provider is sent, kept up to date as the history grows.

Providers are never sent a blank assistant turn, a host's command, a call without its result or a result
without its call, and the first message is the user's. What was settled once is never looked at again. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sidecar.conversation.sequence import AppendOnlySeq
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    TextBlock,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import AgentConfig
from sidecar.runtime.wire.pairing import paired, waits_for_results
from sidecar.runtime.wire.projectors import PROJECTORS

__all__ = ["OPENING", "Outgoing", "build_conversation"]

OPENING: Final = UserTurn((TextBlock("[earlier turns are not shown]"),))
"""What a conversation that begins with the assistant is opened with."""


class Outgoing:
    """What a provider is sent of a history; immutable, and cheap to extend.

    A segment, an assistant turn and all that follows it, is settled when the next one begins.

    >>> Outgoing().extended([UserTurn((TextBlock("hi"),)), AssistantTurn(())]).turns()
    (UserTurn(blocks=(TextBlock(text='hi'),)),)
    """

    __slots__ = ("_segment", "_settled")

    def __init__(self) -> None:
        self._settled: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._segment: tuple[Turn, ...] = ()

    def extended(self, turns: Iterable[Turn]) -> Outgoing:
        """Return what is sent once *turns* have been added; costs what they cost."""
        *whole, last = _segments(self._segment, turns)
        longer = Outgoing()
        longer._settled = self._settled.extended(turn for each in whole for turn in paired(each))
        longer._segment = tuple(last)
        return longer

    def turns(self) -> tuple[Turn, ...]:
        """Return the turns to send; copies pointers and looks at the newest segment only."""
        turns = (*self._settled, *paired(self._segment))
        if turns and not isinstance(turns[0], UserTurn):
            return (OPENING, *turns)
        return turns

    def conversation(self, config: AgentConfig) -> Conversation:
        """Return the conversation to send: these turns under the system prompt and tools of *config*."""
        tools = tuple(config.tools.descriptors()) if config.tools is not None else None
        return Conversation(self.turns(), system=config.system, tools=tools or None)


def _segments(first: Sequence[Turn], turns: Iterable[Turn]) -> Iterator[Sequence[Turn]]:
    """Yield the whole segments of *first* and *turns*, then the one that may still grow."""
    segment = list(first)
    for turn in turns:
        project = PROJECTORS.get(turn.role)
        shown = project(turn) if project is not None else None
        if isinstance(shown, AssistantTurn) and waits_for_results(segment):
            # One answer written down in parts: the results of its calls follow the last part.
            segment[0] = AssistantTurn((*segment[0].blocks, *shown.blocks))
            continue
        if isinstance(shown, AssistantTurn):
            yield segment
            segment = []
        if shown is not None:
            segment.append(shown)
    yield segment


def build_conversation(messages: Sequence[Turn], config: AgentConfig) -> Conversation:
    """Return what a provider is sent of *messages* under *config*: turns, system prompt and tools.

    A sound history is sent turn by turn as it is.

    >>> hi = UserTurn((TextBlock("hi"),))
    >>> build_conversation([hi], AgentConfig(model="mock-1", system="Be brief."))
    Conversation(turns=(UserTurn(blocks=(TextBlock(text='hi'),)),), system='Be brief.', tools=None)
    """
    return Outgoing().extended(messages).conversation(config)
