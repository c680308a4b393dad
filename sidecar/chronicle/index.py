"""The index beside a chronicle: facts of four kinds that are short, and that thinning takes out first.

* files, with the lines that were read, or edited (``*``),
* commands, with the most telling line of their last outcome (``!`` where it failed); of a command that went
  well only a line that names something or has a number,
* the open items of the newest list of tasks,
* the last value of a name that the user gave anew (``port: 8080``, later ``port: 9090``).

The newest commands that failed when they last ran always stand in the index, as a note above it may say that
all is well. Any other item does only where neither the chronicle nor the entries behind it show an entry that
touched it, the newest first, until the index has its fifth of the room. Each has the place of the entry that
touched it last, so that it can be brought back. The files and commands of a call are told by
:mod:`sidecar.text.calls`, a list of tasks by its shape: items that have a status.

For example, after ``read {"path": "src/a.py", "offset": 10, "limit": 30}`` in entry 7 and an edit of it in
entry 12 the index has ``src/a.py* 10-39 #12``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Final, Literal, TypeAlias, get_args

from sidecar._internal.values import Value
from sidecar.chronicle.ranking import RankedEntry, measure_telling
from sidecar.conversation import Entry, EntryKind, LineRange, merge_ranges
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.text.calls import command_lines_in, effects_of_call, has_failed, touches_named

COMMAND_CHARS: Final = 160
OUTCOME_CHARS: Final = 100
LEAST_TELLING: Final = 2.5
"""A line without a name and a number tells less, see :func:`measure_telling`."""

MAX_FAILURES: Final = 3
"""So many of the newest failures stand in the index wherever else they are shown."""

MAX_RANGES: Final = 3
Said: TypeAlias = Literal["", "request", "outcome", "error", "search", "command", "read"]
SAID: Final[tuple[Said, ...]] = get_args(Said)
"""The kinds of entries: words of the user, of the agent, a failure, something that was looked up, a command
or a file of the user; and a call with its result that are facts of the index themselves."""

_BY_ENTRY: Final[Mapping[EntryKind, Said]] = {
    "user": "request",
    "assistant": "",
    "tool": "",
    "shell": "command",
    "file": "read",
    "note": "",
    "summary": "outcome",
    "branch": "outcome",
}
_LOOKS_UP: Final = ("none", "searches", "anything")
MAX_GIVEN_CHARS: Final = 20_000
"""A longer prompt gives no values: it is a text that was pasted."""

_GIVEN: Final = re.compile(r"(?m)^[ \t]*([^\W\d_][\w .-]{1,40}?)[ \t]*(?:=|:|->|→)[ \t]+(\S.{0,80}?)[ \t]*$")
_DONE: Final = ("complete", "done", "cancel", "delete")


class IndexedFile(Value, kw_only=True):
    """The use of one file: whether it was read and edited, the lines that were read, and its newest place."""

    is_read: bool
    is_edited: bool
    place: int
    ranges: tuple[LineRange, ...] = ()


class IndexedCommand(Value, kw_only=True):
    """The last run of a command: its outcome, empty while it has none, whether it failed, and its place."""

    outcome: str
    has_failed: bool
    place: int


class Facts:
    """The facts of a conversation for the index, each by its name, the least recently touched first.

    Attributes:
        kinds: the kind of each entry, a place in :data:`SAID`.
    """

    def __init__(self) -> None:
        self.kinds = bytearray()
        self.files: dict[str, IndexedFile] = {}
        self.commands: dict[str, IndexedCommand] = {}
        self.tasks: tuple[str, ...] = ()
        self.tasks_place = 0
        self.values: dict[str, tuple[str, int, bool]] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._failing: dict[str, None] = {}
        self._open_calls: dict[str, tuple[ToolCallBlock, int]] = {}

    def add(self, entry: Entry, ranked: RankedEntry, place: int) -> None:
        """Add the facts of the entry at *place*; a call has some once its result is known."""
        said = _BY_ENTRY[entry.kind]
        if entry.kind == "assistant" and any(isinstance(block, TextBlock) for block in entry.turn.blocks):
            said = "outcome"
        for block in entry.turn.blocks:
            if isinstance(block, ToolCallBlock):
                self._open_calls[block.id] = block, place
            elif isinstance(block, ToolResultBlock):
                call, called_at = self._open_calls.pop(block.call_id, (None, 0))
                if call is not None:
                    found = self._add_call(call, called_at, block, ranked, place)
                    said = said if said == "error" else found or said
            elif isinstance(block, TextBlock) and entry.kind == "user" and len(block.text) < MAX_GIVEN_CHARS:
                for name, value in _GIVEN.findall(block.text):
                    before = self.values.pop(name, None)
                    is_anew = before is not None and (before[2] or before[0] != value)
                    self.values[name] = value, place, is_anew
                    self._name(place, f"{name}: {value}")
        self.kinds.append(SAID.index(said))

    def _add_call(
        self, call: ToolCallBlock, called_at: int, result: ToolResultBlock, ranked: RankedEntry, place: int
    ) -> Said:
        """Add the facts of *call*, and return the kind of its result."""
        effects = effects_of_call(call.name, call.input)
        output = result.output if isinstance(result.output, str) else ""
        failed = has_failed(effects, output, is_error=bool(result.is_error))
        for touch in touches_named(effects, call.input, failed=failed):
            for path in [touch.path] if touch.kind == "read" else touch.changed_paths:
                is_read, unknown = touch.kind == "read", IndexedFile(is_read=False, is_edited=False, place=0)
                before = self.files.pop(path, unknown)
                self.files[path] = IndexedFile(
                    is_read=is_read or before.is_read,
                    is_edited=not is_read or before.is_edited,
                    ranges=merge_ranges((*before.ranges, *touch.ranges)) if before.ranges else touch.ranges,
                    place=called_at,
                )
                self._name(called_at, path)
        if effects.kind == "runs":
            for line, _ in command_lines_in(effects, call.input):
                command = " ".join(line.split())[:COMMAND_CHARS]
                self.commands.pop(command, None)
                self._failing.pop(command, None)
                if failed:
                    self._failing[command] = None
                outcome = telling_line(ranked, output)
                if not failed and outcome and measure_telling([outcome])[0] < LEAST_TELLING:
                    outcome = ""
                self.commands[command] = IndexedCommand(outcome=outcome, has_failed=failed, place=place)
                self._name(called_at, command)
        tasks = open_tasks(call.input)
        if tasks is not None:
            self.tasks, self.tasks_place = tasks, called_at
            for task in tasks:
                self._name(called_at, task)
        return "error" if failed else "search" if effects.kind in _LOOKS_UP and tasks is None else ""

    def _name(self, place: int, name: str) -> None:
        self._names[place] = (*self._names.get(place, ()), name)

    def names_of(self, places: Iterable[int]) -> set[str]:
        """Return the names of the items that the entries at *places* touched."""
        return set(chain.from_iterable(map(self._names.get, places, repeat(()))))

    def newest_failures(self, n_entries: int) -> set[str]:
        """Return the newest commands that failed when they last ran, of the first *n_entries* entries."""
        failing = (line for line in reversed(self._failing) if self.commands[line].place <= n_entries)
        return set(islice(failing, MAX_FAILURES))

    def items(self, n_entries: int) -> Iterator[tuple[str, str]]:
        """Yield the items of the first *n_entries* entries, each as its name and its line.

        Tasks, values and commands that failed last come first, then files and other commands, the newest
        first.
        """
        if self.tasks_place <= n_entries:
            yield from ((task, f"open: {task} #{self.tasks_place}") for task in self.tasks)
        for name, (value, place, is_anew) in reversed(self.values.items()):
            if is_anew and place <= n_entries:
                yield f"{name}: {value}", f"now {name}: {value} #{place}"
        for line in reversed(self._failing):
            run = self.commands[line]
            if run.place <= n_entries:
                yield line, command_line(line, run)
        files = ((use.place, path, file_line(path, use)) for path, use in reversed(self.files.items()))
        runs = (
            (run.place, line, command_line(line, run))
            for line, run in reversed(self.commands.items())
            if not run.has_failed
        )
        for place, name, line in merge(files, runs, key=itemgetter(0), reverse=True):
            if place <= n_entries:
                yield name, line


def file_line(path: str, use: IndexedFile) -> str:
    ranges = ",".join(
        f"{first}-{'' if count is None else first + count - 1}" for first, count in use.ranges[-MAX_RANGES:]
    )
    return f"{path}{'*' if use.is_edited else ''}{' ' if ranges else ''}{ranges} #{use.place}"


def command_line(command: str, run: IndexedCommand) -> str:
    outcome = f" → {'! ' if run.has_failed else ''}{run.outcome}" if run.outcome or run.has_failed else ""
    return f"$ {command}{outcome} #{run.place}"


def telling_line(ranked: RankedEntry, output: object) -> str:
    """Return the most telling line of *output*, which stands in a ranked entry."""
    if not isinstance(output, str) or not output.strip():
        return ""
    start = ranked.text.find(output) if len(ranked.text) > len(output) else 0
    first = bisect_left(ranked.starts, start)
    levels = ranked.levels[first : bisect_left(ranked.starts, start + len(output))]
    if not levels:
        return ""
    piece = first + levels.index(max(levels))
    found = ranked.text[ranked.starts[piece] : ranked.starts[piece + 1]]
    return " ".join(found.split())[:OUTCOME_CHARS]


def open_tasks(given: object) -> tuple[str, ...] | None:
    """Return the open items of the list of tasks in the arguments *given*, None where there is none.

    >>> open_tasks({"todos": [{"content": "Add tests", "status": "pending"}]})
    ('Add tests',)
    """
    for items in given.values() if isinstance(given, Mapping) else ():
        if (
            isinstance(items, list)
            and items
            and all(isinstance(each, Mapping) and "status" in each for each in items)
        ):
            texts = (
                next(
                    (
                        text
                        for key, text in each.items()
                        if key != "status" and isinstance(text, str) and " " in text
                    ),
                    "",
                )
                for each in items
                if not str(each["status"]).lower().startswith(_DONE)
            )
            return tuple(filter(None, texts))
    return None
