"""The ls and find tools: a folder as a tree, and files by name or by pattern. No file is opened.

``find`` does all that ``glob`` does, which is not offered any more and answers where it is called.

All of them walk folders by the ignore rules, and so does the grep tool, with :class:`TreeWalk`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.output import lines_that_fit
from sidecar.capabilities.paths import display_path, outermost_root, resolve_readable
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.text.calls import SEARCHES
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.globs import glob_matcher
from sidecar.workspace.ignore import IgnoreRules, is_folder, rules_for, walk

WALK_CAP = 200_000
"""Files and folders that one search looks at."""

_MAX_TREE_LINES = 1000
_NOTES_CHARS = 300


class LsArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the ls tool."""

    path: Annotated[str, msgspec.Meta(description="The folder to list.")] = "."
    depth: Annotated[int, msgspec.Meta(ge=1, le=10, description="Levels of folders to show.")] = 1


class FindArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the find tool."""

    name: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="A part of the name, in any case, or a glob such as test_*.py or src/**/*.{ts,tsx}.",
        ),
    ]
    path: Annotated[str, msgspec.Meta(description="The folder to look in.")] = "."
    newest_first: Annotated[bool, msgspec.Meta(description="Order by time of change, not by path.")] = False
    max_results: Annotated[int, msgspec.Meta(ge=1, le=5000, description="Paths to show.")] = 200


class GlobArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the glob tool."""

    pattern: Annotated[
        str,
        msgspec.Meta(min_length=1, description="Such as **/*.py or src/*.{ts,tsx}; no slash: at any depth."),
    ]
    path: Annotated[str, msgspec.Meta(description="The folder the pattern begins at.")] = "."
    max_results: Annotated[int, msgspec.Meta(ge=1, le=5000, description="Paths to show.")] = 500


