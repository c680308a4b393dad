"""The token estimate of this engine, and the budget that it is held against.

No tokenizer is asked: a message costs a transparent weighting of its characters.

    cost = ceil(characters / 3.6) + framing + 1024 * images

Framing is 4 tokens a message, 2 a block and 6 a tool call or result. The figure leans high on prose, so that
a compaction comes a little early rather than late. Estimates add up: a transcript costs the sum of its
messages, so ``PrefixMeter`` can keep the sum as messages arrive. For example
``UserMessage("hello")`` costs ceil(5 / 3.6) + 4 + 2 = 8 tokens.

These weights belong to this engine alone; ``runtime.memory``, ``rooms.memory`` and ``agentcore`` have theirs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import accumulate
from math import ceil
from typing import assert_never

from sidecar.llmgateway.contract import ImageBlock, ModelCard, TextBlock, ThinkingBlock, ToolCallBlock
from sidecar.text.clip import compact_json
from sidecar.window_budget.contract import BudgetPolicy
from sidecar.window_budget.message import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    calls_of,
    digest_text,
    is_prompt,
    result_ids_of,
)

CHARS_PER_TOKEN = 3.6
IMAGE_TOKENS = 1024
MESSAGE_FRAMING_TOKENS = 4
BLOCK_FRAMING_TOKENS = 2
TOOLCALL_ENVELOPE_TOKENS = 6


def estimate_message_tokens(message: Message) -> int:
    """Return the cost of *message* in tokens.

    >>> from sidecar.window_budget.message import UserMessage
    >>> estimate_message_tokens(UserMessage("hello  \\r\\nworld \\n"))
    11
    """
    match message:
        case UserMessage(content=content) | CustomMessage(content=content):
            chars, framing, images = _weigh_content(content)
        case AssistantMessage(content=content, error_message=error):
            chars, framing, images = _weigh_content(content)
            chars += len(error or "")
            framing += TOOLCALL_ENVELOPE_TOKENS * len([*calls_of(message)])
        case ToolResultMessage(tool_name=name, content=content):
            chars, framing, images = _weigh_content(content)
            chars += len(name)
            framing += TOOLCALL_ENVELOPE_TOKENS
        case BashExecutionMessage(command=command, output=output):
            chars, framing, images = len(command) + len(output), BLOCK_FRAMING_TOKENS, 0
        case BranchSummaryMessage(summary=summary) | CompactionSummaryMessage(summary=summary):
            chars, framing, images = len(summary), BLOCK_FRAMING_TOKENS, 0
        case _:
            assert_never(message)
    return tokens_of_chars(chars) + MESSAGE_FRAMING_TOKENS + framing + IMAGE_TOKENS * images


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Return the cost of *messages* together in tokens, 0 for none.

    >>> estimate_tokens([])
    0
    """
    return sum(map(estimate_message_tokens, messages))


def prefix_tokens(messages: Sequence[Message]) -> tuple[int, ...]:
    """Return the tokens before each message, ascending, n + 1 long; the last is the total.

    >>> from sidecar.window_budget.message import UserMessage
    >>> prefix_tokens([UserMessage("a"), UserMessage("b")])
    (0, 7, 14)
    """
    return tuple(accumulate(map(estimate_message_tokens, messages), initial=0))


def tokens_of_chars(chars: int) -> int:
    """Return the tokens of *chars* characters of text, without any framing."""
    return ceil(chars / CHARS_PER_TOKEN)


def chars_in(tokens: int) -> int:
    """Return how many characters of text *tokens* tokens hold at most; 0 for a negative figure.

    >>> chars_in(10), tokens_of_chars(chars_in(10))
    (36, 10)
    """
    return max(0, int(tokens * CHARS_PER_TOKEN))


def budget_limit(card: ModelCard, policy: BudgetPolicy) -> float:
    """Return how many tokens may be used before condensing: the window less the reserve, times the ratio.

    A reserve larger than the window gives 0.

    >>> from sidecar.llmgateway.contract import CostSheet
    >>> card = ModelCard("m", "mock", "mock", "M", context_window=200_000, max_output_tokens=1,
    ...                  modalities=("text",), reasoning=False, cost=CostSheet(0, 0))
    >>> budget_limit(card, BudgetPolicy(0.75, 6000, 2048))
    148464.0
    """
    usable = max(0, card.context_window - (policy.reserve_tokens or 0))
    return usable * policy.trigger_ratio


def is_over_budget(messages: Sequence[Message], card: ModelCard, policy: BudgetPolicy) -> bool:
    """Return whether *messages* are over budget.

    Args:
        messages: the transcript.
        card: the model, with its window.
        policy: its share of the window and reserve.

    Returns:
        Whether the estimate is strictly above :func:`budget_limit`.
    """
    return estimate_tokens(messages) > budget_limit(card, policy)


def _weigh_content(content: Content) -> tuple[int, int, int]:
    """Return the characters, framing tokens and images of *content*."""
    blocks = blocks_of(content)
    chars = images = 0
    for block in blocks:
        if isinstance(block, TextBlock):
            chars += len(block.text)
        elif isinstance(block, ToolCallBlock):
            # A call without arguments is free of them: JSON null stands for "none were given".
            chars += len(block.name) + (0 if block.input is None else len(compact_json(block.input)))
        elif isinstance(block, ThinkingBlock):
            chars += len(block.text)
        elif isinstance(block, ImageBlock):
            images += 1
        else:
            chars += len(compact_json({item.name: getattr(block, item.name) for item in fields(block)}))
    return chars, BLOCK_FRAMING_TOKENS * len(blocks), images


