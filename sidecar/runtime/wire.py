"""From a history to a provider's conversation: a projection per role, and every call with its result.

A history may hold turns that providers refuse: blank answers, commands of the host, calls without results,
results without calls, an answer before the first prompt. Two rules make it sendable. A projector per role
shows each turn without the blocks that a model is not sent. Then every *segment*, an assistant turn and all
that follows it up to the next one, is paired: each call gets one result, right after it.

A segment is settled when the next one begins, and a settled segment is never looked at again, so the cost of
a turn is its own length. For example ``user, assistant(call 1), tool(result 1), assistant("done")`` has two
settled segments, the opening and the call with its result, and one that may still grow.

The history itself stays as it is; a sound one is sent turn by turn unchanged. Pure.

Pairing leaves a segment that is sound exactly as it is. In any other, results are matched to calls by id in
order, a call without one gets an error result, calls under one id get ids of their own (``c1``, ``c1_2``),
and results without a call are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar._internal.values import replace
from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    Conversation,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import AgentConfig

NO_RESULT = "no result was recorded for this call"
"""The error result of a call that has no other."""


def has_content(block: Block) -> bool:
    """Whether *block* is more than empty prose, which providers refuse."""
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text, signature=None):
            return bool(text.strip())
    return True


def is_blank(turn: Turn) -> bool:
    """Whether *turn* is an assistant turn without content, which is never sent and never stored.

    >>> is_blank(AssistantTurn(())), is_blank(AssistantTurn((TextBlock("hi"),)))
    (True, False)
    """
    return isinstance(turn, AssistantTurn) and not any(map(has_content, turn.blocks))


def with_distinct_ids(turn: AssistantTurn) -> AssistantTurn:
    """Return *turn* with every call under an id of its own; *turn* itself when they are distinct.

    >>> twice = AssistantTurn((ToolCallBlock("c1", "ls", {}), ToolCallBlock("c1", "pwd", {})))
    >>> [block.id for block in with_distinct_ids(twice).blocks]
    ['c1', 'c1_2']
    """
    ids = _call_ids(turn)
    if _are_distinct(ids):
        return turn
    fresh = _distinct(ids)
    blocks = (replace(b, id=next(fresh)) if isinstance(b, ToolCallBlock) else b for b in turn.blocks)
    return AssistantTurn(tuple(blocks))


def _call_ids(turn: Turn) -> tuple[str, ...]:
    return tuple(block.id for block in turn.blocks if isinstance(block, ToolCallBlock))


def _are_distinct(ids: Sequence[str]) -> bool:
    return all(ids) and len(set(ids)) == len(ids)


def _distinct(ids: Sequence[str]) -> Iterator[str]:
    taken, seen, n_of = set(ids), set[str](), Counter[str]()
    for call_id in ids:
        base = name = call_id or "call"
        while name in seen or (name != call_id and name in taken):
            n_of[base] += 1
            name = f"{base}_{n_of[base] + 1}"
        seen.add(name)
        yield name


def pair_results(segment: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return *segment* with every call answered once, right after it, and no other results.

    Args:
        segment: one assistant turn and all turns up to the next one; or, at the beginning of a history, the
            turns before the first one.

    >>> call = AssistantTurn((ToolCallBlock("c1", "ls", {}),))
    >>> pair_results([call])[1].blocks[0].output == NO_RESULT
    True
    >>> pair_results([ToolTurn((ToolResultBlock("c0", "orphan"),))])
    ()
    """
    if is_sound(segment):
        return tuple(segment)
    head = segment[0]
    if not isinstance(head, AssistantTurn):
        return _without_results(segment)
    answers = _match_results(head, segment[1:])
    tool_turn = (ToolTurn(answers),) if answers else ()
    return (with_distinct_ids(head), *tool_turn, *_without_results(segment[1:]))


def waits_for_results(segment: Sequence[Turn]) -> bool:
    """Whether a call of *segment* has no result yet and only tools have answered since."""
    if not segment or any(isinstance(turn, UserTurn) for turn in segment):
        return False
    blocks = [block for turn in segment[1:] for block in turn.blocks]
    answered = {block.call_id for block in blocks if isinstance(block, ToolResultBlock)}
    return not answered.issuperset(_call_ids(segment[0]))


def is_sound(segment: Sequence[Turn]) -> bool:
    """Whether the tool turns answer the calls, each once, with nothing between calls and results."""
    ids = _call_ids(segment[0]) if segment and isinstance(segment[0], AssistantTurn) else ()
    answered: list[str] = []
    for turn in segment[1:] if ids else segment:
        found = [block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)]
        still_open = len(answered) < len(ids)
        if bool(found) != isinstance(turn, ToolTurn) or bool(found) != still_open:
            return False
        answered += found
    return not ids or (_are_distinct(ids) and sorted(answered) == sorted(ids))


def _match_results(head: AssistantTurn, rest: Sequence[Turn]) -> tuple[Block, ...]:
    """Return one result for each call of *head*, then the other blocks in the tool turns of *rest*."""
    ids = _call_ids(head)
    found: defaultdict[str, deque[ToolResultBlock]] = defaultdict(deque)
    extras: list[Block] = []
    for turn in rest:
        for block in turn.blocks:
            if isinstance(block, ToolResultBlock):
                found[block.call_id].append(block)
            elif isinstance(turn, ToolTurn) and ids:
                extras.append(block)
    answers = (
        replace(found[old].popleft(), call_id=new) if found[old] else ToolResultBlock(new, NO_RESULT, True)
        for old, new in zip(ids, _distinct(ids), strict=True)
    )
    return (*answers, *extras)


def _without_results(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return *turns* with no tool turn and no result in them."""
    kept = (
        replace(turn, blocks=tuple(b for b in turn.blocks if not isinstance(b, ToolResultBlock)))
        for turn in turns
        if not isinstance(turn, ToolTurn)
    )
    return tuple(turn for turn in kept if turn.blocks)


OPENING: Final = UserTurn((TextBlock("[earlier turns are not shown]"),))
"""The opening of a conversation that would begin with the assistant."""

Projector: TypeAlias = Callable[[Turn], Turn | None]
"""Returns a turn as the model is sent it: itself where nothing is left out, None where nothing is left."""


def project_given(turn: Turn) -> Turn | None:
    """Return a turn given to the model without host commands and calls, which only a model makes."""
    kept = [block for block in turn.blocks if not isinstance(block, CommandBlock | ToolCallBlock)]
    if not kept:
        return None
    return turn if len(kept) == len(turn.blocks) else replace(turn, blocks=tuple(kept))


def project_answer(turn: Turn) -> Turn | None:
    """Return a turn of the model without host commands, results, and prose that providers refuse as empty.

    A turn that was broken off while the model was thinking is not sent: providers accept no thinking alone.
    """
    kept = [
        block
        for block in filter(has_content, turn.blocks)
        if not isinstance(block, CommandBlock | ToolResultBlock)
    ]
    if all(isinstance(block, ThinkingBlock) for block in kept):
        return None
    return turn if len(kept) == len(turn.blocks) else replace(turn, blocks=tuple(kept))


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
        longer: Outgoing = object.__new__(Outgoing)
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
