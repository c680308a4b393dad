"""A transcript that knows its own weight and facts: messages, meter, scrollback and fact index together.

A transcript is a value and a ``Sequence[Message]``, so it may be passed wherever messages may. Appending to
the newest version costs only the new messages; therefore a session's gate, plan and digest do not depend on
its length. Messages are weighed at once, and read for text and facts when those are first asked for.

After a compaction the first messages stand for others: a digest, restored files, a prompt that was carried
over. The fact index goes on all the same, over every message that ever was one of the conversation. A fact
has its position among those, and :meth:`Transcript.position` maps to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from sidecar.conversation.history import AppendOnlySeq
from sidecar.window_budget.contract import CallEffects
from sidecar.window_budget.cut import PrefixMeter
from sidecar.window_budget.fact_index import FactIndex
from sidecar.window_budget.message import Message
from sidecar.window_budget.scrollback import Scrollback
from sidecar.window_budget.tool_use import TOOL_EFFECTS


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