class TreeWalk:
    """The entries below a folder, each with its path relative to it, in forward slashes.

    *is_capped* is True after the walk when there were more entries than one search looks at. Raises as
    :func:`require_folder`.
    """

    def __init__(self, start: Path, root: Path, is_cancelled: Callable[[], bool]) -> None:
        require_folder(start, str(start))
        self.is_capped = False
        self._start = start
        self._entries = walk(start, root, cap=WALK_CAP, is_cancelled=is_cancelled)

    def __iter__(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        n_prefix = len(os.path.join(self._start, ""))
        n_walked = 0
        for entry in self._entries:
            n_walked += 1
            relative = entry.path[n_prefix:]
            yield relative if os.sep == "/" else relative.replace(os.sep, "/"), entry
        self.is_capped = n_walked >= WALK_CAP

    def note_of_cut(self) -> str:
        """Return the note of a reply for a walk that was cut."""
        return f"[cut: only the first {WALK_CAP} files and folders were looked at; narrow the path]"


def require_folder(folder: Path, name: str) -> None:
    """Raise FileAccessError ``notFound`` or ``unreadable`` unless the folder *name* can be listed."""
    try:
        os.scandir(folder).close()
    except NotADirectoryError:
        message = f"there is no folder {name}"
        raise FileAccessError("notFound", message, hint="read it if it is a file") from None
    except FileNotFoundError:
        message = f"there is no folder {name}"
        raise FileAccessError("notFound", message, hint="check the spelling, or list its parent") from None
    except OSError as error:
        message = f"cannot list {name}: {error.strerror}"
        raise FileAccessError("unreadable", message, hint="ask for access to it") from None


async def list_tree(arguments: LsArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Answer with a folder as a tree."""
    start = await resolve_readable(context, arguments.path, "ls")
    name = display_path(start, context.cwd)

    def run() -> ToolReply:
        require_folder(start, name)
        rules = rules_for(start, outermost_root(start, context))
        tree = _Tree(rules, context.max_output_chars - _NOTES_CHARS, cancel)
        tree.add_folder(str(start), 0, arguments.depth)
        lines = [f"{name.rstrip('/')}/", *tree.lines, *tree.notes()]
        return ToolReply("\n".join(lines), locations=(Location(start),))

    return await asyncio.to_thread(run)


class _Tree:
    """The lines of a folder and its folders, until *cap_chars* are used up."""

    def __init__(self, rules: IgnoreRules, cap_chars: int, cancel: CancelToken) -> None:
        self.lines: list[str] = []
        self._rules = rules
        self._chars_left = cap_chars
        self._cancel = cancel
        self._n_ignored = 0
        self._n_left_out = 0

    def add_folder(self, folder: str, level: int, depth: int) -> None:
        """Add the entries of *folder* and of its folders, down to *depth* levels."""
        found = self._rules.list_folder(folder)
        self._n_ignored += found.n_ignored
        for entry in found.entries:
            text = entry.name
            with contextlib.suppress(OSError):  # gone since it was listed
                if is_folder(entry):
                    text += "/"
                elif entry.is_symlink():
                    text += f" -> {os.readlink(entry.path)}"
                else:
                    text += f" ({entry.stat(follow_symlinks=False).st_size} bytes)"
            line = f"{'  ' * (level + 1)}{text}"
            self._chars_left -= len(line) + 1
            if self._n_left_out or self._chars_left < 0 or len(self.lines) >= _MAX_TREE_LINES:
                self._n_left_out += 1
            else:
                self.lines.append(line)
            if is_folder(entry) and level + 1 < depth and not self._cancel.cancelled and not self._n_left_out:
                self.add_folder(entry.path, level + 1, depth)

    def notes(self) -> list[str]:
        """Return the lines about entries that are not shown."""
        notes = ["[empty]"] if not self.lines and not self._n_ignored else []
        if self._n_ignored:
            notes.append(f"[{self._n_ignored} ignored entries not shown]")
        if self._n_left_out:
            notes.append(f"[cut: {self._n_left_out} or more entries not shown; list a folder of it]")
        return notes


class _Search(Value, kw_only=True):
    """A search for entries below *path*.

    *wants* decides on each entry by its relative path; *nothing* is the answer when none is found.
    """

    tool: str
    path: str
    wants: Callable[[str, os.DirEntry[str]], bool]
    max_results: int
    nothing: str
    newest_first: bool = False


async def find_by_name(arguments: FindArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Answer with the files and folders of a name: a glob if it looks like one, else a part in any case."""
    matches = glob_matcher(arguments.name) if re.search(r"[*?\[{/]", arguments.name) else None
    sought = arguments.name.casefold()
    search = _Search(
        tool="find",
        path=arguments.path,
        wants=lambda relative, entry: matches(relative) if matches else sought in entry.name.casefold(),
        max_results=arguments.max_results,
        nothing=f"no name matches {arguments.name}",
        newest_first=arguments.newest_first,
    )
    return await _run_search(search, context, cancel)


async def find_by_pattern(arguments: GlobArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Answer with the files that match a pattern."""
    matches = glob_matcher(arguments.pattern)
    search = _Search(
        tool="glob",
        path=arguments.path,
        wants=lambda relative, entry: matches(relative) and not is_folder(entry),
        max_results=arguments.max_results,
        nothing=f"no file matches {arguments.pattern}",
    )
    return await _run_search(search, context, cancel)


async def _run_search(search: _Search, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Return the reply with the paths that were found, in the order of the walk; folders end in a slash."""
    start = await resolve_readable(context, search.path, search.tool)

    def mtime_ns(entry: os.DirEntry[str]) -> int:
        try:
            return entry.stat(follow_symlinks=False).st_mtime_ns
        except OSError:  # gone since it was listed
            return 0

    def run() -> ToolReply:
        tree = TreeWalk(start, outermost_root(start, context), lambda: cancel.cancelled)
        found = [entry for relative, entry in tree if search.wants(relative, entry)]
        if search.newest_first:
            found.sort(key=mtime_ns, reverse=True)
        shown = (
            display_path(entry.path, context.cwd) + "/" * is_folder(entry)
            for entry in found[: search.max_results]
        )
        lines = lines_that_fit(shown, context.max_output_chars - _NOTES_CHARS)
        notes = [] if found else [search.nothing]
        if len(lines) < len(found):
            cut = f"{len(lines)} of {len(found)} paths; narrow the search or raise max_results"
            notes.append(f"[cut: {cut}]")
        if tree.is_capped:
            notes.append(tree.note_of_cut())
        return ToolReply("\n".join(lines + notes))

    return await asyncio.to_thread(run)


LS = TypedTool(
    name="ls",
    description="List a folder as a tree, with sizes. Ignored entries are left out.",
    kind="search",
    effects=SEARCHES,
    arguments=LsArguments,
    describe=lambda arguments: f"List {arguments.path}",
    perform=list_tree,
)

FIND = TypedTool(
    name="find",
    description="Find files and folders by name or by a glob of their path. Ignored ones are left out.",
    kind="search",
    effects=SEARCHES,
    arguments=FindArguments,
    describe=lambda arguments: f"Find {arguments.name}",
    perform=find_by_name,
)

GLOB = TypedTool(
    name="glob",
    description="List the files whose path matches a pattern, by path. Ignored ones are left out.",
    kind="search",
    effects=SEARCHES,
    arguments=GlobArguments,
    describe=lambda arguments: f"List {arguments.pattern}",
    perform=find_by_pattern,
)
