"""Which turns a provider accepts one after another: every call answered once, no answer without its call.

A history that is sound is left exactly as it is. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)

__all__ = ["NO_RESULT", "is_blank", "paired", "says_something", "waits_for_results", "with_distinct_ids"]

NO_RESULT = "no result was recorded for this call"
"""What a call is answered with when nothing else is known of it."""


def says_something(block: Block) -> bool:
    """Whether *block* is more than empty prose, which providers refuse."""
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text, signature=None):
            return bool(text.strip())
    return True


def is_blank(turn: Turn) -> bool:
    """Whether *turn* is an assistant turn that says nothing: never sent, never stored (failure B-R5).

    >>> is_blank(AssistantTurn(())), is_blank(AssistantTurn((TextBlock("hi"),)))
    (True, False)
    """
    return isinstance(turn, AssistantTurn) and not any(map(says_something, turn.blocks))


def with_distinct_ids(turn: AssistantTurn) -> AssistantTurn:
    """Return *turn* with every call under an id of its own, itself when they are (failure B-R15).

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


def paired(segment: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return *segment* with every call answered once, right after it, and no other results.

    Args:
        segment: one assistant turn and what follows it up to the next one; or, at the beginning of a
            history, what precedes the first one.

    >>> call = AssistantTurn((ToolCallBlock("c1", "ls", {}),))
    >>> paired([call])[1].blocks[0].output == NO_RESULT
    True
    >>> paired([ToolTurn((ToolResultBlock("c0", "orphan"),))])
    ()
    """
    if _is_sound(segment):
        return tuple(segment)
    head = segment[0]
    if not isinstance(head, AssistantTurn):
        return _without_results(segment)
    answers = _answers(head, segment[1:])
    tool_turn = (ToolTurn(answers),) if answers else ()
    return (with_distinct_ids(head), *tool_turn, *_without_results(segment[1:]))


def waits_for_results(segment: Sequence[Turn]) -> bool:
    """Whether a call of *segment* has no result yet and nobody but tools has spoken since."""
    if not segment or any(isinstance(turn, UserTurn) for turn in segment):
        return False
    blocks = [block for turn in segment[1:] for block in turn.blocks]
    answered = {block.call_id for block in blocks if isinstance(block, ToolResultBlock)}
    return not answered.issuperset(_call_ids(segment[0]))


def _is_sound(segment: Sequence[Turn]) -> bool:
    """Whether the tool turns answer the calls, each once, with nothing between calls and results."""
    ids = _call_ids(segment[0]) if segment and isinstance(segment[0], AssistantTurn) else ()
    answered: list[str] = []
    for turn in segment[1:] if ids else segment:
        found = [block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)]
        still_open = len(answered) < len(ids)
        if bool(found) != isinstance(turn, ToolTurn) or bool(found) != still_open:
            return False
        answered += found
    return _are_distinct(ids) and sorted(answered) == sorted(ids)


def _answers(head: AssistantTurn, rest: Sequence[Turn]) -> tuple[Block, ...]:
    """Return one result for each call of *head*, then what else the tool turns of *rest* show."""
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
