"""The index beside a chronicle: facts of four kinds that are short, and that thinning takes out first.

* files, with the lines that were read or edited (``*``),
* commands, with the telling line of their last outcome (``!`` where it failed),
* the open items of the newest list of tasks,
* the last value of a name that the user gave anew (``port: 8080``, later ``port: 9090``).

An item stands in the index only where neither the chronicle nor the entries behind it show an entry that
touched it, the newest first, until the index has its fifth of the room. Each has the place of the entry that
touched it last, so that it can be brought back. Tools are known by the shape of their calls: an argument that
looks like a path, one for a command line, a patch, a list of items with a status. Shell lines are read by
:mod:`sidecar.text`.

For example, after ``read {"path": "src/a.py", "offset": 10, "limit": 30}`` in entry 7 and an edit of it in
entry 12 the index has ``src/a.py* 10-39 #12``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.chronicle.ranking import RankedEntry
from sidecar.conversation import Entry, LineRange, merge_ranges
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.text.touches import use_of_line

COMMAND_CHARS: Final = 160
OUTCOME_CHARS: Final = 100
MAX_RANGES: Final = 3

_PATH: Final = re.compile(r"(?!\w+://)(?=.*[\w)]\.\w|.*/)[^\s*?|^$<>{}\"'`\\]{2,240}")
_PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+?)\s*$")
_NEW_TEXT: Final = re.compile(r"(?i)(?:new|old|content|contents|text|patch|diff|edits?|replace)")
_GIVEN: Final = re.compile(r"(?m)^[ \t]*([^\W\d_][\w .-]{1,40}?)[ \t]*(?:=|:|->|→)[ \t]+(\S.{0,80}?)[ \t]*$")
_DONE: Final = ("complete", "done", "cancel", "delete")


class IndexedFile(Value, kw_only=True):
    """The use of one file: whether it was edited, the lines that were read, and its newest place."""

    is_edited: bool
    ranges: tuple[LineRange, ...]
    place: int


class IndexedCommand(Value, kw_only=True):
    """The last run of a command: its outcome, empty while it has none, whether it failed, and its place."""

    outcome: str
    has_failed: bool
    place: int


class CallReading(Value, kw_only=True):
    """The files, the command and the open tasks that a call names; None for no list of tasks."""

    files: tuple[tuple[str, bool, tuple[LineRange, ...]], ...] = ()
    command: str = ""
    tasks: tuple[str, ...] | None = None


class Facts:
    """The facts of a conversation for the index, each by its name, the least recently touched first."""

    def __init__(self) -> None:
        self.files: dict[str, IndexedFile] = {}
        self.commands: dict[str, IndexedCommand] = {}
        self.tasks: tuple[str, ...] = ()
        self.tasks_place = 0
        self.values: dict[str, tuple[str, int, bool]] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._running: dict[str, str] = {}

    def add(self, entry: Entry, ranked: RankedEntry, place: int) -> None:
        """Add the facts of the entry at *place*."""
        for block in entry.turn.blocks:
            if isinstance(block, ToolCallBlock):
                self._add_call(block, place)
            elif isinstance(block, ToolResultBlock):
                command = self._running.pop(block.call_id, None)
                if command is not None:
                    outcome = telling_line(ranked, block.output)
                    self._touch_command(command, outcome, has_failed=bool(block.is_error), place=place)
            elif isinstance(block, TextBlock) and entry.kind == "user" and len(block.text) < 20_000:
                for name, value in _GIVEN.findall(block.text):
                    before = self.values.pop(name, None)
                    is_anew = before is not None and (before[2] or before[0] != value)
                    self.values[name] = (value, place, is_anew)
                    self._names[place] = (*self._names.get(place, ()), f"{name}: {value}")

    def _add_call(self, call: ToolCallBlock, place: int) -> None:
        use = read_call(call.input)
        names = (*(path for path, _, _ in use.files), *filter(None, (use.command,)), *(use.tasks or ()))
        if names:
            self._names[place] = self._names.get(place, ()) + names
        for path, is_edited, ranges in use.files:
            before = self.files.pop(path, None)
            if before is not None:
                is_edited, ranges = is_edited or before.is_edited, merge_ranges((*before.ranges, *ranges))
            self.files[path] = IndexedFile(is_edited=is_edited, ranges=ranges, place=place)
        if use.command:
            self._running[call.id] = use.command
            self._touch_command(use.command, "", has_failed=False, place=place)
        if use.tasks is not None:
            self.tasks, self.tasks_place = use.tasks, place

    def _touch_command(self, command: str, outcome: str, *, has_failed: bool, place: int) -> None:
        self.commands.pop(command, None)
        self.commands[command] = IndexedCommand(outcome=outcome, has_failed=has_failed, place=place)

    def names_of(self, places: Iterable[int]) -> set[str]:
        """Return the names of the items that the entries at *places* touched."""
        return set(chain.from_iterable(map(self._names.get, places, repeat(()))))

    def items(self, n_entries: int) -> Iterator[tuple[str, str]]:
        """Yield the items of the first *n_entries* entries, each as its name and its line.

        Tasks and values come first, then files and commands, the newest first.
        """
        if self.tasks_place <= n_entries:
            yield from ((task, f"open: {task} #{self.tasks_place}") for task in self.tasks)
        for name, (value, place, is_anew) in reversed(self.values.items()):
            if is_anew and place <= n_entries:
                yield f"{name}: {value}", f"now {name}: {value} #{place}"
        files = ((use.place, path, file_line(path, use)) for path, use in reversed(self.files.items()))
        runs = ((run.place, line, command_line(line, run)) for line, run in reversed(self.commands.items()))
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
    found, level = "", -1
    for piece, own in enumerate(ranked.levels):
        if own > level and start <= ranked.starts[piece] < start + len(output):
            found, level = ranked.text[ranked.starts[piece] : ranked.starts[piece + 1]], own
    return " ".join(found.split())[:OUTCOME_CHARS]


def read_call(given: Any) -> CallReading:
    """Return the use of files and commands of a call with the arguments *given*, known by their shape.

    >>> read_call({"file_path": "a.py", "old_string": "x", "new_string": "y"}).files
    (('a.py', True, ()),)
    >>> read_call({"command": "sed -n '5,9p' a.py"}).files
    (('a.py', False, ((5, 5),)),)
    """
    if not isinstance(given, Mapping):
        return CallReading()
    files: list[tuple[str, bool, tuple[LineRange, ...]]] = []
    command, tasks = "", None
    is_edit = any(isinstance(key, str) and _NEW_TEXT.match(key) for key in given)
    for key, value in given.items():
        if key in ("command", "cmd", "commands"):
            line = value[-1] if isinstance(value, list) and value else value
            command = " ".join(line.split())[:COMMAND_CHARS] if isinstance(line, str) else ""
            folder = given.get("workdir")
            if isinstance(line, str):
                touches = use_of_line(line, folder if isinstance(folder, str) else "").touches
                files += [
                    (touch.path, touch.kind in ("edit", "write"), touch.ranges)
                    for touch in touches
                    if touch.kind != "search"
                ]
        elif isinstance(value, str) and "*** " in value:
            files += [(path, True, ()) for path in _PATCHED.findall(value)]
        elif isinstance(value, str) and key not in ("workdir", "cwd") and _PATH.fullmatch(value):
            files.append((value, is_edit, lines_named(given)))
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            tasks = open_tasks(value) if all("status" in each for each in value) else tasks
    return CallReading(files=tuple(files), command=command, tasks=tasks)


def lines_named(given: Mapping[str, Any]) -> tuple[LineRange, ...]:
    """Return the lines that a call of a reading tool names."""
    first, count, both = given.get("offset"), given.get("limit"), given.get("view_range")
    if isinstance(both, list) and len(both) == 2 and all(isinstance(each, int) for each in both):
        return ((both[0], both[1] - both[0] + 1 if both[1] >= both[0] else None),)
    if isinstance(first, int) or isinstance(count, int):
        return (
            (first if isinstance(first, int) and first > 0 else 1, count if isinstance(count, int) else None),
        )
    return ()


def open_tasks(items: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the texts of the items of a list of tasks that are still open."""
    texts = (
        next(
            (text for key, text in each.items() if key != "status" and isinstance(text, str) and " " in text),
            "",
        )
        for each in items
        if not str(each["status"]).lower().startswith(_DONE)
    )
    return tuple(filter(None, texts))
