"""A transcript that knows its own weight and facts: messages, meter and ledger, extended together.

A value and a ``Sequence[Message]``, so it may be passed wherever messages may. Appending to the newest
version costs only what is new; that is what keeps a session's gate, plan and digest independent of its
length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

from sidecar.window_budget.budget.meter import PrefixMeter
from sidecar.window_budget.message import Message
from sidecar.window_budget.summarize.ledger import FactLedger

__all__ = ["Transcript"]


class Transcript(Sequence[Message]):
    """Messages with their :class:`PrefixMeter` and :class:`FactLedger`.

    Equal to any sequence of equal messages.

    >>> from sidecar.window_budget.message import UserMessage
    >>> one = Transcript.of([UserMessage("a")])
    >>> two = one.extended([UserMessage("b")])
    >>> len(one), len(two), two.meter.total
    (1, 2, 14)
    """

    __slots__ = ("_items", "ledger", "meter")

    _items: list[Message]
    meter: PrefixMeter
    ledger: FactLedger

    def __init__(self) -> None:
        self._items = []
        self.meter = PrefixMeter()
        self.ledger = FactLedger()

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Transcript:
        """Return *messages* as a transcript; a transcript is returned as it is."""
        return messages if isinstance(messages, cls) else cls().extended(messages)

    def extended(self, messages: Iterable[Message]) -> Transcript:
        """Return this transcript with *messages* behind it; this one stays as it is."""
        new = tuple(messages)
        longer = Transcript()
        longer._items = self._items if len(self._items) == len(self) else self._items[: len(self)]
        longer._items.extend(new)
        longer.meter = self.meter.extended(new)
        longer.ledger = self.ledger.extended(new)
        return longer

    def __len__(self) -> int:
        return len(self.meter)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        positions = range(len(self))[index]
        if isinstance(positions, int):
            return self._items[positions]
        if positions.step == 1:
            return tuple(self._items[positions.start : positions.stop])
        return tuple(self._items[position] for position in positions)

    def __iter__(self) -> Iterator[Message]:
        return islice(iter(self._items), len(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # Equal to lists, so it cannot hash like one of its own.
