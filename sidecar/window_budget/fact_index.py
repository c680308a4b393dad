"""The fact index: everything that was said, as facts, collected once per message as it arrives.

A digest is chosen from facts, and a long session has many of them. With this index the cost of a digest is
its own length, not that of the session. Two things make that so.

1. Facts are found once, when their message arrives (a tool call when its result does).
2. Facts of like shape, their numbers and hashes evened out, share a group. A digest looks at the newest
   groups and the first 16 of each kind, and at a few facts of a group, so that the thousandth ``pytest -k
   item_999`` does not push out the only ``make deploy``.

The index is a value like ``PrefixMeter``: versions share one append-only buffer, extending the newest costs
only the new messages, extending an older one copies its part first. Invariant: an index extended step by step
equals one built at once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.text.calls import ToolEffects
from sidecar.text.clip import one_line
from sidecar.window_budget.facts import (
    Fact,
    FactKind,
    fact_key,
    facts_of_prompt,
    facts_of_reply,
    find_question,
    shape_of,
)
from sidecar.window_budget.message import (
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    calls_of,
    is_prompt,
    is_restored,
    text_of,
)
from sidecar.window_budget.tool_use import (
    NO_TOOLS,
    FileRange,
    ReadCall,
    WriteCall,
    facts_of_call,
    facts_of_shell,
    files_of_call,
    open_todos,
)

MAX_OPEN_CALLS = 256
"""Calls remembered while their results are awaited; beyond it the oldest is taken for lost."""

ERROR_CHARS = 240

NEWEST_GROUPS = 96
OLDEST_GROUPS = 16
"""How many groups of like facts a digest chooses from, of each kind: the last to begin, and the first."""

GROUP_DEPTH = 8
GROUP_SCAN = 6
"""How many different facts of one group are offered, and how many entries are looked through for each."""

OUTCOME_DEPTH = 2
"""The same of outcomes: "Done with task 4." says little beside "Done with task 5."."""

key_of = lru_cache(maxsize=2_048)(fact_key)
"""The key of a fact that a digest chooses from: the next digest chooses from most of the same."""

_RESTORED = re.compile(
    re.escape(RESTORED_FILE_PREFIX)
    + r" (.+?)(?: \((?:lines (\d{1,9})-(\d{1,9})(?:, [\d, -]+)?|from line (\d{1,9}))\))?$"
)
_BY_INDEX = attrgetter("index")


class _HasIndex(Protocol):
    @property
    def index(self) -> int: ...


_Record = TypeVar("_Record", ReadCall, WriteCall)


class TodoList(Value):
    """The items of a todo list that were not done when the call at *index* wrote it."""

    index: int
    items: tuple[str, ...]


class EndOfTurn(Value):
    """An answer at *index* with the *question* at its end, empty for none, or a prompt, which answers it."""

    index: int
    question: str


class RankedFact(NamedTuple):
    """A fact with its key; the fact of *rank* 0 matters most."""

    rank: int
    key: str
    fact: Fact


class FactIndex:
    """The facts of a transcript by kind, its reads and writes, and its todo list.

    >>> from sidecar.window_budget.message import UserMessage
    >>> facts = FactIndex().extend([UserMessage("Never touch api.py.")])
    >>> [each.fact.text for each in facts.rank(FactKind.RULE, before=1)]
    ['Never touch api.py.']
    """

    __slots__ = ("_buffer", "_count", "_open_calls", "tools")

    def __init__(self, tools: Mapping[str, ToolEffects] = NO_TOOLS) -> None:
        self.tools = tools
        self._buffer = _FactBuffer()
        self._count = 0
        self._open_calls: Mapping[str, ToolCallBlock] = {}

    def __len__(self) -> int:
        return self._count

    def extend(self, messages: Iterable[Message]) -> FactIndex:
        """Return the index of this transcript followed by *messages*."""
        buffer = self._buffer
        if buffer.count != self._count:
            buffer = buffer.copy_first(self._count)
        open_calls = dict(self._open_calls)
        for message in messages:
            buffer.append(message, open_calls, self.tools)
        longer: FactIndex = object.__new__(FactIndex)
        longer.tools, longer._open_calls = self.tools, open_calls
        longer._buffer, longer._count = buffer, buffer.count
        return longer

    def first(self, count: int) -> FactIndex:
        """Return the index as it was after *count* messages; of the calls none is known to be open then."""
        shorter = FactIndex(self.tools)
        shorter._buffer = self._buffer
        shorter._count = count
        return shorter

    def with_tools(self, tools: Mapping[str, ToolEffects]) -> FactIndex:
        """Return the index such that calls from now on have the effects *tools*."""
        same = self.first(self._count)
        same._open_calls, same.tools = self._open_calls, tools
        return same

    def todos(self, before: int) -> tuple[str, ...] | None:
        """Return the open items of the newest todo list before the message at *before*, None for no list."""
        count = _count_before(self._buffer.todos, before)
        return self._buffer.todos[count - 1].items if count else None

    def question(self, before: int) -> str:
        """Return the model's question that no prompt has answered, asked before *before*; empty for none."""
        count = _count_before(self._buffer.ends, self._count)
        newest = self._buffer.ends[count - 1] if count else None
        return newest.question if newest is not None and newest.index < before else ""

    def reads(self, before: int) -> Iterator[ReadCall]:
        """Yield the successful reads before *before*, newest first."""
        return _newest_first(self._buffer.reads, before)

    def writes(self, before: int) -> Iterator[WriteCall]:
        """Yield the successful changes of files before *before*, newest first."""
        return _newest_first(self._buffer.writes, before)

    def rank(self, kind: FactKind, before: int, n_groups: int = NEWEST_GROUPS) -> list[RankedFact]:
        """Return the facts of *kind* before the message at *before* with their ranks.

        The newest group ranks first, and each further fact of a group as if it were 8 groups older.

        Args:
            kind: the kind wanted.
            before: only facts of messages before this index count.
            n_groups: the number of newest groups to choose from.
        """
        groups = self._buffer.order[kind]
        count = _groups_before(groups, before)
        most = OUTCOME_DEPTH if kind is FactKind.OUTCOME else GROUP_DEPTH * n_groups // NEWEST_GROUPS
        newest = max(0, count - n_groups)
        chosen = groups[newest:count] + groups[: min(OLDEST_GROUPS, newest)]
        sized = [(group, _count_before(group, before)) for group in chosen]
        sized.sort(key=lambda each: -each[0][each[1] - 1].index)
        ranked: list[RankedFact] = []
        for rank, (group, size) in enumerate(sized):
            if size == 1:  # as most are
                ranked.append(RankedFact(rank, key_of(kind, group[0].text), group[0]))
                continue
            facts = _distinct(group, size, most)
            ranked += (RankedFact(rank + GROUP_DEPTH * at, key, fact) for at, (key, fact) in enumerate(facts))
        return ranked

    def all(self) -> Iterator[Fact]:
        """Yield every fact, by kind and group."""
        for groups in self._buffer.order.values():
            for group in groups:
                yield from group[: _count_before(group, self._count)]

    def oldest(self, kind: FactKind, before: int) -> Fact | None:
        """Return the oldest fact of *kind* before *before* that is not minor, or None."""
        firsts = (group[0] for group in self._buffer.order[kind][:OLDEST_GROUPS])
        return next((fact for fact in firsts if not fact.is_minor and fact.index < before), None)


