"""The facts of a transcript, collected once per message as it arrives, so that a digest costs what it says.

A ledger is a value like :class:`~sidecar.window_budget.budget.meter.PrefixMeter`: versions share one
append-only buffer, extending the newest costs only what is new, extending an older one copies its part first.
It also keeps each message as the summariser will read it. Nothing is ranked or rendered here beyond the order
of telling.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol, TypeVar

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget.marks import RESTORED_FILE_PREFIX, branch_text, digest_text, is_prompt, is_restored
from sidecar.window_budget.message import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    calls_of,
    text_of,
)
from sidecar.window_budget.summarize.actions import (
    FileRange,
    ReadRecord,
    WriteRecord,
    facts_of_call,
    facts_of_shell,
    read_of,
    writes_of,
)
from sidecar.window_budget.summarize.facts import (
    Fact,
    FactKind,
    fact_key,
    facts_of_prompt,
    facts_of_reply,
    shape_of,
)
from sidecar.window_budget.summarize.prompt import flatten_message
from sidecar.window_budget.text import byte_length, one_line

__all__ = ["CarriedNote", "FactLedger"]

NEWEST_GROUPS = 96
OLDEST_GROUPS = 16
"""How many groups of like facts a digest chooses from, of each kind: the last to begin, and the first."""

GROUP_DEPTH = 8
GROUP_SCAN = 48
"""How many different facts of one group are offered, and how many entries are looked through for them."""

BLOCK_BYTES = 32_768
"""How much flattened text is joined into one block as it arrives."""

MAX_OPEN_CALLS = 256
"""Calls remembered while their results are awaited; beyond it the oldest is taken for lost."""

_RESTORED = re.compile(
    re.escape(RESTORED_FILE_PREFIX) + r" (.+?)(?: \((?:lines (\d{1,9})-(\d{1,9})|from line (\d{1,9}))\))?$"
)
_by_index = attrgetter("index")
_Record = TypeVar("_Record", ReadRecord, WriteRecord)


class _HasIndex(Protocol):
    @property
    def index(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CarriedNote:
    """The digest text that the message at *index* carries, without its header."""

    index: int
    text: str


class _Columns:
    """The shared buffer: lists that only grow, in the order of the messages."""

    __slots__ = (
        "block_ends",
        "blocks",
        "branches",
        "digests",
        "ends",
        "groups",
        "lines",
        "order",
        "reads",
        "writes",
    )

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ends = [0]
        self.blocks: list[str] = []
        self.block_ends = [0]
        self.digests: list[CarriedNote] = []
        self.branches: list[CarriedNote] = []
        self.reads: list[ReadRecord] = []
        self.writes: list[WriteRecord] = []
        self.groups: dict[tuple[FactKind, str], list[Fact]] = {}
        self.order: dict[FactKind, list[list[Fact]]] = {kind: [] for kind in FactKind}

    def write(self, line: str) -> None:
        """Add the line of one message, and join the newest lines once there are enough of them.

        Block k holds the lines from ``block_ends[k]`` to ``block_ends[k + 1]``; joining a few large blocks is
        what keeps showing a whole transcript cheap.
        """
        self.lines.append(line)
        self.ends.append(self.ends[-1] + (byte_length(line) + 1 if line else 0))
        if self.ends[-1] - self.ends[self.block_ends[-1]] >= BLOCK_BYTES:
            self.blocks.append("\n".join(filter(None, self.lines[self.block_ends[-1] :])))
            self.block_ends.append(len(self.lines))

    def note(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            shape = (fact.kind, shape_of(fact_key(fact.kind, fact.text)))
            group = self.groups.get(shape)
            if group is None:
                group = self.groups[shape] = []
                self.order[fact.kind].append(group)
            group.append(fact)

    def first(self, count: int) -> _Columns:
        """Return a copy of the part that *count* messages made."""
        copy = _Columns()
        copy.lines = self.lines[:count]
        copy.ends = self.ends[: count + 1]
        copy.block_ends = self.block_ends[: bisect_right(self.block_ends, count)]
        copy.blocks = self.blocks[: len(copy.block_ends) - 1]
        copy.digests = self.digests[: _position(self.digests, count)]
        copy.branches = self.branches[: _position(self.branches, count)]
        copy.reads = self.reads[: _position(self.reads, count)]
        copy.writes = self.writes[: _position(self.writes, count)]
        for kind, groups in self.order.items():
            for group in groups[: _groups_before(groups, count)]:
                kept = group[: _position(group, count)]
                copy.groups[kind, shape_of(fact_key(kind, group[0].text))] = kept
                copy.order[kind].append(kept)
        return copy


class FactLedger:
    """What a transcript says, by kind of fact.

    >>> from sidecar.window_budget.message import UserMessage
    >>> ledger = FactLedger().extended([UserMessage("Never touch api.py.")])
    >>> [fact.text for _, fact in ledger.ranked(FactKind.RULE, before=1)]
    ['Never touch api.py.']
    """

    __slots__ = ("_columns", "_count", "_open_calls")

    def __init__(self) -> None:
        self._columns = _Columns()
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
            _collect(columns, message, open_calls)
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
        return self._columns.digests[: _position(self._columns.digests, before)]

    def branches(self, before: int) -> list[CarriedNote]:
        """Return the digests of abandoned branches before the message at *before*, oldest first."""
        return self._columns.branches[: _position(self._columns.branches, before)]

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
        count = _groups_before(groups, before)
        newest = max(0, count - NEWEST_GROUPS)
        chosen = groups[newest:count] + groups[: min(OLDEST_GROUPS, newest)]
        chosen.sort(key=lambda group: -group[_position(group, before) - 1].index)
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


def _collect(columns: _Columns, message: Message, open_calls: dict[str, ToolCallBlock]) -> None:
    index = len(columns.lines)
    columns.write(flatten_message(message))
    match message:
        case AssistantMessage():
            columns.note(_facts_of_assistant(message, index))
            open_calls.update((call.id, call) for call in calls_of(message))
            while len(open_calls) > MAX_OPEN_CALLS:
                del open_calls[next(iter(open_calls))]
        case ToolResultMessage(tool_call_id=call_id):
            _collect_result(columns, message, open_calls.pop(call_id, None), index)
        case BashExecutionMessage(command=command, output=output, exit_code=code):
            columns.note(facts_of_shell(command, output, code, index))
        case CustomMessage(content=content):
            columns.note(facts_of_reply(text_of(content), index))
        case _:
            _collect_filed(columns, message, index)


def _collect_filed(columns: _Columns, message: Message, index: int) -> None:
    """Collect what stands under the user's role, and the digests that have a role of their own."""
    branch = message.summary if isinstance(message, BranchSummaryMessage) else branch_text(message)
    digest = digest_text(message)
    if digest is not None:
        columns.digests.append(CarriedNote(index, digest))
    elif branch is not None:
        columns.branches.append(CarriedNote(index, branch))
    elif is_restored(message):
        columns.reads.extend(_restored_read(message, index))
    elif isinstance(message, UserMessage) and is_prompt(message):
        columns.note(facts_of_prompt(text_of(message.content), index))


