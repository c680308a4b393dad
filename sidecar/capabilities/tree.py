"""Which files of a tree a search is about. Walks folders by the ignore rules; opens no file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar.capabilities.access import shown
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.workspace.contract import FileProblem
from sidecar.workspace.ignore import is_folder, walk

__all__ = ["WALK_CAP", "Found", "TreeWalk", "list_paths", "select"]

WALK_CAP = 200_000
"""Files and folders that one search looks at."""

_NOTES_CHARS = 300


class TreeWalk:
    """The entries below a folder, each with its path relative to it, in forward slashes.

    *is_capped* says afterwards whether there was more than may be looked at. Raises FileProblem ``notFound``
    when there is no such folder.
    """

    def __init__(self, start: Path, root: Path, is_cancelled: Callable[[], bool]) -> None:
        if not start.is_dir():
            hint = "check the spelling, or list its parent"
            raise FileProblem("notFound", f"there is no folder {start}", hint=hint)
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


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to, in the order of the walk; *is_capped* when there was too much to look at."""

    entries: Sequence[os.DirEntry[str]]
    is_capped: bool


def select(
    start: Path,
    root: Path,
    wants: Callable[[str, os.DirEntry[str]], bool],
    is_cancelled: Callable[[], bool],
) -> Found:
    """Return what *wants* of the entries below *start*; it is told their path relative to it."""
    tree = TreeWalk(start, root, is_cancelled)
    entries = [entry for relative, entry in tree if wants(relative, entry)]
    return Found(entries, tree.is_capped)


def list_paths(found: Found, context: ToolContext, max_results: int, nothing: str) -> ToolReply:
    """Return the reply that names what was found, folders with a slash behind, or says *nothing*."""
    lines: list[str] = []
    left = context.max_output_chars - _NOTES_CHARS
    for entry in found.entries[:max_results]:
        line = shown(entry.path, context.cwd) + "/" * is_folder(entry)
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    notes = [] if found.entries else [nothing]
    if len(lines) < len(found.entries):
        notes.append(
            f"[cut: {len(lines)} of {len(found.entries)} paths; narrow the search or raise max_results]"
        )
    if found.is_capped:
        notes.append(f"[cut: only the first {WALK_CAP} files and folders were looked at; narrow the path]")
    return ToolReply("\n".join(lines + notes))
