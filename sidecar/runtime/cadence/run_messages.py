"""The messages of a run: an immutable sequence that is cheap to extend, with a last turn that may be open.

They equal the tuple of the same turns. An older version never sees later turns.

The open turn may be an answer that arrives as many small deltas, and folding each into a new turn would cost
the length of the turn per delta. So an answer in the making is a :class:`Draft`, a log of emissions: adding
one costs the same however long the answer is, and the log is folded once, when the turn is looked at. Folding
joins the deltas of each block at the end, in time that grows with their number only. For example, thinking
"h", thinking "m", text "ok" fold to the blocks ``Thinking("hm"), Text("ok")``. No stop reason is interpreted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, overload

from sidecar._internal.values import replace
from sidecar.conversation import AppendOnlySeq
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
    ToolTurn,
    Turn,
    Usage,
)
from sidecar.runtime.contract import ToolCall
from sidecar.runtime.wire import Outgoing, is_blank, with_distinct_ids

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
    """Blocks under construction: the deltas of each block are joined once, at the end."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._start_from(blocks)

    def _start_from(self, blocks: Sequence[Block]) -> None:
        self._blocks: list[Block] = list(blocks)
        self._deltas: dict[int, list[str]] = {}
        calls = enumerate(self._blocks)
        self._newest_call = {block.id: at for at, block in calls if isinstance(block, ToolCallBlock)}

    def add(self, emission: Emission) -> None:
        match emission:
            case TextEmission(delta=delta):
                self._add_prose(TextBlock, delta)
            case ThinkingEmission(delta=delta):
                self._add_prose(ThinkingBlock, delta)
            case ToolCallStartEmission(id=call_id, name=name):
                self._open_call(call_id, name)
            case ToolCallDeltaEmission(id=call_id, args_delta=delta):
                at = self._newest_call.get(call_id)
                if at is None:
                    at = self._open_call(call_id, "")
                call = self._blocks[at]
                if isinstance(call, ToolCallBlock) and not isinstance(call.input, str):
                    self._blocks[at] = replace(call, input="")
                self._deltas.setdefault(at, []).append(delta)
            case DoneEmission(reply=reply):
                self._start_from(reply.blocks)

    def _add_prose(self, kind: type[TextBlock] | type[ThinkingBlock], delta: str) -> None:
        if self._blocks and isinstance(self._blocks[-1], kind):
            self._deltas.setdefault(len(self._blocks) - 1, []).append(delta)
        else:
            self._blocks.append(kind(delta))

    def _open_call(self, call_id: str, name: str) -> int:
        at = self._newest_call[call_id] = len(self._blocks)
        self._blocks.append(ToolCallBlock(call_id, name, ""))
        return at

    def blocks(self) -> tuple[Block, ...]:
        for at, deltas in self._deltas.items():
            text = "".join(deltas)
            match self._blocks[at]:
                case TextBlock() | ThinkingBlock() as block:
                    self._blocks[at] = replace(block, text=block.text + text)
                case ToolCallBlock() as call:
                    self._blocks[at] = replace(call, input=call.input + text)
        self._deltas.clear()
        return tuple(self._blocks)


class Draft:
    """An assistant turn that is still being written; immutable.

    >>> Draft().fold(TextEmission("Hel")).fold(TextEmission("lo")).turn
    AssistantTurn(blocks=(TextBlock(text='Hello'),))
    """

    __slots__ = ("_base", "_log", "_turn")

    def __init__(self, base: tuple[Block, ...] = (), log: AppendOnlySeq[Emission] | None = None) -> None:
        self._base = base
        self._log: AppendOnlySeq[Emission] = AppendOnlySeq() if log is None else log
        self._turn: AssistantTurn | None = None

    def fold(self, emission: Emission) -> Draft:
        """Return this draft with one more emission; a done emission stands for all before it."""
        if isinstance(emission, DoneEmission):
            return Draft(tuple(emission.reply.blocks))
        return Draft(self._base, self._log.extended((emission,)))

    @property
    def turn(self) -> AssistantTurn:
        """The turn as far as it is written; argument text is raw."""
        if self._turn is None:
            self._turn = AssistantTurn(fold_all(self._base, self._log))
        return self._turn

    @property
    def is_blank(self) -> bool:
        """Whether nothing has been written yet."""
        return is_blank(self.turn)

    def seal(self) -> AssistantTurn:
        """Return the finished turn: streamed arguments parsed, every call under an id of its own.

        The blocks of a done emission are final: an input may be a string and then stays one.
        """
        n_final = len(self._base)
        blocks = tuple(
            block if at < n_final and block is self._base[at] else seal_call(block)
            for at, block in enumerate(self.turn.blocks)
        )
        return with_distinct_ids(AssistantTurn(blocks))


