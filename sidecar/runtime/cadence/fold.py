"""How emissions become blocks, blocks become calls, and usage adds up (R5 to R7). Plain functions on values.

Nothing here knows of phases or effects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    DoneEmission,
    Emission,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
)
from sidecar.runtime.contract import ToolCall

__all__ = [
    "UNPARSED",
    "add_usage",
    "fold_all",
    "fold_blocks",
    "fold_turn",
    "seal_call",
    "seal_tool_args",
    "swap_usage",
    "tool_calls_of",
]

UNPARSED: Final = "__unparsed"
"""The key that malformed arguments are kept under, whole."""


def fold_blocks(blocks: Sequence[Block], emission: Emission) -> tuple[Block, ...]:
    """Return *blocks* with one more emission folded in.

    A delta of text or thinking extends the last block if it is of that kind, else opens one. Argument text
    goes to the newest call of its id, and opens a nameless call when there is none. A done emission stands
    for all before it. Usage, stop and error change nothing.

    >>> fold_blocks((TextBlock("Hel"),), TextEmission("lo"))
    (TextBlock(text='Hello'),)
    """
    return fold_all(blocks, (emission,))


def fold_turn(turn: AssistantTurn, emission: Emission) -> AssistantTurn:
    """Return *turn* with one more emission folded in; *turn* itself when it changes nothing.

    >>> fold_turn(AssistantTurn(()), ToolCallStartEmission("c1", "ls")).blocks
    (ToolCallBlock(id='c1', name='ls', input=''),)
    """
    blocks = fold_blocks(turn.blocks, emission)
    return turn if blocks == tuple(turn.blocks) else AssistantTurn(blocks)


def fold_all(blocks: Sequence[Block], emissions: Iterable[Emission]) -> tuple[Block, ...]:
    """Return *blocks* with all of *emissions* folded in, in time that grows with their number only.

    >>> fold_all((), [ThinkingEmission("h"), ThinkingEmission("m"), TextEmission("ok")])
    (ThinkingBlock(text='hm', signature=None), TextBlock(text='ok'))
    """
    fold = _Fold(blocks)
    for emission in emissions:
        fold.add(emission)
    return fold.blocks()


class _Fold:
    """Blocks under construction: what was added to each is joined once, at the end."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._restart(blocks)

    def _restart(self, blocks: Sequence[Block]) -> None:
        self._blocks: list[Block] = list(blocks)
        self._added: dict[int, list[str]] = {}
        calls = enumerate(self._blocks)
        self._newest = {block.id: at for at, block in calls if isinstance(block, ToolCallBlock)}

    def add(self, emission: Emission) -> None:
        match emission:
            case TextEmission(delta=delta):
                self._say(TextBlock, delta)
            case ThinkingEmission(delta=delta):
                self._say(ThinkingBlock, delta)
            case ToolCallStartEmission(id=call_id, name=name):
                self._open_call(call_id, name)
            case ToolCallDeltaEmission(id=call_id, args_delta=delta):
                self._add_argument_text(call_id, delta)
            case DoneEmission(reply=reply):
                self._restart(reply.blocks)

    def _say(self, kind: type[TextBlock] | type[ThinkingBlock], delta: str) -> None:
        if self._blocks and isinstance(self._blocks[-1], kind):
            self._added.setdefault(len(self._blocks) - 1, []).append(delta)
        else:
            self._blocks.append(kind(delta))

    def _open_call(self, call_id: str, name: str) -> int:
        at = self._newest[call_id] = len(self._blocks)
        self._blocks.append(ToolCallBlock(call_id, name, ""))
        return at

    def _add_argument_text(self, call_id: str, delta: str) -> None:
        at = self._newest.get(call_id)
        if at is None:
            at = self._open_call(call_id, "")
        call = self._blocks[at]
        if isinstance(call, ToolCallBlock) and not isinstance(call.input, str):
            self._blocks[at] = replace(call, input="")
        self._added.setdefault(at, []).append(delta)

    def blocks(self) -> tuple[Block, ...]:
        for at, deltas in self._added.items():
            self._blocks[at] = _longer(self._blocks[at], "".join(deltas))
        self._added.clear()
        return tuple(self._blocks)


def _longer(block: Block, text: str) -> Block:
    match block:
        case TextBlock() | ThinkingBlock():
            return replace(block, text=block.text + text)
        case ToolCallBlock():
            return replace(block, input=block.input + text)
    return block


def seal_tool_args(turn: AssistantTurn) -> AssistantTurn:
    """Return *turn* with the raw argument text of its calls parsed; *turn* itself when there is none.

    >>> seal_tool_args(AssistantTurn((ToolCallBlock("c1", "ls", '{"path": "."}'),))).blocks[0].input
    {'path': '.'}
    """
    blocks = tuple(map(seal_call, turn.blocks))
    unchanged = all(new is old for new, old in zip(blocks, turn.blocks, strict=True))
    return turn if unchanged else AssistantTurn(blocks)


def seal_call(block: Block) -> Block:
    """Return *block* with its argument text, if it is a call with any, as a JSON value (R6).

    Blank text is ``{}``; text that is no JSON is kept whole under :data:`UNPARSED`.
    """
    if isinstance(block, ToolCallBlock) and isinstance(block.input, str):
        return replace(block, input=_parsed(block.input))
    return block


def _parsed(raw: str) -> Any:
    if not raw.strip():
        return {}
    try:
        return json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {UNPARSED: raw}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def tool_calls_of(turn: AssistantTurn) -> tuple[ToolCall, ...]:
    """Return the calls of *turn*, in its order.

    >>> tool_calls_of(AssistantTurn((ToolCallBlock("c1", "ls", {}), TextBlock("done"))))
    (ToolCall(id='c1', name='ls', input={}),)
    """
    return tuple(ToolCall(b.id, b.name, b.input) for b in turn.blocks if isinstance(b, ToolCallBlock))


def add_usage(total: Usage, usage: Usage) -> Usage:
    """Return the sum, field by field, in tokens; a cache tier that sums to 0 is None (R7).

    >>> add_usage(Usage(1, 2), Usage(10, 20, cache_read_tokens=5))
    Usage(input_tokens=11, output_tokens=22, cache_read_tokens=5, cache_write_tokens=None)
    """
    return Usage(
        total.input_tokens + usage.input_tokens,
        total.output_tokens + usage.output_tokens,
        (total.cache_read_tokens or 0) + (usage.cache_read_tokens or 0) or None,
        (total.cache_write_tokens or 0) + (usage.cache_write_tokens or 0) or None,
    )


def swap_usage(total: Usage, old: Usage | None, new: Usage) -> Usage:
    """Return *total* with *new* in the place of *old*: a call counts once, however often it reports (B-R6).

    >>> swap_usage(Usage(108, 51), Usage(8, 1), Usage(8, 5))
    Usage(input_tokens=108, output_tokens=55, cache_read_tokens=None, cache_write_tokens=None)
    """
    if old is None:
        return add_usage(total, new)
    taken_back = Usage(
        -old.input_tokens,
        -old.output_tokens,
        -(old.cache_read_tokens or 0),
        -(old.cache_write_tokens or 0),
    )
    return add_usage(add_usage(total, taken_back), new)
