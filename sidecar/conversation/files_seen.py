"""The files that the model has seen: an index over the reads of a conversation's entries.

A file counts as seen as the newest entry of the path shows it. After an undo the model sees the older text
again, and so does this index: a guard that compares its hash with the file as it is now never takes a text
for known that the model cannot see. A file that only entries behind a summary show stays known, as folded
away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from typing import TypeAlias

from sidecar._internal.values import Value
from sidecar.conversation.history import Entry, FileRead, Index, LineRange

ReadNow: TypeAlias = Callable[[FileRead, int], FileRead]
"""Returns a read of an entry that was stored at a time under the path that the file has now."""

WeighRead: TypeAlias = Callable[[Entry, str], int]
"""Returns the tokens of one call's result in an entry, or of a restored file for an empty call id."""


class SeenFile(Value, kw_only=True):
    """One file as the model has seen it.

    Attributes:
        read: the newest content, with all lines of it that were shown.
        node_id: the entry that shows it.
        in_view: whether the model still sees that entry.
        tokens: the tokens that the entry spends on it.
        n_prompts: the prompts of the conversation up to that entry.
    """

    read: FileRead
    node_id: str
    in_view: bool
    tokens: int
    n_prompts: int


class FilesSeen:
    """The state of the index.

    Attributes:
        files: every file by its path, the least recently shown first.
        n_prompts: the prompts of the conversation.
        touched: the paths that changed since :meth:`take_touched`, in order.
    """

    def __init__(self) -> None:
        self.files: dict[str, SeenFile] = {}
        self.n_prompts = 0
        self.touched: dict[str, None] = {}

    def take_touched(self) -> tuple[str, ...]:
        """Return the paths with a new read since the last call."""
        touched, self.touched = tuple(self.touched), {}
        return touched

    def rename(self, read_now: Callable[[FileRead], FileRead]) -> None:
        """Let every file count under the path of *read_now*."""
        before = self.files
        found = [replace(each, read=read_now(each.read)) for each in before.values()]
        self.files = {each.read.path: each for each in found}
        self.touched |= dict.fromkeys(before.keys() ^ self.files.keys())


def files_seen_index(weigh: WeighRead, read_now: ReadNow = lambda read, _: read) -> Index[FilesSeen]:
    """Return a new index of the files seen; it reaches through summaries."""

    def add(state: FilesSeen, entry: Entry, in_view: bool) -> FilesSeen:
        if in_view and entry.kind == "user":
            state.n_prompts += 1
        for stored in entry.reads:
            read = read_now(stored, entry.created_at)
            before = state.files.pop(read.path, None)
            state.files[read.path] = SeenFile(
                read=read if before is None else merge_reads(before.read, read),
                node_id=entry.node_id,
                in_view=in_view,
                tokens=weigh(entry, read.call_id) if in_view else 0,
                n_prompts=state.n_prompts,
            )
            state.touched[read.path] = None
        return state

    return Index(FilesSeen, add, reaches_folded=True)


def merge_reads(older: FileRead, newer: FileRead) -> FileRead:
    """Return *newer* with the lines of *older* as well, where both show the same content."""
    if older.hash != newer.hash:
        return newer
    whole: tuple[LineRange, ...] = ((1, None),)
    return replace(newer, ranges=merge_ranges((older.ranges or whole) + (newer.ranges or whole)))


def merge_ranges(ranges: Iterable[LineRange]) -> tuple[LineRange, ...]:
    """Return *ranges* in order and joined; the empty tuple is the whole file.

    >>> merge_ranges([(5, 5), (1, 4), (20, None)])
    ((1, 9), (20, None))
    >>> merge_ranges([(1, 10), (8, None)])
    ()
    """
    merged: list[tuple[int, float]] = []
    for start, end in sorted((first, inf if count is None else first + count) for first, count in ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    # A range of no lines means that nothing was shown, while no range at all means the whole file.
    merged = [each for each in merged if each[0] < each[1]] or merged[:1]
    if merged == [(1, inf)]:
        return ()
    return tuple((start, None if end == inf else int(end) - start) for start, end in merged)