def seal_tool_args(turn: AssistantTurn) -> AssistantTurn:
    """Return *turn* with the raw argument text of its calls parsed; *turn* itself when there is none.

    >>> seal_tool_args(AssistantTurn((ToolCallBlock("c1", "ls", '{"path": "."}'),))).blocks[0].input
    {'path': '.'}
    """
    blocks = tuple(map(seal_call, turn.blocks))
    unchanged = all(new is old for new, old in zip(blocks, turn.blocks, strict=True))
    return turn if unchanged else AssistantTurn(blocks)


def seal_call(block: Block) -> Block:
    """Return *block* with its argument text, if it is a call with any, as a JSON value.

    Blank text is ``{}``; text that is not valid JSON is kept whole under :data:`UNPARSED`.
    """
    if not isinstance(block, ToolCallBlock) or not isinstance(block.input, str):
        return block
    arguments: Any = {}
    if block.input.strip():
        try:
            # NaN and Infinity, which are not valid JSON, are no integers either.
            arguments = json.loads(block.input, parse_constant=int)
        except (ValueError, RecursionError):
            arguments = {UNPARSED: block.input}
    return replace(block, input=arguments)


def tool_calls_of(turn: AssistantTurn) -> tuple[ToolCall, ...]:
    """Return the calls of *turn*, in its order.

    >>> tool_calls_of(AssistantTurn((ToolCallBlock("c1", "ls", {}), TextBlock("done"))))
    (ToolCall(id='c1', name='ls', input={}),)
    """
    return tuple(ToolCall(b.id, b.name, b.input) for b in turn.blocks if isinstance(b, ToolCallBlock))


def add_usage(total: Usage, usage: Usage) -> Usage:
    """Return the sum, field by field, in tokens; a cache tier that sums to 0 is None.

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
    """Return *total* with *new* in the place of *old*: a call counts once, however often it reports.

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


OpenTurn: TypeAlias = Draft | ToolTurn
"""A turn that is not finished: an answer being written, or a round of tools not yet complete."""


class RunMessages(Sequence[Turn]):
    """The finished turns of a conversation, then at most one open turn.

    Adding a turn costs no more than that turn, however long the conversation is.

    Attributes:
        finished: the turns that will not change any more.
        outgoing: the finished turns as a provider is sent them.
        open: the turn that is not finished, or None.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> hi = UserTurn((TextBlock("hi"),))
    >>> RunMessages.of((hi,)) == (hi,), RunMessages.of(()).with_turns((hi, hi))[1:]
    (True, (UserTurn(blocks=(TextBlock(text='hi'),)),))
    """

    __slots__ = ("finished", "open", "outgoing")

    def __init__(
        self, finished: AppendOnlySeq[Turn], outgoing: Outgoing, open_turn: OpenTurn | None = None
    ) -> None:
        self.finished = finished
        self.outgoing = outgoing
        self.open = open_turn

    @classmethod
    def of(cls, messages: Sequence[Turn]) -> RunMessages:
        """Return *messages* as run messages: at no cost if they are, else at the cost of their length.

        A blank assistant turn at the end is an open answer.
        """
        if isinstance(messages, RunMessages):
            return messages
        result = cls(AppendOnlySeq(), Outgoing())
        if messages and is_blank(messages[-1]):
            return result.with_turns(messages[:-1]).with_open(Draft(messages[-1].blocks))
        return result.with_turns(messages)

    def with_open(self, turn: OpenTurn) -> RunMessages:
        """Return the finished turns with *turn* as the open one."""
        return RunMessages(self.finished, self.outgoing, turn)

    def with_turns(self, turns: Iterable[Turn]) -> RunMessages:
        """Return the finished turns and *turns*; an open turn is left out."""
        added = tuple(turns)
        return RunMessages(self.finished.extended(added), self.outgoing.extend(added))

    def _last(self) -> tuple[Turn, ...]:
        if self.open is None:
            return ()
        return (self.open.turn if isinstance(self.open, Draft) else self.open,)

    def __len__(self) -> int:
        return len(self.finished) + (self.open is not None)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return tuple(self[at] for at in range(start, stop, step))
            last = self._last() if start <= len(self.finished) < stop else ()
            return (*self.finished[start:stop], *last)
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"index {index} is outside of a conversation of {len(self)} turns")
        if at == len(self.finished) and self.open is not None:
            return self._last()[0]
        return self.finished[at]

    def __iter__(self) -> Iterator[Turn]:
        yield from self.finished
        yield from self._last()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, RunMessages | tuple):
            return len(self) == len(other) and tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Turn]) -> tuple[Turn, ...]:
        if not isinstance(other, RunMessages | tuple):
            return NotImplemented
        return (*self, *other)

    def __radd__(self, other: Sequence[Turn]) -> tuple[Turn, ...]:
        if not isinstance(other, tuple):
            return NotImplemented
        return (*other, *self)

    def __repr__(self) -> str:
        return f"RunMessages({tuple(self)!r})"
