"""A transcript's running token count, kept as messages arrive: the gate costs the same at any length.

A meter is a value: :meth:`PrefixMeter.extended` returns a longer one and leaves the shorter as it was.
Versions share one append-only buffer and differ in how much of it they look at, so appending to the newest
version costs only the new messages; appending to an older one copies its part first. Not for two threads at
once. The meter holds numbers, never messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from sidecar.window_budget.budget.estimate import estimate_message_tokens
from sidecar.window_budget.budget.slice import is_legal_tail_start
from sidecar.window_budget.marks import is_prompt
from sidecar.window_budget.message import Message, ToolResultMessage, calls_of, result_ids_of

__all__ = ["PrefixMeter"]


class _Columns:
    """The shared buffer: every list only grows, and holds ascending positions or sums."""

    __slots__ = ("before", "first_call", "orphans", "prompts", "starts")

    def __init__(self) -> None:
        self.before = [0]
        self.starts: list[int] = []
        self.prompts: list[int] = []
        self.orphans: list[int] = []
        self.first_call: dict[str, int] = {}

    def append(self, message: Message) -> None:
        index = len(self.before) - 1
        for call in calls_of(message):
            self.first_call.setdefault(call.id, index)
        if is_legal_tail_start(message):
            self.starts.append(index)
        if isinstance(message, ToolResultMessage) and not self.knows_call(message.tool_call_id, index):
            self.orphans.append(index)
        if is_prompt(message):
            self.prompts.append(index)
        self.before.append(self.before[-1] + estimate_message_tokens(message))

    def knows_call(self, call_id: str, before: int) -> bool:
        return self.first_call.get(call_id, before) < before

    def first(self, count: int) -> _Columns:
        """Return a copy of the part that *count* messages made."""
        copy = _Columns()
        copy.before = self.before[: count + 1]
        copy.starts = self.starts[: bisect_left(self.starts, count)]
        copy.prompts = self.prompts[: bisect_left(self.prompts, count)]
        copy.orphans = self.orphans[: bisect_left(self.orphans, count)]
        copy.first_call = {key: index for key, index in self.first_call.items() if index < count}
        return copy


class PrefixMeter:
    """How many tokens lie before each message of a transcript, and where it may be cut.

    >>> from sidecar.window_budget.message import UserMessage
    >>> one = PrefixMeter().extended([UserMessage("a")])
    >>> two = one.extended([UserMessage("b")])
    >>> (len(one), one.total), (len(two), two.total)
    ((1, 7), (2, 14))
    """

    __slots__ = ("_columns", "_count")

    def __init__(self) -> None:
        self._columns = _Columns()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extended(self, messages: Iterable[Message]) -> PrefixMeter:
        """Return the meter of this transcript with *messages* behind it."""
        columns = self._columns
        if len(columns.before) != self._count + 1:
            columns = columns.first(self._count)
        for message in messages:
            columns.append(message)
        longer = PrefixMeter()
        longer._columns = columns
        longer._count = len(columns.before) - 1
        return longer

    @property
    def total(self) -> int:
        """The tokens of the whole transcript."""
        return self._columns.before[self._count]

    def before(self, index: int) -> int:
        """Return the tokens before the message at *index*, which may be ``len(self)``."""
        if not 0 <= index <= self._count:
            raise IndexError(
                f"message {index} asked of a transcript of {self._count}; use 0 to {self._count}"
            )
        return self._columns.before[index]

    def tail_start(self, keep_recent: int) -> int:
        """Return the least index whose tail holds at most *keep_recent* tokens; 0 when everything fits."""
        if self.total <= keep_recent:
            return 0
        return bisect_left(self._columns.before, self.total - keep_recent, 0, self._count + 1)

    def cut(self, keep_recent: int) -> int:
        """Return the cut of :func:`plan_slice`: :meth:`tail_start`, snapped forward past tool results."""
        start = self.tail_start(keep_recent)
        starts = self._columns.starts
        position = bisect_left(starts, start)
        cut = starts[position] if start and position < len(starts) else 0
        return cut if cut < self._count else 0

    def may_start(self, index: int) -> bool:
        """Whether a kept tail may begin at *index*: anything but a tool result."""
        starts = self._columns.starts
        position = bisect_left(starts, index)
        return index < self._count and position < len(starts) and starts[position] == index

    @property
    def last_prompt(self) -> int | None:
        """The index of the newest prompt, or None; equal to :func:`last_user_turn_start`."""
        position = bisect_left(self._columns.prompts, self._count)
        return self._columns.prompts[position - 1] if position else None

    def orphans_from(self, index: int) -> tuple[int, ...]:
        """Return the positions at or behind *index* of results whose call was never made."""
        orphans = self._columns.orphans
        return tuple(orphans[bisect_left(orphans, index) : bisect_left(orphans, self._count)])

    def answers(self, message: Message, index: int) -> list[str]:
        """Return the ids of the calls made before *index* that *message*, found there, answers."""
        return [key for key in result_ids_of(message) if self._columns.knows_call(key, index)]
