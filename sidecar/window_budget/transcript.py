"""A transcript that knows its own weight: messages with their meter.

A transcript is a value and a ``Sequence[Message]``, so it may be passed wherever messages may. Appending to
the newest version costs only the new messages; therefore a session's gate does not depend on its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from sidecar._internal.values import Value
from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.window_budget.contract import BudgetRequest, NoOpReason, TokenEstimate
from sidecar.window_budget.estimate import PrefixMeter, budget_limit, estimate_tokens
from sidecar.window_budget.message import AssistantMessage, Message, calls_of

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
    """Messages with their :class:`PrefixMeter`. It is equal to any sequence of equal messages.

    >>> from sidecar.window_budget.message import UserMessage
    >>> one = Transcript.of([UserMessage("a")])
    >>> two = one.extend([UserMessage("b")])
    >>> len(one), len(two), two.meter.total
    (1, 2, 14)
    """

    __slots__ = ("_messages", "meter")

    def __init__(self) -> None:
        self._messages: AppendOnlySeq[Message] = AppendOnlySeq()
        self.meter = PrefixMeter()

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Transcript:
        """Return *messages* as a transcript; a transcript is returned as it is."""
        return messages if isinstance(messages, cls) else cls().extend(messages)

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

    def extend(self, messages: Iterable[Message]) -> Transcript:
        """Return this transcript followed by *messages*; this one stays as it is."""
        new, longer = tuple(messages), Transcript()
        longer._messages = self._messages.extended(new)
        longer.meter = self.meter.extend(new)
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
