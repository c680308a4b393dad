"""Outgoing: the conversation that a provider is sent, kept up to date as the history grows.

A history may hold turns that providers refuse: blank answers, commands of the host, calls without results,
results without calls, an answer before the first prompt. Two rules make it sendable. A projector per role
shows each turn without the blocks that a model is not sent. Then every *segment*, an assistant turn and all
that follows it up to the next one, is paired: each call gets one result, right after it (see ``pairing``).

A segment is settled when the next one begins, and a settled segment is never looked at again, so the cost of
a turn is its own length. For example ``user, assistant(call 1), tool(result 1), assistant("done")`` has two
settled segments, the opening and the call with its result, and one that may still grow.

The history itself stays as it is; a sound one is sent turn by turn unchanged. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar.conversation.history import AppendOnlySeq
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    Conversation,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import AgentConfig
from sidecar.runtime.wire.pairing import has_content, pair_results, waits_for_results

OPENING: Final = UserTurn((TextBlock("[earlier turns are not shown]"),))
"""The opening of a conversation that would begin with the assistant."""

Projector: TypeAlias = Callable[[Turn], Turn | None]
"""Returns a turn as the model is sent it: itself where nothing is left out, None where nothing is left."""


def project_given(turn: Turn) -> Turn | None:
    """Return a turn given to the model without host commands and calls, which only a model makes."""
    return _keep_blocks(turn, lambda block: not isinstance(block, CommandBlock | ToolCallBlock))


def project_answer(turn: Turn) -> Turn | None:
    """Return a turn of the model without host commands, results, and prose that providers refuse as empty.

    A turn that was broken off while the model was thinking is not sent: providers accept no thinking alone.
    """
    shown = _keep_blocks(
        turn, lambda block: not isinstance(block, CommandBlock | ToolResultBlock) and has_content(block)
    )
    if shown is None or all(isinstance(block, ThinkingBlock) for block in shown.blocks):
        return None
    return shown


def _keep_blocks(turn: Turn, shows: Callable[[Block], bool]) -> Turn | None:
    if turn.blocks and all(map(shows, turn.blocks)):
        return turn
    blocks = tuple(filter(shows, turn.blocks))
    return replace(turn, blocks=blocks) if blocks else None


PROJECTORS: Final[Mapping[str, Projector]] = MappingProxyType(
    {"user": project_given, "assistant": project_answer, "tool": project_given}
)
"""One projector for each role; a turn of any other role is not sent."""


class Outgoing:
    """A history as a provider is sent it; immutable, and cheap to extend.

    >>> Outgoing().extend([UserTurn((TextBlock("hi"),)), AssistantTurn(())]).turns()
    (UserTurn(blocks=(TextBlock(text='hi'),)),)
    """

    __slots__ = ("_segment", "_settled")

    def __init__(self) -> None:
        self._settled: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._segment: tuple[Turn, ...] = ()

    def extend(self, turns: Iterable[Turn]) -> Outgoing:
        """Return the outgoing history followed by *turns*; costs no more than they do."""
        settled: list[Turn] = []
        segment = list(self._segment)
        for turn in turns:
            project = PROJECTORS.get(turn.role)
            shown = project(turn) if project is not None else None
            if isinstance(shown, AssistantTurn) and waits_for_results(segment):
                # One answer written down in parts: the results of its calls follow the last part.
                segment[0] = AssistantTurn((*segment[0].blocks, *shown.blocks))
                continue
            if isinstance(shown, AssistantTurn):
                settled += pair_results(segment)
                segment = []
            if shown is not None:
                segment.append(shown)
        longer = Outgoing()
        longer._settled = self._settled.extended(settled)
        longer._segment = tuple(segment)
        return longer

    def turns(self) -> tuple[Turn, ...]:
        """Return the turns to send; copies pointers and looks at the newest segment only."""
        turns = (*self._settled, *pair_results(self._segment))
        if turns and not isinstance(turns[0], UserTurn):
            return (OPENING, *turns)
        return turns

    def conversation(self, config: AgentConfig) -> Conversation:
        """Return the conversation to send: these turns under the system prompt and tools of *config*."""
        tools = tuple(config.tools.descriptors()) if config.tools is not None else None
        return Conversation(self.turns(), system=config.system, tools=tools or None)


def build_conversation(messages: Sequence[Turn], config: AgentConfig) -> Conversation:
    """Return *messages* as a provider is sent them under *config*: turns, system prompt and tools.

    >>> hi = UserTurn((TextBlock("hi"),))
    >>> build_conversation([hi], AgentConfig(model="mock-1", system="Be brief."))
    Conversation(turns=(UserTurn(blocks=(TextBlock(text='hi'),)),), system='Be brief.', tools=None)
    """
    return Outgoing().extend(messages).conversation(config)
