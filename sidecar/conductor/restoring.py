"""Restores files that the model has seen, as they are now, without a compaction.

It reads through the given function and changes nothing; the session appends the entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sidecar.conductor.bridge import messages_to_turns
from sidecar.conductor.contract import RestoredFile
from sidecar.conductor.engines.contract import FreshFile, FreshFiles
from sidecar.conversation import Entry, FileRead, merge_ranges
from sidecar.window_budget import FileRange, FreshText, GoneFile, restore_files
from sidecar.window_budget.rehydrate import RestoredRange
from sidecar.workspace.line_index import split_lines

DEFAULT_BUDGET_TOKENS: Final = 8000
_GONE: Final[dict[str, str]] = {
    "notFound": "deleted",
    "binary": "no text any more",
    "tooLarge": "too large now",
}


@dataclass(frozen=True, slots=True)
class Restoration:
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

    A file that was read in parts comes back in those parts. A file that does not fit whole is cut, with a
    marker.

    Args:
        reads: the files, newest first, each under the path that the model knows.
        look: reads files as they are now.
        budget_tokens: tokens that all of it may take.
    """
    fresh = await look([path for path, _ in reads])
    found = [
        (part, fresh_text(part, fresh[part.path])) for path, read in reads for part in ranges_of(path, read)
    ]
    restored = restore_files(found, budget_tokens, max_messages=len(found))
    return Restoration(
        entries=tuple(restored_entry(each, fresh[each.file.path]) for each in restored),
        files=tuple(
            RestoredFile(fresh[each.file.path].uri, each.hash, each.source, each.tokens) for each in restored
        ),
        missing=tuple(
            dict.fromkeys(f"{part.path}: {gone.reason}" for part, gone in found if isinstance(gone, GoneFile))
        ),
    )


def restored_entry(restored: RestoredRange, fresh: FreshFile | None) -> Entry:
    """Return the entry of a restored file, with the read that it shows where it was read just now."""
    (turn,) = messages_to_turns([restored.message])
    if fresh is None or fresh.read is None:
        return Entry(turn, "file")
    file = restored.file
    ranges = merge_ranges([(file.offset or 1, file.limit)])
    return Entry(turn, "file", reads=(replace(fresh.read, ranges=ranges),))


def fresh_text(file: FileRange, fresh: FreshFile) -> FreshText | GoneFile:
    """Return the lines of *file* as they are now, numbered as the read tool numbers them."""
    if fresh.text is None or fresh.read is None:
        return GoneFile(_GONE.get(fresh.problem or "", fresh.problem or "unreadable"))
    lines = [line.rstrip("\r\n") for line in split_lines(fresh.text)]
    first = max(1, file.offset or 1)
    last = len(lines) if file.limit is None else min(len(lines), first - 1 + file.limit)
    text = "\n".join(f"{number:>6}\t{lines[number - 1]}" for number in range(first, last + 1))
    return FreshText(text, fresh.read.hash, fresh.read.source)


def ranges_of(path: str, read: FileRead) -> Iterator[FileRange]:
    """Yield the ranges of *path* that *read* showed, the whole file where it has none."""
    if not read.ranges:
        yield FileRange(path)
    for first, count in read.ranges:
        yield FileRange(path, first, count)
