"""The buffer behind a ledger: what each message contributes, collected once, in the order of the messages.

Every list only grows, so that versions of a ledger may share it and look at as much of it as is theirs.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

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

__all__ = ["CarriedNote", "Columns", "collect", "groups_before", "position_of"]

BLOCK_BYTES = 32_768
"""How much flattened text is joined into one block as it arrives."""

MAX_OPEN_CALLS = 256
"""Calls remembered while their results are awaited; beyond it the oldest is taken for lost."""

ERROR_CHARS = 240

_RESTORED = re.compile(
    re.escape(RESTORED_FILE_PREFIX) + r" (.+?)(?: \((?:lines (\d{1,9})-(\d{1,9})|from line (\d{1,9}))\))?$"
)
_by_index = attrgetter("index")


class _HasIndex(Protocol):
    @property
    def index(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CarriedNote:
    """The digest text that the message at *index* carries, without its header."""

    index: int
    text: str


class Columns:
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
        """Add *facts* to the groups of their like."""
        for fact in facts:
            shape = (fact.kind, shape_of(fact_key(fact.kind, fact.text)))
            group = self.groups.get(shape)
            if group is None:
                group = self.groups[shape] = []
                self.order[fact.kind].append(group)
            group.append(fact)

    def first(self, count: int) -> Columns:
        """Return a copy of the part that *count* messages made."""
        copy = Columns()
        copy.lines = self.lines[:count]
        copy.ends = self.ends[: count + 1]
        copy.block_ends = self.block_ends[: bisect_right(self.block_ends, count)]
        copy.blocks = self.blocks[: len(copy.block_ends) - 1]
        copy.digests = self.digests[: position_of(self.digests, count)]
        copy.branches = self.branches[: position_of(self.branches, count)]
        copy.reads = self.reads[: position_of(self.reads, count)]
        copy.writes = self.writes[: position_of(self.writes, count)]
        for kind, groups in self.order.items():
            for group in groups[: groups_before(groups, count)]:
                kept = group[: position_of(group, count)]
                copy.groups[kind, shape_of(fact_key(kind, group[0].text))] = kept
                copy.order[kind].append(kept)
        return copy


def position_of(items: Sequence[_HasIndex], before: int) -> int:
    """Return how many of *items*, ascending by index, come before the message at *before*."""
    return bisect_left(items, before, key=_by_index)


def groups_before(groups: Sequence[Sequence[Fact]], before: int) -> int:
    """Return how many of *groups*, which stand in the order of their first facts, begin before *before*."""
    return bisect_left(groups, before, key=lambda group: group[0].index)


def collect(columns: Columns, message: Message, open_calls: dict[str, ToolCallBlock]) -> None:
    """Add to *columns* what *message* contributes; *open_calls* are those still waiting for their results."""
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


def _collect_filed(columns: Columns, message: Message, index: int) -> None:
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
    columns: Columns, message: ToolResultMessage, call: ToolCallBlock | None, index: int
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
        yield Fact(FactKind.ERROR, one_line(message.error_message, ERROR_CHARS), index)


def _restored_read(message: Message, index: int) -> Iterator[ReadRecord]:
    if not isinstance(message, UserMessage):
        return
    if found := _RESTORED.match(text_of(message.content).partition("\n")[0]):
        path, first, last, start = found.groups()
        offset = int(first or start) if first or start else None
        limit = int(last) - int(first) + 1 if first and last else None
        yield ReadRecord(index, "", FileRange(path, offset, limit))
