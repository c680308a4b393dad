"""A transcript that knows its own weight and facts: messages, meter, scrollback and fact index together.

A transcript is a value and a ``Sequence[Message]``, so it may be passed wherever messages may. Appending to
the newest version costs only the new messages; therefore a session's gate, plan and digest do not depend on
its length. Messages are weighed at once, and read for text and facts when those are first asked for.

After a compaction the first messages stand for others: a digest, restored files, a prompt that was carried
over. The fact index goes on all the same, over every message that ever was one of the conversation. A fact
has its position among those, and :meth:`Transcript.position` maps to it.

:class:`PrefixMeter` keeps the sums of tokens and the legal starts of a tail as messages arrive, and
:func:`read_meter` returns how full the window is with them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from sidecar.conversation.history import AppendOnlySeq
from sidecar.window_budget.contract import BudgetRequest, CallEffects, NoOpReason, TokenEstimate
from sidecar.window_budget.estimate import budget_limit, estimate_message_tokens, estimate_tokens
from sidecar.window_budget.fact_index import FactIndex
from sidecar.window_budget.message import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    calls_of,
    is_prompt,
    result_ids_of,
)
from sidecar.window_budget.scrollback import Scrollback
from sidecar.window_budget.tool_use import TOOL_EFFECTS

MIN_ROOM_TOKENS = 160
"""With less room than this beside system prompt and tools, condensing the messages cannot help."""

MAX_SCALE = 4.0
"""How far a provider's figure may exceed ours before it is taken for wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterReading:
    """How full the window is.

    ``limit`` is in provider tokens, None without a card. ``room`` is the tokens that messages may take, in
    this engine's tokens; None without a card, or when there is too little to aim for. ``message_tokens`` is
    their present cost.
    """

    estimate: TokenEstimate
    message_tokens: int
    limit: float | None
    room: int | None
    is_over: bool

    @property
    def reason_to_wait(self) -> NoOpReason | None:
        """Why an automatic compaction is not due, None when it is."""
        if self.limit is None:
            return "noWindow"
        if not self.is_over:
            return "underBudget"
        return "overheadTooLarge" if self.room is None else None


