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
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

Used: TypeAlias = Literal["read", "modified", "command"]
"""A file that was read, one that was modified, or a command."""

_USED: Final[tuple[Used, ...]] = get_args(Used)


class NamedFact(Value, kw_only=True):
    """A file or a command.

    Attributes:
        kinds: whether a file was read, and modified.
        place: the newest place of a file, that of the last result of a command.
        line: its line of the index.
        ranges: the lines of a file that were read.
        has_failed: whether the command failed at last.
    """

    kinds: tuple[Used, ...] = ()
    place: int = 0
    line: str = ""
    ranges: tuple[LineRange, ...] = ()
    has_failed: bool = False


class Facts:
    """The facts of a conversation for the index, each by its name, the least recently touched first.

    Attributes:
        kinds: the kind of each entry, a place in :data:`SAID`.
        names: the name of each file and command by its line of the index.
        places: the places of the files and commands by their kind, in order.
    """

    def __init__(self) -> None:
        self.kinds = bytearray()
        self.files: dict[str, NamedFact] = {}
        self.commands: dict[str, NamedFact] = {}
        self.names: dict[str, str] = {}
        self.places: dict[Used, array[int]] = {kind: array("I") for kind in _USED}
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
            kind: Used = "read" if touch.kind == "read" else "modified"
            for path in [touch.path] if kind == "read" else touch.changed_paths:
                file = self.files.pop(path, NamedFact())
                kinds = tuple(each for each in _USED if each == kind or each in file.kinds)
                ranges = merge_ranges((*file.ranges, *touch.ranges)) if file.ranges else touch.ranges
                shown = file_line(path, "modified" in kinds, ranges, called_at)
                self.files[path] = NamedFact(kinds=kinds, place=called_at, line=shown, ranges=ranges)
                self._replace(path, file, self.files[path], called_at)
        if effects.kind == "runs":
            for line, _ in command_lines_in(effects, call.input):
                command = " ".join(line.split())[:COMMAND_CHARS]
                run = self.commands.pop(command, NamedFact())
                self._failing.pop(command, None)
                if failed:
                    self._failing[command] = None
                outcome = telling_line(ranked, output)
                if not failed and outcome and measure_telling([outcome])[0] < LEAST_TELLING:
                    outcome = ""
                end = f" → {'! ' if failed else ''}{outcome}" if outcome or failed else ""
                self.commands[command] = NamedFact(
                    kinds=("command",), place=place, line=f"$ {command}{end} #{place}", has_failed=failed
                )
                self._replace(command, run, self.commands[command], called_at)
        tasks = open_tasks(call.input)
        if tasks is not None:
            self.tasks, self.tasks_place = tasks, called_at
            for task in tasks:
                self._name(called_at, task)
        return "error" if failed else "search" if effects.kind in _LOOKS_UP and tasks is None else ""

    def _replace(self, name: str, before: NamedFact, now: NamedFact, called_at: int) -> None:
        """Let the fact *name*, which a call touched, be counted as *now* and no longer as *before*."""
        self._name(called_at, name)
        self.names.pop(before.line, None)
        self.names[now.line] = name
        for kind in before.kinds:
            del self.places[kind][bisect_left(self.places[kind], before.place)]
        for kind in now.kinds:
            insort(self.places[kind], now.place)

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
                yield line, run.line
        files = ((use.place, path, use.line) for path, use in reversed(self.files.items()))
        runs = (
            (run.place, line, run.line) for line, run in reversed(self.commands.items()) if not run.has_failed
        )
        for place, name, line in merge(files, runs, key=itemgetter(0), reverse=True):
            if place <= n_entries:
                yield name, line


def file_line(path: str, is_edited: bool, ranges: Sequence[LineRange], place: int) -> str:
    shown = ",".join(
        f"{first}-{'' if count is None else first + count - 1}" for first, count in ranges[-MAX_RANGES:]
    )
    return f"{path}{'*' if is_edited else ''}{' ' if shown else ''}{shown} #{place}"


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
