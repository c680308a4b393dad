"""The fact index: the facts of a transcript, collected once per message as it arrives.

A digest is chosen from facts, and a long session has many of them. With this index the cost of a digest is
its own length, not that of the session. Three things make that so.

1. Facts are found once, when their message arrives (a tool call when its result does).
2. Facts of like shape, their numbers and hashes evened out, share a group. A digest looks at the newest 96
   groups and the first 16 of each kind, and at up to 8 facts of a group, so that the thousandth ``pytest -k
   item_999`` does not push out the only ``make deploy``.
3. Each message is flattened once for the summarising model, and lines are joined into blocks of 32 KiB, so
   that showing a whole transcript copies a few large strings.

The index is a value like ``PrefixMeter``: versions share one append-only buffer, extending the newest costs
only the new messages, extending an older one copies its part first. Invariant: an index extended step by step
equals one built at once.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol, TypeVar

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget.contract import CallEffects
from sidecar.window_budget.facts import (
    Fact,
    FactKind,
    fact_key,
    facts_of_prompt,
    facts_of_reply,
    shape_of,
)
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
from sidecar.window_budget.prompt import flatten_message
from sidecar.window_budget.text import byte_length, one_line
from sidecar.window_budget.tool_use import (
    TOOL_EFFECTS,
    FileRange,
    ReadCall,
    WriteCall,
    facts_of_call,
    facts_of_shell,
    read_of,
    writes_of,
)

BLOCK_BYTES = 32_768
"""How much flattened text is joined into one block as it arrives."""

MAX_OPEN_CALLS = 256
"""Calls remembered while their results are awaited; beyond it the oldest is taken for lost."""

ERROR_CHARS = 240

NEWEST_GROUPS = 96
OLDEST_GROUPS = 16
"""How many groups of like facts a digest chooses from, of each kind: the last to begin, and the first."""

GROUP_DEPTH = 8
GROUP_SCAN = 48
"""How many different facts of one group are offered, and how many entries are looked through for them."""

_RESTORED = re.compile(
    re.escape(RESTORED_FILE_PREFIX) + r" (.+?)(?: \((?:lines (\d{1,9})-(\d{1,9})|from line (\d{1,9}))\))?$"
)
_BY_INDEX = attrgetter("index")


class _HasIndex(Protocol):
    @property
    def index(self) -> int: ...


_Record = TypeVar("_Record", ReadCall, WriteCall)


@dataclass(frozen=True, slots=True)
class DigestText:
    """The digest in the message at *index*, without its header."""

    index: int
    text: str


class FactIndex:
    """The facts of a transcript by kind, its reads and writes, and its text for the summarising model.

    >>> from sidecar.window_budget.message import UserMessage
    >>> facts = FactIndex().extend([UserMessage("Never touch api.py.")])
    >>> [fact.text for _, fact in facts.rank(FactKind.RULE, before=1)]
    ['Never touch api.py.']
    """

    __slots__ = ("_buffer", "_count", "_open_calls", "tools")

    def __init__(self, tools: CallEffects = TOOL_EFFECTS) -> None:
        self.tools = tools
        self._buffer = _FactBuffer()
        self._count = 0
        self._open_calls: Mapping[str, ToolCallBlock] = {}

    def __len__(self) -> int:
        return self._count

    def extend(self, messages: Iterable[Message]) -> FactIndex:
        """Return the index of this transcript followed by *messages*."""
        buffer = self._buffer
        if len(buffer.lines) != self._count:
            buffer = buffer.copy_first(self._count)
        open_calls = dict(self._open_calls)
        for message in messages:
            buffer.append(message, open_calls, self.tools)
        longer = FactIndex(self.tools)
        longer._buffer = buffer
        longer._count = len(buffer.lines)
        longer._open_calls = open_calls
        return longer

    def open_call(self, call_id: str) -> ToolCallBlock | None:
        """Return the call *call_id* while its result is awaited, else None."""
        return self._open_calls.get(call_id)

    def digests(self, before: int) -> list[DigestText]:
        """Return the session digests before the message at *before*, oldest first."""
        return self._buffer.digests[: _count_before(self._buffer.digests, before)]

    def branches(self, before: int) -> list[DigestText]:
        """Return the digests of abandoned branches before the message at *before*, oldest first."""
        return self._buffer.branches[: _count_before(self._buffer.branches, before)]

    def reads(self, before: int) -> Iterator[ReadCall]:
        """Yield the successful reads before *before*, newest first."""
        return _newest_first(self._buffer.reads, before)

    def writes(self, before: int) -> Iterator[WriteCall]:
        """Yield the successful changes of files before *before*, newest first."""
        return _newest_first(self._buffer.writes, before)

    def rank(self, kind: FactKind, before: int) -> list[tuple[int, Fact]]:
        """Return the facts of *kind* before the message at *before* with their ranks; rank 0 matters most.

        The newest group ranks first, and each further fact of a group as if it were 8 groups older.
        """
        groups = self._buffer.order[kind]
        count = _groups_before(groups, before)
        newest = max(0, count - NEWEST_GROUPS)
        chosen = groups[newest:count] + groups[: min(OLDEST_GROUPS, newest)]
        chosen.sort(key=lambda group: -group[_count_before(group, before) - 1].index)
        return [
            (rank + GROUP_DEPTH * depth, fact)
            for rank, group in enumerate(chosen)
            for depth, fact in enumerate(_distinct(group, before))
        ]

    def first(self, kind: FactKind, before: int) -> Fact | None:
        """Return the oldest fact of *kind* before *before* that is not minor, or None."""
        firsts = (group[0] for group in self._buffer.order[kind][:OLDEST_GROUPS])
        return next((fact for fact in firsts if not fact.is_minor and fact.index < before), None)

    def text_bytes(self, start: int, end: int) -> int:
        """Return the bytes that ``messages[start:end]`` take as the summariser reads them."""
        return self._buffer.ends[end] - self._buffer.ends[start]

    def end_within(self, start: int, end: int, max_bytes: int) -> int:
        """Return where a chunk of text that begins at *start* must end.

        Args:
            start: index of the first message.
            end: the greatest result, ``start`` or more.
            max_bytes: the size of the text in UTF-8 bytes.

        Returns:
            An index in start..end; *start* when even one message is too large.
        """
        ends = self._buffer.ends
        return max(start, bisect_left(ends, ends[start] + max_bytes + 1, start, end + 1) - 1)

    def scrollback(self, start: int, end: int) -> list[str]:
        """Return ``messages[start:end]`` as the summariser reads them, to be joined by newlines."""
        lines, ends = self._buffer.lines, self._buffer.block_ends
        first, last = bisect_left(ends, start), bisect_right(ends, end) - 1
        if first >= last:
            return list(filter(None, lines[start:end]))
        blocks = self._buffer.blocks[first:last]
        return list(filter(None, [*lines[start : ends[first]], *blocks, *lines[ends[last] : end]]))


class _FactBuffer:
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
        self.digests: list[DigestText] = []
        self.branches: list[DigestText] = []
        self.reads: list[ReadCall] = []
        self.writes: list[WriteCall] = []
        self.groups: dict[tuple[FactKind, str], list[Fact]] = {}
        self.order: dict[FactKind, list[list[Fact]]] = {kind: [] for kind in FactKind}

    def append(self, message: Message, open_calls: dict[str, ToolCallBlock], tools: CallEffects) -> None:
        """Add *message*; *open_calls* are the calls that still wait for their results."""
        index = len(self.lines)
        self._add_line(flatten_message(message))
        match message:
            case AssistantMessage(content=content, error_message=error):
                calls = {call.id: call for call in calls_of(message)}
                text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
                if text.strip():
                    self._add_facts(facts_of_reply(text, index, is_answer=not calls))
                if error:
                    self._add_facts([Fact(FactKind.ERROR, one_line(error, ERROR_CHARS), index)])
                open_calls.update(calls)
                while len(open_calls) > MAX_OPEN_CALLS:
                    del open_calls[next(iter(open_calls))]
            case ToolResultMessage(tool_call_id=call_id, content=content):
                if (call := open_calls.pop(call_id, None)) is None:
                    return
                body = text_of(content)
                is_error = bool(message.is_error)
                self._add_facts(facts_of_call(call, body, index, is_error=is_error, tools=tools))
                if not is_error:
                    self.writes.extend(writes_of(call, index, tools))
                    if body.strip() and (read := read_of(call, index, tools)):
                        self.reads.append(read)
            case BashExecutionMessage(command=command, output=output, exit_code=code):
                self._add_facts(facts_of_shell(command, output, code, index))
            case CustomMessage(content=content):
                self._add_facts(facts_of_reply(text_of(content), index))
            case _:
                self._add_user_or_digest(message, index)

    def _add_user_or_digest(self, message: Message, index: int) -> None:
        """Add a prompt, a restored file or a digest, under the user's role or a role of its own."""
        branch = message.summary if isinstance(message, BranchSummaryMessage) else branch_text(message)
        digest = digest_text(message)
        if digest is not None:
            self.digests.append(DigestText(index, digest))
        elif branch is not None:
            self.branches.append(DigestText(index, branch))
        elif isinstance(message, UserMessage) and is_restored(message):
            if found := _RESTORED.match(text_of(message.content).partition("\n")[0]):
                path, first, last, start = found.groups()
                offset = int(first or start) if first or start else None
                limit = int(last) - int(first) + 1 if first and last else None
                self.reads.append(ReadCall(index, "", FileRange(path, offset, limit)))
        elif isinstance(message, UserMessage) and is_prompt(message):
            self._add_facts(facts_of_prompt(text_of(message.content), index))

    def _add_line(self, line: str) -> None:
        """Add the line of one message, and join the newest lines once there are enough of them.

        Block k holds the lines from ``block_ends[k]`` to ``block_ends[k + 1]``.
        """
        self.lines.append(line)
        self.ends.append(self.ends[-1] + (byte_length(line) + 1 if line else 0))
        if self.ends[-1] - self.ends[self.block_ends[-1]] >= BLOCK_BYTES:
            self.blocks.append("\n".join(filter(None, self.lines[self.block_ends[-1] :])))
            self.block_ends.append(len(self.lines))

    def _add_facts(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            shape = (fact.kind, shape_of(fact_key(fact.kind, fact.text)))
            group = self.groups.get(shape)
            if group is None:
                group = self.groups[shape] = []
                self.order[fact.kind].append(group)
            group.append(fact)

    def copy_first(self, count: int) -> _FactBuffer:
        """Return a copy of the part that *count* messages made."""
        copy = _FactBuffer()
        copy.lines = self.lines[:count]
        copy.ends = self.ends[: count + 1]
        copy.block_ends = self.block_ends[: bisect_right(self.block_ends, count)]
        copy.blocks = self.blocks[: len(copy.block_ends) - 1]
        copy.digests = self.digests[: _count_before(self.digests, count)]
        copy.branches = self.branches[: _count_before(self.branches, count)]
        copy.reads = self.reads[: _count_before(self.reads, count)]
        copy.writes = self.writes[: _count_before(self.writes, count)]
        for kind, groups in self.order.items():
            for group in groups[: _groups_before(groups, count)]:
                kept = group[: _count_before(group, count)]
                copy.groups[kind, shape_of(fact_key(kind, group[0].text))] = kept
                copy.order[kind].append(kept)
        return copy


def _count_before(items: Sequence[_HasIndex], before: int) -> int:
    """Return how many of *items*, ascending by index, come before the message at *before*."""
    return bisect_left(items, before, key=_BY_INDEX)


def _groups_before(groups: Sequence[Sequence[Fact]], before: int) -> int:
    """Return how many of *groups*, which stand in the order of their first facts, begin before *before*."""
    return bisect_left(groups, before, key=lambda group: group[0].index)


def _distinct(group: Sequence[Fact], before: int) -> Iterator[Fact]:
    """Yield the different facts of *group* before *before*, newest first."""
    seen = set[str]()
    end = _count_before(group, before)
    for fact in reversed(group[max(0, end - GROUP_SCAN) : end]):
        key = fact_key(fact.kind, fact.text)
        if key not in seen:
            seen.add(key)
            yield fact
        if len(seen) >= GROUP_DEPTH:
            return


def _newest_first(records: Sequence[_Record], before: int) -> Iterator[_Record]:
    for position in range(_count_before(records, before) - 1, -1, -1):
        yield records[position]
