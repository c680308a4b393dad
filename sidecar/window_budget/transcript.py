"""A transcript that knows its own weight and facts: messages, meter and fact index, extended together.

A transcript is a value and a ``Sequence[Message]``, so it may be passed wherever messages may. Appending to
the newest version costs only the new messages; therefore a session's gate, plan and digest do not depend on
its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from sidecar.conversation.sequence import AppendOnlySeq
from sidecar.window_budget.contract import CallEffects
from sidecar.window_budget.cut import PrefixMeter
from sidecar.window_budget.fact_index import FactIndex
from sidecar.window_budget.message import Message
from sidecar.window_budget.tool_use import TOOL_EFFECTS


class Transcript(Sequence[Message]):
    """Messages with their :class:`PrefixMeter` and :class:`FactIndex`.

    It is equal to any sequence of equal messages. *tools* are the effects of the tools that its calls name.

    >>> from sidecar.window_budget.message import UserMessage
    >>> one = Transcript.of([UserMessage("a")])
    >>> two = one.extend([UserMessage("b")])
    >>> len(one), len(two), two.meter.total
    (1, 2, 14)
    """

    __slots__ = ("_messages", "facts", "meter")

    _messages: AppendOnlySeq[Message]
    meter: PrefixMeter
    facts: FactIndex

    def __init__(self, tools: CallEffects = TOOL_EFFECTS) -> None:
        self._messages = AppendOnlySeq()
        self.meter = PrefixMeter()
        self.facts = FactIndex(tools)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Transcript:
        """Return *messages* as a transcript; a transcript is returned as it is."""
        return messages if isinstance(messages, cls) else cls().extend(messages)

    def extend(self, messages: Iterable[Message]) -> Transcript:
        """Return this transcript followed by *messages*; this one stays as it is."""
        new = tuple(messages)
        longer: Transcript = object.__new__(Transcript)
        longer._messages = self._messages.extended(new)
        longer.meter = self.meter.extend(new)
        longer.facts = self.facts.extend(new)
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
