"""The facts of a transcript, collected once per message as it arrives, so that a digest costs what it says.

A ledger is a value like :class:`~sidecar.window_budget.budget.meter.PrefixMeter`: versions share one
append-only buffer, extending the newest costs only what is new, extending an older one copies its part first.
It also keeps each message as the summariser will read it. Nothing is ranked or rendered here beyond the order
of telling.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.window_budget.message import Message
from sidecar.window_budget.summarize.actions import ReadRecord, WriteRecord
from sidecar.window_budget.summarize.columns import (
    CarriedNote,
    Columns,
    collect,
    groups_before,
    position_of,
)
from sidecar.window_budget.summarize.facts import Fact, FactKind, fact_key

__all__ = ["CarriedNote", "FactLedger"]

NEWEST_GROUPS = 96
OLDEST_GROUPS = 16
"""How many groups of like facts a digest chooses from, of each kind: the last to begin, and the first."""

GROUP_DEPTH = 8
GROUP_SCAN = 48
"""How many different facts of one group are offered, and how many entries are looked through for them."""

_Record = TypeVar("_Record", ReadRecord, WriteRecord)


class FactLedger:
    """What a transcript says, by kind of fact.

    >>> from sidecar.window_budget.message import UserMessage
    >>> ledger = FactLedger().extended([UserMessage("Never touch api.py.")])
    >>> [fact.text for _, fact in ledger.ranked(FactKind.RULE, before=1)]
    ['Never touch api.py.']
    """

    __slots__ = ("_columns", "_count", "_open_calls")

    def __init__(self) -> None:
        self._columns = Columns()
        self._count = 0
        self._open_calls: Mapping[str, ToolCallBlock] = {}

    def __len__(self) -> int:
        return self._count

    def extended(self, messages: Iterable[Message]) -> FactLedger:
        """Return the ledger of this transcript with *messages* behind it."""
        columns = self._columns
        if len(columns.lines) != self._count:
            columns = columns.first(self._count)
        open_calls = dict(self._open_calls)
        for message in messages:
            collect(columns, message, open_calls)
        longer = FactLedger()
        longer._columns = columns
        longer._count = len(columns.lines)
        longer._open_calls = open_calls
        return longer

    def open_call(self, call_id: str) -> ToolCallBlock | None:
        """Return the call *call_id* while its result is awaited, else None."""
        return self._open_calls.get(call_id)

    def digests(self, before: int) -> list[CarriedNote]:
        """Return the session digests before the message at *before*, oldest first."""
        return self._columns.digests[: position_of(self._columns.digests, before)]

    def branches(self, before: int) -> list[CarriedNote]:
        """Return the digests of abandoned branches before the message at *before*, oldest first."""
        return self._columns.branches[: position_of(self._columns.branches, before)]

    def reads(self, before: int) -> Iterator[ReadRecord]:
        """Yield the successful reads before *before*, newest first."""
        return _newest_first(self._columns.reads, before)

    def writes(self, before: int) -> Iterator[WriteRecord]:
        """Yield the successful changes of files before *before*, newest first."""
        return _newest_first(self._columns.writes, before)

    def ranked(self, kind: FactKind, before: int) -> list[tuple[int, Fact]]:
        """Return the facts of *kind* before the message at *before*, with ranks; the lowest tells most.

        Facts of like shape (their numbers evened out) share a rank ladder, so that the thousandth of a kind
        does not push out the only one of another. The work is bounded, however long the transcript.
        """
        groups = self._columns.order[kind]
        count = groups_before(groups, before)
        newest = max(0, count - NEWEST_GROUPS)
        chosen = groups[newest:count] + groups[: min(OLDEST_GROUPS, newest)]
        chosen.sort(key=lambda group: -group[position_of(group, before) - 1].index)
        return [
            (rank + GROUP_DEPTH * depth, fact)
            for rank, group in enumerate(chosen)
            for depth, fact in enumerate(_distinct(group, before))
        ]

    def first(self, kind: FactKind, before: int) -> Fact | None:
        """Return the oldest fact of *kind* before *before* that is not minor, or None."""
        firsts = (group[0] for group in self._columns.order[kind][:OLDEST_GROUPS])
        return next((fact for fact in firsts if not fact.is_minor and fact.index < before), None)

    def weight(self, start: int, end: int) -> int:
        """Return the bytes that ``messages[start:end]`` take as the summariser reads them."""
        return self._columns.ends[end] - self._columns.ends[start]

    def reach(self, start: int, end: int, max_bytes: int) -> int:
        """Return the greatest index up to *end* whose messages since *start* take at most *max_bytes*."""
        ends = self._columns.ends
        return max(start, bisect_left(ends, ends[start] + max_bytes + 1, start, end + 1) - 1)

    def scrollback(self, start: int, end: int) -> list[str]:
        """Return ``messages[start:end]`` as the summariser reads them, to be joined by newlines."""
        lines, ends = self._columns.lines, self._columns.block_ends
        first, last = bisect_left(ends, start), bisect_right(ends, end) - 1
        if first >= last:
            return list(filter(None, lines[start:end]))
        blocks = self._columns.blocks[first:last]
        return list(filter(None, [*lines[start : ends[first]], *blocks, *lines[ends[last] : end]]))


def _distinct(group: Sequence[Fact], before: int) -> Iterator[Fact]:
    """Yield the different facts of *group* before *before*, newest first."""
    seen = set[str]()
    end = position_of(group, before)
    for fact in reversed(group[max(0, end - GROUP_SCAN) : end]):
        key = fact_key(fact.kind, fact.text)
        if key not in seen:
            seen.add(key)
            yield fact
        if len(seen) >= GROUP_DEPTH:
            return


def _newest_first(records: Sequence[_Record], before: int) -> Iterator[_Record]:
    for position in range(position_of(records, before) - 1, -1, -1):
        yield records[position]
