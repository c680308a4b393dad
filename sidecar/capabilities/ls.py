"""The ls tool: a folder as a tree, with sizes. Opens no file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.access import readable_path, root_above, shown
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.effects import SEARCHES
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.workspace.contract import FileProblem
from sidecar.workspace.ignore import IgnoreRules, is_folder, rules_for

__all__ = ["LS", "LsArguments"]

_MAX_ENTRIES = 1000
_NOTES_CHARS = 300


class LsArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the ls tool takes."""

    path: Annotated[str, msgspec.Meta(description="The folder to list.")] = "."
    depth: Annotated[int, msgspec.Meta(ge=1, le=10, description="Levels of folders to show.")] = 1


async def _ls(arguments: LsArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    start = await readable_path(context, arguments.path, "ls")
    root = root_above(start, context)
    return await asyncio.to_thread(_list, start, root, arguments.depth, context, cancel)


def _list(start: Path, root: Path, depth: int, context: ToolContext, cancel: CancelToken) -> ToolReply:
    if not start.is_dir():
        raise FileProblem(
            "notFound", f"there is no folder {shown(start, context.cwd)}", hint="read it if it is a file"
        )
    listing = _Listing(rules_for(start, root), context.max_output_chars - _NOTES_CHARS, cancel)
    listing.add_folder(str(start), 0, depth)
    name = shown(start, context.cwd).rstrip("/")
    return ToolReply("\n".join([f"{name}/", *listing.lines, *listing.notes()]), locations=(Location(start),))


class _Listing:
    """A tree that grows line by line until it is full."""

    def __init__(self, rules: IgnoreRules, cap_chars: int, cancel: CancelToken) -> None:
        self.lines: list[str] = []
        self._rules = rules
        self._chars_left = cap_chars
        self._cancel = cancel
        self._n_ignored = 0
        self._n_left_out = 0

    def add_folder(self, folder: str, level: int, depth: int) -> None:
        """Add what *folder* holds, and what its folders hold down to *depth* levels."""
        found = self._rules.list_folder(folder)
        self._n_ignored += found.n_ignored
        for entry in found.entries:
            self._add(entry, level)
            if is_folder(entry) and level + 1 < depth and not self._cancel.cancelled and not self._n_left_out:
                self.add_folder(entry.path, level + 1, depth)

    def notes(self) -> list[str]:
        """Return what has to be said about what is not there."""
        notes = ["[empty]"] if not self.lines and not self._n_ignored else []
        if self._n_ignored:
            notes.append(f"[{self._n_ignored} ignored entries not shown]")
        if self._n_left_out:
            notes.append(f"[cut: {self._n_left_out} or more entries not shown; list a folder of it]")
        return notes

    def _add(self, entry: os.DirEntry[str], level: int) -> None:
        line = f"{'  ' * (level + 1)}{_describe(entry)}"
        self._chars_left -= len(line) + 1
        if self._n_left_out or self._chars_left < 0 or len(self.lines) >= _MAX_ENTRIES:
            self._n_left_out += 1
        else:
            self.lines.append(line)


def _describe(entry: os.DirEntry[str]) -> str:
    """Return the name with what it is: a slash for a folder, where a link leads, else the size in bytes."""
    if is_folder(entry):
        return f"{entry.name}/"
    try:
        if entry.is_symlink():
            return f"{entry.name} -> {os.readlink(entry.path)}"
        return f"{entry.name} ({entry.stat(follow_symlinks=False).st_size} bytes)"
    except OSError:  # gone since it was listed
        return entry.name


LS = TypedTool(
    name="ls",
    description="List a folder as a tree, with sizes. Ignored entries are left out.",
    kind="search",
    effects=SEARCHES,
    arguments=LsArguments,
    describe=lambda arguments: f"List {arguments.path}",
    perform=_ls,
)
