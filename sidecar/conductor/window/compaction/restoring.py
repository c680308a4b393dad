"""Restores files that the model has seen, as they are now: after a compaction, or when a user asks.

It reads through the given function and changes nothing; the session appends the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sidecar._internal.values import Value
from sidecar.conductor.bridge import messages_to_turns
from sidecar.conductor.contract import RestoredFile
from sidecar.conductor.window.compaction.file_choice import FILE_SHARE, MAX_FILES, choose_lines
from sidecar.conductor.window.compaction.file_use import FileUse
from sidecar.conductor.window.engines.contract import FreshFile, FreshFiles
from sidecar.conversation import Entry, FileRead, History, merge_ranges
from sidecar.text.touches import Touch
from sidecar.window_budget import FileRange
from sidecar.window_budget.rehydrate import RestoredFiles, RestoredRange, file_message

DEFAULT_BUDGET_TOKENS: Final = 8000
MOST_LOOKED_AT: Final = 40
MOST_GONE: Final = 5
"""How many files are read as they are now, and how many of those that are gone are named."""

_GONE: Final[dict[str, str]] = {
    "notFound": "deleted",
    "binary": "no text any more",
    "tooLarge": "too large now",
}


class Restoration(Value):
    """Restored files: *entries* as the model will see them; *missing* names files that cannot come back."""

    entries: tuple[Entry, ...]
    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """The tokens that the restored files take."""
        return sum(file.tokens for file in self.files)


async def restore(reads: Sequence[tuple[str, FileRead]], look: FreshFiles, budget_tokens: int) -> Restoration:
    """Return the files of *reads* as they are now, inside the budget.

    A file that was read in parts comes back in those parts. A file that does not fit comes back in part.

    Args:
        reads: the files, the most wanted first, each under the path that the model knows.
        look: reads files as they are now.
        budget_tokens: tokens that all of it may take.
    """
    uses = [
        FileUse(path, touches=[Touch(path=path, kind="read", ranges=read.ranges)], is_known=True)
        for path, read in reads
    ]
    fresh = await look([use.path for use in uses])
    most_each = budget_tokens // max(1, min(FILE_SHARE, len(uses)))
    found = restore_uses(uses, fresh, budget_tokens, max_files=len(uses), most_each=most_each)
    return Restoration(
        entries=tuple(restored_entry(each, fresh[each.file.path]) for each in found.ranges),
        files=tuple(restored_file(each, fresh[each.file.path]) for each in found.ranges),
        missing=tuple(f"{file.path}: {reason}" for file, reason in found.gone),
    )


def restore_uses(
    uses: Sequence[FileUse],
    fresh: Mapping[str, FreshFile],
    budget_tokens: int,
    *,
    max_files: int = MAX_FILES,
    most_each: int | None = None,
) -> RestoredFiles:
    """Return the files of *uses* that come back, the most used last, and the ones that are gone.

    Args:
        uses: the files, the most used first.
        fresh: the files as they are now, by the use's path.
        budget_tokens: the tokens that all of them may take.
        max_files: the number of files that may come back.
        most_each: the tokens that one file may take; None for its share of the budget.
    """
    texts = {path: file.text for path, file in fresh.items() if file.text is not None}
    chosen = choose_lines(uses, texts, budget_tokens, max_files=max_files, most_each=most_each)
    restored: list[RestoredRange] = []
    for piece in reversed(chosen):
        read = fresh[piece.path].read
        restored.append(
            RestoredRange(
                file=piece.file,
                hash=read.hash if read is not None else "",
                source=read.source if read is not None else "disk",
                tokens=piece.tokens,
                message=file_message(piece.file, piece.text),
            )
        )
    return RestoredFiles(tuple(restored), tuple(find_gone(uses, fresh)))


def find_gone(uses: Iterable[FileUse], fresh: Mapping[str, FreshFile]) -> Iterable[tuple[FileRange, str]]:
    """Yield the files that were read, are out of view and cannot be read now, with the reason.

    A file that only a command line named may never have been one.
    """
    for use in uses:
        problem = fresh[use.path].problem if use.path in fresh else None
        if problem is not None and use.is_known and not use.shown:
            yield FileRange(use.path), _GONE.get(problem, problem)


def restored_file(restored: RestoredRange, fresh: FreshFile) -> RestoredFile:
    """Return the record of a restored file."""
    return RestoredFile(fresh.uri, restored.hash, restored.source, restored.tokens)


def restored_entry(restored: RestoredRange, fresh: FreshFile) -> Entry:
    """Return the entry of a restored file, with the read of the lines that it shows."""
    (turn,) = messages_to_turns([restored.message])
    reads = () if fresh.read is None else (replace(fresh.read, ranges=merge_ranges(restored.file.ranges)),)
    return Entry(turn, "file", reads=reads)


def restored_behind(
    history: History, cut: int, found: RestoredFiles, fresh: Mapping[str, FreshFile]
) -> list[Entry]:
    """Return the entries of the files that come back behind a summary, each with the node that showed it.

    Args:
        history: the conversation before its compaction.
        cut: the index of the first entry that is kept.
        found: the files.
        fresh: the files as they are now, by path.
    """

    def find_node(path: str) -> str:
        newest_first = reversed(history.first(cut))
        shown = (entry for entry in newest_first if any(read.path == path for read in entry.reads))
        return next(shown, history[0]).node_id

    entries = [restored_entry(each, fresh[each.file.path]) for each in found.ranges]
    nodes = [find_node(each.reads[0].path) if each.reads else history[0].node_id for each in entries]
    return [replace(entry, origin=(node,)) for entry, node in zip(entries, nodes, strict=True)]
