"""The files that a tool call touches, by the declared effects of its tool and the shape of its arguments.

A tool declares whether it reads, searches, edits, writes or runs. Of a tool about which nothing is known the
arguments tell it: a path beside old and new text edits, a path beside a whole text writes, a command line
runs, a patch names its files, a pattern searches, and a path alone is read. So tools of servers and of other
agents, met in imported conversations, count as ours do, and nobody has to know a name.

The result tells the lines: a numbered line was shown, and ``path:line:`` was found.
Pure; the cost is linear in the arguments and in the part of the result that is looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from sidecar.capabilities.effects import ANYTHING, EffectKind, ToolEffects
from sidecar.conversation import LineRange, merge_ranges
from sidecar.text.touches import Touch, TouchKind, in_folder, use_of_line

RESULT_CHARS: Final = 100_000
HIT_CHARS: Final = 8_000
"""How much of a result is looked at for numbered lines, and for hits of a search."""

MAX_HITS: Final = 40
MAX_FILES_FOUND: Final = 10

_PATHS: Final = (
    *("path", "file_path", "filePath", "file", "absolute_path", "notebook_path", "filename", "target_file"),
)
_MANY_PATHS: Final = ("paths", "files", "file_paths")
_COMMANDS: Final = ("command", "cmd", "commands")
_FOLDERS: Final = ("workdir", "cwd", "working_directory", "dir_path")
_NEW_TEXTS: Final = (
    *("new_string", "newText", "newString", "new_str", "new_text", "new", "replacement", "new_source"),
)
_WHOLE_TEXTS: Final = ("content", "file_text", "contents", "text")
_PATTERNS: Final = ("pattern", "query", "regex", "search")
_FIRST_LINES: Final = ("offset", "start_line", "startLine", "line_start")
_LAST_LINES: Final = ("end_line", "endLine", "line_end")

_PATCHED: Final = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.{1,300})$|^\*\*\* Move to: (.{1,300})$")
_CALLED: Final = re.compile(r"\b(cmd|command|workdir)[\"']?\s*:\s*(\"(?:[^\"\\\n]|\\.){1,4000}\")")
_HIT: Final = re.compile(r"^(?P<path>[^\s:][^:\n]{0,300}?)[:](?P<line>\d{1,7})[:]", re.MULTILINE)
_LONE_HIT: Final = re.compile(r"^(\d{1,7})[:]", re.MULTILINE)
EDGE_LINES: Final = 6
EDGE_CHARS: Final = 2_000
NUMBERED_LINE: Final = re.compile(r"[ ]{0,12}(\d{1,7})(?:\t|→|[:|] ?)(.*)")
"""A line of a file as tools show it: its number, a tab, an arrow, a colon or a bar, and its text."""


def touches_of_call(arguments: object, result: str, effects: ToolEffects | None) -> tuple[Touch, ...]:
    """Return the files that a call touched.

    Args:
        arguments: the arguments of the call; it did not fail.
        result: the text of its result.
        effects: the declared effects of its tool, None where nothing is known.
    """
    values = arguments if isinstance(arguments, Mapping) else {"input": arguments}
    folder = _text(values, _FOLDERS)
    kind = kind_of_call(values, effects or ANYTHING)
    for text in _texts(values):
        if "*** Begin Patch" in text:
            return tuple(touches_of_patch(text, folder))
    if kind == "runs":
        commands = [touch for line in command_lines_among(values) for touch in use_of_line(*line).touches]
        return tuple(_with_hits(commands, result, folder))
    if kind == "searches":
        path = _text(values, _PATHS)
        own = [Touch(path=path, kind="search")] if re.search(r"\.\w{1,8}$", path) else []
        return tuple(_with_hits(own, result, folder))
    kinds: dict[EffectKind, TouchKind] = {"reads": "read", "edits": "edit", "writes": "write"}
    if kind not in kinds:
        return ()
    paths = list(paths_among(values))
    text = longest_new_text(values) if kind == "edits" else ""
    if kind == "writes":
        text = _text(values, _WHOLE_TEXTS)
    return tuple(
        Touch(
            path=in_folder(folder, path),
            kind=kinds[kind],
            ranges=lines_read(given, result, len(paths)) if kind == "reads" else (),
            text=text,
        )
        for path, given in paths
    )


def kind_of_call(values: Mapping[str, Any], effects: ToolEffects) -> EffectKind:
    """Return the effect of a call: the declared one, or the one that its arguments look like."""
    path, command = _text(values, _PATHS), _text(values, _COMMANDS)
    if path and command in ("view", "create", "str_replace", "insert", "undo_edit"):
        return "reads" if command == "view" else "writes" if command == "create" else "edits"
    if effects.kind != "anything":
        return effects.kind
    if (
        command
        or any(isinstance(values.get(name), list) for name in _COMMANDS)
        or any(map(_CALLED.search, _texts(values)))
    ):
        return "runs"
    if _text(values, _PATTERNS):
        return "searches"
    if not path and not any(name in values for name in _MANY_PATHS):
        return "anything"
    if any(name in values for name in (*_NEW_TEXTS, "edits")):
        return "edits"
    return "writes" if any(name in values for name in _WHOLE_TEXTS) else "reads"


def _text(values: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        if name in values and isinstance(value := values[name], str) and value.strip():
            return value
    return ""


def _texts(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts among the arguments, those in lists as well."""
    for value in values.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))