class Transcript(Sequence[Message]):
    """Messages with their :class:`PrefixMeter`, :class:`Scrollback` and :class:`FactIndex`.

    It is equal to any sequence of equal messages. *tools* are the effects of the tools that its calls name.

    Attributes:
        knows_folded: whether the facts of the messages that its digests stand for are known.

    >>> from sidecar.window_budget.message import UserMessage
    >>> one = Transcript.of([UserMessage("a")])
    >>> two = one.extend([UserMessage("b")])
    >>> len(one), len(two), two.meter.total
    (1, 2, 14)
    """

    __slots__ = ("_facts", "_messages", "_n_folded", "_n_front", "_scrollback", "knows_folded", "meter")

    _messages: AppendOnlySeq[Message]
    _n_front: int
    _n_folded: int
    _scrollback: Scrollback
    _facts: FactIndex
    meter: PrefixMeter
    knows_folded: bool

    def __init__(self, tools: CallEffects = TOOL_EFFECTS) -> None:
        self._messages = AppendOnlySeq()
        self._n_front = self._n_folded = 0
        self._scrollback = Scrollback()
        self._facts = FactIndex(tools)
        self.meter = PrefixMeter()
        self.knows_folded = False

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Transcript:
        """Return *messages* as a transcript; a transcript is returned as it is."""
        return messages if isinstance(messages, cls) else cls().extend(messages)

    @classmethod
    def after_compaction(
        cls, front: Sequence[Message], tail: Sequence[Message], facts: FactIndex, *, knows_folded: bool
    ) -> Transcript:
        """Return the transcript after a compaction.

        Args:
            front: the messages that the compaction put before the kept ones.
            tail: the messages behind them.
            facts: the index over all messages, the folded ones first and *tail* last.
            knows_folded: whether nothing that the digests of *front* stand for is missing there.
        """
        transcript = cls(facts.tools)
        messages = (*front, *tail)
        transcript._messages = AppendOnlySeq(messages)
        transcript.meter = transcript.meter.extend(messages)
        transcript._facts = facts
        transcript._n_front = len(front)
        transcript._n_folded = len(facts) - len(tail)
        transcript.knows_folded = knows_folded
        return transcript

    @property
    def scrollback(self) -> Scrollback:
        """The messages as text for the summarising model."""
        if len(self._scrollback) < len(self):
            self._scrollback = self._scrollback.extend(self._messages[len(self._scrollback) :])
        return self._scrollback

    @property
    def facts(self) -> FactIndex:
        """The facts of the messages, and of all that were folded away."""
        if len(self._facts) < self.position(len(self)):
            known = len(self._facts) - self._n_folded + self._n_front
            self._facts = self._facts.extend(self._messages[known:])
        return self._facts

    def read_on(self) -> None:
        """Read the messages that were only weighed so far."""
        self._scrollback, self._facts = self.scrollback, self.facts

    def position(self, index: int) -> int:
        """Return the number of messages of the fact index before the message at *index*."""
        return max(index, self._n_front) - self._n_front + self._n_folded

    def index_of(self, position: int) -> int | None:
        """Return the index of the message at *position* of the fact index, None when it was folded away."""
        return position - self._n_folded + self._n_front if position >= self._n_folded else None

    def extend(self, messages: Iterable[Message]) -> Transcript:
        """Return this transcript followed by *messages*; this one stays as it is."""
        new = tuple(messages)
        longer: Transcript = object.__new__(Transcript)
        longer._messages = self._messages.extended(new)
        longer.meter = self.meter.extend(new)
        longer._scrollback = self._scrollback
        longer._facts = self._facts
        longer._n_front, longer._n_folded = self._n_front, self._n_folded
        longer.knows_folded = self.knows_folded
        return longer

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        return self._messages[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # Equal to lists, so it cannot hash like one of its own.


def read_meter(messages: Sequence[Message], request: BudgetRequest) -> MeterReading:
    """Return how full the window is, in O(1) for a :class:`Transcript`.

    The larger of the estimate, overhead included, and the provider's figure decides.

    >>> read_meter([], BudgetRequest()).is_over
    False
    """
    total = messages.meter.total if isinstance(messages, Transcript) else estimate_tokens(messages)
    estimate, live = total + request.overhead_tokens, request.context_tokens
    window = request.card.context_window if request.card else 0
    used = TokenEstimate(max(estimate, live), window, anchored=live > estimate)
    if request.card is None:
        return MeterReading(estimate=used, message_tokens=total, limit=None, room=None, is_over=False)
    limit = budget_limit(request.card, request.policy)
    scale = min(MAX_SCALE, max(1.0, live / max(1, estimate)))
    room = int(limit / scale) - request.overhead_tokens
    return MeterReading(
        estimate=used,
        message_tokens=total,
        limit=limit,
        room=room if room >= MIN_ROOM_TOKENS else None,
        is_over=used.context_tokens > limit,
    )


class _MeterBuffer:
    """The shared buffer of a meter: every list only grows, and holds ascending positions or sums."""

    __slots__ = ("before", "first_call", "orphans", "prompts", "starts")

    def __init__(self) -> None:
        self.before = [0]
        self.starts: list[int] = []
        self.prompts: list[int] = []
        self.orphans: list[int] = []
        self.first_call: dict[str, int] = {}

    def append(self, message: Message) -> None:
        index = len(self.before) - 1
        if isinstance(message, AssistantMessage):
            for call in calls_of(message):
                self.first_call.setdefault(call.id, index)
        if not isinstance(message, ToolResultMessage):
            self.starts.append(index)
        elif not self.has_call(message.tool_call_id, index):
            self.orphans.append(index)
        if is_prompt(message):
            self.prompts.append(index)
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