class _FactBuffer:
    """The shared buffer: lists that only grow, in the order of the messages."""

    __slots__ = ("count", "ends", "groups", "order", "reads", "todos", "writes")

    def __init__(self) -> None:
        self.count = 0
        self.todos: list[TodoList] = []
        self.ends: list[EndOfTurn] = []
        self.reads: list[ReadCall] = []
        self.writes: list[WriteCall] = []
        self.groups: dict[tuple[FactKind, str], list[Fact]] = {}
        self.order: dict[FactKind, list[list[Fact]]] = {kind: [] for kind in FactKind}

    def append(
        self, message: Message, open_calls: dict[str, ToolCallBlock], tools: Mapping[str, ToolEffects]
    ) -> None:
        """Add *message*; *open_calls* are the calls that still wait for their results."""
        index = self.count
        self.count += 1
        match message:
            case AssistantMessage(content=content, error_message=error):
                calls = {call.id: call for call in calls_of(message)}
                text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
                if text.strip():
                    self._add_facts(facts_of_reply(text, index, is_answer=not calls))
                if not calls:
                    self.ends.append(EndOfTurn(index, find_question(text)))
                if error:
                    self._add_facts([Fact(FactKind.ERROR, one_line(error, ERROR_CHARS), index)])
                open_calls.update(calls)
                while len(open_calls) > MAX_OPEN_CALLS:
                    del open_calls[next(iter(open_calls))]
            case ToolResultMessage(tool_call_id=call_id, content=content):
                if (call := open_calls.pop(call_id, None)) is None:
                    return
                body = text_of(content)
                files = files_of_call(call, index, tools, body=body, is_error=bool(message.is_error))
                self._add_facts(facts_of_call(call, files, body, index))
                self.writes.extend(files.writes)
                if message.is_error:
                    return
                if (todos := open_todos(call)) is not None:
                    self.todos.append(TodoList(index, todos))
                if files.read is not None and body.strip():
                    self.reads.append(files.read)
            case BashExecutionMessage(command=command, output=output, exit_code=code):
                self._add_facts(facts_of_shell(command, output, code, index))
            case CustomMessage(content=content):
                self._add_facts(facts_of_reply(text_of(content), index))
            case UserMessage(content=content) if is_restored(message):
                if found := _RESTORED.match(text_of(content).partition("\n")[0]):
                    path, first, last, start = found.groups()
                    offset = int(first or start) if first or start else None
                    limit = int(last) - int(first) + 1 if first and last else None
                    self.reads.append(ReadCall(index, "", FileRange(path, offset, limit)))
            case UserMessage(content=content) if is_prompt(message):
                self._add_facts(facts_of_prompt(text_of(content), index))
                self.ends.append(EndOfTurn(index, ""))

    def _add_facts(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            shape = (fact.kind, shape_of(fact_key(fact.kind, fact.text)))
            group = self.groups.get(shape)
            if group is None:
                group = self.groups[shape] = []
                self.order[fact.kind].append(group)
            # A file or a command is named again and again: its facts share one text.
            if group and group[-1].text == fact.text:
                fact = Fact(fact.kind, group[-1].text, fact.index, fact.is_minor)
            group.append(fact)

    def copy_first(self, count: int) -> _FactBuffer:
        """Return a copy of the part that *count* messages made."""
        copy = _FactBuffer()
        copy.count = count
        copy.ends = self.ends[: _count_before(self.ends, count)]
        copy.todos = self.todos[: _count_before(self.todos, count)]
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
    if not items or items[-1].index < before:
        return len(items)
    return bisect_left(items, before, key=_BY_INDEX)


def _groups_before(groups: Sequence[Sequence[Fact]], before: int) -> int:
    """Return how many of *groups*, which stand in the order of their first facts, begin before *before*."""
    return bisect_left(groups, before, key=lambda group: group[0].index)


def _distinct(group: Sequence[Fact], size: int, most: int) -> Iterable[tuple[str, Fact]]:
    """Return up to *most* different facts among the first *size* of *group* by their keys, newest first."""
    found: dict[str, Fact] = {}
    for fact in reversed(group[max(0, size - most * GROUP_SCAN) : size]):
        found.setdefault(key_of(fact.kind, fact.text), fact)
        if len(found) >= most:
            break
    return found.items()


def _newest_first(records: Sequence[_Record], before: int) -> Iterator[_Record]:
    for position in range(_count_before(records, before) - 1, -1, -1):
        yield records[position]