def paths_among(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each path among the arguments, with the arguments that tell its lines."""
    if path := _text(values, _PATHS):
        yield path, values
    for name in _MANY_PATHS:
        for each in values[name] if isinstance(values.get(name), list) else ():
            if isinstance(each, str):
                yield each, {}
            elif isinstance(each, Mapping) and (path := _text(each, _PATHS)):
                yield path, each


def command_lines_among(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the command lines among the arguments, each with the folder that it runs in.

    A list is one command with its words, or several lines. A script that calls tools names each command
    line in an argument of its own.
    """
    folder = _text(values, _FOLDERS)
    found = False
    for name in _COMMANDS:
        value = values.get(name)
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            found = True
            lines = value if name == "commands" else value[-1:]
            yield from ((line, folder) for line in lines)
        elif isinstance(value, str):
            found = True
            yield value, folder
    if not found:
        called = [match.groups() for text in _texts(values) for match in _CALLED.finditer(text)]
        folder = next((_unquote(value) for name, value in called if name == "workdir"), folder)
        yield from ((_unquote(value), folder) for name, value in called if name != "workdir")


def _unquote(literal: str) -> str:
    try:
        return str(json.loads(literal))
    except ValueError:
        return ""


def touches_of_patch(patch: str, folder: str) -> Iterator[Touch]:
    """Yield the files of *patch* (``*** Update File: PATH``), one for each hunk of theirs."""
    kinds: dict[str, TouchKind] = {"Update": "edit", "Add": "write", "Delete": "remove"}
    path, kind, lines = "", kinds["Update"], list[str]()
    for line in (*patch.splitlines(), "*** End"):
        if line.startswith(("***", "@@")) and lines:
            yield Touch(path=path, kind=kind, text="\n".join(lines))
            lines = []
        if found := _PATCHED.match(line):
            if found[3]:
                target = in_folder(folder, found[3].strip())
                yield Touch(path=path, kind="move", target=target)
                path = target
            else:
                path, kind = in_folder(folder, found[2].strip()), kinds[found[1]]
                if kind == "remove":
                    yield Touch(path=path, kind=kind)
        elif path and line[:1] in ("+", " "):
            lines.append(line[1:])


def longest_new_text(values: Mapping[str, Any]) -> str:
    edits = values.get("edits")
    each = [edit for edit in edits if isinstance(edit, Mapping)] if isinstance(edits, list) else []
    return max((_text(given, _NEW_TEXTS) for given in (values, *each)), key=len)


def lines_read(given: Mapping[str, Any], result: str, n_files: int) -> tuple[LineRange, ...]:
    """Return the lines that a read showed: the numbered ones of its result, or else the ones it asked for."""
    if n_files == 1 and (numbered := numbered_range(result)):
        return (numbered,)
    lines = given.get("view_range")
    first, last = (_number(given, names) for names in (_FIRST_LINES, _LAST_LINES))
    count = _number(given, ("limit",))
    if isinstance(lines, list) and len(lines) == 2 and all(isinstance(each, int) for each in lines):
        first, last = lines
    if last is not None and last > 0:
        count = max(1, last - (first or 1) + 1)
    return () if first is None and count is None else ((max(1, first or 1), count),)


def _number(given: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        if name in given and isinstance(value := given[name], int) and not isinstance(value, bool):
            return value
    return None


def numbered_range(result: str) -> LineRange | None:
    """Return the range of the numbered lines in *result*, by its first and last lines; None for none.

    >>> numbered_range("     7\\tdef f():\\n     8\\t    pass")
    (7, 2)
    """
    first = _first_number(result[:EDGE_CHARS].split("\n", EDGE_LINES)[:EDGE_LINES])
    if first is None:
        return None
    last = _first_number(result[-EDGE_CHARS:].rsplit("\n", EDGE_LINES)[: -EDGE_LINES - 1 : -1])
    return (first, last - first + 1) if last is not None and 0 < first <= last else None


def _first_number(lines: Iterable[str]) -> int | None:
    """Return the number of the first of *lines* that has one, None where none has."""
    for line in lines:
        if (match := NUMBERED_LINE.match(line)) is not None:
            return int(match[1])
    return None


def numbered_lines(result: str) -> dict[int, str]:
    """Return the lines of a file that *result* shows with their numbers; none where it is not such a text.

    >>> numbered_lines("     7\\tdef f():\\n     8\\t    pass")
    {7: 'def f():', 8: '    pass'}
    """
    lines = result[:RESULT_CHARS].split("\n")
    found = {int(match[1]): match[2] for match in map(NUMBERED_LINE.match, lines) if match is not None}
    return found if 2 * len(found) > len(lines) - 4 else {}


def _with_hits(touches: Sequence[Touch], result: str, folder: str) -> Iterator[Touch]:
    """Yield *touches* with the lines that *result* shows of them, and the files that a search found."""
    body = result[:HIT_CHARS]
    reads = [touch for touch in touches if touch.kind == "read"]
    searches = [touch for touch in touches if touch.kind == "search"]
    for touch in touches:
        if touch.kind == "read" and len(reads) == 1 and not touch.ranges:
            numbered = numbered_range(output_of(result))
            yield replace(touch, ranges=(numbered,) if numbered else ())
        elif touch.kind == "search" and len(searches) == 1:
            hits: list[LineRange] = [(int(number), 1) for number in _LONE_HIT.findall(body)[:MAX_HITS]]
            yield replace(touch, ranges=merge_ranges(hits) if hits else ())
        else:
            yield touch
    found: dict[str, list[LineRange]] = {}
    for match in islice(_HIT.finditer(body), MAX_HITS):
        found.setdefault(in_folder(folder, match["path"]), []).append((int(match["line"]), 1))
    for path, hits in islice(found.items(), MAX_FILES_FOUND):
        yield Touch(path=path, kind="search", ranges=merge_ranges(hits))


def output_of(result: str) -> str:
    """Return the output of a command, without the lines that some agents put before it."""
    return result.partition("\nOutput:\n")[2] or result