def _collect_result(
    columns: _Columns, message: ToolResultMessage, call: ToolCallBlock | None, index: int
) -> None:
    if call is None:
        return
    body = text_of(message.content)
    columns.note(facts_of_call(call, body, index, is_error=bool(message.is_error)))
    if message.is_error:
        return
    columns.writes.extend(writes_of(call, index))
    if body.strip() and (read := read_of(call, index)):
        columns.reads.append(read)


def _facts_of_assistant(message: AssistantMessage, index: int) -> Iterator[Fact]:
    text = "\n".join(block.text for block in message.content if isinstance(block, TextBlock))
    if text.strip():
        yield from facts_of_reply(text, index, is_answer=next(calls_of(message), None) is None)
    if message.error_message:
        yield Fact(FactKind.ERROR, one_line(message.error_message, 240), index)


def _restored_read(message: Message, index: int) -> Iterator[ReadRecord]:
    if not isinstance(message, UserMessage):
        return
    if found := _RESTORED.match(text_of(message.content).partition("\n")[0]):
        path, first, last, start = found.groups()
        offset = int(first or start) if first or start else None
        limit = int(last) - int(first) + 1 if first and last else None
        yield ReadRecord(index, "", FileRange(path, offset, limit))


def _distinct(group: Sequence[Fact], before: int) -> Iterator[Fact]:
    """Yield the different facts of *group* before *before*, newest first."""
    seen = set[str]()
    end = _position(group, before)
    for fact in reversed(group[max(0, end - GROUP_SCAN) : end]):
        key = fact_key(fact.kind, fact.text)
        if key not in seen:
            seen.add(key)
            yield fact
        if len(seen) >= GROUP_DEPTH:
            return


def _newest_first(records: Sequence[_Record], before: int) -> Iterator[_Record]:
    for position in range(_position(records, before) - 1, -1, -1):
        yield records[position]


def _position(items: Sequence[_HasIndex], before: int) -> int:
    return bisect_left(items, before, key=_by_index)


def _groups_before(groups: Sequence[Sequence[Fact]], before: int) -> int:
    """Return how many of *groups*, which stand in the order of their first facts, begin before *before*."""
    return bisect_left(groups, before, key=lambda group: group[0].index)
