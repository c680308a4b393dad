"""A transcript that knows its own weight and facts: messages, meter, scrollback and fact index together.

A transcript is a value and a ``Sequence[Message]``, so it may be passed wherever messages may. Appending to
the newest version costs only the new messages; therefore a session's gate, plan and digest do not depend on
its length. Messages are weighed at once, read for facts when those are first asked for, and flattened to text
only for a model that summarises.

After a compaction the first messages stand for others: a digest, restored files, a prompt that was carried
over. The fact index goes on all the same, over every message that ever was one of the conversation. A fact
has its position among those, and :meth:`Transcript.position` maps to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

from sidecar._internal.values import Value
from sidecar.conversation.history import AppendOnlySeq
from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.text.calls import ToolEffects
from sidecar.window_budget.contract import BudgetRequest, NoOpReason, TokenEstimate
from sidecar.window_budget.estimate import PrefixMeter, budget_limit, estimate_tokens
from sidecar.window_budget.fact_index import FactIndex
from sidecar.window_budget.message import (
    AssistantMessage,
    Message,
    calls_of,
)
from sidecar.window_budget.scrollback import Scrollback
from sidecar.window_budget.tool_use import NO_TOOLS

MIN_ROOM_TOKENS = 160
"""With less room than this beside system prompt and tools, condensing the messages cannot help."""

MAX_SCALE = 4.0
"""How far a provider's figure may exceed ours before it is taken for wrong."""


class MeterReading(Value, kw_only=True):
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

    __slots__ = (
        "_facts",
        "_messages",
        "_n_folded",
        "_n_front",
        "_n_originals",
        "_originals",
        "_scrollback",
        "knows_folded",
        "meter",
    )

    _messages: AppendOnlySeq[Message]
    _n_front: int
    _n_folded: int
    _originals: Sequence[Message]
    _n_originals: int
    _scrollback: Scrollback
    _facts: FactIndex
    meter: PrefixMeter
    knows_folded: bool

    def __init__(self, tools: Mapping[str, ToolEffects] = NO_TOOLS) -> None:
        self._messages = AppendOnlySeq()
        self._n_front = self._n_folded = self._n_originals = 0
        self._originals = ()
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
        cls,
        front: Sequence[Message],
        tail: Sequence[Message],
        facts: FactIndex,
        originals: Sequence[Message],
        *,
        knows_folded: bool,
    ) -> Transcript:
        """Return the transcript after a compaction.

        Args:
            front: the messages that the compaction put before the kept ones.
            tail: the messages behind them.
            facts: the index over the first of all messages, the folded ones first and *tail* last.
            originals: the other ones of them, which are read later.
            knows_folded: whether nothing that the digests of *front* stand for is missing there.
        """
        transcript = cls(facts.tools)
        messages = (*front, *tail)
        transcript._messages = AppendOnlySeq(messages)
        transcript.meter = transcript.meter.extend(messages)
        transcript._facts = facts
        transcript._originals = originals
        transcript._n_originals = len(facts) + len(originals)
        transcript._n_front = len(front)
        transcript._n_folded = transcript._n_originals - len(tail)
        transcript.knows_folded = knows_folded
        return transcript

    @property
    def scrollback(self) -> Scrollback:
        """The messages as text for the summarising model."""
        self.flatten_on()
        return self._scrollback

    @property
    def facts(self) -> FactIndex:
        """The facts of the messages, and of all that were folded away."""
        while self.n_unread:
            self.read_on()
        return self._facts

    @property
    def known_facts(self) -> FactIndex:
        """The facts of the messages that were read so far."""
        return self._facts

    @property
    def tools(self) -> Mapping[str, ToolEffects]:
        """The effects of the tools that the calls name."""
        return self._facts.tools

    @property
    def n_unread(self) -> int:
        """How many messages were weighed and not read for facts."""
        return self.position(len(self)) - len(self._facts)

    def read_on(self, most: int | None = None) -> bool:
        """Read up to *most* of the messages that were only weighed; return whether some are left."""
        if self.n_unread:
            left, known = self._originals, len(self._facts) + len(self._originals) - self._n_originals
            if known >= len(left):
                left = self._originals = ()
                known = len(self._facts) - self._n_folded + self._n_front
            end = None if most is None else known + most
            self._facts = self._facts.extend((left or self._messages)[known:end])
        return self.n_unread > 0

    def flatten_on(self, most: int | None = None) -> bool:
        """Add up to *most* messages to the text for a summarising model; return whether some are left."""
        known = len(self._scrollback)
        if known < len(self):
            new = self._messages[known : None if most is None else known + most]
            self._scrollback = self._scrollback.extend(new)
        return len(self._scrollback) < len(self)

    def find_call(self, call_id: str) -> ToolCallBlock | None:
        """Return the newest call *call_id* among the messages, None for none."""
        first = self.meter.first_call(call_id)
        for index in range(len(self) - 1, first - 1, -1) if first is not None else ():
            message = self._messages[index]
            if isinstance(message, AssistantMessage):
                for call in calls_of(message):
                    if call.id == call_id:
                        return call
        return None

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
        longer._originals, longer._n_originals = self._originals, self._n_originals
        longer.knows_folded = self.knows_folded
        return longer

    def first(self, count: int, facts: FactIndex) -> Transcript:
        """Return the first *count* messages of a transcript that no compaction made.

        *facts* is the index over some of them.
        """
        shorter = type(self)(facts.tools)
        shorter._messages = self._messages.first(count)
        shorter.meter = self.meter.first(count)
        shorter._scrollback = self._scrollback.first(min(count, len(self._scrollback)))
        shorter._facts = facts
        return shorter

    def with_tools(self, tools: Mapping[str, ToolEffects]) -> Transcript:
        """Return this transcript such that calls from now on have the effects *tools*."""
        same = self.extend(())
        same._facts = self._facts.with_tools(tools)
        return same

    def detach(self) -> Transcript:
        """Return this transcript such that adding to it copies nothing that others share with it."""
        detached = self.extend(())
        detached._facts, detached._scrollback = self._facts.extend(()), self._scrollback.extend(())
        return detached

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