class _MeterBuffer:
    """The shared buffer of a meter: every array only grows, and holds ascending positions or sums."""

    __slots__ = ("before", "digests", "first_call", "orphans", "prompts", "starts")

    def __init__(self) -> None:
        self.before = array("I", [0])
        self.starts, self.prompts = array("I"), array("I")
        self.orphans, self.digests = array("I"), array("I")
        self.first_call: dict[str, int] = {}

    def append(self, message: Message) -> None:
        index = len(self.before) - 1
        if not isinstance(message, ToolResultMessage):
            self.starts.append(index)
        elif not self.has_call(message.tool_call_id, index):
            self.orphans.append(index)
        if isinstance(message, AssistantMessage):
            for call in calls_of(message):
                self.first_call.setdefault(call.id, index)
        elif is_prompt(message):
            self.prompts.append(index)
        elif digest_text(message) is not None:
            self.digests.append(index)
        self.before.append(self.before[-1] + estimate_message_tokens(message))

    def has_call(self, call_id: str, before: int) -> bool:
        return self.first_call.get(call_id, before) < before

    def copy_first(self, count: int) -> _MeterBuffer:
        """Return a copy of the part that *count* messages made."""
        copy = _MeterBuffer()
        copy.before = self.before[: count + 1]
        copy.starts = self.starts[: bisect_left(self.starts, count)]
        copy.prompts = self.prompts[: bisect_left(self.prompts, count)]
        copy.orphans = self.orphans[: bisect_left(self.orphans, count)]
        copy.digests = self.digests[: bisect_left(self.digests, count)]
        copy.first_call = {key: index for key, index in self.first_call.items() if index < count}
        return copy


class PrefixMeter:
    """The running token count of a transcript, and the places where it may be cut.

    A meter is a value: :meth:`extend` returns a longer one and leaves the shorter as it was. Versions share
    one append-only buffer, so appending to the newest version costs only the new messages; appending to an
    older one copies its part first. The meter holds numbers, never messages, and is not for two threads at
    once.

    Attributes:
        total: the tokens of the whole transcript.

    >>> from sidecar.window_budget.message import UserMessage
    >>> one = PrefixMeter().extend([UserMessage("a")])
    >>> two = one.extend([UserMessage("b")])
    >>> (len(one), one.total), (len(two), two.total)
    ((1, 7), (2, 14))
    """

    __slots__ = ("_buffer", "_count", "total")

    def __init__(self) -> None:
        self._buffer = _MeterBuffer()
        self._count = self.total = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, messages: Iterable[Message]) -> PrefixMeter:
        """Return the meter of this transcript followed by *messages*."""
        buffer = self._buffer
        if len(buffer.before) != self._count + 1:
            buffer = buffer.copy_first(self._count)
        for message in messages:
            buffer.append(message)
        longer: PrefixMeter = object.__new__(PrefixMeter)
        longer._buffer = buffer
        longer._count, longer.total = len(buffer.before) - 1, buffer.before[-1]
        return longer

    def first_call(self, call_id: str) -> int | None:
        """Return the index of the first message that makes the call *call_id*, None for none."""
        index = self._buffer.first_call.get(call_id, self._count)
        return index if index < self._count else None

    def digests(self, before: int) -> tuple[int, ...]:
        """Return the positions of the session digests before *before*."""
        return tuple(self._buffer.digests[: bisect_left(self._buffer.digests, before)])

    def before(self, index: int) -> int:
        """Return the tokens before the message at *index*, which may be ``len(self)``."""
        if not 0 <= index <= self._count:
            raise IndexError(
                f"message {index} asked of a transcript of {self._count}; use 0 to {self._count}"
            )
        return self._buffer.before[index]

    def tail_start(self, keep_recent: int) -> int:
        """Return the least index with at most *keep_recent* tokens behind it, 0 when everything fits."""
        if self.total <= keep_recent:
            return 0
        return bisect_left(self._buffer.before, self.total - keep_recent, 0, self._count + 1)

    def may_start(self, index: int) -> bool:
        """Whether a kept tail may begin at *index*: anything but a tool result."""
        starts = self._buffer.starts
        position = bisect_left(starts, index)
        return index < self._count and position < len(starts) and starts[position] == index

    @property
    def last_prompt(self) -> int | None:
        """The index of the newest prompt, or None; equal to :func:`last_user_turn_start`."""
        position = bisect_left(self._buffer.prompts, self._count)
        return self._buffer.prompts[position - 1] if position else None

    def orphans_from(self, index: int) -> tuple[int, ...]:
        """Return the positions at or behind *index* of results that no call before them asked for."""
        orphans = self._buffer.orphans
        return tuple(orphans[bisect_left(orphans, index) : bisect_left(orphans, self._count)])

    def find_answers(self, message: Message, index: int) -> list[str]:
        """Return the ids of the calls made before *index* that *message*, which stands there, answers."""
        return [key for key in result_ids_of(message) if self._buffer.has_call(key, index)]
